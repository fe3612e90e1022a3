"""Signatures laid out for the near stage, out of core.

    signatures of all shards -> rows: document and signature, random access      row r is the r-th document in the order that decides
                             -> keys of bands, cut by their first bits            and of each cut those that may occur twice

Up to 512 cuts of 8.4 M keys a cut is as large whatever the corpus is; only how many there are grows with it. So do time and disk, linearly, and
memory does not. All of one bucket lies in one cut.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.columns import rows_of
from gristmill.dedup.order import Order
from gristmill.dedup.settings import Near
from gristmill.kernels import minhash
from gristmill.kernels.keys import Repeated, split
from gristmill.store.parts import read_batches

KEYS = 1 << 23  # keys of one cut, before those that occur once are left out
MOST_BITS = 9  # 512 cuts are 512 open files; beyond 134 M documents of 32 bands cuts grow instead
CHUNK = 1 << 21  # keys looked at together
GAP, SPAN = 16, 2048  # so many rows that nobody asked for are read along, of so many that are asked for

KEY_ROWS = pa.schema([pa.field("key", pa.int64()), pa.field("document", pa.int64())])


class Table(NamedTuple):
    """The signatures of one raw shard, and its documents."""

    signatures: Path
    documents: Path
    scope: int  # documents of different scopes are never compared
    measures: Path | None = None  # what an order may ask for


class Rows(NamedTuple):
    """What is compared: n documents with a signature each. Their numbers among the keys are first, first + 1, ..."""

    size: int
    first: int
    documents: Path  # (n,) int64, in the order that decides: the plan's is ascending
    signatures: Path  # (n, k) uint32
    keys: list[Path]  # Parquet files, KEY_ROWS: no key stands in two of them


def gather(
    tables: list[Table], gone: np.ndarray, near: Near, work: Path, *, first: int = 0, order: Order | None = None,
    visit: Callable[[int, Path, Path], None] | None = None,
) -> Rows:  # fmt: skip
    """Lay out the signatures of all documents but those `gone` (sorted), and the keys of their bands that may occur twice.

    Without an `order`, rows are those documents as the plan numbers them; with one, all documents, those that are gone without a key.
    `visit` is shown each cut with all its keys, and the file of documents: (number of the cut, the cut, documents). It may add keys.
    """
    total = sum(pq.read_metadata(table.signatures).num_rows for table in tables)
    bits = min(max(0, (total * near.bands - 1) // KEYS).bit_length(), MOST_BITS)
    cuts = [work / f"keys-{part:04d}.cut" for part in range(1 << bits)]
    rows = Rows(
        0, first, work / "rows.documents", work / "rows.signatures", [cut.with_suffix(".parquet") for cut in cuts]
    )
    count = 0
    laid = _Ordered(rows, order, near.numbers) if order else _Appended(rows)
    files = [open(path, "wb") for path in cuts]
    try:
        for table in tables:
            for batch in read_batches(table.signatures, ["document", "signature"]):
                stays = ~among(batch["document"].to_numpy(), gone)
                batch = batch.filter(pc.and_(pa.array(stays), pc.is_valid(batch["signature"])))
                if not len(batch):
                    continue
                values = rows_of(batch["signature"], np.uint32)
                scopes = np.full(len(batch), table.scope, np.uint64)
                banded = minhash.band_keys(values, scopes, bands=near.bands, rows=near.rows)
                numbers = first + laid.put(batch["document"].to_numpy(), values)
                for file, piece in zip(files, split(banded, numbers, bits=bits), strict=True):
                    file.write(piece.data)
                count += len(batch)
    finally:
        laid.close()
        for file in files:
            file.close()
    for place, (cut, target) in enumerate(zip(cuts, rows.keys, strict=True)):
        if visit is not None:
            visit(place, cut, rows.documents)
        _leave_out_single(cut, target)
        cut.unlink()
    return rows._replace(size=len(order.documents) if order and count else count)


class _Appended:
    """Rows as they come."""

    def __init__(self, rows: Rows) -> None:
        self._documents, self._signatures = open(rows.documents, "wb"), open(rows.signatures, "wb")
        self._count = 0

    def put(self, documents: np.ndarray, signatures: np.ndarray) -> np.ndarray:
        """Write rows down; which they are, (n,) int64."""
        self._documents.write(np.ascontiguousarray(documents).data)
        self._signatures.write(np.ascontiguousarray(signatures).data)
        first, self._count = self._count, self._count + len(documents)
        return np.arange(first, self._count)

    def close(self) -> None:
        self._documents.close()
        self._signatures.close()


class _Ordered:
    """Rows at their places in an order; those that never come are holes in the file."""

    def __init__(self, rows: Rows, order: Order, width: int) -> None:
        order.documents.tofile(rows.documents)
        self._order, self._width, self._path = order, width, rows.signatures
        with open(rows.signatures, "wb") as file:
            file.truncate(4 * width * len(order.documents))

    def put(self, documents: np.ndarray, signatures: np.ndarray) -> np.ndarray:
        """Write rows down; which they are, (n,) int64."""
        places = self._order.places(documents)
        with open(self._path, "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
            whole = np.frombuffer(pages, np.uint32).reshape(-1, self._width)
            whole[places] = signatures
            del whole  # a map cannot be closed while it is looked at
        return places

    def close(self) -> None:
        """Nothing is open."""


def _leave_out_single(cut: Path, target: Path) -> None:
    """Write the keys of a cut that may occur twice; those that surely occur once make no pair."""
    repeated = Repeated(cut.stat().st_size // 16)
    for chunk in chunks(cut):
        repeated.add(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))
    with pq.ParquetWriter(target, KEY_ROWS, compression="none", use_dictionary=False) as writer:
        for chunk in chunks(cut):
            chunk = chunk[repeated.mask(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))]
            columns = [pa.array(np.ascontiguousarray(chunk[:, place])) for place in range(2)]
            writer.write_table(pa.table(columns, schema=KEY_ROWS))


def chunks(cut: Path) -> Iterator[np.ndarray]:
    """A cut in pieces: (n, 2) int64, key and number."""
    with open(cut, "rb") as file:
        while len(chunk := np.fromfile(file, np.int64, 2 * CHUNK)):
            yield chunk.reshape(-1, 2)


def among(documents: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Of sorted documents which stand among others, sorted as well: (n,) bool. Time goes with the documents, not the others."""
    if not len(others):
        return np.zeros(len(documents), bool)
    places = np.minimum(np.searchsorted(others, documents), len(others) - 1)
    return np.asarray(others[places] == documents)


