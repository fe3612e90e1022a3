"""Corpus filters: what a document's measures say beside those of the whole corpus, asked of what
all steps keep, before duplicates are looked for.

    measures, verdicts, steps' own tables -> rules, one after another -> the documents to drop
        a step's `ranks` (ranking.py)   -> a quantile of a measure; the documents beyond it
        a step's `corpus_rules`         -> what the step asks by its own table
    -> judgement/rules.json, judgement/ngrams.parquet     what was compared with
    -> tables/STEP/<shard>.parquet                        what a rule says of each document
    -> work: corpus_filters/drops.parquet                 which `write_verdicts` fills in

Rules are asked in the order of the steps; a document that one drops is not in the next one's
corpus. 17 bytes in memory for each document that is dropped.
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

from gristmill.corpus.corpus import Corpus
from gristmill.dedup.disk_arrays import in_sorted
from gristmill.engine.engine import Session
from gristmill.engine.relations import Relations
from gristmill.filters.api.corpus_rules import CorpusRule
from gristmill.filters.api.step import Input, Step
from gristmill.phases.phase import WHOLE, Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.ranking import Ranking
from gristmill.recipe import Recipe, make_step
from gristmill.store.parts import read_batches, write_json, writing_table
from gristmill.store.proof import proven
from gristmill.tables.schema import shard_name

FOLDER = "judgement"
RULES, NGRAMS = f"{FOLDER}/rules.json", f"{FOLDER}/ngrams.parquet"
DROPPED = "corpus_filters/drops.parquet"  # under work/
DROPS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("threshold", pa.float64(), nullable=False),
    ]
)
LISTED = pa.schema(  # common n-grams
    [
        pa.field("rule", pa.int64(), nullable=False),  # its place in rules.json
        pa.field("ngram", pa.int64(), nullable=False),  # its number among the benchmarks'
        pa.field("documents", pa.int64(), nullable=False),  # that it occurs in
    ]
)


class Shard(NamedTuple):
    """What is known of one raw shard."""

    measures: Path
    tables: Mapping[str, Path]  # of steps' own tables those that the shard has, by folder
    kept: Callable[[], np.ndarray]  # of each row of the measures whether all steps keep it


class _ShardFiles(NamedTuple):
    """A shard as a rule sees it (filters.api.corpus_rules.Kept)."""

    shard: Shard
    dropped: np.ndarray  # by the rules before, ascending

    def measure(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        table = pq.read_table(self.shard.measures, columns=["document", name], use_threads=False)
        documents = table["document"].to_numpy()
        values = table[name].cast(pa.float64()).to_numpy()  # a null is NaN
        kept = self.shard.kept() & ~np.isnan(values) & ~in_sorted(documents, self.dropped)
        return documents[kept], values[kept]

    def rows(self, table: str) -> Iterator[pa.RecordBatch]:
        measures = pq.read_table(self.shard.measures, columns=["document"], use_threads=False)
        kept = measures["document"].to_numpy()[self.shard.kept()]
        path = self.shard.tables[table]
        rows = pa.Table.from_batches(list(read_batches(path)), pq.read_schema(path))
        documents = rows["document"].to_numpy()
        wanted = in_sorted(documents, kept) & ~in_sorted(documents, self.dropped)
        yield from rows.filter(pa.array(wanted)).combine_chunks().to_batches()


class AskedRule(NamedTuple):
    """A rule of a step, and what it is asked of."""

    step: Step
    rule: CorpusRule
    numbers: list[int]  # the raw shards that the step applies to
    inputs: Mapping[str, Input]  # those of the step that the rule reads

    @property
    def reason(self) -> str:
        """Return the verdict's reason."""
        return f"{self.step.name}.{self.rule.reason}"

    def key(self) -> dict[str, Any]:
        """Return all that its answer depends on, but for tables."""
        return {
            "reason": self.reason,
            "version": self.step.version,
            "rule": self.rule.key(),
            "inputs": {location: given.sha256 for location, given in self.inputs.items()},
            "numbers": self.numbers,
        }


