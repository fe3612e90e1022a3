"""Comparing likely pairs: it chooses which texts to read, reuses shingles that are there already,
and similarities that are known from an earlier run.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import in_sorted, map_array
from gristmill.dedup.near.candidates import LIKELY
from gristmill.dedup.near.jaccard import Shingles, compare, involved_rows, joined, write_shingles
from gristmill.dedup.near.signature_rows import SignatureRows
from gristmill.dedup.reference_corpus import ReferenceCorpus, ReferenceDocuments
from gristmill.dedup.settings import Near
from gristmill.dedup.shard_tables import ShardTables
from gristmill.engine.executor import Executor, fresh
from gristmill.store.parts import read_batches


class KnownPairs:
    """Pairs of a corpus that were compared before, and their similarities: 24 bytes a pair."""

    def __init__(
        self, documents: np.ndarray, candidates: np.ndarray, similarities: np.ndarray
    ) -> None:
        """Arrays (n,), int64 and float64, in any order."""
        self._numbers = np.unique(np.concatenate([documents, candidates]))
        pairs_of = self._pairs(documents, candidates)
        order = np.argsort(pairs_of)
        self._pairs_of, self._similarities = pairs_of[order], similarities[order]

    def similarities(self, documents: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Return the similarity of each pair that was found before, (n,) float64; NaN: unknown."""
        if not len(self._pairs_of):
            return np.full(len(documents), np.nan)
        wanted = self._pairs(documents, candidates)
        at = np.minimum(np.searchsorted(self._pairs_of, wanted), len(self._pairs_of) - 1)
        return np.where(self._pairs_of[at] == wanted, self._similarities[at], np.nan)

    def _pairs(self, documents: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Return a number for each pair; -1: one of its documents is in no known pair."""
        columns = []
        for column in (documents, candidates):
            place = np.minimum(np.searchsorted(self._numbers, column), len(self._numbers) - 1)
            columns.append(np.where(self._numbers[place] == column, place, -1))
        left, right = columns
        return np.where((left < 0) | (right < 0), -1, left * len(self._numbers) + right)


class Comparison:
    """Compares pairs of a corpus' rows. The shingles of a document are made once, and reused."""

    def __init__(
        self,
        tables: list[ShardTables],
        against: list[ReferenceCorpus],
        rows: SignatureRows,
        references: ReferenceDocuments,
        near: Near,
        work: Path,
        executor: Executor,
        known: KnownPairs | None,
    ) -> None:
        """Rows are the `references` of `against` first, then those of `tables`.

        `known` are pairs of documents of `tables`.
        """
        self._tables, self._against = tables, against
        self._rows, self._references = rows, references
        self._near, self._work, self._executor = near, work, executor
        self._known = known if near.verify == "text" else None
        self._shingles: Shingles | None = None

    def compare(self, pairs_of: list[Path]) -> Iterator[Path]:
        """Write files of LIKELY again, one after another, with the similarity of every pair.

        Texts are read where a similarity is not known. The files `pairs_of` are removed.
        """
        if self._near.verify != "text":
            return iter(pairs_of)
        if self._known is not None:
            pairs_of = [self._fill_known(path, self._known) for path in pairs_of]
        involved = involved_rows(pairs_of, len(self._references.numbers) + self._rows.size)
        if not len(involved):
            return iter(pairs_of)
        return compare(pairs_of, self._shingles_of(involved), self._work, self._executor)

    def _fill_known(self, pairs_of: Path, known: KnownPairs) -> Path:
        """Write likely pairs again, LIKELY, with the similarities that are known.

        Known pairs are of this corpus only: their rows come after those of reference documents.
        """
        reference_count = len(self._references.numbers)
        own = map_array(self._rows.documents, np.int64)
        documents = np.concatenate([self._references.documents, own])
        target = fresh(self._work, "known")
        with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
            for batch in read_batches(pairs_of):
                left, right, before = (column.to_numpy() for column in batch.columns)
                similarities = known.similarities(documents[left], documents[right])
                similarities[right < reference_count] = np.nan
                similarities = np.where(np.isnan(before), similarities, before)
                writer.write_table(pa.table([left, right, similarities], schema=LIKELY))
        pairs_of.unlink()
        return target

    def _shingles_of(self, involved: np.ndarray) -> Shingles:
        """Return the shingles of rows (sorted), and of all rows that were asked for before."""
        reference_count = len(self._references.numbers)
        if self._shingles is not None:
            involved = involved[~in_sorted(involved, map_array(self._shingles.rows, np.int64))]
            if not len(involved):
                return self._shingles
        of_references = involved[involved < reference_count]
        groups = [
            (
                corpus.tables(),
                self._references.documents[
                    of_references[self._references.corpora[of_references] == place]
                ],
            )
            for place, corpus in enumerate(self._against)
        ]
        new = involved[involved >= reference_count]
        own = map_array(self._rows.documents, np.int64)[new - reference_count]
        # Texts are read in the order in which they are stored, that of documents.
        reading = np.argsort(own, kind="stable")
        groups.append((self._tables, own[reading]))
        involved = np.concatenate([of_references, new[reading]])
        written = write_shingles(groups, involved, self._near, self._work, self._executor)
        self._shingles = (
            written if self._shingles is None else joined(self._shingles, written, self._work)
        )
        return self._shingles
