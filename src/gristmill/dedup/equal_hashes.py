"""Equal texts of a few documents, in memory: what dedup/sql/same.sql finds, without an engine of
relations, whose start takes longer than that.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import in_sorted
from gristmill.dedup.shard_tables import ShardTables, grouped
from gristmill.engine.executor import Executor
from gristmill.store.parts import read_batches
from gristmill.tables.columns import view_rows

FEW = 1 << 20  # documents, of 32 bytes each


def are_few(paths: Iterable[Path]) -> bool:
    """Return whether tables of signatures have so few documents that memory is no matter."""
    rows: int = sum(pq.read_metadata(path).num_rows for path in paths)
    return rows <= FEW


def equal_texts(
    tables: list[ShardTables], dropped: np.ndarray, executor: Executor
) -> tuple[np.ndarray, np.ndarray]:
    """Return the documents with the same text as an earlier one of their scope, and the earliest:
    both (n,) int64, by document.

    Documents of `dropped` (sorted int64) count as absent.
    """
    columns = map(np.concatenate, zip(*executor(_read, grouped(tables)), strict=True))
    documents, scopes, hashes = columns
    if len(dropped):
        left = ~in_sorted(documents, dropped)
        documents, scopes, hashes = documents[left], scopes[left], hashes[left]
    # Most texts occur once: the first half of a hash says so of nearly all of these.
    order = np.argsort(hashes[:, 0])
    halves = hashes[order, 0]
    again = halves[1:] == halves[:-1]
    order = order[(np.r_[False, again] | np.r_[again, False])[: len(order)]]
    documents, scopes, hashes = documents[order], scopes[order], hashes[order]
    order = np.lexsort((documents, scopes, hashes[:, 1], hashes[:, 0]))
    documents, scopes, hashes = documents[order], scopes[order], hashes[order]
    changes = (hashes[1:] != hashes[:-1]).any(axis=1) | (scopes[1:] != scopes[:-1])
    heads = np.flatnonzero(np.r_[True, changes][: len(order)])
    firsts = np.repeat(documents[heads], np.diff(np.r_[heads, len(order)]))
    places = np.flatnonzero(documents != firsts)
    places = places[np.argsort(documents[places])]
    return documents[places], firsts[places]


def _read(group: list[ShardTables]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all documents of a group (n,) int64, their scopes (n,) int64, hashes (n, 2) uint64."""
    columns = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2), np.uint64))]
    for table in group:
        for batch in read_batches(table.signatures, ["document", "text_hash"]):
            hashes = view_rows(batch["text_hash"], np.uint64)
            columns.append((batch["document"].to_numpy(), np.full(len(batch), table.scope), hashes))
    documents, scopes, text_hashes = map(np.concatenate, zip(*columns, strict=True))
    return documents, scopes, text_hashes
