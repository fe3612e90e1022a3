"""Signatures laid out for the near stage, out of core: a task for each group of shards and for each
partition of the band keys (executor.py).

    signatures of a group of shards  -> documents and signatures, for random access:
                                        row r is the r-th document in the order that decides
                                     -> band keys, in partitions by their first bits
    one partition of all groups      -> the pairs that share a key (key_partitions.py)

A partition has about 2.1 M keys whatever the size of the corpus, up to 512 partitions; with an
index, as many as the index has, 8.4 M. Only the number of partitions grows. Time and disk grow
linearly. The memory of a task (some 90 MB) does not grow; an order takes 16 bytes a document.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import in_sorted, map_array, read_rows, write_array
from gristmill.dedup.near.key_partitions import KeyFile, PartitionTask, write_pairs
from gristmill.dedup.order import Order, read_places
from gristmill.dedup.settings import Near
from gristmill.dedup.shard_tables import ShardTables, grouped
from gristmill.engine.executor import Executor, fresh
from gristmill.store.parts import read_batches
from gristmill.tables.columns import view_rows

KEYS = 1 << 23  # keys of one partition of an index, before those that occur once are left out
FINER = 4  # without an index, partitions have a part of them: more tasks
# Of fewer keys up to four partitions are made then, none of fewer keys than LEAST on average.
MANY_BITS, LEAST = 2, 1 << 18
MOST_BITS = 9  # 512 partitions; beyond 134 M documents of 32 bands they grow instead
HELD = 1 << 20  # keys that a task holds before it opens the file of each partition

# Called with the place of a partition, its files, and the file of all documents; returns further
# files of the same partition.
OnPartition = Callable[[int, list[KeyFile], Path], list[KeyFile]]


class Signatures(NamedTuple):
    """The signatures of rows, in consecutive files."""

    files: list[Path]  # (m, k) uint32 each
    begins: list[int]  # of each file, the place of its first signature among all
    places: Path | None  # (n,) int64: the place of each row's signature; null: the row itself

    def read(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Fill out (n, k) uint32 with the signatures of rows (n,), sorted, each once."""
        if self.places is None:
            self._read(rows, out)
        else:
            places = map_array(self.places, np.int64)[rows]
            order = np.argsort(places)
            signatures = np.empty_like(out)
            self._read(places[order], signatures)
            out[order] = signatures

    def _read(self, places: np.ndarray, out: np.ndarray) -> None:
        bounds = [*np.searchsorted(places, self.begins).tolist(), len(places)]
        for path, begin, start, stop in zip(
            self.files, self.begins, bounds[:-1], bounds[1:], strict=True
        ):
            if start < stop:
                read_rows(path, places[start:stop] - begin, out[start:stop])


class SignatureRows(NamedTuple):
    """What is compared: n documents with a signature each.

    Their numbers in the files of keys and pairs are first, first + 1, ...
    """

    size: int
    first: int
    documents: Path  # (n,) int64, in the order that decides: the plan's is ascending
    signatures: Signatures
    pairs: list[Path]  # that share a key: key_partitions.pairs_in; a pair may be in several
    # For each partition that has large buckets, (m, 2) int64: the keys that more than `candidates`
    # documents have, and the numbers of those documents, bucket after bucket, sorted.
    large: list[Path]


class LayoutTask(NamedTuple):
    """Consecutive tables whose signatures are laid out together: a task."""

    tables: list[ShardTables]
    dropped: Path  # int64, sorted
    order: Path | None  # PLACED; null: the plan's
    near: Near
    bits: int  # the first bits of a key that name its partition
    work: Path


class LaidOut(NamedTuple):
    """A group that is laid out: n documents that are not dropped and have a signature."""

    size: int
    folder: Path

    @property
    def numbers(self) -> Path:
        """Return (n,) int64: its documents; with an order, their places in it."""
        return self.folder / "numbers"

    @property
    def signatures(self) -> Path:
        """Return (n, k) uint32."""
        return self.folder / "signatures"

    def partition(self, place: int) -> Path:
        """Return (m, 2) int64: each key, and its row in the group; with an order, its place in
        that.
        """
        return self.folder / f"keys-{place:04d}"


