"""Verifying candidates: exact Jaccard similarity of the texts' shingles, out of core, in tasks
(executor.py).

    likely pairs                               -> which documents stand in one
    a group of shards                          -> the distinct shingles of those documents, on disk
    a file of likely pairs + all the shingles  -> the pairs again, with their similarities

Shingles take about as many bytes as the texts, and rest on disk while pairs are compared; a task
compares a few thousand pairs at a time.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.columns import utf8_buffers
from gristmill.dedup.near.candidates import LIKELY
from gristmill.dedup.near.signature_rows import Table, grouped, mapped, read_documents, write_array
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh
from gristmill.store.parts import read_batches

SHINGLES = 1 << 22  # hashes that are compared together (8 bytes each)


class Shingles(NamedTuple):
    """The distinct shingles of k documents that stand in a pair, in files one after another."""

    files: list[Path]  # (hashes,) uint64 each
    begins: list[int]  # of each file, its first hash's place among all
    rows: Path  # (k,) int64: the documents' rows, sorted
    places: Path  # (k,) int64: of each, its first hash's place among all
    sizes: Path  # (k,) int64: how many it has

    def read(self, begins: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The hashes (offsets[-1],) of n documents: begins (n,) are their places, offsets (n + 1,)
        where each goes.
        """
        hashes = np.empty(offsets[-1], np.uint64)
        view = hashes.data.cast("B")
        order = np.argsort(begins, kind="stable")
        bounds = [*np.searchsorted(begins[order], self.begins).tolist(), len(order)]
        for path, first, start, stop in zip(
            self.files, self.begins, bounds[:-1], bounds[1:], strict=True
        ):
            if start == stop:
                continue
            with open(path, "rb") as file:
                for place in order[start:stop].tolist():
                    if offsets[place] < offsets[place + 1]:
                        part = view[8 * offsets[place] : 8 * offsets[place + 1]]
                        os.preadv(file.fileno(), [part], 8 * (int(begins[place]) - first))
        return hashes


class Texts(NamedTuple):
    """Consecutive tables, some of whose texts are cut into shingles: a task."""

    tables: list[Path]
    wanted: Path  # (k,) int64, sorted: of which documents, among others
    near: Near
    work: Path


class Shingled(NamedTuple):
    """The shingles of a task's n documents."""

    hashes: Path  # (hashes,) uint64
    sizes: Path  # (n,) int64


