"""Which documents are duplicates of which: the rule, over a whole corpus, out of core.

    documents  -> same          equal URLs, where the recipe asks: all but the earliest go no
        further          same.py
    signatures -> same          equal normalised texts: the same
               -> rows          signatures by number, keys of bands
                   rows.py
               -> candidates    the first documents of each bucket, if signatures do not rule them
                   out    candidates.py
               -> compare       exact Jaccard of the texts' shingles
                   compare.py
               -> decide        in document order: dropped if, and only if, at or above the
                                threshold with an earlier document that
                                is kept; or, `group = "components"`, connected with an earlier one
                                at all
               -> rounds        a document that is dropped for none of those, against the first kept
                   ones of its buckets          further.py

Documents of older corpora (older.py) come before all others in every step, and their verdicts
stand.

Rows, candidates' agreement and comparing are tasks over files, which threads or nodes share out
(executor.py); deciding is here, one pair after another. What is held in memory here is a chunk of
pairs, some sixty bytes a document, and what is known of older documents that are met; in a task, a
few chunks of rows, keys or pairs. The rest is on disk.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.exact import NEAR, REASONS, SAME_URL, Found, Same, nothing
from gristmill.dedup.near.candidates import earlier_numbers, find_candidates, likely
from gristmill.dedup.near.comparison import Comparison, Known
from gristmill.dedup.near.further_rounds import Chunk, Firsts, Rounds, chunks_of, merged
from gristmill.dedup.near.signature_rows import Rows, Table, gather, mapped
from gristmill.dedup.order import put_in_order
from gristmill.dedup.reference_corpus import (
    ReferenceCorpus,
    Widened,
    first_number,
    gather_earlier,
    tables_of,
)
from gristmill.dedup.settings import Deduplicate, Near
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
PAIRS_FOUND = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("candidate", pa.int64(), nullable=False),
        pa.field("candidate_corpus", pa.string()),  # null: this one
        pa.field("similarity", pa.float64(), nullable=False),
    ]
)


class Deduplicated(NamedTuple):
    """What a corpus' documents are to each other."""

    drops: pa.Table  # DROPS, sorted by document
    # PAIRS_FOUND: every pair that was compared, in the order that decides; candidates of older
    # corpora first
    pairs: Path
    entries: list[Path]  # files of the index, where one is wanted


def deduplicate(
    tables: list[Table],
    settings: Deduplicate,
    work: Path,
    *,
    opener: Opener,
    tell: Callable[[int], None],
    executor: Executor = in_turn,
    gone: np.ndarray | None = None,
    known: Known | None = None,
    against: Sequence[ReferenceCorpus] = (),
) -> Deduplicated:
    """Find all duplicates. `work` is for what is needed on the way; `opener` gives the engine of
    relations, `executor` does the tasks between them.

    `gone` (sorted int64) are documents to leave aside; `known` are pairs found before, whose texts
    are not compared again; `against` are older corpora, in their order.
    """
    work.mkdir(parents=True, exist_ok=True)
    if not tables:
        raise RecipeError("no raw shard could be read: there is nothing to compare")
    gone = np.empty(0, np.int64) if gone is None else gone
    every = [*tables, *chain.from_iterable(map(tables_of, against))]
    folders = [
        work,
        *{path.parent for table in every for path in (table.signatures, table.documents)},
    ]
    relations = partial(opener, work / "spill", folders)
    order = put_in_order(
        settings.order, ((table.documents, table.measures) for table in tables), relations, work
    )
    forms = (
        partial(normal_urls, tracking=settings.tracking, work=work, executor=executor)
        if settings.normal_urls
        else None
    )
    same = Same(relations, tables, list(against), work, order, forms)
    urls = same.find("urls", gone) if settings.url else nothing()
    gone = np.union1d(gone, urls.documents)
    exact = same.find("exact", gone) if settings.exact else nothing()
    near, found, index = nothing(), work / "found.parquet", work / "index"
    with pq.ParquetWriter(found, PAIRS_FOUND, compression="zstd") as writer:
        if settings.near is not None:
            widened = Widened(list(against), index if settings.index else None, work)
            rows = gather(
                tables,
                np.union1d(gone, exact.documents),
                settings.near,
                work,
                executor=executor,
                first=first_number(against),
                order=order,
                visit=widened.visit if against or settings.index else None,
                large=settings.index
                or (settings.near.keepers > 0 and settings.near.group == "kept"),
            )
            tell(rows.size)
            if rows.size:
                near = _near(
                    tables,
                    list(against),
                    rows,
                    settings.near,
                    relations,
                    work,
                    executor,
                    known,
                    writer,
                    widened,
                )
    written = sorted(index.iterdir()) if settings.index else []
    return Deduplicated(_merge(urls, exact, near, same.digests), found, written)


