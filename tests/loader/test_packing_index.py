"""The cache of packing indexes: whole or not there, damage found and made good, two at once."""

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import Damaged, MachineError
from gristmill.loader import packing_index
from gristmill.loader.packing_index import IndexWriter, PackingIndex, opened
from gristmill.system.ownership import MARKER
from tests.support import naive_packing, strategies

LIMIT = 9


def index_of(cache: Path, pieces: list[int], made: list[int] | None = None) -> PackingIndex:
    """The index of these pieces; `made` counts how often it was made."""

    def make(writer: IndexWriter) -> np.ndarray:
        if made is not None:
            made.append(1)
        return writer.sort(iter([np.array(pieces, np.uint32)]), LIMIT)

    return opened(cache, {"pieces": len(pieces)}, make)


def sorted_pieces(pieces: list[int]) -> tuple[list[int], list[int]]:
    return naive_packing.sort_block(pieces, 0, LIMIT)


@strategies.fuzz(40)
@given(st.lists(st.lists(st.integers(1, LIMIT), max_size=40), max_size=5), st.integers(1, 50))
def test_pieces_are_sorted_whatever_fits_into_memory(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[list[int]], at_once: int
) -> None:
    pieces = [piece for block in blocks for piece in block]

    def make(writer: IndexWriter) -> np.ndarray:
        return writer.sort((np.array(block, np.uint32) for block in blocks), LIMIT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing_index, "PIECES", at_once)
        index = opened(tmp_path_factory.mktemp("cache"), {}, make)
    assert (index.counts.tolist(), index.positions.tolist()) == sorted_pieces(pieces)
    assert not list(index.folder.glob("lengths"))


def test_an_index_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []
    first = index_of(tmp_path, [3, 1, 3], made)
    assert (index_of(tmp_path, [3, 1, 3], made).positions == first.positions).all()
    assert len(made) == 1
    index_of(tmp_path, [3, 1], made)
    assert len(made) == 2


@pytest.mark.parametrize("name", ["index.json", "counts", "checks", "positions"])
@pytest.mark.parametrize("how", ["cut", "gone", "bit"])
def test_a_damaged_index_is_made_again(tmp_path: Path, name: str, how: str) -> None:
    pieces = [3, 1, 3, 9, 2] * 4000
    path = index_of(tmp_path, pieces).folder / name
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        half = len(data) // 2
        bit = data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]
        path.write_bytes(data[:-2] if how == "cut" else bit)
    made: list[int] = []
    index = index_of(tmp_path, pieces, made)
    if (name, how) == ("positions", "bit"):
        assert not made
        index.check(np.arange(100))  # another block
        with pytest.raises(Damaged, match="start again, and the index is made again"):
            index.check(np.arange(len(pieces)))
        index = index_of(tmp_path, pieces, made)
    assert len(made) == 1
    index.check(np.arange(len(pieces)))
    assert (index.counts.tolist(), index.positions.tolist()) == sorted_pieces(pieces)


def test_nothing_is_left_of_a_maker_that_fails(tmp_path: Path) -> None:
    def fail(writer: IndexWriter) -> np.ndarray:
        writer.sort(iter([np.array([1], np.uint32)]), LIMIT)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        opened(tmp_path, {}, fail)
    left = [path.suffix for path in tmp_path.iterdir() if path.name != MARKER]
    assert left == [".lock"]


def test_what_a_killed_maker_left_is_removed(tmp_path: Path) -> None:
    index = index_of(tmp_path, [1, 2])
    left = tmp_path / f"{index.folder.name}.0123abcd.writing"
    index.folder.rename(left)
    (left / "index.json").unlink()
    made: list[int] = []
    index_of(tmp_path, [1, 2], made)
    assert made
    assert not left.exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(MachineError, match="GRISTMILL_PACKING"):
        index_of(file / "cache", [1])


def _open(cache: Path, count: int, made: Path) -> list[int]:
    calls: list[int] = []
    positions = index_of(cache, [3, 1, 2] * count, calls).positions
    for _ in calls:
        (made / str(os.getpid())).write_text("")
    return positions[:5].tolist()


def test_of_several_processes_one_makes_it(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        jobs = [pool.apply_async(_open, (tmp_path / "cache", 200_000, made)) for _ in range(4)]
        found = [job.get(120) for job in jobs]
    assert found == [[3, 9, 15, 21, 27]] * 4
    assert len(list(made.iterdir())) == 1