def read_documents(path: Path, documents: np.ndarray, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of some documents (sorted int64) in a table sorted by document, in order; null: all columns.

    One row group is in memory, where it has any of them.
    """
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            statistics = file.metadata.row_group(group).column(0).statistics
            if statistics is None or not statistics.has_min_max:
                continue  # no row
            low, high = np.searchsorted(documents, [statistics.min, statistics.max + 1])
            if low < high:
                for batch in file.read_row_group(group, columns=columns, use_threads=False).to_batches(
                    max_chunksize=4096
                ):
                    mask = among(batch["document"].to_numpy(), documents[low:high])
                    if mask.any():
                        yield batch.filter(pa.array(mask))


def read_rows(path: Path, rows: np.ndarray, width: int) -> np.ndarray:
    """Rows (sorted, each once) of a file of uint32, `width` in a row: (n, width).

    A map would be shorter, and hold sixteen pages for each that is touched: a kernel maps what lies around a page as well.
    """
    out = np.empty((len(rows), width), np.uint32)
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
    return out


def mapped(path: Path, kind: Any, width: int = 1) -> np.ndarray:
    """A file of numbers, `width` in a row, as it rests on disk. Pages that are touched count as memory while the array lives: map anew
    for each piece of work.
    """
    if path.stat().st_size == 0:
        flat = np.empty(0, kind)
    else:
        with open(path, "rb") as file:
            flat = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), kind)
    return flat if width == 1 else flat.reshape(-1, width)
