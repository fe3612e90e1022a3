"""Candidates of the near stage: which earlier documents share a band with a document, and whose signatures do not rule it out.

keys of a cut -> buckets.sql, near.sql     for each document the first few documents of each of its buckets
all cuts      -> pairs.sql                 each pair once, in order
-> agreement                 pairs whose signatures lie more than four standard errors below the floor are discarded
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.database import Relations
from gristmill.dedup.older import Earlier
from gristmill.dedup.rows import Rows, read_rows
from gristmill.dedup.settings import Near
from gristmill.kernels import pairs
from gristmill.store.parts import read_batches

STANDARD_ERRORS = 4.0
PAIRS = 1 << 16  # pairs looked at together

LIKELY = pa.schema(
    [pa.field("document", pa.int64()), pa.field("candidate", pa.int64()), pa.field("agreement", pa.float64())]
)


def find_candidates(relations: Callable[[], Relations], rows: Rows, near: Near, work: Path) -> list[Path]:
    """Every pair that shares a band, sorted by document and candidate, each once. Both are numbers, candidate < document."""
    found = []
    for place, keys in enumerate(rows.keys):
        with relations() as connection:
            connection.table("keys", [keys], "key, document")
            ranked = connection.write("buckets", work / f"buckets.{place:04d}.parquet", places=near.candidates)
            connection.table("ranked", ranked, "*")
            found += connection.write("near", work / f"near.{place:04d}.parquet", places=near.candidates)
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
        np.unique(other[(one >= rows.first) & (other < rows.first)]) for path in found for one, other in _chunks(path)
    ]
    return np.unique(np.concatenate([*met, np.empty(0, np.int64)]))


def least_agreement(near: Near) -> int:
    """In how many places the signatures of a pair at the floor agree, but for a chance of one in 30,000."""
    if near.verify == "none":
        return 0
    floor = near.least
    return math.ceil(near.numbers * (floor - STANDARD_ERRORS * math.sqrt(floor * (1.0 - floor) / near.numbers)))


def likely(found: list[Path], rows: Rows, earlier: Earlier, near: Near, target: Path) -> Path:
    """The pairs whose signatures do not rule them out: LIKELY, as rows. Rows are the earlier documents first, then all new ones."""
    older = len(earlier.numbers)
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for path in found:
            for one, other in _chunks(path):
                if rows.first:
                    new = one >= rows.first
                    one, other = one[new], other[new]
                    own = other >= rows.first
                    other = np.where(own, other - rows.first + older, np.searchsorted(earlier.numbers, other))
                    one = one - rows.first + older
                same = _agreement(one, other, rows, earlier, near)
                stays = same >= least_agreement(near)
                columns = [one[stays], other[stays], same[stays] / near.numbers]
                writer.write_table(pa.table([pa.array(column) for column in columns], schema=LIKELY))
            path.unlink()
    return target


def _agreement(one: np.ndarray, other: np.ndarray, rows: Rows, earlier: Earlier, near: Near) -> np.ndarray:
    older = len(earlier.numbers)
    wanted, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    own = np.searchsorted(wanted, older)
    parts = [read_rows(rows.signatures, wanted[own:] - older, near.numbers)]
    if older:
        parts.insert(0, read_rows(earlier.signatures, wanted[:own], near.numbers))
    signatures = np.concatenate(parts)
    return pairs.agreement(signatures, signatures, places[: len(one)], places[len(one) :])


def _chunks(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for batch in read_batches(path):
        for start in range(0, len(batch), PAIRS):
            part = batch.slice(start, PAIRS)
            yield part["document"].to_numpy(), part["candidate"].to_numpy()
