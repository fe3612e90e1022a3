"""The near stage: compare all likely pairs of rows, write each pair down as documents, and decide
which rows are dropped.

Rows are reference documents first, then the documents of this corpus.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.differing import NONE_DIFFER, Differing
from gristmill.dedup.disk_arrays import map_array
from gristmill.dedup.drops import NEAR, REASONS, Drops
from gristmill.dedup.near.candidates import likely_pairs, reference_numbers
from gristmill.dedup.near.comparison import Comparison, KnownPairs
from gristmill.dedup.near.corpus_index import Indexes
from gristmill.dedup.near.keeper_rounds import Chunk, FirstPairs, Rounds, chunks_of, merged, of_rows
from gristmill.dedup.near.signature_rows import SignatureRows
from gristmill.dedup.reference_corpus import (
    ReferenceCorpus,
    ReferenceDocuments,
    read_reference_documents,
)
from gristmill.dedup.settings import Near
from gristmill.dedup.shard_tables import ShardTables
from gristmill.engine.executor import Executor
from gristmill.engine.relations import Relations

PAIRS_FOUND = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("candidate", pa.int64(), nullable=False),
        pa.field("candidate_corpus", pa.string()),  # null: this one
        pa.field("similarity", pa.float64(), nullable=False),
    ]
)


class NearStage:
    """One run over the rows of a corpus."""

    def __init__(
        self,
        tables: list[ShardTables],
        against: list[ReferenceCorpus],
        rows: SignatureRows,
        near: Near,
        work: Path,
        *,
        relations: Callable[[], Relations],
        executor: Executor,
        known: KnownPairs | None,
        indexes: Indexes,
        writer: pq.ParquetWriter,
        differing: Differing = NONE_DIFFER,
    ) -> None:
        """`writer` takes every pair that is compared, PAIRS_FOUND; `indexes` the kept rows of large
        buckets. `known` are pairs found before; None: none. `differing` are documents with
        thresholds of their own.
        """
        self._rows, self._near, self._work = rows, near, work
        self._executor, self._relations = executor, relations
        self._indexes, self._writer = indexes, writer
        numbers = reference_numbers(rows)
        self._references = read_reference_documents(against, numbers, near, work)
        self._comparison = Comparison(
            tables, against, rows, self._references, near, work, executor, known
        )
        own = map_array(rows.documents, np.int64)
        self._documents = np.concatenate([self._references.documents, own])
        self._corpora = np.zeros(len(self._documents), np.int64)
        self._corpora[: len(numbers)] = self._references.corpora + 1
        own_thresholds = differing.thresholds_of(self._documents, near.threshold)
        self._thresholds = 0.0 if near.verify == "none" else own_thresholds
        self._digests = pa.array([None, *(corpus.digest for corpus in against)], pa.string())

    def run(self) -> Drops:
        """Compare and decide."""
        near, references = self._near, self._references
        likely = likely_pairs(self._rows, references, near, self._work, self._executor)
        compared = self._comparison.compare(likely)
        decide = self._components if near.group == "components" else self._kept
        keepers, similarities = decide(compared)
        first = len(references.numbers)
        self._indexes.add_kept(self._rows.large, keepers[first:] < 0, self._rows.documents)
        dropped = first + np.flatnonzero(keepers[first:] >= 0)
        dropped = dropped[np.argsort(self._documents[dropped], kind="stable")]
        return Drops(
            self._documents[dropped],
            self._documents[keepers[dropped]],
            self._corpora[keepers[dropped]],
            np.full(len(dropped), REASONS.index(NEAR), np.int8),
            similarities[dropped],
        )

    def _kept(self, compared: Iterator[Path]) -> tuple[np.ndarray, np.ndarray]:
        """Return the keeper of each row (-1: the row is kept) and its similarity to it, by the
        rule.
        """
        first_pairs, done = FirstPairs(self._work / "first_pairs", self._thresholds), []
        for path in compared:
            first_pairs.add(chunks_of(path))
            done.append(path)
        rounds = Rounds(
            self._rows,
            self._references,
            self._near,
            self._work,
            executor=self._executor,
            relations=self._relations,
            compare=self._comparison.compare,
            thresholds=self._thresholds,
        )
        decisions = rounds.run(first_pairs, _states(self._references, self._rows.size))
        for chunk in merged(
            _read_and_remove(done), _read_and_remove(rounds.compared), len(self._documents)
        ):
            self._write(chunk)
        return decisions.keepers, decisions.similarities

    def _components(self, compared: Iterator[Path]) -> tuple[np.ndarray, np.ndarray]:
        """Return the earliest row that each row is connected with (-1: itself), and its highest
        similarity to any row.
        """
        from gristmill.kernels.hashing import pairs

        size = len(self._documents)
        parents, most = np.arange(size), np.zeros(size)
        for chunk in _read_and_remove(compared):
            self._write(chunk)
            left, right, similarities = chunk
            kept = similarities >= of_rows(self._thresholds, left)
            pairs.connect(parents, most, left[kept], right[kept], similarities[kept], threshold=0.0)
        keepers = pairs.components(parents)
        keepers[keepers == np.arange(size)] = -1
        return keepers, most

    def _write(self, chunk: Chunk) -> None:
        """Write pairs of rows as pairs of documents."""
        left, right, similarities = chunk
        columns = [
            pa.array(self._documents[left]),
            pa.array(self._documents[right]),
            self._digests.take(pa.array(self._corpora[right])),
            pa.array(similarities),
        ]
        self._writer.write_table(pa.table(columns, schema=PAIRS_FOUND))


def _states(references: ReferenceDocuments, size: int) -> np.ndarray:
    """Return the state of each row before deciding: see keeper_rounds.decide."""
    states = np.concatenate([np.where(references.kept, 0, -1), np.ones(size)])
    return np.asarray(states.astype(np.int8))


def _read_and_remove(files: Iterable[Path]) -> Iterator[Chunk]:
    """Yield all pairs of files of LIKELY; each file is removed once it was read."""
    for path in files:
        yield from chunks_of(path)
        path.unlink()
