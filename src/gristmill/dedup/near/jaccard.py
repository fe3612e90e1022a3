"""Verifying candidates: exact Jaccard similarity of the texts' shingles, out of core, in tasks
(executor.py).

    likely pairs                               -> the documents that are in a pair
    a group of shards                          -> the distinct shingles of those documents, on disk
    a file of likely pairs + all the shingles  -> the pairs again, with their similarities

Shingles take about as many bytes as the texts. They are on disk while pairs are compared; a task
compares a few thousand pairs at a time.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import map_array, write_array
from gristmill.dedup.near.candidates import LIKELY
from gristmill.dedup.settings import Near
from gristmill.dedup.shard_tables import ShardTables, grouped, read_documents
from gristmill.engine.executor import Executor, fresh
from gristmill.errors import MachineError
from gristmill.store.parts import read_batches
from gristmill.tables.columns import utf8_buffers

SHINGLES = 1 << 22  # hashes that are compared together (8 bytes each)


class Shingles(NamedTuple):
    """The distinct shingles of k documents that are in a pair, in consecutive files."""

    files: list[Path]  # (hashes,) uint64 each
    begins: list[int]  # of each file, the place of its first hash among all
    rows: Path  # (k,) int64: the documents' rows, sorted
    places: Path  # (k,) int64: the place of each one's first hash among all
    sizes: Path  # (k,) int64: how many hashes each one has

    def read(self, begins: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Read the hashes (offsets[-1],) of n documents.

        begins (n,) are the places of their first hashes; offsets (n + 1,) the places in the result.
        """
        hashes = np.empty(offsets[-1], np.uint64)
        view = hashes.data.cast("B")
        order = np.argsort(begins, kind="stable")
        sorted_begins, low, high = begins[order], offsets[order], offsets[order + 1]
        bounds = [*np.searchsorted(sorted_begins, self.begins).tolist(), len(order)]
        # What lies side by side in a file and in the result is read at once.
        alone = np.ones(len(order), bool)
        alone[1:] = (sorted_begins[1:] != sorted_begins[:-1] + (high - low)[:-1]) | (
            low[1:] != high[:-1]
        )
        for path, first, start, stop in zip(
            self.files, self.begins, bounds[:-1], bounds[1:], strict=True
        ):
            if start == stop:
                continue
            heads = np.union1d(np.flatnonzero(alone[start:stop]), 0) + start
            lasts = np.append(heads[1:], stop) - 1
            with open(path, "rb") as file:
                handle = file.fileno()
                for at, begin, end in zip(
                    (8 * (sorted_begins[heads] - first)).tolist(),
                    (8 * low[heads]).tolist(),
                    (8 * high[lasts]).tolist(),
                    strict=True,
                ):
                    while begin < end:  # the system reads at most 2 GB at once
                        read = os.preadv(handle, [view[begin:end]], at)
                        if not read:
                            raise MachineError(f"{path}: ends before its last shingle")
                        begin, at = begin + read, at + read
        return hashes


class ShingleTask(NamedTuple):
    """Consecutive tables, some of whose texts are split into shingles: a task."""

    tables: list[Path]
    wanted: Path  # (k,) int64, sorted: of which documents; some may be in other tables
    near: Near
    work: Path


class ShingleFiles(NamedTuple):
    """The shingles of a task's n documents."""

    hashes: Path  # (hashes,) uint64
    sizes: Path  # (n,) int64


