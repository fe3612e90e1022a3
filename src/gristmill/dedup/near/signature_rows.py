"""Signatures laid out for the near stage, out of core, a task for each group of shards and for each
cut (executor.py).

    signatures of a group of shards -> documents and signatures, random access    row r is the r-th
        document in the order that decides
                                    -> keys of bands, cut by their first bits
    the same cut of all groups      -> those keys that may occur twice

Up to 512 cuts of 8.4 M keys a cut is as large whatever the corpus is; only how many there are grows
with it. So do time and disk, linearly, and memory, that of a task (some 90 MB), does not; with an
order, 16 bytes a document do. All of one bucket lies in one cut.
"""

import mmap
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.columns import rows_of
from gristmill.dedup.order import Order
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh
from gristmill.store.parts import read_batches

KEYS = 1 << 23  # keys of one cut, before those that occur once are left out
MOST_BITS = 9  # 512 cuts; beyond 134 M documents of 32 bands cuts grow instead
GROUP = 1 << 17  # documents of a group of tables, or more: the last table is whole
HELD = 1 << 20  # keys that a task holds before it opens the file of each cut
CHUNK = 1 << 19  # keys looked at together
LARGE = 1 << 20  # keys of large buckets sorted together, or one bucket's
GAP, SPAN = (
    16,
    2048,
)  # so many rows that nobody asked for are read along, of so many that are asked for

KEY_ROWS = pa.schema([pa.field("key", pa.int64()), pa.field("document", pa.int64())])


class Table(NamedTuple):
    """The signatures of one raw shard, and its documents."""

    signatures: Path
    documents: Path
    scope: int  # documents of different scopes are never compared
    measures: Path | None = None  # what an order may ask for


