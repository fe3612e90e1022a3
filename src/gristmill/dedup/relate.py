"""Which documents are duplicates of which: the rule, over a whole corpus, out of core.

    signatures -> exact.sql            equal normalised texts: all but the earliest go no further
               -> band keys            a kernel; keys that surely occur once are dropped by two bitmaps
               -> buckets.sql, near.sql   candidates: the first four earlier documents of each bucket
               -> agreement            candidates whose signatures disagree too much are discarded unread
               -> texts                exact Jaccard of the texts' shingles for every pair that is left
               -> decide               one pass in document order: dropped if, and only if, at or above the threshold with an
                                       earlier document that is kept

What is held in memory is one chunk of pairs and eight bytes a document that stands in one; the rest is on disk.
"""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.columns import rows_of, utf8_buffers
from gristmill.dedup.database import Database, parquet
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.kernels import minhash, pairs
from gristmill.kernels.normalise import normalise
from gristmill.store.parts import read_batches

STANDARD_ERRORS = 4.0  # a candidate whose signature agrees so far below the threshold is not read
PAIRS = 1 << 17  # pairs looked at together
SHINGLES = 1 << 24  # shingle hashes held together (8 bytes each)

DROPS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("keeper", pa.int64(), nullable=False),
        pa.field("similarity", pa.float64(), nullable=False),
    ]
)


class Table(NamedTuple):
    """The signatures of one raw shard, and its documents."""

    signatures: Path
    documents: Path
    scope: int  # documents of different scopes are never compared


class Found(NamedTuple):
    """Arrays sorted by document."""

    documents: np.ndarray
    keepers: np.ndarray
    similarities: np.ndarray


def relate(
    tables: list[Table], settings: Deduplicate, work: Path, *, threads: int, memory_mb: int, tell: Callable[[int], None]
) -> pa.Table:
    """Find all duplicates: a table DROPS, sorted by document. `work` is for what is needed on the way."""
    work.mkdir(parents=True, exist_ok=True)
    folders = [work, *{table.signatures.parent for table in tables}]
    exact = _exact(tables, work, folders, threads, memory_mb) if settings.exact else _nothing()
    near = _nothing()
    if settings.near is not None:
        rows = _gather(tables, exact.documents, settings.near, work)
        tell(rows.size)
        if rows.size:
            with Database(work / "spill", folders, threads=threads, memory_mb=memory_mb) as database:
                database.view("keys", parquet([rows.keys], "key, document"))
                database.write("buckets", work / "buckets.parquet")
                database.view("ranked", parquet([work / "buckets.parquet"], "*"))
                database.write("near", work / "candidates.parquet")
            near = _near(tables, rows, settings.near, work)
    return _merge(exact, near)


def _nothing() -> Found:
    return Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))


def _exact(tables: list[Table], work: Path, folders: list[Path], threads: int, memory_mb: int) -> Found:
    with Database(work / "spill", folders, threads=threads, memory_mb=memory_mb) as database:
        paths = {table.signatures: table.scope for table in tables}
        database.view("hashes", parquet(paths, "document, text_hash"))
        database.write("exact", work / "exact.parquet")
    table = pq.read_table(work / "exact.parquet")
    documents = table["document"].to_numpy()
    return Found(documents, table["keeper"].to_numpy(), np.ones(len(documents)))


class _Rows(NamedTuple):
    """Signatures laid out for random access: row i is document i of `documents`."""

    size: int
    documents: Path  # int64, sorted
    signatures: Path  # uint32, permutations a row
    keys: Path  # Parquet: key, document


