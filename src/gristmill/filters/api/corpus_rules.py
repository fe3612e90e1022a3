"""Rules about the whole corpus, by a step's own table: what a document holds beside what the others
hold. `Step.corpus_rules` gives them; phases/relations/corpus_filters.py asks them.

Where a document is dropped by the rank of one measure, `Step.ranks` is all that is needed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gristmill.engine.relations import Relations
from gristmill.filters.api.step import Inputs


class Kept(Protocol):
    """The documents of a raw shard that all steps keep, and the rules asked before."""

    def measure(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Of the documents that have a measure (`step.measure`) the numbers, (n,) int64 ascending,
        and the values, (n,) float64.
        """
        ...

    def rows(self, table: str) -> Iterator[pa.RecordBatch]:
        """Return their rows in a step's own table, whole documents at a time, in document order."""
        ...


class RuleResult(NamedTuple):
    """What a rule says: the documents to drop, what it compared, and what it found."""

    documents: np.ndarray  # (n,) int64, ascending
    values: np.ndarray  # (n,) float64
    threshold: float  # NaN: there was nothing to compare
    report: dict[str, Any]  # its entry in judgement/rules.json, besides `step`
    # rows of judgement/ngrams.parquet, without `rule`
    ngrams: pa.Table | None = None
    # of raw shards, Parquet with `document`, in document order: tables/STEP/ of the corpus
    tables: Mapping[int, Path] = {}


class CorpusRule(Protocol):
    """A question about all documents that are kept."""

    @property
    def reason(self) -> str:
        """Return the verdict's reason, without the step's name."""
        ...

    def key(self) -> dict[str, Any]:
        """Return all that the answer depends on, but for tables, inputs and the step's version."""
        ...

    def ask(
        self, shards: Sequence[Kept], inputs: Inputs, relations: Callable[[], Relations], work: Path
    ) -> RuleResult:
        """Return which documents to drop. `work` is a folder for files on the way, which
        `relations` may read and write.
        """
        ...