class CorpusFiltered(NamedTuple):
    """Which documents a rule drops, ascending."""

    documents: np.ndarray  # (n,) int64
    values: np.ndarray  # (n,) float64
    rules: np.ndarray  # (n,) int8: places in the list of rules
    thresholds: list[float]  # of each rule; NaN: nothing was measured
    reports: list[dict[str, Any]]  # of each rule what was found
    listed: list[pa.Table]  # LISTED, of each rule that lists n-grams
    tables: list[tuple[str, int, Path]]  # the step, the raw shard, and what a rule says of it


def make_rules(
    steps: Sequence[Step], sources: Mapping[int, str], inputs: Mapping[str, Input]
) -> list[AskedRule]:
    """Return the rules about the whole corpus, in the order of the recipe's steps; `sources` are
    those of the raw shards that are there.
    """
    rules = []
    for step in steps:
        numbers = [
            number
            for number, source in sources.items()
            if step.sources is None or source in step.sources
        ]
        for rule in step.corpus_rules:
            given = {location: inputs[location] for location in step.inputs().values()}
            rules.append(AskedRule(step, rule, numbers, given))
        rules += [AskedRule(step, Ranking(step.name, *rank), numbers, {}) for rank in step.ranks]
    return rules


def asking(tables: Sequence[dict[str, Any]]) -> list[Step]:
    """Return the steps that ask about the whole corpus, in order; `tables` are the recipe's."""
    steps = [make_step(place, table) for place, table in enumerate(tables)]
    return [step for step in steps if step.ranks or step.corpus_rules]


def rule_reasons(tables: Sequence[dict[str, Any]]) -> set[str]:
    """Return the reasons of its rules."""
    steps = asking(tables)
    by_rank = {f"{step.name}.{rank.end}" for step in steps for rank in step.ranks}
    return by_rank | {f"{step.name}.{rule.reason}" for step in steps for rule in step.corpus_rules}


def judge_whole(
    rules: Sequence[AskedRule],
    shards: dict[int, Shard],
    relations: Callable[[], Relations],
    work: Path,
) -> CorpusFiltered:
    """Ask the rules, one after another, of the documents that are kept.

    `work` is for what is needed on the way.
    """
    result = CorpusFiltered(
        np.empty(0, np.int64), np.empty(0), np.empty(0, np.int8), [], [], [], []
    )
    for place, (step, rule, numbers, inputs) in enumerate(rules):
        kept = [_ShardFiles(shards[number], result.documents) for number in numbers]
        answer = rule.ask(kept, inputs, relations, work)
        documents = np.concatenate([result.documents, answer.documents])
        order = np.argsort(documents, kind="stable")
        marks = np.concatenate([result.rules, np.full(len(answer.documents), place, np.int8)])
        listed = list(result.listed)
        if answer.ngrams is not None:
            places = pa.array(np.full(len(answer.ngrams), place))
            listed.append(answer.ngrams.add_column(0, LISTED.field(0), places).cast(LISTED))
        result = CorpusFiltered(
            documents[order],
            np.concatenate([result.values, answer.values])[order],
            marks[order],
            [*result.thresholds, answer.threshold],
            [*result.reports, {"step": step.name, **answer.report}],
            listed,
            [
                *result.tables,
                *((step.name, number, path) for number, path in sorted(answer.tables.items())),
            ],
        )
    return result


class CorpusRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a recipe's steps."""

    step: list[dict[str, Any]]  # of the recipe
    sources: dict[int, str]  # of each raw shard its source
    inputs: dict[str, Input]  # of the steps that ask

    def made(self) -> list[AskedRule]:
        """Return the rules, in order."""
        return make_rules(asking(self.step), self.sources, self.inputs)

    def key(self) -> list[dict[str, Any]]:
        """Return all that their answers depend on, but for tables."""
        return [rule.key() for rule in self.made()]


class CorpusFilterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What corpus filters counted."""

    rows: int  # documents that they dropped
    seconds: float


class CorpusFiltersTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that corpus filtering needs."""

    root: Runtime[str]
    rules: CorpusRules
    measures: dict[int, str]  # sha256 of each shard's measures
    provisional: dict[int, str]  # and of process's verdicts
    tables: dict[int, dict[str, str]]  # and of steps' own tables, by folder


