"""Which documents are duplicates of which: the rule, over a whole corpus, out of core.

    documents  -> same         equal URLs, if the recipe asks: all but the earliest are dropped
                               (exact.py)
    signatures -> same         equal normalised texts: likewise (exact.py)
               -> rows         signatures by number, band keys (near/signature_rows.py), and pairs
                               with the first documents of each bucket (near/key_partitions.py)
               -> candidates   those that signatures do not rule out (near/candidates.py)
               -> compare      exact Jaccard similarity of the texts' shingles (near/jaccard.py)
               -> decide       in document order: dropped if, and only if, the similarity to an
                               earlier document that is kept reaches the threshold; or, with
                               `group = "components"`, connected with any earlier document
                               (near/near_stage.py)
               -> rounds       a document that is not dropped so far, against the first kept
                               documents of its buckets (near/keeper_rounds.py)

Documents of reference corpora (reference_corpus.py) come before all others in every step, and their
verdicts do not change.

Laying out rows, finding pairs, checking candidates and comparing texts are tasks over files, which
threads or nodes share (executor.py). Deciding is done here, one pair after another. Memory here is
a chunk of pairs, some sixty bytes a document, and the reference documents that are compared with;
in a task, a few chunks of rows, keys or pairs. All else is on disk.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.differing import NONE_DIFFER, Differing
from gristmill.dedup.drops import REASONS, SAME_URL, Drops, no_drops
from gristmill.dedup.exact import ExactDuplicates
from gristmill.dedup.near.comparison import KnownPairs
from gristmill.dedup.near.corpus_index import Indexes
from gristmill.dedup.near.near_stage import PAIRS_FOUND, NearStage
from gristmill.dedup.near.signature_rows import gather
from gristmill.dedup.order import put_in_order
from gristmill.dedup.reference_corpus import ReferenceCorpus, first_number
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.shard_tables import ShardTables
from gristmill.dedup.url_form import normal_urls
from gristmill.engine.executor import Executor, in_turn
from gristmill.engine.relations import Opener, Relations
from gristmill.errors import RecipeError

DROPS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("keeper", pa.int64(), nullable=False),
        pa.field("keeper_corpus", pa.string()),  # null: this one
        pa.field("similarity", pa.float64(), nullable=False),
    ]
)


class Deduplicated(NamedTuple):
    """The duplicates of a corpus."""

    drops: pa.Table  # DROPS, sorted by document
    # PAIRS_FOUND: every pair that was compared, in the order that decides; candidates of reference
    # corpora first
    pairs: Path
    entries: list[Path]  # files of the index, if the recipe asks for one


def deduplicate(
    tables: list[ShardTables],
    settings: Deduplicate,
    work: Path,
    *,
    opener: Opener,
    on_progress: Callable[[int], None],
    executor: Executor = in_turn,
    dropped: np.ndarray | None = None,
    known: KnownPairs | None = None,
    against: Sequence[ReferenceCorpus] = (),
    differing: Differing = NONE_DIFFER,
) -> Deduplicated:
    """Find all duplicates. Temporary files are written to the folder `work`.

    `opener` opens the engine of relations; `executor` runs the tasks between them; `on_progress` is
    called with the number of documents that the near stage compares. `dropped` (sorted int64) are
    documents to leave out; `known` are pairs found before, whose texts are not compared again;
    `against` are reference corpora, in their order; `differing` are documents whose language has
    settings of its own.

    Raises RecipeError if there is no raw shard, or the order cannot be made.
    """
    work.mkdir(parents=True, exist_ok=True)
    if not tables:
        raise RecipeError("no raw shard could be read: there is nothing to compare")
    against = list(against)
    dropped = np.empty(0, np.int64) if dropped is None else dropped
    relations = _relations(opener, tables, against, work)
    order = put_in_order(
        settings.order, ((table.documents, table.measures) for table in tables), relations, work
    )
    forms = (
        partial(normal_urls, tracking=settings.tracking, work=work, executor=executor)
        if settings.normal_urls
        else None
    )
    equal = ExactDuplicates(relations, tables, against, work, order, forms, executor)
    urls = equal.find("urls", dropped) if settings.url else no_drops()
    dropped = np.union1d(dropped, urls.documents)
    exact = (
        equal.find("exact", np.union1d(dropped, differing.not_exact))
        if settings.compares_texts
        else no_drops()
    )
    near, pairs, index = no_drops(), work / "every_pair.parquet", work / "index"
    with pq.ParquetWriter(pairs, PAIRS_FOUND, compression="zstd") as writer:
        if settings.near is not None:
            indexes = Indexes(against, index if settings.index else None, work)
            rows = gather(
                tables,
                np.union1d(np.union1d(dropped, exact.documents), differing.not_near),
                settings.near,
                work,
                executor=executor,
                first=first_number(against),
                order=order,
                on_partition=indexes.on_partition if indexes.used else None,
                large=settings.index
                or (settings.near.keepers > 0 and settings.near.group == "kept"),
            )
            on_progress(rows.size)
            if rows.size:
                stage = NearStage(
                    tables,
                    against,
                    rows,
                    settings.near,
                    work,
                    relations=relations,
                    executor=executor,
                    known=known,
                    indexes=indexes,
                    writer=writer,
                    differing=differing,
                )
                near = stage.run()
    written = sorted(index.iterdir()) if settings.index else []
    return Deduplicated(_merge(urls, exact, near, equal.digests), pairs, written)


def _relations(
    opener: Opener, tables: list[ShardTables], against: list[ReferenceCorpus], work: Path
) -> Callable[[], Relations]:
    """Open relations over the folders of all tables and of `work`."""
    every = [*tables, *chain.from_iterable(corpus.tables() for corpus in against)]
    folders = {path.parent for table in every for path in (table.signatures, table.documents)}
    return partial(opener, work / "spill", [work, *folders])


def _merge(urls: Drops, exact: Drops, near: Drops, digests: list[str]) -> pa.Table:
    """Return all drops, DROPS. Each names the document that is kept in the end: a keeper may itself
    have been dropped later, for another one.
    """
    documents, keepers, corpora, reasons, similarities = map(
        np.concatenate, zip(urls, exact, near, strict=True)
    )
    for later in (exact, near):
        if not len(later.documents) or not len(keepers):
            continue
        place = np.minimum(np.searchsorted(later.documents, keepers), len(later.documents) - 1)
        moved = (later.documents[place] == keepers) & (corpora == 0)
        # A page dropped for its URL keeps that reason, whatever became of its keeper.
        renamed = moved & (reasons != REASONS.index(SAME_URL))
        reasons[renamed] = later.reasons[place[renamed]]
        similarities[renamed] = later.similarities[place[renamed]]
        keepers[moved], corpora[moved] = later.keepers[place[moved]], later.corpora[place[moved]]
    order = np.argsort(documents, kind="stable")
    columns = [
        pa.array(documents[order]),
        pa.array(REASONS, pa.string()).take(pa.array(reasons[order])),
        pa.array(keepers[order]),
        pa.array([None, *digests], pa.string()).take(pa.array(corpora[order])),
        pa.array(similarities[order]),
    ]
    return pa.table(columns, schema=DROPS)