def gather(
    tables: list[ShardTables],
    dropped: np.ndarray,
    near: Near,
    work: Path,
    *,
    executor: Executor,
    first: int = 0,
    order: Order | None = None,
    on_partition: OnPartition | None = None,
    large: bool = True,
) -> SignatureRows:
    """Lay out the signatures of all documents that are not `dropped` (sorted), and write the pairs
    of those that share a band key.

    Without an `order`, rows are those documents as the plan numbers them. With an order, rows are
    all documents; the dropped ones have no keys. `large` says whether to write the large buckets.
    """
    total = sum(pq.read_metadata(table.signatures).num_rows for table in tables)
    count, keys = total * near.bands, KEYS if on_partition is not None else KEYS // FINER
    bits = min(max(0, (count - 1) // keys).bit_length(), MOST_BITS)
    if on_partition is None:
        bits = max(bits, min(MANY_BITS, (count // LEAST).bit_length() - 1))
    dropped_file, of_order = work / "rows.dropped", order.path if order else None
    write_array(dropped_file, dropped)
    tasks = (
        LayoutTask(group, dropped_file, of_order, near, bits, work) for group in grouped(tables)
    )
    groups = [group for group in executor(lay_out, tasks) if group.size]
    begins = np.cumsum([0, *(group.size for group in groups)]).tolist()
    places = work / "rows.places" if order else None
    stored = Signatures([group.signatures for group in groups], begins[:-1], places)
    size = len(order.documents) if order and groups else begins[-1]
    rows = SignatureRows(size, first, work / "rows.documents", stored, [], [])
    _write_documents(rows.documents, groups, begins, order, work / "rows.places")
    bases = [first] * len(groups) if order else [first + begin for begin in begins[:-1]]
    waiting: deque[list[KeyFile]] = deque()

    def partitions() -> Iterator[PartitionTask]:
        for place in range(1 << bits):
            files = [
                KeyFile(group.partition(place), base)
                for group, base in zip(groups, bases, strict=True)
            ]
            if on_partition is not None:
                files += on_partition(place, files, rows.documents)
            waiting.append(files)
            yield PartitionTask(place, files, near.candidates, first, large, work)

    for pairs, of_large in executor(write_pairs, partitions()):
        rows.pairs.extend(pairs)
        rows.large.extend(of_large)
        for file in waiting.popleft():
            file.path.unlink()
    return rows


def _write_documents(
    target: Path, groups: list[LaidOut], begins: list[int], order: Order | None, places: Path
) -> None:
    """Write the document of each row; with an order, the place of each row's signature as well."""
    if order is None:
        _join([group.numbers for group in groups], target)
        return
    write_array(target, order.documents)
    of_rows = np.zeros(len(order.documents), np.int64)
    for group, begin in zip(groups, begins, strict=False):
        of_rows[np.fromfile(group.numbers, np.int64)] = np.arange(begin, begin + group.size)
        group.numbers.unlink()
    write_array(places, of_rows)


def lay_out(task: LayoutTask) -> LaidOut:
    """Write a group's documents, signatures and keys."""
    from gristmill.kernels.hashing import minhash

    near, group = task.near, LaidOut(0, fresh(task.work, "rows"))
    group.folder.mkdir()
    dropped = map_array(task.dropped, np.int64)
    count = 0
    buffer = _KeyBuffer(group, task.bits)
    with open(group.numbers, "wb") as numbers_of, open(group.signatures, "wb") as signatures:
        for table in task.tables:
            for batch in read_batches(table.signatures, ["document", "signature"]):
                kept = ~in_sorted(batch["document"].to_numpy(), dropped)
                batch = batch.filter(pc.and_(pa.array(kept), pc.is_valid(batch["signature"])))
                if not len(batch):
                    continue
                documents = np.ascontiguousarray(batch["document"].to_numpy())
                places = documents if task.order is None else read_places(task.order, documents)
                values = np.ascontiguousarray(view_rows(batch["signature"], np.uint32))
                scopes = np.full(len(batch), table.scope, np.uint64)
                keys = minhash.band_keys(values, scopes, bands=near.bands, rows=near.rows)
                buffer.add(
                    keys, np.arange(count, count + len(batch)) if task.order is None else places
                )
                numbers_of.write(places.data)
                signatures.write(values.data)
                count += len(batch)
    buffer.flush()
    return group._replace(size=count)


class _KeyBuffer:
    """Keys of a group on their way to the files of their partitions.

    These files are open only while they are written to: there may be 512 of them.
    """

    def __init__(self, group: LaidOut, bits: int) -> None:
        self._group, self._bits = group, bits
        self._waiting: list[list[np.ndarray]] = []
        self._count = 0

    def add(self, keys: np.ndarray, numbers: np.ndarray) -> None:
        """Take the keys (n, bands) of rows with numbers (n,)."""
        from gristmill.kernels.hashing.band_keys import split

        self._waiting.append(split(keys, numbers, bits=self._bits))
        self._count += keys.size
        if self._count >= HELD:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        for place, pieces in enumerate(zip(*self._waiting, strict=True)):
            with open(self._group.partition(place), "ab") as file:
                file.write(np.concatenate(pieces).data)
        self._waiting, self._count = [], 0


def _join(files: list[Path], target: Path) -> None:
    """Write files one after another into `target`, and remove them."""
    with open(target, "wb") as whole:
        for path in files:
            with open(path, "rb") as part:
                shutil.copyfileobj(part, whole, 1 << 20)
            path.unlink()
