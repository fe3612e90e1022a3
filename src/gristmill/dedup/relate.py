"""Which documents are duplicates of which: the rule, over a whole corpus, out of core.

    documents  -> same          equal URLs, where the recipe asks: all but the earliest go no further          same.py
    signatures -> same          equal normalised texts: the same
               -> rows          signatures by number, keys of bands                                       rows.py
               -> candidates    the first documents of each bucket, if signatures do not rule them out    candidates.py
               -> compare       exact Jaccard of the texts' shingles                                      compare.py
               -> decide        in document order: dropped if, and only if, at or above the threshold with an earlier document that
                                is kept; or, `group = "components"`, connected with an earlier one at all

Documents of older corpora (older.py) come before all others in every step, and their verdicts stand.

Rows, candidates' agreement and comparing are tasks over files, which threads or nodes share out (spread.py); deciding is here, one pair after another.
What is held in memory here is a chunk of pairs, some forty bytes a document, and what is known of older documents that are met; in a task, a few
chunks of rows, keys or pairs. The rest is on disk.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.candidates import LIKELY, earlier_numbers, find_candidates, likely
from gristmill.dedup.compare import compare, involved_rows, write_shingles
from gristmill.dedup.database import Opener, Relations
from gristmill.dedup.older import Earlier, Older, Widened, first_number, gather_earlier, tables_of
from gristmill.dedup.order import put_in_order
from gristmill.dedup.rows import Rows, Table, gather, mapped
from gristmill.dedup.same import NEAR, REASONS, SAME_URL, Found, Same, nothing
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.dedup.spread import Spread, fresh, in_turn
from gristmill.errors import RecipeError
from gristmill.store.parts import read_batches

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


class Related(NamedTuple):
    """What a corpus' documents are to each other."""

    drops: pa.Table  # DROPS, sorted by document
    pairs: (
        Path  # PAIRS_FOUND: every pair that was compared, in the order that decides; candidates of older corpora first
    )
    entries: list[Path]  # files of the index, where one is wanted


