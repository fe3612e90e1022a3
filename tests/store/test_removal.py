"""Folders removed on threads."""

from pathlib import Path

import pytest

from gristmill.store.removal import remove_folder


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_all_below_a_folder_is_removed(tmp_path: Path, threads: int) -> None:
    folder = tmp_path / "work"
    for number in range(9):
        below = folder / f"{number % 3}" / "deep"
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number}").write_bytes(b"x" * number)
    kept = tmp_path / "kept"
    kept.write_text("outside")
    (folder / "link").symlink_to(kept)
    (folder / "0" / "folder").symlink_to(tmp_path)
    remove_folder(folder, threads)
    assert list(tmp_path.iterdir()) == [kept]
    assert kept.read_text() == "outside"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    remove_folder(tmp_path / "none", 2)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("outside")
    (tmp_path / "work").symlink_to(elsewhere)
    remove_folder(tmp_path / "work", 2)
    assert (elsewhere / "kept").read_text() == "outside"
