"""Weigh: what a document's measures say beside those of the whole corpus, asked of what all steps keep, before duplicates are.

measures + verdicts of refine -> a quantile of a measure -> the documents beyond it           a step's `ranks`: drop_lowest, drop_highest
contamination                 -> common n-grams          -> documents judged without them     decontaminate's `common`
                              -> judgement/quantiles.json, judgement/ngrams.parquet           what was compared with
                              -> work: weigh/drops.parquet                                    `settle` fills them into the verdicts

Rules are asked one after another, in the order of the steps; a document that one drops is not in the next one's corpus. 17 bytes in memory for
each document that goes.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.clean.step import Step
from gristmill.dedup.database import Opener, Relations, duckdb_with
from gristmill.errors import VerificationError
from gristmill.phases.corpus import Corpus, Record, content_key
from gristmill.phases.refine import shard_name
from gristmill.store.parts import read_batches, sha256_of, write_json, writing_table

FOLDER = "judgement"
QUANTILES = f"{FOLDER}/quantiles.json"
DROPS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("threshold", pa.float64(), nullable=False),
    ]
)
VALUED = pa.schema([pa.field("value", pa.float64())])


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """A rule by rank: of the documents that have a measure, the share at one end goes."""

    step: str
    measure: str
    end: str  # lowest or highest
    share: float
    numbers: list[int]  # the raw shards that the step applies to

    @property
    def reason(self) -> str:
        """The verdict's reason."""
        return f"{self.step}.{self.end}"


class Shard(NamedTuple):
    """What is known of one raw shard."""

    measures: Path
    standing: Callable[[], np.ndarray]  # of each row of the measures whether all steps keep it


class Weighed(NamedTuple):
    """Which documents go by a rule, sorted."""

    documents: np.ndarray  # (n,) int64
    values: np.ndarray  # (n,) float64
    rules: np.ndarray  # (n,) int8: places in the list of rules
    thresholds: list[float]  # of each rule; NaN: nothing was measured
    told: list[dict[str, Any]]  # of each rule what was found


def rankings(steps_of: Mapping[int, Sequence[Step]]) -> list[Ranking]:
    """The rules by rank of the steps of each raw shard, in order."""
    found: dict[tuple[str, str, str, float, tuple[str, ...]], list[int]] = {}
    for number, steps in steps_of.items():
        for step in steps:
            for measure, end, share in getattr(step, "ranks", ()):
                found.setdefault((step.name, measure, end, share, tuple(step.sources or ())), []).append(number)
    return [
        Ranking(step=step, measure=measure, end=end, share=share, numbers=numbers)
        for (step, measure, end, share, _), numbers in found.items()
    ]


def judge_whole(
    rules: Sequence[Ranking], shards: dict[int, Shard], relations: Callable[[], Relations], work: Path
) -> Weighed:
    """Ask the rules, one after another, of the documents that stand. `work` is for what is needed on the way."""
    weighed = Weighed(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int8), [], [])
    for place, rule in enumerate(rules):
        values = partial(_values, rule, shards, weighed.documents)
        with pq.ParquetWriter(work / "valued.parquet", VALUED, compression="none") as writer:
            count = 0
            for _, found in values():
                writer.write_table(pa.table([found], schema=VALUED))
                count += len(found)
        threshold = _quantile(rule, count, relations, work)
        parts = [(weighed.documents, weighed.values)]
        for documents, found in values():
            beyond = found < threshold if rule.end == "lowest" else found > threshold
            parts.append((documents[beyond], found[beyond]))
        documents, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        marks = np.concatenate([weighed.rules, np.full(len(documents) - len(weighed.documents), place, np.int8)])
        told = {
            "step": rule.step, "measure": rule.measure, "end": rule.end, "share": rule.share, "documents": count,
            "quantile": None if np.isnan(threshold) else threshold, "dropped": len(documents) - len(weighed.documents),
        }  # fmt: skip
        order = np.argsort(documents, kind="stable")
        weighed = Weighed(
            documents[order], numbers[order], marks[order], [*weighed.thresholds, threshold], [*weighed.told, told]
        )
    return weighed


