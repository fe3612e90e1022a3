"""Clusters: a keeper and the documents that name it; and the guard that stops a run where one of
them is too large.

    copies   -> largest    the clusters of most documents
    verdicts -> members    how many documents name a keeper, and a seeded sample of them
    copies   -> guard      [deduplicate] largest_cluster: asked after the verdicts are written, so
                           that there is something to look at

All of it streams: a row group is in memory, and what is asked for. The guard reads what deduplicate
has written and is in no content key: another limit is asked of the same bytes.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus.corpus import Corpus
from gristmill.dedup.shard_tables import read_documents
from gristmill.errors import Damaged, RecipeError
from gristmill.store.parts import read_batches
from gristmill.store.proof import proven
from gristmill.tables import schema
from gristmill.tables.schema import shard_name

TABLE = "duplicates/copies.parquet"
# documents: no cluster up to this size stops a run, whatever its share; of ten documents, three are
# no template
LEAST = 100
SEED = 0x636F70696573  # of samples: the same documents every time
NAMED = ["document", "reason", "keeper", "similarity", "keeper_corpus"]


class Cluster(NamedTuple):
    """A keeper, and how many documents it and its copies are."""

    keeper: int
    documents: int


def forget_stopped(corpus: Corpus) -> None:
    """Forget the clusters of a run that the guard stopped: another recipe's corpus is the finished
    one.
    """
    (corpus.stage / TABLE).unlink(missing_ok=True)


def found_in(corpus: Corpus, table: str = TABLE) -> Path:
    """Return a table as deduplicate wrote it, that of copies by default. Raises Damaged."""
    record = corpus.last("deduplicate", "all")
    if record is None:
        raise Damaged(f"{corpus.work}: the record of deduplicate is not as it was written")
    return proven(corpus.find(table), record.part(table).sha256)


def own(copies: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table of copies whose keeper is a document of this corpus."""
    for batch in read_batches(copies):
        yield batch.filter(batch["keeper_corpus"].is_null())


def largest(copies: Path, top: int) -> list[Cluster]:
    """Return the clusters of most documents, the largest first; of equal ones that of the earlier
    keeper.
    """
    keepers, documents = np.empty(0, np.int64), np.empty(0, np.int64)
    for batch in own(copies):
        keepers = np.append(keepers, batch["keeper"].to_numpy())
        documents = np.append(documents, batch["copies"].to_numpy() + 1)
        order = np.lexsort((keepers, -documents))[:top]
        keepers, documents = keepers[order], documents[order]
    return [Cluster(*pair) for pair in zip(keepers.tolist(), documents.tolist(), strict=True)]


def members(
    verdicts: Iterable[Path], keepers: list[int], most: int
) -> dict[int, tuple[int, list[dict[str, Any]]]]:
    """By keeper: how many documents name it, and at most `most` of them, by a keyed hash of their
    numbers, in document order.

    Each has `document`, `reason`, `similarity`. A keeper of another corpus is none of these.
    """
    wanted = np.unique(np.array(keepers, np.int64))
    counts = np.zeros(len(wanted), np.int64)
    held: pa.Table | None = None
    for path in verdicts:
        for batch in read_batches(path, NAMED):
            mine = pc.and_(
                pc.is_in(batch["keeper"], pa.array(wanted)), pc.is_null(batch["keeper_corpus"])
            )
            batch = batch.filter(mine)
            if not len(batch):
                continue
            counts += np.bincount(
                np.searchsorted(wanted, batch["keeper"].to_numpy()), minlength=len(wanted)
            )
            new = pa.Table.from_batches([batch])
            held = _least(
                new if held is None else pa.concat_tables([held, new]).combine_chunks(), most
            )
    clusters: dict[int, tuple[int, list[dict[str, Any]]]] = {
        keeper: (count, []) for keeper, count in zip(wanted.tolist(), counts.tolist(), strict=True)
    }
    for row in held.sort_by("document").to_pylist() if held is not None else []:
        clusters[row["keeper"]][1].append(
            {name: row[name] for name in ("document", "reason", "similarity")}
        )
    return clusters


