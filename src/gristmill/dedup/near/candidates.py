"""Candidates of the near stage: the earlier documents that share a band with a document, if the two
signatures do not rule the pair out.

    pairs of each partition (key_partitions.py) -> ranges of documents of about as many pairs
    a range of all partitions                   -> each pair once, in order
                                                -> agreement discards pairs whose signatures agree
                                                   in so few places that a similarity of the floor
                                                   is more than four standard errors away

Ranges are tasks (executor.py).
"""

import math
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import map_array, read_rows, write_array
from gristmill.dedup.near.key_partitions import distinct, pairs_in
from gristmill.dedup.near.signature_rows import SignatureRows, Signatures
from gristmill.dedup.reference_corpus import ReferenceDocuments
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh

STANDARD_ERRORS = 4.0
PAIRS = 1 << 15  # pairs that are looked at together
# Pairs of a task, about. Of fewer pairs MANY tasks are made, as long as they are not smaller than
# LEAST.
RUN = 1 << 18
MANY, LEAST = 4, 1 << 13

# Similarity: the share of the signatures that agrees; NaN where texts must be compared.
LIKELY = pa.schema(
    [
        pa.field("document", pa.int64()),
        pa.field("candidate", pa.int64()),
        pa.field("similarity", pa.float64()),
    ]
)


def reference_numbers(rows: SignatureRows) -> np.ndarray:
    """Return the numbers of reference documents that new ones may be compared with, (k,) int64,
    sorted.
    """
    parts = [np.empty(0, np.int64)]
    if rows.first:
        columns = [pairs_in(path)[1] for path in rows.pairs]
        columns += [map_array(path, np.int64, 2)[:, 1] for path in rows.large]
        parts += [np.unique(numbers[numbers < rows.first]) for numbers in columns]
    return np.unique(np.concatenate(parts))


def least_agreement(near: Near) -> int:
    """How many places of signatures must agree: a pair at the floor has fewer once in 30,000."""
    if near.verify == "none":
        return 0
    floor = near.least
    return math.ceil(
        near.numbers * (floor - STANDARD_ERRORS * math.sqrt(floor * (1.0 - floor) / near.numbers))
    )


class LikelyTask(NamedTuple):
    """Pairs that share a band, of a range of documents: a task."""

    low: int  # the numbers of the documents: from this ...
    high: int  # ... to before this
    rows: SignatureRows
    references: Path  # (e,) int64: the numbers of the reference documents, sorted
    signatures: Path  # (e, k) uint32: theirs
    near: Near
    work: Path


def likely_pairs(
    rows: SignatureRows, references: ReferenceDocuments, near: Near, work: Path, executor: Executor
) -> list[Path]:
    """Return the pairs whose signatures do not rule them out: files of LIKELY, as rows, in order.
    Rows are the reference documents first, then all new ones.

    The files of pairs are removed.
    """
    numbers = work / "reference.numbers"
    write_array(numbers, references.numbers)
    slim = rows._replace(large=[])  # a task is sent to its worker: without what it does not need
    tasks = [
        LikelyTask(low, high, slim, numbers, references.signatures, near, work)
        for low, high in _ranges(rows.pairs)
    ]
    written = list(executor(write_likely, tasks))
    for path in rows.pairs:
        path.unlink()
    return written


def write_likely(task: LikelyTask) -> Path:
    """Write the pairs of a range whose signatures do not rule them out, LIKELY."""
    rows, near, numbers = task.rows, task.near, map_array(task.references, np.int64)
    target = fresh(task.work, "likely")
    lefts, rights = _read_pairs(rows.pairs, task.low, task.high)
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for start in range(0, len(lefts), PAIRS):
            left, right = lefts[start : start + PAIRS], rights[start : start + PAIRS]
            if rows.first:
                left, right = (as_rows(column, rows.first, numbers) for column in (left, right))
            columns = keep_likely(left, right, rows.signatures, task.signatures, len(numbers), near)
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=LIKELY))
    return target


def as_rows(numbers: np.ndarray, first: int, references: np.ndarray) -> np.ndarray:
    """Return the rows of documents by their numbers, (n,) int64.

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
    """Return the pairs of rows that signatures do not rule out: the columns of LIKELY.

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


def _ranges(found: list[Path]) -> list[tuple[int, int]]:
    """Return ranges of documents, by number, that have about as many pairs each in files of pairs:
    RUN, or a share of all. Those count twice that are in two files.
    """
    documents = [pairs_in(path)[0] for path in found]
    total = sum(map(len, documents))
    if not total:
        return []
    count = max(-(-total // RUN), min(MANY, total // LEAST))
    every = max(1, total // count // 64)  # pairs for each document that is looked at
    some = np.sort(np.concatenate([column[::every] for column in documents]))
    cuts = np.unique(some[np.arange(1, count) * len(some) // count]).tolist()
    last = max(int(column[-1]) for column in documents if len(column))
    return list(pairwise([0, *(cut for cut in cuts if cut), last + 1]))


def _read_pairs(found: list[Path], low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a range of documents in files of pairs, each once, sorted."""
    columns: list[tuple[np.ndarray, np.ndarray]] = []
    for path in found:
        left, right = pairs_in(path)
        start, stop = np.searchsorted(left, [low, high])
        columns.append((left[start:stop], right[start:stop]))
    return distinct(*map(np.concatenate, zip(*columns, strict=True)))
