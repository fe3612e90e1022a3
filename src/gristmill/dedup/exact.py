"""Documents that share a URL or a normalised text with an earlier one, of this corpus or of an
older one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import schema
from gristmill.dedup.near.signature_rows import Table
from gristmill.dedup.order import Order
from gristmill.dedup.reference_corpus import ReferenceCorpus, fates
from gristmill.engine.relations import Relations
from gristmill.store.parts import read_batches

SAME_URL, EXACT, NEAR = REASONS = (
    "deduplicate.same_url",
    "deduplicate.exact_duplicate",
    "deduplicate.near_duplicate",
)
_REASON = {"urls": REASONS.index(SAME_URL), "exact": REASONS.index(EXACT)}
_VALUE = {"urls": "url", "exact": "text_hash"}


class Found(NamedTuple):
    """Arrays sorted by document."""

    documents: np.ndarray
    keepers: np.ndarray
    corpora: (
        np.ndarray
    )  # of the keepers: 0 this corpus, else a place, from 1, in the list of digests
    reasons: np.ndarray  # places in REASONS
    similarities: np.ndarray


def nothing() -> Found:
    """No document."""
    whole = np.empty(0, np.int64)
    return Found(whole, whole, whole, np.empty(0, np.int8), np.empty(0, np.float64))


class Same:
    """Documents that share a URL or a text with an earlier one, in this corpus or an older one."""

    def __init__(
        self,
        relations: Callable[[], Relations],
        tables: list[Table],
        against: list[ReferenceCorpus],
        work: Path,
        order: Order | None = None,
        forms: Callable[[list[Path]], dict[Path, Path]] | None = None,
    ) -> None:
        """`digests` will name all corpora that hold a keeper; `order` says which document is the
        first; `forms` gives files of URLs as compared.
        """
        self._forms = forms
        self._order = order
        self._relations, self._tables, self._against, self._work = relations, tables, against, work
        self.digests = [corpus.digest for corpus in against]

    def find(self, relation: str, gone: np.ndarray) -> Found:
        """Ask `same.sql` of URLs or texts, of documents that are not gone (sorted)."""
        older = self._older(relation, gone) if self._against else nothing()
        gone = np.union1d(gone, older.documents)
        with self._relations() as connection:
            self._left_over(connection, relation, gone)
            written = connection.write("same", self._work / f"{relation}.parquet")
        table = pa.concat_tables(pq.read_table(path) for path in written)
        documents, keepers = table["document"].to_numpy(), table["keeper"].to_numpy()
        if self._order is not None:
            documents, keepers = self._order.documents[documents], self._order.documents[keepers]
        reasons = np.full(len(documents), _REASON[relation], np.int8)
        own = Found(
            documents, keepers, np.zeros(len(documents), np.int64), reasons, np.ones(len(documents))
        )
        both = Found(*map(np.concatenate, zip(older, own, strict=True)))
        order = np.argsort(both.documents, kind="stable")
        return Found(*(column[order] for column in both))

    def _left_over(self, connection: Relations, relation: str, gone: np.ndarray) -> None:
        pq.write_table(pa.table({"document": pa.array(gone)}), self._work / "gone.parquet")
        paths = {
            table.documents if relation == "urls" else table.signatures: table.scope
            for table in self._tables
        }
        if relation == "urls":
            paths = self._as_compared(paths)
        connection.table("every", paths, f"document, {_VALUE[relation]} as value")
        connection.table("gone", [self._work / "gone.parquet"], "document")
        connection.view("left_over" if self._order is None else "unplaced", "left")
        if self._order is not None:
            connection.table("places", [self._order.path], "document, place")
            connection.view("left_over", "placed")

    def _as_compared(self, paths: dict[Path, int]) -> dict[Path, int]:
        """Tables of documents, or of their URLs' forms."""
        if self._forms is None:
            return paths
        forms = self._forms(list(paths))
        return {forms[path]: scope for path, scope in paths.items()}

    def _older(self, relation: str, gone: np.ndarray) -> Found:
        """Those that an older corpus has.

        Where its document is gone itself, whoever keeps that keeps them.
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
                        # What other rules dropped keeps nobody; texts are compared of what its URL
                        # did not drop either.
                        known = pa.array(REASONS[1:] if relation == "exact" else REASONS)
                        out = pc.and_(
                            pc.is_valid(batch["reason"]),
                            pc.invert(pc.is_in(batch["reason"], known)),
                        )
                        numbers = corpus.numbers(batch["document"].filter(out).to_numpy())
                        writer.write_table(pa.table([pa.array(numbers)], schema=aside))
        if relation == "urls":
            shifts = self._as_compared(shifts)
        with self._relations() as connection:
            self._left_over(connection, relation, gone)
            connection.table("older", shifts, f"document, {_VALUE[relation]} as value")
            connection.table("set_aside", [self._work / "aside.parquet"], "number")
            written = connection.write("older", self._work / f"older.{relation}.parquet")
        table = pa.concat_tables(pq.read_table(path) for path in written)
        numbers, place = np.unique(table["keeper"].to_numpy(), return_inverse=True)
        told = fates(self._against, numbers, [NEAR], self.digests)
        near = (relation == "exact") & (told.reasons == 0)
        columns = (
            told.keepers,
            told.corpora,
            np.where(near, REASONS.index(NEAR), _REASON[relation]).astype(np.int8),
            np.where(near, told.similarities, 1.0),
        )
        return Found(table["document"].to_numpy(), *(column[place] for column in columns))
