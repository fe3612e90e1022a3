"""Which documents are duplicates of which: the rule, over a whole corpus, out of core.

    documents  -> urls.sql      equal URLs, where the recipe asks: all but the earliest go no further
    signatures -> exact.sql     equal normalised texts: the same
               -> rows          signatures by number, keys of bands                                       rows.py
               -> candidates    the first documents of each bucket, if signatures do not rule them out    candidates.py
               -> compare       exact Jaccard of the texts' shingles                                      compare.py
               -> decide        in document order: dropped if, and only if, at or above the threshold with an earlier document that
                                is kept; or, `group = "components"`, connected with an earlier one at all

What is held in memory is a chunk of pairs and some twenty bytes a document; the rest is on disk.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.candidates import find_candidates
from gristmill.dedup.compare import Shingles, involved_rows
from gristmill.dedup.database import Opener, Relations
from gristmill.dedup.rows import Rows, Table, gather, mapped
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.kernels import pairs
from gristmill.store.parts import read_batches

SAME_URL, EXACT, NEAR = "deduplicate.same_url", "deduplicate.exact_duplicate", "deduplicate.near_duplicate"

DROPS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("keeper", pa.int64(), nullable=False),
        pa.field("similarity", pa.float64(), nullable=False),
    ]
)
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
    pairs: Path  # PAIRS_FOUND: every pair that was compared, sorted by document and candidate


class Found(NamedTuple):
    """Arrays sorted by document."""

    documents: np.ndarray
    keepers: np.ndarray
    similarities: np.ndarray


def relate(
    tables: list[Table], settings: Deduplicate, work: Path, *, opener: Opener, tell: Callable[[int], None],
    gone: np.ndarray | None = None, known: pa.Table | None = None,
) -> Related:  # fmt: skip
    """Find all duplicates. `work` is for what is needed on the way; `opener` gives the engine of relations.

    `gone` (sorted int64) are documents to leave aside; `known` is a table of pairs found before, whose texts are not compared again.
    """
    work.mkdir(parents=True, exist_ok=True)
    gone = np.empty(0, np.int64) if gone is None else gone
    folders = [work, *{path.parent for table in tables for path in (table.signatures, table.documents)}]
    relations = partial(opener, work / "spill", folders)
    urls = _same(relations, "urls", tables, gone, work) if settings.url else _nothing()
    gone = np.union1d(gone, urls.documents)
    exact = _same(relations, "exact", tables, gone, work) if settings.exact else _nothing()
    near, found = _nothing(), work / "found.parquet"
    with pq.ParquetWriter(found, PAIRS_FOUND, compression="zstd") as writer:
        if settings.near is not None:
            rows = gather(tables, np.union1d(gone, exact.documents), settings.near, work)
            tell(rows.size)
            if rows.size:
                likely = find_candidates(relations, rows, settings.near, work)
                near = _near(tables, rows, settings.near, likely, known, writer)
    return Related(_merge(urls, exact, near), found)


def _nothing() -> Found:
    return Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))


def _same(
    relations: Callable[[], Relations], relation: str, tables: list[Table], gone: np.ndarray, work: Path
) -> Found:
    """Documents that share a URL (`urls.sql`) or a text's hash (`exact.sql`) with an earlier one."""
    pq.write_table(pa.table({"document": pa.array(gone)}), work / "gone.parquet")
    with relations() as connection:
        paths = {table.documents if relation == "urls" else table.signatures: table.scope for table in tables}
        columns = "document, url" if relation == "urls" else "document, text_hash"
        connection.table("every", paths, columns)
        connection.table("gone", [work / "gone.parquet"], "document")
        connection.view("left_over", "left")
        written = connection.write(relation, work / f"{relation}.parquet")
    table = pa.concat_tables(pq.read_table(path) for path in written)
    documents = table["document"].to_numpy()
    return Found(documents, table["keeper"].to_numpy(), np.ones(len(documents)))


