"""Common n-grams: what stands in more documents of a corpus than `common` is no evidence that a
document holds a benchmark item.

    contamination/<shard>.parquet -> hits -> common_ngrams.sql -> the list of common n-grams
    contamination/<shard>.parquet + the list -> judge_common -> the documents to drop

A common n-gram counts neither among an item's n-grams nor among those found: overlap = (matched -
common ones matched) / (n-grams - common ones). An item of which nothing is left drops nothing.
Tables are schema.CONTAMINATION with `hits`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.engine.relations import Relations
from gristmill.filters.api.corpus_rules import Kept, RuleResult
from gristmill.filters.api.step import Inputs

if TYPE_CHECKING:
    from gristmill.kernels.decontaminate.items import Index

RELATION = "filters/decontaminate/common_ngrams"  # its SQL, beside this module
HITS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("ngram", pa.int64(), nullable=False),
    ]
)
DROPS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),  # its overlap, without common n-grams
        pa.field("threshold", pa.float64(), nullable=False),
    ]
)


COMMON = pa.schema(
    [
        pa.field("ngram", pa.int64(), nullable=False),  # its number among the benchmarks'
        pa.field("documents", pa.int64(), nullable=False),  # that it stands in
    ]
)


class CommonNgrams(NamedTuple):
    """A rule by overlap with benchmarks, where n-grams that stand in too many documents do not
    count.
    """

    table: str  # the folder of CONTAMINATION
    common: int  # documents that an n-gram may stand in
    threshold: float
    parameters: dict[str, Any]  # of the step
    load: "Callable[[Inputs], Index]"  # the benchmarks

    @property
    def reason(self) -> str:
        return "overlap"

    def key(self) -> dict[str, Any]:
        return {"parameters": self.parameters}

    def ask(
        self, shards: Sequence[Kept], inputs: Inputs, relations: Callable[[], Relations], work: Path
    ) -> RuleResult:
        with pq.ParquetWriter(work / "hits.parquet", HITS, compression="none") as writer:
            for shard in shards:
                for batch in hits(shard.rows(self.table)):
                    writer.write_table(pa.Table.from_batches([batch]))
        with relations() as connection:
            connection.table("hits", [work / "hits.parquet"], "document, ngram")
            connection.row("parameters", most=self.common)
            written = connection.write(RELATION, work / "ngrams.parquet")
        listed = pa.concat_tables(pq.read_table(path) for path in written).cast(COMMON)
        numbers = listed["ngram"].to_numpy()
        index = self.load(inputs)
        left = unlisted(index.part_offsets, index.part_ngrams, numbers)
        batches = (batch for shard in shards for batch in shard.rows(self.table))
        drops = judge_common(batches, numbers, left, threshold=self.threshold)
        table = pa.Table.from_batches(list(drops), DROPS)
        report = {
            "common": self.common,
            "ngrams": len(listed),
            "threshold": self.threshold,
            "dropped": len(table),
        }
        return RuleResult(
            table["document"].to_numpy(), table["value"].to_numpy(), self.threshold, report, listed
        )


def hits(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """HITS of batches of CONTAMINATION: a row for each n-gram of each row; what stands in several
    items of a document does so again.
    """
    for batch in found:
        owners, ngrams = _unroll(batch)
        documents = batch["document"].to_numpy()[owners]
        yield pa.RecordBatch.from_arrays(
            [pa.array(documents), pa.array(ngrams.astype(np.int64))], schema=HITS
        )


def judge_common(
    found: Iterable[pa.RecordBatch], listed: np.ndarray, left: np.ndarray, *, threshold: float
) -> Iterator[pa.RecordBatch]:
    """DROPS of batches of CONTAMINATION, each of whole documents: those that hold `threshold` or
    more of some item (0: any n-gram).

    listed: (k,) the numbers of common n-grams, ascending. left: (p,) of each part the n-grams that
    are not listed (`unlisted`).
    """
    for batch in found:
        owners, ngrams = _unroll(batch)
        counts = np.bincount(owners[~np.isin(ngrams, listed)], minlength=len(batch))
        shares = counts / np.maximum(left[batch["part"].to_numpy()], 1)
        dropped = (counts > 0) & (shares >= threshold)
        documents = batch["document"].to_numpy()[dropped]
        order = np.lexsort((-shares[dropped], documents))
        names, firsts = np.unique(documents[order], return_index=True)
        values = shares[dropped][order][firsts]
        columns = [pa.array(names), pa.array(values), pa.array(np.full(len(names), threshold))]
        yield pa.RecordBatch.from_arrays(columns, schema=DROPS)


def unlisted(offsets: np.ndarray, ngrams: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """Of p parts how many of their n-grams are not listed, (p,) int64: offsets (p + 1,) into ngrams
    (kernels/decontaminate/items.py, Index).
    """
    counted = np.concatenate([[0], np.cumsum(~np.isin(ngrams, listed))])
    return np.asarray(counted[offsets[1:]] - counted[offsets[:-1]])


def _unroll(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Of every hit n-gram the row that has it, and its number."""
    lists = batch["hits"]
    if lists.null_count:
        raise ValueError("rows without `hits`: they were found by a step without `common`")
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(batch)), lengths), lists.flatten().to_numpy(zero_copy_only=False)