def _gather(tables: list[Table], gone: np.ndarray, near: Near, work: Path) -> _Rows:
    """Lay out the signatures of all documents that exact duplicates left, and write the keys that may occur twice."""
    rows = _Rows(0, work / "rows.documents", work / "rows.signatures", work / "keys.parquet")
    all_keys = work / "keys.all"
    total = sum(pq.read_metadata(table.signatures).num_rows for table in tables)
    repeated = pairs.Repeated(total * near.bands)
    count = 0
    with (
        open(rows.documents, "wb") as documents,
        open(rows.signatures, "wb") as signatures,
        open(all_keys, "wb") as keys,
    ):
        for table in tables:
            for batch in read_batches(table.signatures, ["document", "signature"]):
                numbers = batch["document"].to_numpy()
                stays = np.isin(numbers, gone, assume_unique=True, invert=True)
                batch = batch.filter(pc.and_(pa.array(stays), pc.is_valid(batch["signature"])))
                if not len(batch):
                    continue
                values = rows_of(batch["signature"], np.uint32)
                scopes = np.full(len(batch), table.scope, np.uint64)
                banded = minhash.band_keys(values, scopes, bands=near.bands, rows=near.rows)
                repeated.add(banded.reshape(-1).view(np.uint64))
                documents.write(np.ascontiguousarray(batch["document"].to_numpy()).data)
                signatures.write(np.ascontiguousarray(values).data)
                keys.write(banded.data)
                count += len(batch)
    schema = pa.schema([pa.field("key", pa.int64()), pa.field("document", pa.int64())])
    numbers = np.memmap(rows.documents, np.int64, "r") if count else np.empty(0, np.int64)
    step = max(1, (1 << 20) // near.bands)
    with open(all_keys, "rb") as keys, pq.ParquetWriter(rows.keys, schema, compression="none") as writer:
        for start in range(0, count, step):
            chunk = np.fromfile(keys, np.int64, min(step, count - start) * near.bands)
            mask = repeated.mask(chunk.view(np.uint64))
            owners = np.repeat(np.asarray(numbers[start : start + step]), near.bands)[mask]
            writer.write_table(pa.table([pa.array(chunk[mask]), pa.array(owners)], schema=schema))
    all_keys.unlink()
    return rows._replace(size=count)


def _chunks(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for batch in read_batches(path):
        for start in range(0, len(batch), PAIRS):
            part = batch.slice(start, PAIRS)
            yield part["document"].to_numpy(), part["candidate"].to_numpy()


def _likely(rows: _Rows, near: Near, work: Path) -> tuple[np.ndarray, np.ndarray]:
    """The candidate pairs whose signatures do not rule them out, as rows."""
    k = near.permutations
    error = math.sqrt(near.threshold * (1.0 - near.threshold) / k)
    least = math.ceil(k * (near.threshold - STANDARD_ERRORS * error))
    numbers = np.fromfile(rows.documents, np.int64)
    left: list[np.ndarray] = []
    right: list[np.ndarray] = []
    with open(rows.signatures, "rb") as file:
        for documents, candidates in _chunks(work / "candidates.parquet"):
            one, other = np.searchsorted(numbers, documents), np.searchsorted(numbers, candidates)
            wanted, places = np.unique(np.concatenate([one, other]), return_inverse=True)
            values = np.empty((len(wanted), k), np.uint32)
            view = values.data.cast("B")
            for place, row in enumerate(wanted.tolist()):
                os.preadv(file.fileno(), [view[place * 4 * k : (place + 1) * 4 * k]], row * 4 * k)
            same = pairs.agreement(values, places[: len(one)], places[len(one) :]) >= least
            left.append(documents[same])
            right.append(candidates[same])
    nothing = np.empty(0, np.int64)
    return np.concatenate([*left, nothing]), np.concatenate([*right, nothing])


def _near(tables: list[Table], rows: _Rows, near: Near, work: Path) -> Found:
    left, right = _likely(rows, near, work)
    if not len(left):
        return _nothing()
    involved = np.unique(np.concatenate([left, right]))
    bounds = _shingle(tables, involved, near.shingle, work / "shingles")
    one, other = np.searchsorted(involved, left), np.searchsorted(involved, right)
    similarities = np.empty(len(left))
    with open(work / "shingles", "rb") as file:
        for start, stop in _runs(bounds, one, other):
            wanted, places = np.unique(np.concatenate([one[start:stop], other[start:stop]]), return_inverse=True)
            offsets = np.zeros(len(wanted) + 1, np.int64)
            np.cumsum(bounds[wanted + 1] - bounds[wanted], out=offsets[1:])
            hashes = np.empty(offsets[-1], np.uint64)
            view = hashes.data.cast("B")
            for place, row in enumerate(wanted.tolist()):
                piece = view[8 * offsets[place] : 8 * offsets[place + 1]]
                if len(piece):
                    os.preadv(file.fileno(), [piece], 8 * int(bounds[row]))
            count = stop - start
            similarities[start:stop] = pairs.jaccard(offsets, hashes, places[:count], places[count:])
    keepers, found = pairs.decide(len(involved), one, other, similarities, threshold=near.threshold)
    gone = keepers >= 0
    return Found(involved[gone], involved[keepers[gone]], found[gone])


def _runs(bounds: np.ndarray, one: np.ndarray, other: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut the pairs into runs that need no more than SHINGLES hashes, or of one pair."""
    sizes = np.cumsum((bounds[one + 1] - bounds[one]) + (bounds[other + 1] - bounds[other]))
    start = 0
    while start < len(one):
        base = int(sizes[start - 1]) if start else 0
        stop = min(int(np.searchsorted(sizes, base + SHINGLES, "right")), start + PAIRS)
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _shingle(tables: list[Table], involved: np.ndarray, width: int, target: Path) -> np.ndarray:
    """Write the distinct shingle hashes of the documents that stand in a pair; return where each begins, (n + 1,) int64."""
    sizes = [np.zeros(1, np.int64)]
    with open(target, "wb") as file:
        for table in tables:
            with pq.ParquetFile(table.documents, pre_buffer=False) as documents:
                for group in range(documents.num_row_groups):
                    statistics = documents.metadata.row_group(group).column(0).statistics
                    if statistics is not None and statistics.has_min_max:
                        low, high = np.searchsorted(involved, [statistics.min, statistics.max + 1])
                        if low == high:
                            continue
                    whole = documents.read_row_group(group, columns=["document", "text"], use_threads=False)
                    for batch in whole.to_batches(max_chunksize=4096):
                        mask = np.isin(batch["document"].to_numpy(), involved, assume_unique=True)
                        if not mask.any():
                            continue
                        texts = batch["text"].filter(pa.array(mask))
                        offsets, hashes = minhash.distinct_shingles(*normalise(*utf8_buffers(texts)), width=width)
                        file.write(hashes.data)
                        sizes.append(np.diff(offsets))
    return np.cumsum(np.concatenate(sizes))


def _merge(exact: Found, near: Found) -> pa.Table:
    """Point each exact copy at the document that stays in the end, at its similarity to that."""
    keepers, similarities = exact.keepers.copy(), exact.similarities.copy()
    if len(near.documents) and len(keepers):
        place = np.minimum(np.searchsorted(near.documents, keepers), len(near.documents) - 1)
        moved = near.documents[place] == keepers
        keepers[moved] = near.keepers[place[moved]]
        similarities[moved] = near.similarities[place[moved]]
        exact_reason = np.where(moved, NEAR, EXACT)
    else:
        exact_reason = np.full(len(keepers), EXACT, object)
    documents = np.concatenate([exact.documents, near.documents])
    order = np.argsort(documents, kind="stable")
    reasons = np.concatenate([exact_reason.astype(object), np.full(len(near.documents), NEAR, object)])
    return pa.table(
        [
            pa.array(documents[order]),
            pa.array(reasons[order], pa.string()),
            pa.array(np.concatenate([keepers, near.keepers])[order]),
            pa.array(np.concatenate([similarities, near.similarities])[order]),
        ],
        schema=DROPS,
    )


EXACT, NEAR = "deduplicate.exact_duplicate", "deduplicate.near_duplicate"
