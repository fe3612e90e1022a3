"""Candidates of the near stage: the earlier documents that share a band with a document, if the two
signatures do not rule the pair out.

    keys of a partition -> buckets.sql, near.sql   for each document the first few documents of each
                                                   of its buckets
    all partitions      -> pairs.sql               each pair once, in order
    a run of pairs      -> agreement               discards pairs whose signatures agree in so few
                                                   places that a similarity of the floor is more
                                                   than four standard errors away: tasks
                                                   (executor.py)
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import map_array, read_rows, write_array
from gristmill.dedup.near.signature_rows import SignatureRows, Signatures
from gristmill.dedup.reference_corpus import ReferenceDocuments
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh
from gristmill.engine.relations import Relations

STANDARD_ERRORS = 4.0
PAIRS = 1 << 15  # pairs that are looked at together
RUN = 1 << 18  # pairs of a task, or a few more: the last row group is taken whole

# Similarity: the share of the signatures that agrees; NaN where texts must be compared.
LIKELY = pa.schema(
    [
        pa.field("document", pa.int64()),
        pa.field("candidate", pa.int64()),
        pa.field("similarity", pa.float64()),
    ]
)


def find_candidates(
    relations: Callable[[], Relations], rows: SignatureRows, near: Near, work: Path
) -> list[Path]:
    """Write every pair that shares a band, each once: Parquet files of document and candidate,
    sorted by both.

    Both are numbers (SignatureRows.first), candidate < document. The key files of `rows` are
    removed.
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


def reference_numbers(found: list[Path], rows: SignatureRows) -> np.ndarray:
    """The numbers of reference documents that new ones may be compared with, (k,) int64, sorted."""
    if not rows.first:
        return np.empty(0, np.int64)
    numbers_of = [
        np.unique(right[(left >= rows.first) & (right < rows.first)])
        for left, right in _chunks(chain.from_iterable(_runs(found)))
    ]
    for path in rows.large:
        numbers = map_array(path, np.int64, 2)[:, 1]
        numbers_of.append(np.unique(numbers[numbers < rows.first]))
    return np.unique(np.concatenate([*numbers_of, np.empty(0, np.int64)]))


def least_agreement(near: Near) -> int:
    """In how many places two signatures must agree: a pair at the floor has fewer with a chance of
    one in 30,000.
    """
    if near.verify == "none":
        return 0
    floor = near.least
    return math.ceil(
        near.numbers * (floor - STANDARD_ERRORS * math.sqrt(floor * (1.0 - floor) / near.numbers))
    )


class LikelyTask(NamedTuple):
    """A run of pairs that share a band: a task."""

    groups: list[tuple[Path, int]]  # Parquet files and a row group of each
    rows: SignatureRows
    references: Path  # (e,) int64: the numbers of the reference documents, sorted
    signatures: Path  # (e, k) uint32: theirs
    near: Near
    work: Path


def likely_pairs(
    found: list[Path],
    rows: SignatureRows,
    references: ReferenceDocuments,
    near: Near,
    work: Path,
    executor: Executor,
) -> list[Path]:
    """The pairs whose signatures do not rule them out: files of LIKELY, as rows. Rows are the
    reference documents first, then all new ones.

    Each file of `found` is removed as soon as all its pairs were looked at.
    """
    numbers = work / "reference.numbers"
    write_array(numbers, references.numbers)
    slim = rows._replace(keys=[])  # a task is sent to its worker: without what it does not need
    tasks = [
        LikelyTask(groups, slim, numbers, references.signatures, near, work)
        for groups in _runs(found)
    ]
    last = {path: place for place, task in enumerate(tasks) for path, _ in task.groups}
    written = []
    for place, target in enumerate(executor(write_likely, tasks)):
        written.append(target)
        for path in {path for path, _ in tasks[place].groups if last[path] == place}:
            path.unlink()
    for path in found:
        path.unlink(missing_ok=True)  # files without a row group
    return written


def write_likely(task: LikelyTask) -> Path:
    """Write the pairs of a run whose signatures do not rule them out, LIKELY."""
    rows, near, numbers = task.rows, task.near, map_array(task.references, np.int64)
    target = fresh(task.work, "likely")
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for left, right in _chunks(task.groups):
            if rows.first:
                new = left >= rows.first
                left, right = (
                    as_rows(column[new], rows.first, numbers) for column in (left, right)
                )
            columns = keep_likely(left, right, rows.signatures, task.signatures, len(numbers), near)
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=LIKELY))
    return target


def as_rows(numbers: np.ndarray, first: int, references: np.ndarray) -> np.ndarray:
    """The rows of documents by their numbers, (n,) int64.

    The numbers of reference documents are all in `references` (sorted); their rows come before
    those of the new documents, whose numbers begin at `first`.
    """
    return np.where(
        numbers >= first, numbers - first + len(references), np.searchsorted(references, numbers)
    )


def keep_likely(
    left: np.ndarray,
    right: np.ndarray,
    stored: Signatures,
    of_references: Path,
    reference_count: int,
    near: Near,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pairs of rows that signatures do not rule out: the columns of LIKELY.

    Rows below `reference_count` have their signatures in the file `of_references`.
    """
    same = _agreement(left, right, stored, of_references, reference_count, near.numbers)
    kept = same >= least_agreement(near)
    similarities = (
        np.full(kept.sum(), np.nan) if near.verify == "text" else same[kept] / near.numbers
    )
    return left[kept], right[kept], similarities


def _agreement(
    left: np.ndarray,
    right: np.ndarray,
    stored: Signatures,
    of_references: Path,
    reference_count: int,
    width: int,
) -> np.ndarray:
    """In how many places the signatures of each pair of rows agree, (n,)."""
    from gristmill.kernels.hashing import pairs

    wanted, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    own = np.searchsorted(wanted, reference_count)
    signatures = np.empty((len(wanted), width), np.uint32)
    read_rows(of_references, wanted[:own], signatures[:own])
    stored.read(wanted[own:] - reference_count, signatures[own:])
    return pairs.agreement(signatures, signatures, places[: len(left)], places[len(left) :])


def _runs(found: list[Path]) -> Iterator[list[tuple[Path, int]]]:
    """Consecutive row groups of at least RUN pairs together; the last run may have fewer."""
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
