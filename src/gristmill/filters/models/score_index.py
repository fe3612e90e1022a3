"""Scores by key: sorted once, then looked up by binary search.

    blocks of rows -> in memory, up to HELD rows
                   -> else sorted runs on disk, merged to one: CACHE/../scores/<digest>/

What is on disk is mapped into memory: of an index of any size the pages stay that are looked up. It
depends on the files and on what is read of them alone, so runs and workers share it; one process
makes it, the others wait (flock). It may be deleted whenever no run needs it.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from gristmill.errors import RecipeError
from gristmill.filters.models.score_files import Labels, ScoreBlock
from gristmill.filters.models.score_journal import scores_folder
from gristmill.store.parts import machine_errors

HELD = 1 << 20  # rows in memory
SLICE = 1 << 18  # rows of all runs that are merged together, about
VERSION = 1  # of the files on disk
ABOUT = "labels.json"  # written last: the labels of each column
Repeats = Literal["refuse", "first", "last"]
Blocks = Callable[[Labels], Iterator[ScoreBlock]]


class Given(NamedTuple):
    """What an index is made of."""

    columns: tuple[str, ...]
    labels: tuple[str, ...]  # those of the columns that are labels
    blocks: Blocks
    whole: bool  # keys are equal where both numbers are; else where the first one is
    repeats: Repeats
    digest: str  # of all that `blocks` gives


class Found(NamedTuple):
    """What an index has for n documents."""

    values: np.ndarray  # (n, columns) float64, NaN where there is none
    rows: np.ndarray  # (n,) int64: rows with the document's key
    second: np.ndarray  # (n,) uint64: the second number of the row's key; 0: no row


class ScoreIndex(NamedTuple):
    """Rows sorted by key; rows of one key in the order of the files."""

    columns: tuple[str, ...]
    labels: dict[str, list[str]]
    first: np.ndarray  # (n,) uint64
    second: np.ndarray  # (n,) uint64
    values: np.ndarray  # (n, columns) float64
    whole: bool  # a key is found where both numbers are equal; else where the first one is
    repeats: Repeats

    def find(self, keys: np.ndarray) -> Found:
        """Return what there is for keys (n, 2) uint64."""
        start = np.searchsorted(self.first, keys[:, 0], "left")
        stop = np.searchsorted(self.first, keys[:, 0], "right")
        rows = (stop - start).astype(np.int64)
        place = np.asarray(stop - 1 if self.repeats == "last" else start)
        if self.whole:
            for row in np.flatnonzero(rows).tolist():
                begin, end = int(start[row]), int(stop[row])
                same = begin + np.flatnonzero(self.second[begin:end] == keys[row, 1])
                rows[row] = len(same)
                if len(same):
                    place[row] = same[-1 if self.repeats == "last" else 0]
        values = np.full((len(keys), len(self.columns)), np.nan)
        second = np.zeros(len(keys), np.uint64)
        there = rows > 0
        values[there] = self.values[place[there]]
        second[there] = self.second[place[there]]
        return Found(values, rows, second)


class RepeatedKey(RecipeError):
    """Two rows have one key."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first:016x}{second:016x}")
        self.key = (first, second)


def build(given: Given) -> ScoreIndex:
    """Return an index of all rows. Raises RepeatedKey where a key is repeated and repeats are
    refused.
    """
    known = Labels(given.labels)
    held: list[ScoreBlock] = []
    rows = 0
    for block in given.blocks(known):
        held.append(block)
        rows += len(block.keys)
        if rows > HELD:
            return _on_disk(given)
    run = _sorted(held, len(given.columns))
    _refuse_repeats(run, given)
    return ScoreIndex(given.columns, known.all(), *run, given.whole, given.repeats)


class _SortedRows(NamedTuple):
    """Sorted rows."""

    first: np.ndarray
    second: np.ndarray
    values: np.ndarray


