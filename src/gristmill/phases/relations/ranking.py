"""A rule by rank: of the documents that have a measure, the share at one end is dropped.

`Step.ranks` asks for it. Two passes over the measures: the quantile comes from `quantile.sql`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.engine.relations import Relations
from gristmill.filters.api.corpus_rules import Kept, RuleResult
from gristmill.filters.api.step import Inputs
from gristmill.store.parts import read_batches

VALUED = pa.schema([pa.field("value", pa.float64())])


class Ranking(NamedTuple):
    """A rule (filters.api.corpus_rules.CorpusRule)."""

    step: str
    measure: str
    end: str  # lowest or highest
    share: float

    @property
    def reason(self) -> str:
        """Return the verdict's reason, without the step's name."""
        return self.end

    def key(self) -> dict[str, Any]:
        """Return all that the answer depends on, but for tables."""
        return self._asdict()

    def ask(
        self, shards: Sequence[Kept], inputs: Inputs, relations: Callable[[], Relations], work: Path
    ) -> RuleResult:
        """Return which documents to drop."""
        name = f"{self.step}.{self.measure}"
        count = 0
        with pq.ParquetWriter(work / "valued.parquet", VALUED, compression="none") as writer:
            for shard in shards:
                _, values = shard.measure(name)
                writer.write_table(pa.table([values], schema=VALUED))
                count += len(values)
        threshold = self._quantile(count, relations, work)
        parts = [(np.empty(0, np.int64), np.empty(0))]
        for shard in shards:
            documents, values = shard.measure(name)
            beyond = values < threshold if self.end == "lowest" else values > threshold
            parts.append((documents[beyond], values[beyond]))
        documents, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        report = {
            "measure": self.measure,
            "end": self.end,
            "share": self.share,
            "documents": count,
            "quantile": None if np.isnan(threshold) else threshold,
            "dropped": len(documents),
        }
        return RuleResult(documents, values, threshold, report)

    def _quantile(self, count: int, relations: Callable[[], Relations], work: Path) -> float:
        """Return the value that a share of `count` values lies below (or above): at most that share
        is dropped, less where values are equal. NaN where there are none.
        """
        if not count:
            return float("nan")
        beyond = int(count * self.share)
        place = beyond if self.end == "lowest" else count - 1 - beyond
        with relations() as connection:
            connection.table("valued", [work / "valued.parquet"], "value")
            written = connection.write("quantile", work / "quantile.parquet")
        for path in written:
            for batch in read_batches(path):
                counts = np.cumsum(batch["documents"].to_numpy())
                if place < counts[-1]:
                    row = int(np.searchsorted(counts, place, "right"))
                    return float(batch["value"][row].as_py())
                place -= int(counts[-1])
        raise AssertionError(f"{self.step}.{self.end}: {count} values, and no value {place}")
