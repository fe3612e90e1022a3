"""Kept documents that have a near-duplicate among the kept ones: duplicates/similar.parquet, which
a recipe with near duplicates writes (dedup/near/similar_kept.py).

    digests             of each raw shard's rows: what its tokens depend on
    similar_documents   the rows of one raw shard
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import Damaged
from gristmill.store.parts import read_batches, read_rows
from gristmill.tables import schema
from gristmill.tables.schema import shard_name

TABLE = "duplicates/similar.parquet"


def digests(path: Path) -> dict[int, str]:
    """By raw shard, the sha256 over its documents: sorted little-endian int64. A shard that has
    none is left out.
    """
    hashers: dict[int, Any] = {}
    for batch in read_batches(path):
        documents = batch["document"].to_numpy()
        shards = documents >> schema.ROW_BITS
        # Not np.unique, which imports numpy.ma: 90 ms of the process that starts all others.
        for shard in dict.fromkeys(shards[np.diff(shards, prepend=-1) != 0].tolist()):
            rows = documents[shards == shard].astype("<i8").tobytes()
            hashers.setdefault(shard, hashlib.sha256()).update(rows)
    return {number: digest.hexdigest() for number, digest in hashers.items()}


def similar_documents(path: Path, number: int, sha256: str) -> np.ndarray:
    """Return the documents of a raw shard in the table: (n,) int64, sorted. Raises Damaged where
    `sha256` is not their digest.
    """
    low, high = schema.first_document(number), schema.first_document(number + 1)
    table = read_rows(
        path, filters=[("document", ">=", low), ("document", "<", high)], use_threads=False
    )
    documents = table["document"].to_numpy()
    if hashlib.sha256(documents.astype("<i8").tobytes()).hexdigest() != sha256:
        raise Damaged(
            f"{path}: not as it was written: its rows of shard {shard_name(number)} changed"
        )
    return np.asarray(documents)