def _sorted(blocks: Sequence[ScoreBlock], columns: int) -> _SortedRows:
    keys = np.concatenate([np.empty((0, 2), np.uint64), *(block.keys for block in blocks)])
    values = np.concatenate([np.empty((0, columns)), *(block.values for block in blocks)])
    order = np.argsort(keys[:, 0], kind="stable")
    return _SortedRows(
        np.ascontiguousarray(keys[order, 0]), np.ascontiguousarray(keys[order, 1]), values[order]
    )


def _refuse_repeats(run: _SortedRows, given: Given) -> None:
    """Raise RepeatedKey where two rows have one key."""
    if given.repeats != "refuse":
        return
    same = run.first[1:] == run.first[:-1]
    if given.whole:
        same = same & (run.second[1:] == run.second[:-1])
    if same.any():
        row = int(np.flatnonzero(same)[0])
        raise RepeatedKey(int(run.first[row]), int(run.second[row]))


def _on_disk(given: Given) -> ScoreIndex:
    name = hashlib.sha256(f"{VERSION} {given.repeats} {given.digest}".encode()).hexdigest()
    folder = scores_folder() / name
    with machine_errors(folder):
        handle = os.open(folder.parent / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not (folder / ABOUT).is_file():
                _write(folder, given)
        finally:
            os.close(handle)
        labels = msgspec.json.decode((folder / ABOUT).read_bytes(), type=dict[str, list[str]])
        run = _mapped(folder, len(given.columns))
    return ScoreIndex(given.columns, labels, *run, given.whole, given.repeats)


def _mapped(folder: Path, columns: int) -> _SortedRows:
    first, second = (np.memmap(folder / name, np.uint64, "r") for name in ("first", "second"))
    return _SortedRows(
        first, second, np.memmap(folder / "values", np.float64, "r").reshape(-1, columns)
    )


def _write(folder: Path, given: Given) -> None:
    """Sorted runs, then one merged from them: bounded memory for any number of rows."""
    making = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    known = Labels(given.labels)
    runs: list[_SortedRows] = []
    held: list[ScoreBlock] = []

    def write_run() -> None:
        at = making / f"run_{len(runs):05d}"
        at.mkdir(parents=True)
        for name, array in _sorted(held, len(given.columns))._asdict().items():
            (at / name).write_bytes(np.ascontiguousarray(array).data)
        runs.append(_mapped(at, len(given.columns)))
        held.clear()

    for block in given.blocks(known):
        held.append(block)
        if sum(len(part.keys) for part in held) >= HELD:
            write_run()
    if held:
        write_run()
    _merge(making, runs, given)
    for number in range(len(runs)):
        shutil.rmtree(making / f"run_{number:05d}")
    (making / ABOUT).write_bytes(msgspec.json.encode(known.all()))
    shutil.rmtree(folder, ignore_errors=True)
    making.rename(folder)


def _merge(folder: Path, runs: Sequence[_SortedRows], given: Given) -> None:
    """Merge sorted runs; rows of one key keep their order."""
    each = max(SLICE // len(runs), 1)
    bounds = np.unique(np.concatenate([run.first[each - 1 :: each] for run in runs])).tolist()
    starts = [0] * len(runs)
    with (
        open(folder / "first", "wb") as first,
        open(folder / "second", "wb") as second,
        open(folder / "values", "wb") as values,
    ):
        for bound in [*bounds, None]:
            stops = [
                len(run.first) if bound is None else int(np.searchsorted(run.first, bound, "left"))
                for run in runs
            ]
            pieces = [
                ScoreBlock(0, np.stack([run.first[a:b], run.second[a:b]], 1), run.values[a:b])
                for run, a, b in zip(runs, starts, stops, strict=True)
            ]
            merged = _sorted(pieces, len(given.columns))  # rows of one key are in one piece
            _refuse_repeats(merged, given)
            for file, array in zip((first, second, values), merged, strict=True):
                file.write(np.ascontiguousarray(array).data)
            starts = stops
