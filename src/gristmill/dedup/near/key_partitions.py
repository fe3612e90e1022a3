"""Band keys in partitions by their first bits: all documents of one bucket are in one partition.

    the same partition of all groups -> keys that may occur twice      Parquet, KEY_ROWS
                                     -> its large buckets              (m, 2) int64, sorted

A bucket is all documents that have one key. A key that surely occurs once makes no pair and is left
out. Memory is a few chunks of CHUNK keys, and 8 bytes for each key that may occur twice.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import in_sorted
from gristmill.engine.executor import fresh
from gristmill.store.parts import read_batches

CHUNK = 1 << 19  # keys that are looked at together
LARGE = 1 << 20  # keys of large buckets that are sorted together, or the keys of one bucket

KEY_ROWS = pa.schema([pa.field("key", pa.int64()), pa.field("document", pa.int64())])


class KeyFile(NamedTuple):
    """Keys of one partition and their documents' numbers: a file, (m, 2) int64."""

    path: Path
    base: int  # the number of a document is this plus the number in the file


class PartitionTask(NamedTuple):
    """All keys of one partition: a task."""

    place: int
    files: list[KeyFile]
    candidates: int | None  # a bucket of more documents is large; null: no bucket is
    work: Path


def write_repeated(task: PartitionTask) -> tuple[Path, list[Path]]:
    """Write the keys of a partition that may occur twice: a Parquet file of KEY_ROWS.

    Returns that file, and a file of the partition's large buckets if it has any.
    """
    from gristmill.kernels.hashing.band_keys import Repeated

    target = fresh(task.work, f"keys-{task.place:04d}")
    repeated = Repeated(count_keys(task.files))
    for chunk in read_keys(task.files):
        repeated.add(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))
    held: list[np.ndarray] = []
    with pq.ParquetWriter(target, KEY_ROWS, compression="none", use_dictionary=False) as writer:
        for chunk in read_keys(task.files):
            chunk = chunk[repeated.mask(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))]
            columns = [pa.array(np.ascontiguousarray(chunk[:, place])) for place in range(2)]
            writer.write_table(pa.table(columns, schema=KEY_ROWS))
            if task.candidates is not None:
                held.append(columns[0].to_numpy())
    del repeated
    return target, [] if task.candidates is None else _write_large(task, target, held)


def _write_large(task: PartitionTask, keys: Path, held: list[np.ndarray]) -> list[Path]:
    """Write the buckets of more than `candidates` documents.

    `held` has the keys of the file `keys`; it is emptied here, so that they are in memory once.
    """
    every = np.concatenate([*held, np.empty(0, np.int64)])
    held.clear()
    every.sort()
    most = task.candidates or 0
    # In a sorted array, a key with more than `most` copies equals the one `most` places behind it.
    often = np.unique(every[most:][every[most:] == every[: max(len(every) - most, 0)]])
    if not len(often):
        return []
    every = every[in_sorted(every, often)]
    bounds = np.unique(np.append(np.searchsorted(often, every[::LARGE]), len(often))).tolist()
    del every
    target = fresh(task.work, f"large-{task.place:04d}")
    with open(target, "wb") as file:
        for low, high in pairwise(bounds):
            found = []
            for batch in read_batches(keys):
                key, number = (column.to_numpy() for column in batch.columns)
                is_large = in_sorted(key, often[low:high])
                found.append(np.stack([key[is_large], number[is_large]], axis=1))
            part = np.concatenate(found)
            file.write(np.ascontiguousarray(part[np.lexsort((part[:, 1], part[:, 0]))]).data)
    return [target]


def count_keys(files: list[KeyFile]) -> int:
    """How many keys a partition has."""
    return sum(file.path.stat().st_size for file in files) // 16


def read_keys(files: list[KeyFile]) -> Iterator[np.ndarray]:
    """A partition in chunks: (n, 2) int64, key and number. All but the last have CHUNK keys."""
    chunk, count = np.empty((CHUNK, 2), np.int64), 0
    for keys in files:
        with open(keys.path, "rb") as file:
            while read := file.readinto(chunk[count:].data.cast("B")) // 16:
                chunk[count : count + read, 1] += keys.base
                count += read
                if count == CHUNK:
                    yield chunk
                    chunk, count = np.empty((CHUNK, 2), np.int64), 0
    if count:
        yield chunk[:count]
