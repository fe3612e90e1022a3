"""Several scores as one, and buckets by its rank in the whole corpus.

    bucket      the document is in a bucket below min_bucket

`scores` are measures of steps before this one: `scores.edu`, `classifier.score`,
`perplexity.perplexity`. `combine` says what is made of a document's:

    max, mean       of the scores as they are
    rank_mean       of their percentile ranks: the share of documents with a lower score and half of
                    those with the same one, from 0 to 1
    bucket_max      of their buckets: each score is ranked alone, and the best place counts
                    (Nemotron-CC, Su 2024, section 2.3: arXiv 2412.02595)

A document is in bucket b of `buckets`, from 0, if b/`buckets` of the documents have a lower score
(at least, and less than (b+1)/`buckets`): 20 are Nemotron-CC's, and steps of 5 %. Equal scores are
in one bucket. With bucket_max the bucket is the score. Every score counts upwards; where low is
good, say `reverse = ["perplexity.perplexity"]`.

What a document lacks of its scores is left out; one that has none has no bucket, and stays.
`tables/ensemble/` has score and bucket of each document that all steps before dedup keep, and
`[tokens]` can make partitions and repeats of them (`by = "ensemble.bucket"`).

The ranks come from quantile.sql, on the run's engine; a raw shard's scores are in memory at a time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from gristmill.engine.relations import Relations
from gristmill.errors import RecipeError
from gristmill.filters.api.corpus_rules import CorpusRule, Kept, RuleResult
from gristmill.filters.api.step import Inputs, Measured, Step
from gristmill.store.parts import read_batches
from gristmill.tables.schema import shard_number

Combine = Literal["max", "mean", "rank_mean", "bucket_max"]
VALUED = pa.schema([pa.field("value", pa.float64())])
SCORED = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("bucket", pa.int64(), nullable=False),
    ]
)


class Ensemble(Step, frozen=True, kw_only=True):
    """Combine scores and put documents into buckets; drop those in low buckets.

    A bucket is by the rank in the corpus. Origin: Nemotron-CC (Su 2024).
    """

    name: ClassVar[str] = "ensemble"
    version: ClassVar[int] = 1
    example: ClassVar[str] = 'scores = ["classifier.score"]\nmin_bucket = 7'
    reasons: ClassVar[Mapping[str, str]] = {
        "bucket": "The document is in a bucket below `min_bucket`."
    }

    # The scores, as measures of earlier steps: `classifier.score`.
    scores: Annotated[list[str], Meta(min_length=1, max_length=64)]
    # What is made of a document's scores: the greatest, the mean, the mean of their ranks, or the
    # best bucket.
    combine: Combine = "mean"
    # Scores of which a lower one is better.
    reverse: list[str] = msgspec.field(default_factory=list)
    # Into how many buckets of equal size documents are put.
    buckets: Annotated[int, Meta(ge=1, le=10_000)] = 20
    min_bucket: Annotated[int, Meta(ge=0)] = 0  # The lowest bucket that is kept; 0: all are.

    def __post_init__(self) -> None:
        for score in self.scores:
            step, dot, measure = score.partition(".")
            if not (step and dot and measure) or step == self.name:
                raise ValueError(f"{score!r} is no measure of another step, such as scores.edu")
        if len(set(self.scores)) < len(self.scores):
            raise ValueError("a score is named twice")
        for score in (score for score in self.reverse if score not in self.scores):
            raise ValueError(f"reverse names {score!r}, which `scores` does not")
        if self.min_bucket >= self.buckets:
            raise ValueError(
                f"min_bucket = {self.min_bucket}: the best of {self.buckets} buckets is "
                f"{self.buckets - 1}: it would drop all"
            )

    @property
    def corpus_rules(self) -> Sequence[CorpusRule]:
        signs = tuple(-1.0 if score in self.reverse else 1.0 for score in self.scores)
        return [
            EnsembleRule(tuple(self.scores), signs, self.combine, self.buckets, self.min_bucket)
        ]

    @property
    def reads(self) -> Sequence[str]:
        return self.scores

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        return lambda _: Measured({})  # a document alone has no rank


class EnsembleRule(NamedTuple):
    """The question about the whole corpus (filters.api.corpus_rules.CorpusRule)."""

    scores: tuple[str, ...]
    signs: tuple[float, ...]  # -1: the lower the better
    combine: Combine
    buckets: int
    min_bucket: int

    @property
    def reason(self) -> str:
        """Return the verdict's reason, without the step's name."""
        return "bucket"

    def key(self) -> dict[str, Any]:
        """Return all that the answer depends on, but for tables."""
        return self._asdict()

    def ask(
        self, shards: Sequence[Kept], inputs: Inputs, relations: Callable[[], Relations], work: Path
    ) -> RuleResult:
        """Return which documents to drop, and SCORED of each raw shard."""
        work = Path(mkdtemp(dir=work))
        ranked = self.combine in ("rank_mean", "bucket_max")
        ranks = [
            ScoreRanks.of(shards, name, sign, relations, work / str(place)) if ranked else None
            for place, (name, sign) in enumerate(zip(self.scores, self.signs, strict=True))
        ]
        own = ScoreRanks.of_values(
            (self._combined(shard, ranks)[1] for shard in shards), relations, work / "own"
        )
        counts = np.zeros(self.buckets, np.int64)
        dropped = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        written: dict[int, Path] = {}
        for shard in shards:
            documents, scores = self._combined(shard, ranks)
            if not len(documents):
                continue
            bucket = (
                scores.astype(np.int64)
                if self.combine == "bucket_max"
                else own.buckets(scores, self.buckets)
            )
            counts += np.bincount(bucket, minlength=self.buckets)
            low = bucket < self.min_bucket
            dropped.append((documents[low], bucket[low]))
            path = work / f"{len(written):05d}.parquet"
            pq.write_table(pa.table([documents, scores, bucket], schema=SCORED), path)
            written[shard_number(int(documents[0]))] = path
        documents, values = (np.concatenate(columns) for columns in zip(*dropped, strict=True))
        report = {
            "scores": list(self.scores),
            "combine": self.combine,
            "documents": int(counts.sum()),
            "buckets": counts.tolist(),
            "dropped": len(documents),
        }
        return RuleResult(
            documents, values.astype(np.float64), float(self.min_bucket), report, tables=written
        )

    def _combined(
        self, shard: Kept, ranks: "Sequence[ScoreRanks | None]"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the documents of a shard that have a score, (n,) int64, and their combined ones,
        (n,) float64.
        """
        scores = [_read_scores(shard, name) for name in self.scores]
        documents = np.unique(np.concatenate([documents for documents, _ in scores]))
        total = np.zeros(len(documents))
        best = np.full(len(documents), -np.inf)
        count = np.zeros(len(documents), np.int64)
        for (own, values), sign, rank in zip(scores, self.signs, ranks, strict=True):
            places = np.searchsorted(documents, own)
            value = values * sign
            if rank is not None and self.combine == "rank_mean":
                value = rank.percentiles(value)
            elif rank is not None:
                value = rank.buckets(value, self.buckets).astype(np.float64)
            total[places] += value
            best[places] = np.maximum(best[places], value)
            count[places] += 1
        if self.combine in ("mean", "rank_mean"):
            return documents, total / count
        return documents, best