def corpus_filters(
    task: CorpusFiltersTask, on_progress: Callable[[int], None], session: Session
) -> Output:
    """Find what the rules drop; the drops are written under work/."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    corpus.forget(CORPUS_FILTERS.name, WHOLE)
    work = corpus.work / "corpus_filters"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shards = {}
    for number, sha256 in task.provisional.items():
        name = f"{shard_name(number)}.parquet"
        verdicts = proven(corpus.work / f"process/{name}", sha256)
        measures = proven(corpus.find(f"measures/{name}"), task.measures[number])
        tables = {
            folder: proven(corpus.find(f"{folder}/{name}"), digest)
            for folder, digest in task.tables[number].items()
        }
        shards[number] = Shard(measures, tables, partial(_kept, verdicts))
    relations = partial(session.open, work / "spill", [work])
    rules = task.rules.made()
    result = judge_whole(rules, shards, relations, work)
    on_progress(len(result.documents))
    parts = []
    for step, number, path in result.tables:
        at = f"tables/{step}/{shard_name(number)}.parquet"
        with writing_table(corpus.stage, at, pq.read_schema(path)) as (table, written):
            for batch in read_batches(path):
                table.write(batch)
        parts += written
    shutil.rmtree(work)
    drops = sort_drops(result, [rule.reason for rule in rules])
    with writing_table(corpus.work, DROPPED, DROPS) as (table, part):
        for batch in drops.to_batches(max_chunksize=1 << 16):
            table.write(batch)
    parts.append(write_json(corpus.stage, RULES, result.reports))
    if result.listed:
        with writing_table(corpus.stage, NGRAMS, LISTED) as (table, listed):
            for batch in pa.concat_tables(result.listed).to_batches(max_chunksize=1 << 16):
                table.write(batch)
        parts += listed
    counts = CorpusFilterCounts(rows=len(result.documents), seconds=time.perf_counter() - start)
    return Output(counts, parts, part)


def sort_drops(found: CorpusFiltered, reasons: list[str]) -> pa.Table:
    """DROPS, sorted by document."""
    thresholds = np.array(found.thresholds, np.float64)
    columns = [
        pa.array(found.documents),
        pa.array(reasons, pa.string()).take(pa.array(found.rules)),
        pa.array(found.values),
        pa.array(thresholds[found.rules]),
    ]
    return pa.table(columns, schema=DROPS)


def _kept(verdicts: Path) -> np.ndarray:
    reasons = pq.read_table(verdicts, columns=["reason"], use_threads=False)["reason"]
    return np.asarray(reasons.is_null().to_numpy())


def tasks(state: State) -> Iterator[dict[int, CorpusFiltersTask]]:
    """Yield one task of all shards that were processed."""
    processed = state.of(PROCESS)
    steps = asking(state.recipe.step)
    folders = {step.table for step in steps if step.corpus_rules}
    rules = CorpusRules(
        step=state.recipe.step,
        sources={number: state.plan.shards[number].source for number in processed},
        inputs={place: state.inputs[place] for step in steps for place in step.inputs().values()},
    )
    task = CorpusFiltersTask(
        root=str(state.corpus.root),
        rules=rules,
        measures={number: record.part("measures/").sha256 for number, record in processed.items()},
        provisional={number: record.work[0].sha256 for number, record in processed.items()},
        tables={
            number: {
                folder: part.sha256
                for part in record.parts
                if (folder := part.path.rpartition("/")[0]) in folders
            }
            for number, record in processed.items()
        },
    )
    yield {0: task}


def is_asked(recipe: Recipe) -> bool:
    """Return whether a step asks about the whole corpus."""
    return bool(asking(recipe.step))


CORPUS_FILTERS = Phase(
    name="corpus_filters",
    stop="deduplicate",
    scope="corpus",
    recipe=("step",),
    reads=("measures", "contamination", "tables", "work/process"),
    writes=(FOLDER, "tables", "work/corpus_filters"),
    formats=("corpus_filters",),
    counts=CorpusFilterCounts,
    function=corpus_filters,
    tasks=tasks,
    is_asked=is_asked,
)
