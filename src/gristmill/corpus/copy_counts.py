"""How many documents were dropped as copies of each kept one: the column `copies` of `text/` and of
exports.

    duplicates/copies.parquet -> digests      of each raw shard's rows: what its text/ part depends
                                              on
                              -> Copies       the column, for documents of one shard

A keeper may be a document of an older corpus (`[deduplicate] against`); its rows say nothing of a
document of this one with the same number.
"""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus.clusters import own
from gristmill.errors import Damaged
from gristmill.store.parts import read_rows
from gristmill.tables import schema
from gristmill.tables.schema import shard_name


def digests(path: Path, numbers: list[int]) -> dict[int, str]:
    """By raw shard, the sha256 over its rows of duplicates/copies.parquet: a row is keeper and
    copies, little-endian int64.
    """
    hashers = {number: hashlib.sha256() for number in numbers}
    for batch in own(path):
        rows = _rows(batch["keeper"], batch["copies"])
        shards = rows[:, 0] >> schema.ROW_BITS
        for shard in np.unique(shards).tolist():
            hashers[shard].update(rows[shards == shard].tobytes())
    return {number: digest.hexdigest() for number, digest in hashers.items()}


class Copies:
    """The copies of one raw shard's documents.

    16 bytes in memory for each document that has any.
    """

    def __init__(self, path: Path | None, number: int, sha256: str | None = None) -> None:
        """`path` is duplicates/copies.parquet; null: nothing was compared. Raises Damaged where
        `sha256` is not the rows' digest.
        """
        low, high = schema.first_document(number), schema.first_document(number + 1)
        rows = np.empty((0, 2), "<i8")
        if path is not None:
            table = read_rows(
                path, filters=[("keeper", ">=", low), ("keeper", "<", high)], use_threads=False
            )
            table = table.filter(pc.is_null(table["keeper_corpus"]))
            rows = _rows(table["keeper"], table["copies"])
        if sha256 is not None and hashlib.sha256(rows.tobytes()).hexdigest() != sha256:
            raise Damaged(
                f"{path}: not as it was written: its rows of shard {shard_name(number)} changed"
            )
        self._keepers, self._copies = rows[:, 0], rows[:, 1]

    def of(self, documents: pa.Array) -> pa.Array:
        """Return how many copies of each of n documents were dropped: (n,) int64."""
        numbers = documents.to_numpy()
        if not len(self._keepers):
            return pa.array(np.zeros(len(numbers), np.int64))
        places = np.minimum(np.searchsorted(self._keepers, numbers), len(self._keepers) - 1)
        return pa.array(np.where(self._keepers[places] == numbers, self._copies[places], 0))

    def added_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """DOCUMENTS as schema.TEXT: with the column `copies`."""
        return pa.RecordBatch.from_arrays(
            [*batch.columns, self.of(batch["document"])], schema=schema.TEXT
        )


def _rows(keepers: pa.ChunkedArray, copies: pa.ChunkedArray) -> np.ndarray:
    """Return (n, 2) little-endian int64: keepers, which are sorted, and copies."""
    return np.stack([keepers.to_numpy(), copies.to_numpy()], axis=1).astype("<i8", copy=False)