def write_shingles(
    groups: list[tuple[list[Table], np.ndarray]],
    involved: np.ndarray,
    near: Near,
    work: Path,
    executor: Executor,
) -> Shingles:
    """Write the shingles of documents.

    groups: tables, and which of their documents (sorted); all groups together are the rows
    `involved`.
    """
    tasks = []
    for place, (tables, documents) in enumerate(groups):
        wanted = fresh(work, f"shingles.wanted-{place}")
        write_array(wanted, documents)
        if len(documents):
            tasks += [
                Texts([table.documents for table in group], wanted, near, work)
                for group in grouped(tables)
            ]
    done = list(executor(cut_texts, tasks))
    sizes = np.concatenate([np.fromfile(cut.sizes, np.int64) for cut in done])
    for cut in done:
        cut.sizes.unlink()
    ends = np.cumsum([cut.hashes.stat().st_size // 8 for cut in done]).tolist()
    order = np.argsort(involved, kind="stable")
    return _placed(
        [cut.hashes for cut in done],
        [0, *ends[:-1]],
        (involved, np.cumsum(sizes) - sizes, sizes),
        order,
        work,
    )


def joined(some: Shingles, more: Shingles, work: Path) -> Shingles:
    """The shingles of both, which have no row in common."""
    after = some.begins[-1] + some.files[-1].stat().st_size // 8
    rows, places, sizes = (
        np.concatenate(
            [mapped(getattr(some, name), np.int64), mapped(getattr(more, name), np.int64) + shift]
        )
        for name, shift in (("rows", 0), ("places", after), ("sizes", 0))
    )
    begins = [*some.begins, *(after + begin for begin in more.begins)]
    return _placed(
        [*some.files, *more.files],
        begins,
        (rows, places, sizes),
        np.argsort(rows, kind="stable"),
        work,
    )


def _placed(
    files: list[Path],
    begins: list[int],
    columns: tuple[np.ndarray, np.ndarray, np.ndarray],
    order: np.ndarray,
    work: Path,
) -> Shingles:
    """Write down where each row's shingles are, by row."""
    paths = [fresh(work, f"shingles.{name}") for name in ("rows", "places", "sizes")]
    for path, column in zip(paths, columns, strict=True):
        write_array(path, column[order])
    return Shingles(files, begins, *paths)


def cut_texts(task: Texts) -> Shingled:
    """Write the shingles of those texts of a group that are wanted."""
    from gristmill.kernels.hashing import minhash
    from gristmill.kernels.unicode.normalised import normalise

    near, wanted = task.near, mapped(task.wanted, np.int64)
    cut = Shingled(fresh(task.work, "shingles"), fresh(task.work, "shingles.sizes"))
    with open(cut.hashes, "wb") as hashes_of, open(cut.sizes, "wb") as sizes:
        for table in task.tables:
            for batch in read_documents(table, wanted, ["document", "text"]):
                offsets, hashes = minhash.distinct_shingles(
                    *normalise(*utf8_buffers(batch["text"])),
                    width=near.shingle,
                    characters=near.unit == "characters",
                )
                hashes_of.write(hashes.data)
                sizes.write(np.diff(offsets).astype(np.int64, copy=False).data)
    return cut


class Compared(NamedTuple):
    """A file of likely pairs that are compared: a task."""

    pairs: Path
    shingles: Shingles
    work: Path


def compare(
    likely: list[Path], shingles: Shingles, work: Path, executor: Executor
) -> Iterator[Path]:
    """Likely pairs again, LIKELY, with the similarity of all; of each file one, as they are done.
    The files of `likely` are removed.
    """
    tasks = (Compared(path, shingles, work) for path in likely)
    for before, target in zip(likely, executor(compare_pairs, tasks), strict=True):
        before.unlink()
        yield target


def compare_pairs(task: Compared) -> Path:
    """Write a file of likely pairs again, with the similarities of those that had none."""
    target = fresh(task.work, "compared")
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for batch in read_batches(task.pairs):
            one, other, similarities = (column.to_numpy() for column in batch.columns)
            new = np.isnan(similarities)
            similarities = similarities.copy()
            similarities[new] = _similarities(one[new], other[new], task.shingles)
            writer.write_table(
                pa.table([batch["document"], batch["candidate"], similarities], schema=LIKELY)
            )
    return target


def _similarities(one: np.ndarray, other: np.ndarray, shingles: Shingles) -> np.ndarray:
    """Of pairs of rows, grouped by `one`: (pairs,) float64."""
    from gristmill.kernels.hashing import pairs

    rows, places, sizes = (
        mapped(path, np.int64) for path in (shingles.rows, shingles.places, shingles.sizes)
    )
    left, right = np.searchsorted(rows, one), np.searchsorted(rows, other)
    similarities = np.empty(len(one))
    for start, stop in _runs(sizes[left] + sizes[right]):
        wanted, at = np.unique(
            np.concatenate([left[start:stop], right[start:stop]]), return_inverse=True
        )
        offsets = np.zeros(len(wanted) + 1, np.int64)
        np.cumsum(sizes[wanted], out=offsets[1:])
        hashes = shingles.read(places[wanted], offsets)
        similarities[start:stop] = pairs.jaccard(
            offsets, hashes, at[: stop - start], at[stop - start :]
        )
    return similarities


def _runs(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut pairs of so many hashes each into runs of no more than SHINGLES, or of one pair."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        base = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, base + SHINGLES, "right")), start + 1)
        yield start, stop
        start = stop


def involved_rows(likely: list[Path], size: int) -> np.ndarray:
    """Which of `size` rows stand in a pair that is to be compared, sorted."""
    stands = np.zeros(size, bool)
    for path in likely:
        for batch in read_batches(path):
            new = np.isnan(batch["similarity"].to_numpy())
            for name in ("document", "candidate"):
                stands[batch[name].to_numpy()[new]] = True
    return np.flatnonzero(stands)