class ScoreRanks(NamedTuple):
    """The different values of a score, and how many documents have a lower one."""

    values: np.ndarray  # (n,) float64, ascending
    below: np.ndarray  # (n + 1,) int64: documents with a lower value; at the end all

    @classmethod
    def of(
        cls,
        shards: Sequence[Kept],
        name: str,
        sign: float,
        relations: Callable[[], Relations],
        work: Path,
    ) -> "ScoreRanks":
        """Return the ranks of a measure, times `sign`."""
        values = (_read_scores(shard, name)[1] * sign for shard in shards)
        return cls.of_values(values, relations, work)

    @classmethod
    def of_values(
        cls, values: Iterator[np.ndarray], relations: Callable[[], Relations], work: Path
    ) -> "ScoreRanks":
        """Return the ranks of values; `work` is a folder for files."""
        work.mkdir()
        with pq.ParquetWriter(work / "valued.parquet", VALUED, compression="none") as writer:
            for array in values:
                writer.write_table(pa.table([array], schema=VALUED))
        with relations() as connection:
            connection.table("valued", [work / "valued.parquet"], "value")
            written = connection.write("quantile", work / "quantile.parquet")
        lower = 0
        with open(work / "values", "wb") as file, open(work / "below", "wb") as sums:
            for path in written:
                for batch in read_batches(path):
                    counts = np.cumsum(batch["documents"].to_numpy())
                    file.write(batch["value"].to_numpy().tobytes())
                    sums.write((lower + np.append(0, counts[:-1])).astype(np.int64).tobytes())
                    lower += int(counts[-1]) if len(counts) else 0
            sums.write(np.int64(lower).tobytes())
        below = np.memmap(work / "below", np.int64, "r")
        if len(below) == 1:
            return cls(np.empty(0), np.zeros(1, np.int64))
        return cls(np.memmap(work / "values", np.float64, "r"), below)

    def percentiles(self, values: np.ndarray) -> np.ndarray:
        """Return (n,) float64 in 0 to 1: of values that are among those that were ranked."""
        place = np.searchsorted(self.values, values)
        return np.asarray((self.below[place] + self.below[place + 1]) / (2 * max(self.total, 1)))

    def buckets(self, values: np.ndarray, buckets: int) -> np.ndarray:
        """Return (n,) int64, from 0."""
        place = np.searchsorted(self.values, values)
        return np.asarray(self.below[place] * buckets // max(self.total, 1))

    @property
    def total(self) -> int:
        """Return all documents that were ranked."""
        return int(self.below[-1])


def _read_scores(shard: Kept, name: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        return shard.measure(name)
    except (KeyError, pa.ArrowException) as error:
        raise RecipeError(
            f"ensemble.scores: {name!r} is no number that a step measures: {error}"
        ) from error