class Signatures(NamedTuple):
    """The signatures of rows, in files one after another."""

    files: list[Path]  # (m, k) uint32 each
    begins: list[int]  # of each file, its first signature's place among all
    places: Path | None  # (n,) int64: the place of each row's signature; null: the row itself

    def read(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Fill out (n, k) uint32 with the signatures of rows (n,), sorted, each once."""
        if self.places is None:
            self._read(rows, out)
        else:
            places = mapped(self.places, np.int64)[rows]
            order = np.argsort(places)
            found = np.empty_like(out)
            self._read(places[order], found)
            out[order] = found

    def _read(self, places: np.ndarray, out: np.ndarray) -> None:
        bounds = [*np.searchsorted(places, self.begins).tolist(), len(places)]
        for path, begin, start, stop in zip(
            self.files, self.begins, bounds[:-1], bounds[1:], strict=True
        ):
            if start < stop:
                read_rows(path, places[start:stop] - begin, out[start:stop])


class Rows(NamedTuple):
    """What is compared: n documents with a signature each.

    Their numbers among the keys are first, first + 1, ...
    """

    size: int
    first: int
    documents: Path  # (n,) int64, in the order that decides: the plan's is ascending
    signatures: Signatures
    keys: list[Path]  # Parquet files, KEY_ROWS: no key stands in two of them
    large: list[
        Path
        # (m, 2) int64: keys that more than `candidates` documents have, and their numbers; sorted;
        # of each cut that has any
    ]


class Piece(NamedTuple):
    """Keys of one cut, and their documents' numbers: a file, (m, 2) int64."""

    path: Path
    base: int  # what its numbers are counted from


class Group(NamedTuple):
    """Consecutive tables whose signatures are laid out together: a task."""

    tables: list[Table]
    gone: Path  # int64, sorted
    order: Path | None  # PLACED; null: the plan's
    near: Near
    bits: int  # of keys, that say which cut they are of
    work: Path


class Laid(NamedTuple):
    """A group that is laid out: n documents that are not gone and have a signature."""

    size: int
    folder: Path

    @property
    def numbers(self) -> Path:
        """(n,) int64: its documents; with an order, their places in it."""
        return self.folder / "numbers"

    @property
    def signatures(self) -> Path:
        """(n, k) uint32."""
        return self.folder / "signatures"

    def cut(self, place: int) -> Path:
        """(m, 2) int64: keys, and of each its row in the group; with an order, its place in
        that.
        """
        return self.folder / f"keys-{place:04d}"


def gather(
    tables: list[Table],
    gone: np.ndarray,
    near: Near,
    work: Path,
    *,
    executor: Executor,
    first: int = 0,
    order: Order | None = None,
    visit: Callable[[int, list[Piece], Path], list[Piece]] | None = None,
    large: bool = True,
) -> Rows:
    """Lay out the signatures of all documents but those `gone` (sorted), and the keys of their
    bands that may occur twice.

    Without an `order`, rows are those documents as the plan numbers them; with one, all documents,
    those that are gone without a key. `visit` is shown each cut with all its keys, and the file of
    documents: (number of the cut, the cut, documents). It gives more keys of the cut. `large` says
    whether large buckets are told apart.
    """
    total = sum(pq.read_metadata(table.signatures).num_rows for table in tables)
    bits = min(max(0, (total * near.bands - 1) // KEYS).bit_length(), MOST_BITS)
    left, of_order = work / "rows.gone", order.path if order else None
    write_array(left, gone)
    groups = (Group(group, left, of_order, near, bits, work) for group in grouped(tables))
    laid = [group for group in executor(lay_out, groups) if group.size]
    begins = np.cumsum([0, *(group.size for group in laid)]).tolist()
    places = work / "rows.places" if order else None
    stored = Signatures([group.signatures for group in laid], begins[:-1], places)
    rows = Rows(
        len(order.documents) if order and laid else begins[-1],
        first,
        work / "rows.documents",
        stored,
        [],
        [],
    )
    if order:
        write_array(rows.documents, order.documents)
        where = np.zeros(len(order.documents), np.int64)
        for group, begin in zip(laid, begins, strict=False):
            where[np.fromfile(group.numbers, np.int64)] = np.arange(begin, begin + group.size)
            group.numbers.unlink()
        write_array(work / "rows.places", where)
    else:
        _join([group.numbers for group in laid], rows.documents)
    bases = [first] * len(laid) if order else [first + begin for begin in begins[:-1]]
    waiting: deque[list[Piece]] = deque()

    def cuts() -> Iterator[Cut]:
        for place in range(1 << bits):
            pieces = [
                Piece(group.cut(place), base) for group, base in zip(laid, bases, strict=True)
            ]
            if visit is not None:
                pieces += visit(place, pieces, rows.documents)
            waiting.append(pieces)
            yield Cut(place, pieces, near.candidates if large else None, work)

    for keys, of_large in executor(leave_out_single, cuts()):
        rows.keys.append(keys)
        rows.large.extend(of_large)
        for piece in waiting.popleft():
            piece.path.unlink()
    return rows


def grouped(tables: list[Table]) -> Iterator[list[Table]]:
    """Consecutive tables, of GROUP documents or a little more together; the last of fewer."""
    group: list[Table] = []
    size = 0
    for table in tables:
        group.append(table)
        size += pq.read_metadata(table.signatures).num_rows
        if size >= GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def lay_out(task: Group) -> Laid:
    """Write a group's documents, signatures and keys."""
    from gristmill.kernels.hashing import minhash

    near, laid = task.near, Laid(0, fresh(task.work, "rows"))
    laid.folder.mkdir()
    gone = mapped(task.gone, np.int64)
    count = 0
    held = _Held(laid, task.bits)
    with open(laid.numbers, "wb") as numbers_of, open(laid.signatures, "wb") as signatures:
        for table in task.tables:
            for batch in read_batches(table.signatures, ["document", "signature"]):
                stays = ~among(batch["document"].to_numpy(), gone)
                batch = batch.filter(pc.and_(pa.array(stays), pc.is_valid(batch["signature"])))
                if not len(batch):
                    continue
                documents = np.ascontiguousarray(batch["document"].to_numpy())
                places = documents if task.order is None else read_places(task.order, documents)
                values = np.ascontiguousarray(rows_of(batch["signature"], np.uint32))
                scopes = np.full(len(batch), table.scope, np.uint64)
                banded = minhash.band_keys(values, scopes, bands=near.bands, rows=near.rows)
                held.add(
                    banded, np.arange(count, count + len(batch)) if task.order is None else places
                )
                numbers_of.write(places.data)
                signatures.write(values.data)
                count += len(batch)
    held.flush()
    return laid._replace(size=count)


class _Held:
    """Keys of a group on their way to the files of their cuts, which are open only while they are
    written to.
    """

    def __init__(self, laid: Laid, bits: int) -> None:
        self._laid, self._bits = laid, bits
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
            with open(self._laid.cut(place), "ab") as file:
                file.writelines(piece.data for piece in pieces)
        self._waiting, self._count = [], 0


def _join(files: list[Path], target: Path) -> None:
    """Write files one after another, and remove them."""
    with open(target, "wb") as whole:
        for path in files:
            with open(path, "rb") as part:
                shutil.copyfileobj(part, whole, 1 << 20)
            path.unlink()


class Cut(NamedTuple):
    """All keys of one cut: a task."""

    place: int
    pieces: list[Piece]
    candidates: int | None  # a bucket of more documents is large; null: none is
    work: Path


def leave_out_single(cut: Cut) -> tuple[Path, list[Path]]:
    """Write the keys of a cut that may occur twice, KEY_ROWS; those that surely occur once make no
    pair. Beside them its large buckets, if any.
    """
    from gristmill.kernels.hashing.band_keys import Repeated

    target = fresh(cut.work, f"keys-{cut.place:04d}")
    repeated = Repeated(keys_of(cut.pieces))
    for chunk in chunks(cut.pieces):
        repeated.add(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))
    held: list[np.ndarray] = []
    with pq.ParquetWriter(target, KEY_ROWS, compression="none", use_dictionary=False) as writer:
        for chunk in chunks(cut.pieces):
            chunk = chunk[repeated.mask(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))]
            columns = [pa.array(np.ascontiguousarray(chunk[:, place])) for place in range(2)]
            writer.write_table(pa.table(columns, schema=KEY_ROWS))
            if cut.candidates is not None:
                held.append(columns[0].to_numpy())
    del repeated
    return target, [] if cut.candidates is None else _write_large(cut, target, held)


def _write_large(cut: Cut, keys: Path, held: list[np.ndarray]) -> list[Path]:
    """Write the buckets of more than `candidates` documents; `held` are the keys of the file
    `keys`, and is emptied.
    """
    every = np.concatenate([*held, np.empty(0, np.int64)])
    held.clear()
    every.sort()
    most = cut.candidates or 0
    # A key that stands `most` places behind itself.
    often = np.unique(every[most:][every[most:] == every[: max(len(every) - most, 0)]])
    if not len(often):
        return []
    every = every[among(every, often)]
    bounds = np.unique(np.append(np.searchsorted(often, every[::LARGE]), len(often))).tolist()
    del every
    target = fresh(cut.work, f"large-{cut.place:04d}")
    with open(target, "wb") as file:
        for low, high in pairwise(bounds):
            found = []
            for batch in read_batches(keys):
                key, number = (column.to_numpy() for column in batch.columns)
                stands = among(key, often[low:high])
                found.append(np.stack([key[stands], number[stands]], axis=1))
            part = np.concatenate(found)
            file.write(np.ascontiguousarray(part[np.lexsort((part[:, 1], part[:, 0]))]).data)
    return [target]


def keys_of(cut: list[Piece]) -> int:
    """How many keys a cut has."""
    return sum(piece.path.stat().st_size for piece in cut) // 16


def chunks(cut: list[Piece]) -> Iterator[np.ndarray]:
    """A cut in chunks: (n, 2) int64, key and number. All but the last are of CHUNK keys."""
    chunk, count = np.empty((CHUNK, 2), np.int64), 0
    for piece in cut:
        with open(piece.path, "rb") as file:
            while read := file.readinto(chunk[count:].data.cast("B")) // 16:
                chunk[count : count + read, 1] += piece.base
                count += read
                if count == CHUNK:
                    yield chunk
                    chunk, count = np.empty((CHUNK, 2), np.int64), 0
    if count:
        yield chunk[:count]


def among(documents: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Of documents which stand among others, which are sorted: (n,) bool. Time goes with the
    documents, not the others.
    """
    if not len(others):
        return np.zeros(len(documents), bool)
    places = np.minimum(np.searchsorted(others, documents), len(others) - 1)
    return np.asarray(others[places] == documents)


def read_documents(
    path: Path, documents: np.ndarray, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of some documents (sorted int64) in a table sorted by document, in order; null: all
    columns.

    One row group is in memory, where it has any of them.
    """
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            statistics = file.metadata.row_group(group).column(0).statistics
            if statistics is None or not statistics.has_min_max:
                continue  # no row
            low, high = np.searchsorted(documents, [statistics.min, statistics.max + 1])
            if low < high:
                for batch in file.read_row_group(
                    group, columns=columns, use_threads=False
                ).to_batches(max_chunksize=4096):
                    mask = among(batch["document"].to_numpy(), documents[low:high])
                    if mask.any():
                        yield batch.filter(pa.array(mask))


def read_places(order: Path, documents: np.ndarray) -> np.ndarray:
    """Where documents (n,), sorted, stand in an order (PLACED): (n,) int64."""
    found = [
        batch["place"].to_numpy()
        for batch in read_documents(order, documents, ["document", "place"])
    ]
    return np.concatenate(found)


def read_rows(path: Path, rows: np.ndarray, out: np.ndarray) -> None:
    """Fill out (n, width) uint32 with rows (n,), sorted, each once, of a file of as many in a row.

    A map would be shorter, and hold sixteen pages for each that is touched: a kernel maps what lies
    around a page as well.
    """
    width = out.shape[1]
    breaks = np.flatnonzero(np.diff(rows) > GAP) + 1
    ends = np.append(np.union1d(breaks, np.arange(SPAN, len(rows), SPAN)), len(rows)).tolist()
    start = 0
    with open(path, "rb") as file:
        for stop in ends if len(rows) else ():
            first, last = int(rows[start]), int(rows[stop - 1])
            if last - first == stop - start - 1:
                os.preadv(file.fileno(), [out[start:stop].data.cast("B")], 4 * width * first)
            else:
                span = np.empty((last - first + 1, width), np.uint32)
                os.preadv(file.fileno(), [span.data.cast("B")], 4 * width * first)
                out[start:stop] = span[rows[start:stop] - first]
            start = stop


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array as a file.

    A full disk is an OSError with its number, which numpy's own `tofile` does not tell.
    """
    path.write_bytes(np.ascontiguousarray(array).data)


def mapped(path: Path, kind: Any, width: int = 1) -> np.ndarray:
    """A file of numbers, `width` in a row, as it rests on disk.

    Pages that are touched count as memory while the array lives: map anew for each piece of work.
    """
    if path.stat().st_size == 0:
        flat = np.empty(0, kind)
    else:
        with open(path, "rb") as file:
            flat = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), kind)
    return flat if width == 1 else flat.reshape(-1, width)
