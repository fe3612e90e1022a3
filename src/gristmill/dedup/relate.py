"""Which documents are duplicates of which: the rule, over a whole corpus, out of core.

    documents  -> urls.sql             equal URLs, where the recipe asks: all but the earliest go no further
    signatures -> exact.sql            equal normalised texts: the same
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
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.columns import rows_of, utf8_buffers
from gristmill.dedup.database import Database, parquet, sql
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


PAIRS_FOUND = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("candidate", pa.int64(), nullable=False),
        pa.field("similarity", pa.float64(), nullable=False),
    ]
)


class Related(NamedTuple):
    """What a corpus' documents are to each other."""

    drops: pa.Table  # DROPS, sorted by document
    pairs: pa.Table  # PAIRS_FOUND: every pair whose texts were compared, sorted by document and candidate


class Found(NamedTuple):
    """Arrays sorted by document."""

    documents: np.ndarray
    keepers: np.ndarray
    similarities: np.ndarray


def relate(
    tables: list[Table], settings: Deduplicate, work: Path, *, threads: int, memory_mb: int, tell: Callable[[int], None],
    gone: np.ndarray | None = None, known: pa.Table | None = None,
) -> Related:  # fmt: skip
    """Find all duplicates. `work` is for what is needed on the way.

    `gone` (sorted int64) are documents to leave aside; `known` is a table of pairs found before, whose texts are not compared again.
    """
    work.mkdir(parents=True, exist_ok=True)
    gone = np.empty(0, np.int64) if gone is None else gone
    folders = [work, *{path.parent for table in tables for path in (table.signatures, table.documents)}]
    database = partial(Database, work / "spill", folders, threads=threads, memory_mb=memory_mb)
    urls = _same(database, "urls", tables, gone, work) if settings.url else _nothing()
    gone = np.union1d(gone, urls.documents)
    exact = _same(database, "exact", tables, gone, work) if settings.exact else _nothing()
    near, pairs = _nothing(), PAIRS_FOUND.empty_table()
    if settings.near is not None:
        rows = _gather(tables, np.union1d(gone, exact.documents), settings.near, work)
        tell(rows.size)
        if rows.size:
            with database() as connection:
                connection.view("keys", parquet([rows.keys], "key, document"))
                connection.write("buckets", work / "buckets.parquet")
                connection.view("ranked", parquet([work / "buckets.parquet"], "*"))
                connection.write("near", work / "candidates.parquet")
            near, pairs = _near(tables, rows, settings.near, work, known)
    return Related(_merge(urls, exact, near), pairs)


def _nothing() -> Found:
    return Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))


def _same(database: Callable[[], Database], relation: str, tables: list[Table], gone: np.ndarray, work: Path) -> Found:
    """Documents that share a URL (`urls.sql`) or a text's hash (`exact.sql`) with an earlier one."""
    pq.write_table(pa.table({"document": pa.array(gone)}), work / "gone.parquet")
    target = work / f"{relation}.parquet"
    with database() as connection:
        paths = {table.documents if relation == "urls" else table.signatures: table.scope for table in tables}
        columns = "document, url" if relation == "urls" else "document, text_hash"
        connection.view("every", parquet(paths, columns))
        connection.view("gone", parquet([work / "gone.parquet"], "document"))
        connection.view("left_over", sql("left"))
        connection.write(relation, target)
    table = pq.read_table(target)
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


def _near(tables: list[Table], rows: _Rows, near: Near, work: Path, known: pa.Table | None) -> tuple[Found, pa.Table]:
    left, right = _likely(rows, near, work)
    if not len(left):
        return _nothing(), PAIRS_FOUND.empty_table()
    involved = np.unique(np.concatenate([left, right]))
    one, other = np.searchsorted(involved, left), np.searchsorted(involved, right)
    similarities = _known(known, involved, one, other)
    new = np.flatnonzero(np.isnan(similarities))
    if len(new):
        some = np.unique(np.concatenate([one[new], other[new]]))
        similarities[new] = _compare(
            tables, involved[some], np.searchsorted(some, one[new]), np.searchsorted(some, other[new]), near, work
        )
    keepers, found = pairs.decide(len(involved), one, other, similarities, threshold=near.threshold)
    gone = keepers >= 0
    compared = pa.table([pa.array(left), pa.array(right), pa.array(similarities)], schema=PAIRS_FOUND)
    return Found(involved[gone], involved[keepers[gone]], found[gone]), compared


def _known(known: pa.Table | None, involved: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The similarities that were found before, of pairs given as places in `involved`; NaN: unknown."""
    similarities = np.full(len(one), np.nan)
    if known is None or not len(known):
        return similarities
    columns = [known[name].to_numpy() for name in ("document", "candidate")]
    places = [np.minimum(np.searchsorted(involved, column), len(involved) - 1) for column in columns]
    here = (involved[places[0]] == columns[0]) & (involved[places[1]] == columns[1])
    keys = places[0][here] * len(involved) + places[1][here]  # ascending: the table is sorted by both
    if len(keys):
        wanted = one * len(involved) + other
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = keys[at] == wanted
        similarities[hit] = known["similarity"].to_numpy()[here][at[hit]]
    return similarities


def _compare(
    tables: list[Table], involved: np.ndarray, one: np.ndarray, other: np.ndarray, near: Near, work: Path
) -> np.ndarray:
    """The exact Jaccard similarity of the texts of pairs given as places in `involved`."""
    bounds = _shingle(tables, involved, near.shingle, work / "shingles")
    similarities = np.empty(len(one))
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
    return similarities


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


def _merge(urls: Found, exact: Found, near: Found) -> pa.Table:
    """Point each copy at the document that stays in the end: a keeper may itself have gone for another one later on."""
    documents = np.concatenate([urls.documents, exact.documents, near.documents])
    keepers = np.concatenate([urls.keepers, exact.keepers, near.keepers])
    similarities = np.concatenate([urls.similarities, exact.similarities, near.similarities])
    lengths = [len(urls.documents), len(exact.documents), len(near.documents)]
    reasons = np.repeat(np.array([SAME_URL, EXACT, NEAR], object), lengths)
    for later, reason in ((exact, EXACT), (near, NEAR)):
        if not len(later.documents) or not len(keepers):
            continue
        place = np.minimum(np.searchsorted(later.documents, keepers), len(later.documents) - 1)
        moved = later.documents[place] == keepers
        # A page of the same URL stays one, whatever became of the page that it gave way to.
        reasons[moved & (reasons != SAME_URL)] = reason
        similarities[moved & (reasons != SAME_URL)] = later.similarities[place[moved & (reasons != SAME_URL)]]
        keepers[moved] = later.keepers[place[moved]]
    order = np.argsort(documents, kind="stable")
    columns = (documents, reasons, keepers, similarities)
    return pa.table(
        [pa.array(column[order], kind.type) for column, kind in zip(columns, DROPS, strict=True)], schema=DROPS
    )


SAME_URL, EXACT, NEAR = "deduplicate.same_url", "deduplicate.exact_duplicate", "deduplicate.near_duplicate"
