"""docs/architecture.md names every room, draws the imports as pyproject.toml checks them, and names
no file that does not exist.
"""

import re
import tomllib

import pytest

from tests.support import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
SOURCE = ROOT / "src/gristmill"
ROOMS = sorted(
    str(path.parent.relative_to(SOURCE))
    for path in SOURCE.rglob("__init__.py")
    if path.parent != SOURCE
)
FILE = r"(?<![\w/.-])[\w-]+(?:/[\w.-]+)*\.(?:py|sql|md|toml|cff)\b"


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_its_line(room: str) -> None:
    assert re.search(rf"^ *\* `{room}/`: \w", PAGE, re.M), f"docs/architecture.md has no {room}/"


def test_every_file_that_is_named_exists() -> None:
    named = {name for name in re.findall(FILE, PAGE) if "NAME" not in name and "ROOM" not in name}
    assert len(named) > 20
    missing = [name for name in named if not any((at / name).is_file() for at in (ROOT, SOURCE))]
    assert sorted(missing) == ["recipe.toml"]  # the user's own, at the top of the diagram


def test_every_room_that_is_named_exists() -> None:
    named = re.findall(r"^ *\* `([a-z_/]+)/`:", PAGE, re.M)
    assert [room for room in named if room not in ROOMS] == []


def test_the_imports_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = next(
        contract["layers"]
        for contract in contracts["contracts"]
        if contract.get("containers") == ["gristmill"]
    )
    assert "\n```\n" + "\n".join(layers) + "\n```\n" in PAGE
