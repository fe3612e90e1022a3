"""Plug-ins of a folder, of installed packages, and of a user's own code."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.errors import RecipeError
from gristmill.system.plugins import Plugins

ROOM = """
from room_of_own import Dish

SOUP = Dish(name="soup")
_TWO = 2
BREAD: Dish = Dish(
    name="dark-bread",
)
"""
INIT = """
class Dish:
    def __init__(self, name):
        self.name = name
"""


@pytest.fixture
def menu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins[object]]:
    """Plug-ins of a package: two of its folder, one of another package."""
    room, other = tmp_path / "room_of_own", tmp_path / "other_of_own-1.0.dist-info"
    (room / "inner").mkdir(parents=True)
    (room / "__init__.py").write_text(INIT)
    (room / "inner/__init__.py").write_text("")
    (room / "inner/dishes.py").write_text(ROOM)
    (room / "fails.py").write_text("raise ValueError\n")
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-of-own\nVersion: 1.0\n")
    points = ("cake = other_of_own:CAKE", "soup = other_of_own:CAKE", "no = gone_of_own:X")
    (other / "entry_points.txt").write_text("\n".join(["[test.dishes]", *points]))
    (tmp_path / "other_of_own.py").write_text("from room_of_own import Dish\nCAKE = Dish('cake')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Plugins("room_of_own", ("Dish",), "dish {!r}: there is none", "test.dishes")
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_of_own")]:
        del sys.modules[name]


def test_the_folder_and_packages_are_searched_without_imports(menu: Plugins[object]) -> None:
    assert menu.names() == ["dark-bread", "soup", "cake", "no"]
    assert "room_of_own.inner.dishes" not in sys.modules
    assert "other_of_own" not in sys.modules
    assert [dish.name for dish in menu.built_in()] == ["dark-bread", "soup"]
    assert menu.find("soup").name == "soup"  # the folder's own comes first
    assert (menu.package("soup"), menu.package("cake")) == (None, "other-of-own")
    assert menu.find("cake").name == "cake"


def test_what_is_wrong_is_named(menu: Plugins[object], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="dish 'sup': there is none; did you mean 'soup'"):
        menu.find("sup")
    with pytest.raises(RecipeError, match="package other-of-own: No module named 'gone_of_own'"):
        menu.find("no")
    name = "room_of_own.inner.dishes:_TWO"
    with pytest.raises(RecipeError, match="it is no Dish, but 2"):
        menu.find(name, menu.file(name, tmp_path))


def test_code_of_a_users_own(menu: Plugins[object], tmp_path: Path) -> None:
    (tmp_path / "kitchen").mkdir()
    (tmp_path / "kitchen/stew_of_own.py").write_text(
        "from room_of_own import Dish\nS = Dish('s')\n"
    )
    assert menu.file("soup", tmp_path) is None
    file = menu.file("stew_of_own:S", tmp_path / "kitchen")
    assert file is not None and "stew_of_own" not in sys.modules
    assert menu.find("stew_of_own:S", file).name == "s"


def test_files_are_read_once_for_a_name(menu: Plugins[object], tmp_path: Path) -> None:
    """A step is made for each raw shard of a plan."""
    menu.find("soup")
    (tmp_path / "room_of_own/inner/dishes.py").unlink()
    assert "soup" in menu and menu.package("soup") is None
    assert menu.find("soup").name == "soup"
