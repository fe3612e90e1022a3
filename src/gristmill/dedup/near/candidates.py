"""Candidates of the near stage: which earlier documents share a band with a document, and whose
signatures do not rule it out.

keys of a cut -> buckets.sql, near.sql     for each document the first few documents of each of its
                                           buckets
all cuts      -> pairs.sql                 each pair once, in order
a run of them -> agreement                 pairs whose signatures lie more than four standard errors
                                           below the floor are discarded: tasks (executor.py)
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.near.signature_rows import Rows, Signatures, mapped, read_rows, write_array
from gristmill.dedup.reference_corpus import Earlier
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh
from gristmill.engine.relations import Relations

STANDARD_ERRORS = 4.0
PAIRS = 1 << 15  # pairs looked at together
RUN = 1 << 18  # pairs of a task, or more: the last row group is whole

# Similarity: the share of the signatures that agrees; NaN where texts are to be compared.
LIKELY = pa.schema(
    [
        pa.field("document", pa.int64()),
        pa.field("candidate", pa.int64()),
        pa.field("similarity", pa.float64()),
    ]
)


def find_candidates(
    relations: Callable[[], Relations], rows: Rows, near: Near, work: Path
) -> list[Path]:
    """Every pair that shares a band, sorted by document and candidate, each once.

    Both are numbers, candidate < document.
    """
    found = []
    for place, keys in enumerate(rows.keys):
        with relations() as connection:
            connection.table("keys", [keys], "key, document")
            ranked = connection.write(
                "buckets", work / f"buckets.{place:04d}.parquet", places=near.candidates
            )
            connection.table("ranked", ranked, "*")
            found += connection.write(
                "near", work / f"near.{place:04d}.parquet", places=near.candidates
            )
        for path in (keys, *ranked):
            path.unlink()
    if len(rows.keys) > 1:
        with relations() as connection:
            connection.table("found", found, "document, candidate")
            merged = connection.write("pairs", work / "pairs.parquet")
        for path in found:
            path.unlink()
        found = merged
    return found


def earlier_numbers(found: list[Path], rows: Rows) -> np.ndarray:
    """The numbers of older corpora's documents that new ones may be compared with, sorted."""
    if not rows.first:
        return np.empty(0, np.int64)
    met = [
        np.unique(other[(one >= rows.first) & (other < rows.first)])
        for one, other in _chunks(chain.from_iterable(_runs(found)))
    ]
    for path in rows.large:
        numbers = mapped(path, np.int64, 2)[:, 1]
        met.append(np.unique(numbers[numbers < rows.first]))
    return np.unique(np.concatenate([*met, np.empty(0, np.int64)]))


def least_agreement(near: Near) -> int:
    """In how many places the signatures of a pair at the floor agree, but for a chance of one in
    30,000.
    """
    if near.verify == "none":
        return 0
    floor = near.least
    return math.ceil(
        near.numbers * (floor - STANDARD_ERRORS * math.sqrt(floor * (1.0 - floor) / near.numbers))
    )


class Run(NamedTuple):
    """A run of pairs that were found: a task."""

    groups: list[tuple[Path, int]]  # Parquet files and a row group of each
    rows: Rows
    earlier: Path  # (e,) int64: the numbers of the earlier documents, sorted
    signatures: Path  # (e, k) uint32: theirs
    near: Near
    work: Path


def likely(
    found: list[Path], rows: Rows, earlier: Earlier, near: Near, work: Path, executor: Executor
) -> list[Path]:
    """The pairs whose signatures do not rule them out: files of LIKELY, as rows. Rows are the
    earlier documents first, then all new ones.

    `found` is removed, a file as soon as all its pairs were looked at.
    """
    numbers = work / "earlier.numbers"
    write_array(numbers, earlier.numbers)
    slim = rows._replace(keys=[])  # a task is sent as it is
    tasks = [Run(groups, slim, numbers, earlier.signatures, near, work) for groups in _runs(found)]
    last = {path: place for place, task in enumerate(tasks) for path, _ in task.groups}
    written = []
    for place, target in enumerate(executor(rule_out, tasks)):
        written.append(target)
        for path in {path for path, _ in tasks[place].groups if last[path] == place}:
            path.unlink()
    for path in found:
        path.unlink(missing_ok=True)  # what had no row group
    return written


def rule_out(task: Run) -> Path:
    """Write the pairs of a run whose signatures do not rule them out, LIKELY."""
    rows, near, numbers = task.rows, task.near, mapped(task.earlier, np.int64)
    target = fresh(task.work, "likely")
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for one, other in _chunks(task.groups):
            if rows.first:
                new = one >= rows.first
                one, other = (as_rows(column[new], rows.first, numbers) for column in (one, other))
            columns = ruled_out(one, other, rows.signatures, task.signatures, len(numbers), near)
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=LIKELY))
    return target


def as_rows(numbers: np.ndarray, first: int, earlier: np.ndarray) -> np.ndarray:
    """The rows of documents by their numbers: earlier ones, all in `earlier` (sorted), come before
    the new ones, whose numbers begin at `first`.
    """
    return np.where(
        numbers >= first, numbers - first + len(earlier), np.searchsorted(earlier, numbers)
    )


def ruled_out(
    one: np.ndarray, other: np.ndarray, stored: Signatures, of_earlier: Path, older: int, near: Near
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of pairs of rows those that signatures do not rule out, the columns of LIKELY."""
    same = _agreement(one, other, stored, of_earlier, older, near.numbers)
    stays = same >= least_agreement(near)
    similarities = (
        np.full(stays.sum(), np.nan) if near.verify == "text" else same[stays] / near.numbers
    )
    return one[stays], other[stays], similarities


def _agreement(
    one: np.ndarray, other: np.ndarray, stored: Signatures, of_earlier: Path, older: int, width: int
) -> np.ndarray:
    from gristmill.kernels.hashing import pairs

    wanted, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    own = np.searchsorted(wanted, older)
    signatures = np.empty((len(wanted), width), np.uint32)
    read_rows(of_earlier, wanted[:own], signatures[:own])
    stored.read(wanted[own:] - older, signatures[own:])
    return pairs.agreement(signatures, signatures, places[: len(one)], places[len(one) :])


def _runs(found: list[Path]) -> Iterator[list[tuple[Path, int]]]:
    """Consecutive row groups, of RUN pairs or a little more together; the last of fewer."""
    run: list[tuple[Path, int]] = []
    size = 0
    for path in found:
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            run.append((path, group))
            size += metadata.row_group(group).num_rows
            if size >= RUN:
                yield run
                run, size = [], 0
    if run:
        yield run


def _chunks(groups: Iterable[tuple[Path, int]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for path, group in groups:
        with pq.ParquetFile(path, pre_buffer=False, memory_map=False) as file:
            batches = file.read_row_group(group, use_threads=False).to_batches()
        for batch in batches:
            for start in range(0, len(batch), PAIRS):
                part = batch.slice(start, PAIRS)
                yield part["document"].to_numpy(), part["candidate"].to_numpy()