def _least(rows: pa.Table, most: int) -> pa.Table:
    """Of each keeper the rows whose documents have the least keyed hash."""
    from gristmill.kernels.hashing.shuffle import order_keys

    keepers = rows["keeper"].to_numpy()
    order = np.lexsort((order_keys(rows["document"].to_numpy(), SEED), keepers))
    keepers = keepers[order]
    firsts = np.searchsorted(keepers, keepers)  # sorted: where a row's keeper begins
    return rows.take(pa.array(order[np.arange(len(order)) - firsts < most]))


def collect_urls(verdicts: dict[int, Path], documents: list[int]) -> dict[int, str | None]:
    """Return the URLs of some documents, from the verdicts by shard."""
    urls: dict[int, str | None] = {}
    for shard, own in by_shard(documents).items():
        if shard in verdicts:
            for batch in read_documents(verdicts[shard], own, ["document", "url"]):
                urls |= dict(
                    zip(batch["document"].to_pylist(), batch["url"].to_pylist(), strict=True)
                )
    return urls


def by_shard(documents: Iterable[int]) -> dict[int, np.ndarray]:
    """Return documents by their raw shard, sorted."""
    numbers = np.unique(np.array(list(documents), np.int64))
    shards = numbers >> schema.ROW_BITS
    return {shard: numbers[shards == shard] for shard in np.unique(shards).tolist()}


def guard(corpus: Corpus, limit: float | None, kept: dict[int, int], scopes: list[int]) -> None:
    """Stop the run where a cluster holds more than `limit` of the documents that it was compared
    among, and more than LEAST.

    `kept` is how many documents of each raw shard reached deduplication, `scopes` what each shard
    is compared within: all, or with `scope = "source"` its source. Raises RecipeError.
    """
    if limit is None:
        return
    numbers, places = np.array(list(kept), np.int64), np.array(scopes, np.int64)
    reached = np.array(list(kept.values()), np.int64)
    totals = np.array([reached[places == place].sum() for place in scopes], np.int64)
    worst, share, total = Cluster(0, 0), limit, 0
    for batch in own(found_in(corpus)):
        if not len(batch):
            continue
        keepers, documents = batch["keeper"].to_numpy(), batch["copies"].to_numpy() + 1
        among = totals[np.searchsorted(numbers, keepers >> schema.ROW_BITS)]
        shares = np.where(documents > LEAST, documents / among, 0.0)
        at = int(shares.argmax())
        if shares[at] > share:
            worst, share, total = (
                Cluster(int(keepers[at]), int(documents[at])),
                float(shares[at]),
                int(among[at]),
            )
    if worst.documents:
        raise RecipeError(
            _told(corpus, worst, f"{total:,} documents ({100 * share:.1f} %)", limit, list(kept))
        )


def _told(corpus: Corpus, worst: Cluster, of: str, limit: float, numbers: list[int]) -> str:
    paths = {number: corpus.find(f"verdicts/{shard_name(number)}.parquet") for number in numbers}
    _, sample = members(paths.values(), [worst.keeper], 2)[worst.keeper]
    shown = [worst.keeper, *(row["document"] for row in sample)]
    urls = collect_urls(paths, shown)
    # What was crawled may try to drive a terminal: repr lets nothing of it through.
    keeper, *others = (
        schema.document_name(document) + (f" {urls[document]!r}" if urls.get(document) else "")
        for document in shown
    )
    return (
        f"deduplicate.largest_cluster = {limit:g}: {worst.documents:,} of {of} are one "
        f"cluster. {keeper} would be kept, and the others would be dropped as its copies, such as "
        f"{' and '.join(others)}. No manifest is written; finished work is kept. Look at them with "
        f"`gristmill duplicates {corpus.root}`. If they are copies, raise the limit and run again. "
        "If a template makes them similar, cut its lines before (the steps extract and c4 do; "
        "[deduplicate.lines] cuts the remaining ones), or raise near.threshold"
    )