def write_shingles(
    groups: list[tuple[list[ShardTables], np.ndarray]],
    involved: np.ndarray,
    near: Near,
    work: Path,
    executor: Executor,
) -> Shingles:
    """Write the shingles of documents.

    Each of `groups` has tables, and the documents (sorted) wanted of them; the documents of all
    groups, one after another, are the rows `involved`.
    """
    tasks = []
    for place, (tables, documents) in enumerate(groups):
        wanted = fresh(work, f"shingles.wanted-{place}")
        write_array(wanted, documents)
        if len(documents):
            tasks += [
                ShingleTask([table.documents for table in group], wanted, near, work)
                for group in grouped(tables)
            ]
    written = list(executor(write_group, tasks))
    sizes = np.concatenate([np.fromfile(group.sizes, np.int64) for group in written])
    for group in written:
        group.sizes.unlink()
    ends = np.cumsum([group.hashes.stat().st_size // 8 for group in written]).tolist()
    order = np.argsort(involved, kind="stable")
    return _placed(
        [group.hashes for group in written],
        [0, *ends[:-1]],
        (involved, np.cumsum(sizes) - sizes, sizes),
        order,
        work,
    )


def joined(some: Shingles, more: Shingles, work: Path) -> Shingles:
    """Return the shingles of both, which have no row in common."""
    after = some.begins[-1] + some.files[-1].stat().st_size // 8
    rows, places, sizes = (
        np.concatenate(
            [
                map_array(getattr(some, name), np.int64),
                map_array(getattr(more, name), np.int64) + shift,
            ]
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
    """Write the place of each row's shingles, sorted by row."""
    paths = [fresh(work, f"shingles.{name}") for name in ("rows", "places", "sizes")]
    for path, column in zip(paths, columns, strict=True):
        write_array(path, column[order])
    return Shingles(files, begins, *paths)


def write_group(task: ShingleTask) -> ShingleFiles:
    """Write the shingles of the wanted texts of a group."""
    from gristmill.kernels.folding.compared import compared
    from gristmill.kernels.hashing import minhash

    near, wanted = task.near, map_array(task.wanted, np.int64)
    files = ShingleFiles(fresh(task.work, "shingles"), fresh(task.work, "shingles.sizes"))
    with open(files.hashes, "wb") as hashes_of, open(files.sizes, "wb") as sizes:
        for table in task.tables:
            for batch in read_documents(table, wanted, ["document", "text"]):
                offsets, hashes = minhash.distinct_shingles(
                    *compared(
                        *utf8_buffers(batch["text"]), near.form, arabic_marks=near.arabic_marks
                    ),
                    width=near.shingle,
                    characters=near.unit == "characters",
                )
                hashes_of.write(hashes.data)
                sizes.write(np.diff(offsets).astype(np.int64, copy=False).data)
    return files


class CompareTask(NamedTuple):
    """A file of likely pairs to compare: a task."""

    pairs: Path
    shingles: Shingles
    work: Path


def compare(
    likely: list[Path], shingles: Shingles, work: Path, executor: Executor
) -> Iterator[Path]:
    """Write each file of likely pairs again, LIKELY, with the similarity of every pair.

    Yields the new files in the same order; the files of `likely` are removed.
    """
    tasks = (CompareTask(path, shingles, work) for path in likely)
    for before, target in zip(likely, executor(compare_pairs, tasks), strict=True):
        before.unlink()
        yield target


def compare_pairs(task: CompareTask) -> Path:
    """Write a file of likely pairs again, with the similarities of those that had none."""
    target = fresh(task.work, "compared")
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for batch in read_batches(task.pairs):
            left, right, similarities = (column.to_numpy() for column in batch.columns)
            new = np.isnan(similarities)
            similarities = similarities.copy()
            similarities[new] = _similarities(left[new], right[new], task.shingles)
            writer.write_table(
                pa.table([batch["document"], batch["candidate"], similarities], schema=LIKELY)
            )
    return target


def _similarities(left: np.ndarray, right: np.ndarray, shingles: Shingles) -> np.ndarray:
    """Return the similarities of pairs of rows, grouped by `left`: (pairs,) float64."""
    from gristmill.kernels.hashing import pairs

    rows, places, sizes = (
        map_array(path, np.int64) for path in (shingles.rows, shingles.places, shingles.sizes)
    )
    left, right = np.searchsorted(rows, left), np.searchsorted(rows, right)
    similarities = np.empty(len(left))
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
    """Runs of pairs of at most SHINGLES hashes, or of one pair; `sizes` are the pairs' hashes."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        base = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, base + SHINGLES, "right")), start + 1)
        yield start, stop
        start = stop


def involved_rows(likely: list[Path], size: int) -> np.ndarray:
    """Return which of `size` rows are in a pair whose similarity is not known, sorted."""
    involved = np.zeros(size, bool)
    for path in likely:
        for batch in read_batches(path):
            new = np.isnan(batch["similarity"].to_numpy())
            for name in ("document", "candidate"):
                involved[batch[name].to_numpy()[new]] = True
    return np.flatnonzero(involved)
