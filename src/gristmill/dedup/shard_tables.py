"""The tables of a raw shard that deduplication reads: its signatures, documents and measures."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import in_sorted
from gristmill.store.parts import group_batches, open_table

# Documents of a group of shards, or a few more: the last table of a group is taken whole. Of fewer
# documents MANY groups are made, as long as they are not smaller than LEAST.
GROUP = 1 << 17
MANY, LEAST = 32, 1 << 13


class ShardTables(NamedTuple):
    """The signatures of one raw shard, and its documents."""

    signatures: Path
    documents: Path
    scope: int  # documents of different scopes are never compared
    measures: Path | None = None  # what an order may ask for


def grouped(tables: list[ShardTables]) -> Iterator[list[ShardTables]]:
    """Consecutive tables in groups of at least GROUP documents, or of a share of all that gives
    each of many threads a group; the last group may have fewer.
    """
    counts = [pq.read_metadata(table.signatures).num_rows for table in tables]
    least = min(GROUP, max(sum(counts) // MANY, LEAST))
    group: list[ShardTables] = []
    size = 0
    for table, count in zip(tables, counts, strict=True):
        group.append(table)
        size += count
        if size >= least:
            yield group
            group, size = [], 0
    if group:
        yield group


def read_documents(
    path: Path, documents: np.ndarray, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some documents (sorted int64), in order, from a table sorted by document.

    `columns` are the columns to read; None: all. Only row groups that hold a wanted document are
    read, a few MB at a time.
    """
    with open_table(path) as file:
        for group in range(file.num_row_groups):
            statistics = file.metadata.row_group(group).column(0).statistics
            if statistics is None or not statistics.has_min_max:
                continue  # an empty row group
            low, high = np.searchsorted(documents, [statistics.min, statistics.max + 1])
            if low < high:
                for batch in group_batches(file, group, columns):
                    mask = in_sorted(batch["document"].to_numpy(), documents[low:high])
                    if mask.any():
                        yield batch.filter(pa.array(mask))
