"""Comparing likely pairs: which texts are read for it, whose shingles are there already, and what
is known from before.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.near.candidates import LIKELY
from gristmill.dedup.near.signature_rows import Rows, Table, among, mapped
from gristmill.dedup.near.verify import Shingles, compare, involved_rows, joined, write_shingles
from gristmill.dedup.reference_corpus import Earlier, ReferenceCorpus, tables_of
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh
from gristmill.store.parts import read_batches


class Known:
    """Pairs of a corpus that were compared before, and their similarities.

    24 bytes a pair in memory.
    """

    def __init__(
        self, documents: np.ndarray, candidates: np.ndarray, similarities: np.ndarray
    ) -> None:
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


class Comparison:
    """Compares the pairs of a corpus' rows.

    Shingles stay where they were written: a document's are made once.
    """

    def __init__(
        self,
        tables: list[Table],
        against: list[ReferenceCorpus],
        rows: Rows,
        earlier: Earlier,
        near: Near,
        work: Path,
        executor: Executor,
        known: Known | None,
    ) -> None:
        """Rows are the earlier documents of `against` first, then those of `tables`.

        `known` are pairs of these.
        """
        self._tables, self._against, self._rows, self._earlier = tables, against, rows, earlier
        self._near, self._work, self._executor = near, work, executor
        self._known = known if near.verify == "text" else None
        self._shingles: Shingles | None = None

    def compare(self, pairs_of: list[Path]) -> Iterator[Path]:
        """Files of LIKELY again, one after another, with the similarity of all pairs.

        Texts are read where one is not known; the files are removed.
        """
        if self._near.verify != "text":
            return iter(pairs_of)
        if self._known is not None:
            pairs_of = [self._answer(path, self._known) for path in pairs_of]
        involved = involved_rows(pairs_of, len(self._earlier.numbers) + self._rows.size)
        if not len(involved):
            return iter(pairs_of)
        return compare(pairs_of, self._cut(involved), self._work, self._executor)

    def _answer(self, pairs_of: Path, known: Known) -> Path:
        """Likely pairs again, LIKELY, with the similarities that are known.

        What is known is of this corpus: rows behind the earlier ones.
        """
        older, own = len(self._earlier.numbers), mapped(self._rows.documents, np.int64)
        documents = np.concatenate([self._earlier.documents, own])
        target = fresh(self._work, "answered")
        with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
            for batch in read_batches(pairs_of):
                one, other, before = (column.to_numpy() for column in batch.columns)
                similarities = known.similarities(documents[one], documents[other])
                similarities[other < older] = np.nan
                similarities = np.where(np.isnan(before), similarities, before)
                writer.write_table(pa.table([one, other, similarities], schema=LIKELY))
        pairs_of.unlink()
        return target

    def _cut(self, involved: np.ndarray) -> Shingles:
        """The shingles of rows, sorted, and of all that were cut before."""
        older = len(self._earlier.numbers)
        if self._shingles is not None:
            involved = involved[~among(involved, mapped(self._shingles.rows, np.int64))]
            if not len(involved):
                return self._shingles
        before = involved[involved < older]
        groups = [
            (
                tables_of(corpus),
                self._earlier.documents[before[self._earlier.corpora[before] == place]],
            )
            for place, corpus in enumerate(self._against)
        ]
        own = mapped(self._rows.documents, np.int64)[involved[involved >= older] - older]
        # Texts are read as they lie, in the order of documents.
        reading = np.argsort(own, kind="stable")
        groups.append((self._tables, own[reading]))
        involved = np.concatenate([before, involved[len(before) :][reading]])
        written = write_shingles(groups, involved, self._near, self._work, self._executor)
        self._shingles = (
            written if self._shingles is None else joined(self._shingles, written, self._work)
        )
        return self._shingles