class Known:
    """Pairs of a corpus that were compared before, and their similarities. 24 bytes a pair in memory."""

    def __init__(self, documents: np.ndarray, candidates: np.ndarray, similarities: np.ndarray) -> None:
        """Arrays (n,), int64 and float64, in any order."""
        self._numbers = np.unique(np.concatenate([documents, candidates]))
        pairs_of = self._pairs(documents, candidates)
        order = np.argsort(pairs_of)
        self._pairs_of, self._similarities = pairs_of[order], similarities[order]

    def similarities(self, documents: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Of pairs the similarities that were found before, (n,) float64; NaN: unknown."""
        if not len(self._pairs_of):
            return np.full(len(documents), np.nan)
        wanted = self._pairs(documents, candidates)
        at = np.minimum(np.searchsorted(self._pairs_of, wanted), len(self._pairs_of) - 1)
        return np.where(self._pairs_of[at] == wanted, self._similarities[at], np.nan)

    def _pairs(self, documents: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """A number for each pair; -1: one of them was in none."""
        columns = []
        for column in (documents, candidates):
            place = np.minimum(np.searchsorted(self._numbers, column), len(self._numbers) - 1)
            columns.append(np.where(self._numbers[place] == column, place, -1))
        one, other = columns
        return np.where((one < 0) | (other < 0), -1, one * len(self._numbers) + other)


def relate(
    tables: list[Table], settings: Deduplicate, work: Path, *, opener: Opener, tell: Callable[[int], None],
    spread: Spread = in_turn, gone: np.ndarray | None = None, known: Known | None = None, against: Sequence[Older] = (),
) -> Related:  # fmt: skip
    """Find all duplicates. `work` is for what is needed on the way; `opener` gives the engine of relations, `spread` does the tasks between them.

    `gone` (sorted int64) are documents to leave aside; `known` are pairs found before, whose texts are not compared again;
    `against` are older corpora, in their order.
    """
    work.mkdir(parents=True, exist_ok=True)
    if not tables:
        raise RecipeError("no raw shard could be read: there is nothing to compare")
    gone = np.empty(0, np.int64) if gone is None else gone
    every = [*tables, *chain.from_iterable(map(tables_of, against))]
    folders = [work, *{path.parent for table in every for path in (table.signatures, table.documents)}]
    relations = partial(opener, work / "spill", folders)
    order = put_in_order(settings.order, ((table.documents, table.measures) for table in tables), relations, work)
    same = Same(relations, tables, list(against), work, order)
    urls = same.find("urls", gone) if settings.url else nothing()
    gone = np.union1d(gone, urls.documents)
    exact = same.find("exact", gone) if settings.exact else nothing()
    near, found, index = nothing(), work / "found.parquet", work / "index"
    with pq.ParquetWriter(found, PAIRS_FOUND, compression="zstd") as writer:
        if settings.near is not None:
            widened = Widened(list(against), index if settings.index else None, work)
            rows = gather(
                tables, np.union1d(gone, exact.documents), settings.near, work, spread=spread, first=first_number(against),
                order=order, visit=widened.visit if against or settings.index else None,
            )  # fmt: skip
            tell(rows.size)
            if rows.size:
                near = _near(tables, list(against), rows, settings.near, relations, work, spread, known, writer)
    written = sorted(index.iterdir()) if settings.index else []
    return Related(_merge(urls, exact, near, same.digests), found, written)


def _near(
    tables: list[Table], against: list[Older], rows: Rows, near: Near, relations: Callable[[], Relations], work: Path,
    spread: Spread, known: Known | None, writer: pq.ParquetWriter,
) -> Found:  # fmt: skip
    """Compare all likely pairs, write them down as documents, and decide. Rows are earlier documents first, then the new ones."""
    from gristmill.kernels import pairs

    found = find_candidates(relations, rows, near, work)
    earlier = gather_earlier(against, earlier_numbers(found, rows), near, work)
    pairs_of = likely(found, rows, earlier, near, work, spread)
    older = len(earlier.numbers)
    documents = np.concatenate([earlier.documents, mapped(rows.documents, np.int64)])
    corpora = np.zeros(len(documents), np.int64)
    corpora[:older] = earlier.corpora + 1
    digests = pa.array([None, *(corpus.digest for corpus in against)], pa.string())
    keepers, kept = np.full(len(documents), -1, np.int64), np.zeros(len(documents))
    keepers[:older][~earlier.stays] = np.flatnonzero(~earlier.stays)  # whoever went keeps nobody
    parents = np.arange(len(documents)) if near.group == "components" else None
    threshold = 0.0 if near.verify == "none" else near.threshold
    if near.verify == "text" and known is not None:
        pairs_of = [_answer(path, known, documents, older, work) for path in pairs_of]
    for one, other, similarities in _compared(pairs_of, tables, against, rows, earlier, near, work, spread):
        columns = [
            pa.array(documents[one]),
            pa.array(documents[other]),
            digests.take(pa.array(corpora[other])),
            pa.array(similarities),
        ]
        writer.write_table(pa.table(columns, schema=PAIRS_FOUND))
        if parents is None:
            pairs.decide(keepers, kept, one, other, similarities, threshold=threshold)
        else:
            pairs.connect(parents, kept, one, other, similarities, threshold=threshold)
    if parents is not None:
        keepers = pairs.components(parents)
        keepers[keepers == np.arange(len(documents))] = -1
    gone = older + np.flatnonzero(keepers[older:] >= 0)
    gone = gone[np.argsort(documents[gone], kind="stable")]
    reasons = np.full(len(gone), REASONS.index(NEAR), np.int8)
    return Found(documents[gone], documents[keepers[gone]], corpora[keepers[gone]], reasons, kept[gone])


def _answer(pairs_of: Path, known: Known, documents: np.ndarray, older: int, work: Path) -> Path:
    """Likely pairs again, LIKELY, with the similarities that are known. What is known is of this corpus: rows from `older` on."""
    target = fresh(work, "answered")
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for one, other, _ in _chunks(pairs_of):
            similarities = known.similarities(documents[one], documents[other])
            similarities[other < older] = np.nan
            writer.write_table(pa.table([one, other, similarities], schema=LIKELY))
    pairs_of.unlink()
    return target


def _compared(
    pairs_of: list[Path], tables: list[Table], against: list[Older], rows: Rows, earlier: Earlier, near: Near, work: Path,
    spread: Spread,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:  # fmt: skip
    """All likely pairs in order and the similarity of each. Texts are read where one is not known; files are removed as they are read."""
    done: Iterable[Path] = pairs_of
    older = len(earlier.numbers)
    involved = involved_rows(pairs_of if near.verify == "text" else [], older + rows.size)
    if len(involved):
        before = involved[involved < older]
        groups = [
            (tables_of(corpus), earlier.documents[before[earlier.corpora[before] == place]])
            for place, corpus in enumerate(against)
        ]
        own = mapped(rows.documents, np.int64)[involved[involved >= older] - older]
        # Texts are read as they lie, in the order of documents.
        reading = np.argsort(own, kind="stable")
        groups.append((tables, own[reading]))
        involved = np.concatenate([before, involved[len(before) :][reading]])
        shingles = write_shingles(groups, involved, near, work, spread)
        done = compare(pairs_of, shingles, work, spread)
    for path in done:
        yield from _chunks(path)
        path.unlink()


def _chunks(likely: Path) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for batch in read_batches(likely):
        one, other, similarities = (column.to_numpy() for column in batch.columns)
        yield one, other, similarities


def _merge(urls: Found, exact: Found, near: Found, digests: list[str]) -> pa.Table:
    """Point each copy at the document that stays in the end: a keeper may itself have gone for another one later on."""
    documents, keepers, corpora, reasons, similarities = map(np.concatenate, zip(urls, exact, near, strict=True))
    for later in (exact, near):
        if not len(later.documents) or not len(keepers):
            continue
        place = np.minimum(np.searchsorted(later.documents, keepers), len(later.documents) - 1)
        moved = (later.documents[place] == keepers) & (corpora == 0)
        # A page of the same URL stays one, whatever became of the page that it gave way to.
        other = moved & (reasons != REASONS.index(SAME_URL))
        reasons[other], similarities[other] = later.reasons[place[other]], later.similarities[place[other]]
        keepers[moved], corpora[moved] = later.keepers[place[moved]], later.corpora[place[moved]]
    order = np.argsort(documents, kind="stable")
    columns = [
        pa.array(documents[order]), pa.array(REASONS, pa.string()).take(pa.array(reasons[order])), pa.array(keepers[order]),
        pa.array([None, *digests], pa.string()).take(pa.array(corpora[order])), pa.array(similarities[order]),
    ]  # fmt: skip
    return pa.table(columns, schema=DROPS)