def _values(rule: Ranking, shards: dict[int, Shard], gone: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each shard the documents that stand and have the measure, and its values."""
    name = f"{rule.step}.{rule.measure}"
    for number in rule.numbers:
        table = pq.read_table(shards[number].measures, columns=["document", name], use_threads=False)
        documents, values = table["document"].to_numpy(), table[name].cast(pa.float64()).to_numpy()  # a null is NaN
        stands = shards[number].standing() & ~np.isnan(values) & ~np.isin(documents, gone)
        yield documents[stands], values[stands]


def _quantile(rule: Ranking, count: int, relations: Callable[[], Relations], work: Path) -> float:
    """The value that a share of `count` values lies below (or above): at most so many go, fewer where values are equal.

    NaN where there are none.
    """
    if not count:
        return float("nan")
    beyond = int(count * rule.share)
    place = beyond if rule.end == "lowest" else count - 1 - beyond
    with relations() as connection:
        connection.table("valued", [work / "valued.parquet"], "value")
        written = connection.write("quantile", work / "quantile.parquet")
    for path in written:
        for batch in read_batches(path):
            counts = np.cumsum(batch["documents"].to_numpy())
            if place < counts[-1]:
                return float(batch["value"][int(np.searchsorted(counts, place, "right"))].as_py())
            place -= int(counts[-1])
    raise AssertionError(f"{rule.reason}: {count} values, and no value {place}")


class WeighTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that weighing needs."""

    root: str
    rules: list[Ranking]
    measures: dict[int, str]  # sha256 of each shard's measures
    provisional: dict[int, str]  # and of refine's verdicts
    threads: int
    memory_mb: int

    def key(self) -> str:
        """The content key."""
        given = {name: list(getattr(self, name).items()) for name in ("measures", "provisional")}
        return content_key("weigh", rules=self.rules, **given)


def weigh(task: WeighTask, tell: Callable[[int], None], opener: Opener | None = None) -> Record:
    """Find what goes by the rules, by the embedded engine unless another is given; the drops rest under work/."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    work = corpus.work / "weigh"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shards = {}
    for number, sha256 in task.provisional.items():
        verdicts = corpus.work / f"refine/{shard_name(number)}.parquet"
        if sha256_of(verdicts)[1] != sha256:
            raise VerificationError(f"{verdicts}: changed since it was written. Remove the folder work/ and run again")
        measures = corpus.find(f"measures/{shard_name(number)}.parquet")
        shards[number] = Shard(measures, partial(_standing, verdicts))
    relations = partial(opener or duckdb_with(task.threads, task.memory_mb), work / "spill", [work])
    weighed = judge_whole(task.rules, shards, relations, work)
    tell(len(weighed.documents))
    shutil.rmtree(work)
    with writing_table(corpus.work, "weigh/drops.parquet", DROPS) as (table, part):
        for batch in drops_of(weighed, [rule.reason for rule in task.rules]).to_batches(max_chunksize=1 << 16):
            table.write(batch)
    parts = [write_json(corpus.stage, QUANTILES, weighed.told)]
    counts = {"drops": part[0].sha256, "rows": table.rows, "seconds": time.perf_counter() - start}
    return corpus.record("weigh", "all", Record(key=task.key(), parts=parts, counts=counts))


def drops_of(weighed: Weighed, reasons: list[str]) -> pa.Table:
    """DROPS, sorted by document."""
    thresholds = np.array(weighed.thresholds, np.float64)
    columns = [
        pa.array(weighed.documents), pa.array(reasons, pa.string()).take(pa.array(weighed.rules)), pa.array(weighed.values),
        pa.array(thresholds[weighed.rules]),
    ]  # fmt: skip
    return pa.table(columns, schema=DROPS)


def _standing(verdicts: Path) -> np.ndarray:
    return np.asarray(pq.read_table(verdicts, columns=["reason"], use_threads=False)["reason"].is_null().to_numpy())


def task_of(
    corpus: Corpus, steps_of: Mapping[int, Sequence[Step]], refined: dict[int, Record], *, threads: int, memory_mb: int
) -> WeighTask | None:
    """The task of all shards that were refined; None: no step asks about the whole corpus."""
    rules = rankings(steps_of)
    if not rules:
        return None
    return WeighTask(
        root=str(corpus.root), rules=rules, threads=threads, memory_mb=memory_mb,
        measures={number: record.part("measures/").sha256 for number, record in refined.items()},
        provisional={number: record.counts["verdicts"] for number, record in refined.items()},
    )  # fmt: skip