def _near(
    tables: list[Table], rows: Rows, near: Near, likely: Path, known: pa.Table | None, writer: pq.ParquetWriter
) -> Found:
    """Compare all likely pairs, write them down as documents, and decide."""
    documents = mapped(rows.documents, np.int64)
    keepers, kept = np.full(rows.size, -1, np.int64), np.zeros(rows.size)
    parents = np.arange(rows.size) if near.group == "components" else None
    shingles: Shingles | None = None
    threshold = 0.0 if near.verify == "none" else near.threshold
    for one, other, similarities in _chunks(likely):
        if near.verify == "text":
            similarities = _known(known, documents[one], documents[other])
            new = np.isnan(similarities)
            if new.any():
                shingles = shingles or Shingles(
                    tables, rows, involved_rows(likely, rows.size), near, likely.with_suffix(".shingles")
                )
                similarities[new] = shingles.compare(one[new], other[new])
        columns = [pa.array(documents[one]), pa.array(documents[other]), pa.array(similarities)]
        writer.write_table(pa.table(columns, schema=PAIRS_FOUND))
        if parents is None:
            pairs.decide(keepers, kept, one, other, similarities, threshold=threshold)
        else:
            pairs.connect(parents, kept, one, other, similarities, threshold=threshold)
    if parents is not None:
        keepers = pairs.components(parents)
        keepers[keepers == np.arange(rows.size)] = -1
    gone = np.flatnonzero(keepers >= 0)
    return Found(documents[gone], documents[keepers[gone]], kept[gone])


def _chunks(likely: Path) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for batch in read_batches(likely):
        yield batch["document"].to_numpy(), batch["candidate"].to_numpy(), batch["agreement"].to_numpy().copy()


def _known(known: pa.Table | None, documents: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """The similarities that were found before, of pairs sorted by document and candidate; NaN: unknown."""
    similarities = np.full(len(documents), np.nan)
    if known is None or not len(known) or not len(documents):
        return similarities
    # Only what was known of these documents; the table is sorted as they are.
    low, high = np.searchsorted(known["document"].to_numpy(), [documents[0], documents[-1] + 1])
    part = known.slice(low, high - low)
    columns = [documents, candidates, part["document"].to_numpy(), part["candidate"].to_numpy()]
    numbers = np.unique(np.concatenate(columns))
    places = [np.searchsorted(numbers, column) for column in columns]
    wanted, here = places[0] * len(numbers) + places[1], places[2] * len(numbers) + places[3]
    if len(here):
        at = np.minimum(np.searchsorted(here, wanted), len(here) - 1)
        similarities = np.where(here[at] == wanted, part["similarity"].to_numpy()[at], np.nan)
    return similarities


def _merge(urls: Found, exact: Found, near: Found) -> pa.Table:
    """Point each copy at the document that stays in the end: a keeper may itself have gone for another one later on."""
    documents = np.concatenate([urls.documents, exact.documents, near.documents])
    keepers = np.concatenate([urls.keepers, exact.keepers, near.keepers])
    similarities = np.concatenate([urls.similarities, exact.similarities, near.similarities])
    names = (SAME_URL, EXACT, NEAR)
    reasons = np.repeat(np.arange(3, dtype=np.int8), [len(urls.documents), len(exact.documents), len(near.documents)])
    for reason, later in ((1, exact), (2, near)):
        if not len(later.documents) or not len(keepers):
            continue
        place = np.minimum(np.searchsorted(later.documents, keepers), len(later.documents) - 1)
        moved = later.documents[place] == keepers
        # A page of the same URL stays one, whatever became of the page that it gave way to.
        other = moved & (reasons != 0)
        reasons[other] = reason
        similarities[other] = later.similarities[place[other]]
        keepers[moved] = later.keepers[place[moved]]
    order = np.argsort(documents, kind="stable")
    columns = [
        pa.array(documents[order]), pa.array(names, pa.string()).take(pa.array(reasons[order])), pa.array(keepers[order]),
        pa.array(similarities[order]),
    ]  # fmt: skip
    return pa.table(columns, schema=DROPS)