def _near(
    tables: list[Table],
    against: list[ReferenceCorpus],
    rows: Rows,
    near: Near,
    relations: Callable[[], Relations],
    work: Path,
    executor: Executor,
    known: Known | None,
    writer: pq.ParquetWriter,
    widened: Widened,
) -> Found:
    """Compare all likely pairs, write them down as documents, and decide.

    Rows are earlier documents first, then the new ones.
    """
    found = find_candidates(relations, rows, near, work)
    earlier = gather_earlier(against, earlier_numbers(found, rows), near, work)
    older = len(earlier.numbers)
    documents = np.concatenate([earlier.documents, mapped(rows.documents, np.int64)])
    corpora = np.zeros(len(documents), np.int64)
    corpora[:older] = earlier.corpora + 1
    digests = pa.array([None, *(corpus.digest for corpus in against)], pa.string())

    def write(chunk: Chunk) -> None:
        one, other, similarities = chunk
        columns = [
            pa.array(documents[one]),
            pa.array(documents[other]),
            digests.take(pa.array(corpora[other])),
            pa.array(similarities),
        ]
        writer.write_table(pa.table(columns, schema=PAIRS_FOUND))

    comparison = Comparison(tables, against, rows, earlier, near, work, executor, known)
    compared = comparison.compare(likely(found, rows, earlier, near, work, executor))
    threshold = 0.0 if near.verify == "none" else near.threshold
    if near.group == "components":
        keepers, kept = _components(compared, write, len(documents), threshold)
    else:
        firsts, done = Firsts(work / "firsts", threshold), []
        for path in compared:
            firsts.add(chunks_of(path))
            done.append(path)
        stays = np.r_[np.where(earlier.stays, 0, -1), np.ones(rows.size)].astype(np.int8)
        rounds = Rounds(
            rows,
            earlier,
            near,
            work,
            executor=executor,
            relations=relations,
            compare=comparison.compare,
        )
        keepers, kept, _ = rounds.run(firsts, stays)
        for chunk in merged(_removed(done), _removed(rounds.compared), len(documents)):
            write(chunk)
    widened.keep(rows.large, keepers[older:] < 0, rows.documents)
    gone = older + np.flatnonzero(keepers[older:] >= 0)
    gone = gone[np.argsort(documents[gone], kind="stable")]
    reasons = np.full(len(gone), REASONS.index(NEAR), np.int8)
    return Found(
        documents[gone], documents[keepers[gone]], corpora[keepers[gone]], reasons, kept[gone]
    )


def _components(
    compared: Iterator[Path], write: Callable[[Chunk], None], size: int, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of `size` rows the earliest that each is connected with (-1: itself), and the most that it is
    like any other.
    """
    from gristmill.kernels.hashing import pairs

    parents, most = np.arange(size), np.zeros(size)
    for chunk in _removed(compared):
        write(chunk)
        pairs.connect(parents, most, *chunk, threshold=threshold)
    keepers = pairs.components(parents)
    keepers[keepers == np.arange(size)] = -1
    return keepers, most


def _removed(files: Iterable[Path]) -> Iterator[Chunk]:
    """All pairs of files of LIKELY, each removed once it was read."""
    for path in files:
        yield from chunks_of(path)
        path.unlink()


def _merge(urls: Found, exact: Found, near: Found, digests: list[str]) -> pa.Table:
    """Point each copy at the document that stays in the end: a keeper may itself have gone for
    another one later on.
    """
    documents, keepers, corpora, reasons, similarities = map(
        np.concatenate, zip(urls, exact, near, strict=True)
    )
    for later in (exact, near):
        if not len(later.documents) or not len(keepers):
            continue
        place = np.minimum(np.searchsorted(later.documents, keepers), len(later.documents) - 1)
        moved = (later.documents[place] == keepers) & (corpora == 0)
        # A page of the same URL stays one, whatever became of the page that it gave way to.
        other = moved & (reasons != REASONS.index(SAME_URL))
        reasons[other], similarities[other] = (
            later.reasons[place[other]],
            later.similarities[place[other]],
        )
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
