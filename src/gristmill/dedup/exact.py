"""Documents that share a URL or a normalised text with an earlier document of this corpus, or with
a document of a reference corpus.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.drops import EXACT, NEAR, REASONS, SAME_URL, Drops, no_drops
from gristmill.dedup.equal_hashes import are_few, equal_texts
from gristmill.dedup.order import Order
from gristmill.dedup.reference_corpus import ReferenceCorpus, read_verdicts
from gristmill.dedup.shard_tables import ShardTables
from gristmill.engine.executor import Executor, in_turn
from gristmill.engine.relations import Relations
from gristmill.store.parts import read_batches
from gristmill.tables import schema

_REASON = {"urls": REASONS.index(SAME_URL), "exact": REASONS.index(EXACT)}
_VALUE = {"urls": "url", "exact": "text_hash"}


class ExactDuplicates:
    """Finds documents that share a URL or a text with an earlier one."""

    def __init__(
        self,
        relations: Callable[[], Relations],
        tables: list[ShardTables],
        against: list[ReferenceCorpus],
        work: Path,
        order: Order | None = None,
        forms: Callable[[list[Path]], dict[Path, Path]] | None = None,
        executor: Executor = in_turn,
    ) -> None:
        """`order` says which document is the first; None: the plan's. `forms` writes the normal
        forms of the URLs in documents' files; None: URLs are compared as they are.

        `digests` of the object names all reference corpora, and those that hold a keeper of theirs.
        """
        self._forms, self._executor = forms, executor
        self._order = order
        self._relations, self._tables, self._against, self._work = relations, tables, against, work
        self.digests = [corpus.digest for corpus in against]

    def find(self, relation: str, dropped: np.ndarray) -> Drops:
        """Return duplicates by `relation` ("urls" or "exact") among the documents that are not
        `dropped` (sorted).
        """
        of_references = self._of_references(relation, dropped) if self._against else no_drops()
        dropped = np.union1d(dropped, of_references.documents)
        documents, keepers = self._of_this_corpus(relation, dropped)
        reasons = np.full(len(documents), _REASON[relation], np.int8)
        own = Drops(
            documents, keepers, np.zeros(len(documents), np.int64), reasons, np.ones(len(documents))
        )
        both = Drops(*map(np.concatenate, zip(of_references, own, strict=True)))
        order = np.argsort(both.documents, kind="stable")
        return Drops(*(column[order] for column in both))

    def _of_this_corpus(self, relation: str, dropped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return duplicates of documents of this corpus, and what they are duplicates of."""
        by_hash = relation == "exact" and self._order is None
        if by_hash and are_few(table.signatures for table in self._tables):
            return equal_texts(self._tables, dropped, self._executor)
        with self._relations() as connection:
            self._select_left_over(connection, relation, dropped)
            written = connection.write("same", self._work / f"{relation}.parquet")
        table = pa.concat_tables(pq.read_table(path) for path in written)
        documents, keepers = table["document"].to_numpy(), table["keeper"].to_numpy()
        if self._order is not None:
            documents, keepers = self._order.documents[documents], self._order.documents[keepers]
        return documents, keepers

    def _select_left_over(self, connection: Relations, relation: str, dropped: np.ndarray) -> None:
        """Make the view `left_over` of the documents that are not dropped."""
        pq.write_table(pa.table({"document": pa.array(dropped)}), self._work / "dropped.parquet")
        paths = {
            table.documents if relation == "urls" else table.signatures: table.scope
            for table in self._tables
        }
        if relation == "urls":
            paths = self._normal_forms(paths)
        connection.table("every", paths, f"document, {_VALUE[relation]} as value")
        connection.table("dropped", [self._work / "dropped.parquet"], "document")
        connection.view("left_over" if self._order is None else "unplaced", "left")
        if self._order is not None:
            connection.table("places", [self._order.path], "document, place")
            connection.view("left_over", "placed")

    def _normal_forms(self, paths: dict[Path, int]) -> dict[Path, int]:
        """Return the files of normal forms in place of documents' files, if URLs are normalised."""
        if self._forms is None:
            return paths
        forms = self._forms(list(paths))
        return {forms[path]: scope for path, scope in paths.items()}

    def _of_references(self, relation: str, dropped: np.ndarray) -> Drops:
        """Return duplicates of documents in reference corpora.

        If the document there was dropped itself, its own keeper is the keeper.
        """
        shifts: dict[Path, int] = {}
        aside = pa.schema([pa.field("number", pa.int64())])
        with pq.ParquetWriter(self._work / "aside.parquet", aside) as writer:
            for corpus in self._against:
                for ordinal, shard in enumerate(corpus.shards.tolist(), corpus.first):
                    folder = "documents" if relation == "urls" else "signatures"
                    shifts[corpus.part(folder, shard)] = ordinal - shard << schema.ROW_BITS
                    for batch in read_batches(
                        corpus.part("verdicts", shard), ["document", "reason"]
                    ):
                        # A document that another rule dropped is never a keeper. Texts are
                        # compared only of documents that were not dropped by their URL.
                        known = pa.array(REASONS[1:] if relation == "exact" else REASONS)
                        out = pc.and_(
                            pc.is_valid(batch["reason"]),
                            pc.invert(pc.is_in(batch["reason"], known)),
                        )
                        numbers = corpus.numbers(batch["document"].filter(out).to_numpy())
                        writer.write_table(pa.table([pa.array(numbers)], schema=aside))
        if relation == "urls":
            shifts = self._normal_forms(shifts)
        with self._relations() as connection:
            self._select_left_over(connection, relation, dropped)
            connection.table("reference", shifts, f"document, {_VALUE[relation]} as value")
            connection.table("set_aside", [self._work / "aside.parquet"], "number")
            written = connection.write("reference", self._work / f"reference.{relation}.parquet")
        table = pa.concat_tables(pq.read_table(path) for path in written)
        numbers, place = np.unique(table["keeper"].to_numpy(), return_inverse=True)
        verdicts = read_verdicts(self._against, numbers, [NEAR], self.digests)
        near = (relation == "exact") & (verdicts.reasons == 0)
        columns = (
            verdicts.keepers,
            verdicts.corpora,
            np.where(near, REASONS.index(NEAR), _REASON[relation]).astype(np.int8),
            np.where(near, verdicts.similarities, 1.0),
        )
        return Drops(table["document"].to_numpy(), *(column[place] for column in columns))
