"""Corpus filters: what a document's measures say beside those of the whole corpus, asked of what
all steps keep, before duplicates are.

measures + verdicts of process -> a quantile of a measure -> the documents beyond it           a
    step's `ranks`: drop_lowest, drop_highest
contamination                 -> common n-grams          -> documents judged without them
    decontaminate's `common`
                              -> judgement/rules.json, judgement/ngrams.parquet               what
                                  was compared with
                              -> work: corpus_filters/drops.parquet
                                  `write_verdicts` fills them into the verdicts

Rules are asked one after another, in the order of the steps; a document that one drops is not in
the next one's corpus. 17 bytes in memory for each document that goes.
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

from gristmill.corpus.corpus import Corpus, Record, content_key
from gristmill.dedup.near.signature_rows import among
from gristmill.engine.engine import Session
from gristmill.engine.relations import Relations
from gristmill.filters.api.step import Input, Step
from gristmill.filters.decontaminate import common_ngrams
from gristmill.filters.decontaminate.decontaminate import Decontaminate, load
from gristmill.recipe import Recipe, make_step
from gristmill.schema import shard_name
from gristmill.store.parts import read_batches, write_json, writing_table
from gristmill.store.proof import proven

FOLDER = "judgement"
TOLD, NGRAMS = f"{FOLDER}/rules.json", f"{FOLDER}/ngrams.parquet"
DROPS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("threshold", pa.float64(), nullable=False),
    ]
)
VALUED = pa.schema([pa.field("value", pa.float64())])
LISTED = pa.schema(  # common n-grams
    [
        pa.field("rule", pa.int64(), nullable=False),  # its place in rules.json
        pa.field("ngram", pa.int64(), nullable=False),  # its number among the benchmarks'
        pa.field("documents", pa.int64(), nullable=False),  # that it stands in
    ]
)


class Shard(NamedTuple):
    """What is known of one raw shard."""

    measures: Path
    contamination: Path  # it need not be there
    standing: Callable[[], np.ndarray]  # of each row of the measures whether all steps keep it


class Asked(NamedTuple):
    """What a rule says: the documents that go, what it compared, and what it found."""

    documents: np.ndarray  # (n,) int64, sorted
    values: np.ndarray  # (n,) float64
    threshold: float  # NaN: there was nothing to compare
    told: dict[str, Any]
    listed: pa.Table | None = None  # LISTED, without `rule`


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

    def key(self) -> dict[str, Any]:
        """All that its answer depends on, but for tables."""
        return msgspec.structs.asdict(self)

    def ask(
        self,
        shards: dict[int, Shard],
        gone: np.ndarray,
        relations: Callable[[], Relations],
        work: Path,
    ) -> Asked:
        """What goes of the documents that stand and are not `gone` (sorted)."""
        count = 0
        with pq.ParquetWriter(work / "valued.parquet", VALUED, compression="none") as writer:
            for _, values in self._values(shards, gone):
                writer.write_table(pa.table([values], schema=VALUED))
                count += len(values)
        threshold = self._quantile(count, relations, work)
        parts = [(np.empty(0, np.int64), np.empty(0))]
        for documents, values in self._values(shards, gone):
            beyond = values < threshold if self.end == "lowest" else values > threshold
            parts.append((documents[beyond], values[beyond]))
        documents, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        told = {
            "step": self.step,
            "measure": self.measure,
            "end": self.end,
            "share": self.share,
            "documents": count,
            "quantile": None if np.isnan(threshold) else threshold,
            "dropped": len(documents),
        }
        return Asked(documents, values, threshold, told)

    def _values(
        self, shards: dict[int, Shard], gone: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each shard the documents that stand and have the measure, and its values."""
        name = f"{self.step}.{self.measure}"
        for number in self.numbers:
            table = pq.read_table(
                shards[number].measures, columns=["document", name], use_threads=False
            )
            documents, values = (
                table["document"].to_numpy(),
                table[name].cast(pa.float64()).to_numpy(),
            )  # a null is NaN
            stands = shards[number].standing() & ~np.isnan(values) & ~among(documents, gone)
            yield documents[stands], values[stands]

    def _quantile(self, count: int, relations: Callable[[], Relations], work: Path) -> float:
        """The value that a share of `count` values lies below (or above): at most so many go, fewer
        where values are equal.

        NaN where there are none.
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
                    return float(
                        batch["value"][int(np.searchsorted(counts, place, "right"))].as_py()
                    )
                place -= int(counts[-1])
        raise AssertionError(f"{self.reason}: {count} values, and no value {place}")


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """A rule by overlap with benchmarks, where n-grams that stand in too many documents do not
    count (filters/decontaminate/common_ngrams.py).
    """

    step: Decontaminate
    inputs: dict[str, Input]  # of the step
    numbers: list[int]  # the raw shards that it applies to

    @property
    def reason(self) -> str:
        """The verdict's reason."""
        return f"{self.step.name}.overlap"

    def key(self) -> dict[str, Any]:
        """All that its answer depends on, but for tables."""
        digests = {
            name: self.inputs[location].sha256 for name, location in self.step.inputs().items()
        }
        return {
            "step": self.step,
            "version": self.step.version,
            "inputs": digests,
            "numbers": self.numbers,
        }

    def ask(
        self,
        shards: dict[int, Shard],
        gone: np.ndarray,
        relations: Callable[[], Relations],
        work: Path,
    ) -> Asked:
        """What goes of the documents that stand and are not `gone` (sorted)."""
        with pq.ParquetWriter(
            work / "hits.parquet", common_ngrams.HITS, compression="none"
        ) as writer:
            for found in self._found(shards, gone):
                for batch in common_ngrams.hits([found]):
                    writer.write_table(pa.Table.from_batches([batch]))
        with relations() as connection:
            connection.table("hits", [work / "hits.parquet"], "document, ngram")
            connection.row("parameters", most=self.step.common or 0)
            written = connection.write("ngrams", work / "ngrams.parquet")
        listed = pa.concat_tables(pq.read_table(path) for path in written).cast(
            pa.schema(list(LISTED)[1:])
        )
        numbers = listed["ngram"].to_numpy()
        index = load(self.step, self.inputs).table
        left = common_ngrams.unlisted(index.part_offsets, index.part_ngrams, numbers)
        drops = [
            batch
            for found in self._found(shards, gone)
            for batch in common_ngrams.judge_common(
                [found], numbers, left, threshold=self.step.threshold
            )
        ]
        table = pa.Table.from_batches(drops, common_ngrams.DROPS)
        told = {
            "step": self.step.name,
            "common": self.step.common,
            "ngrams": len(listed),
            "threshold": self.step.threshold,
            "dropped": len(table),
        }
        return Asked(
            table["document"].to_numpy(),
            table["value"].to_numpy(),
            self.step.threshold,
            told,
            listed,
        )

    def _found(self, shards: dict[int, Shard], gone: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Rows of items in documents that stand, whole documents at a time."""
        for number in self.numbers:
            shard = shards[number]
            documents = pq.read_table(shard.measures, columns=["document"], use_threads=False)[
                "document"
            ].to_numpy()
            standing = documents[shard.standing()]
            rows = pa.Table.from_batches(
                list(read_batches(shard.contamination)), pq.read_schema(shard.contamination)
            )
            of = rows["document"].to_numpy()
            rows = rows.filter(pa.array(among(of, standing) & ~among(of, gone))).combine_chunks()
            yield from rows.to_batches()


Rule = Ranking | Common


class CorpusFiltered(NamedTuple):
    """Which documents go by a rule, sorted."""

    documents: np.ndarray  # (n,) int64
    values: np.ndarray  # (n,) float64
    rules: np.ndarray  # (n,) int8: places in the list of rules
    thresholds: list[float]  # of each rule; NaN: nothing was measured
    told: list[dict[str, Any]]  # of each rule what was found
    listed: list[pa.Table]  # LISTED, of each rule that lists n-grams


def rules_of(recipe: Recipe, sources: Mapping[int, str], inputs: Mapping[str, Input]) -> list[Rule]:
    """The rules about the whole corpus, in the order of the recipe's steps; `sources` are those of
    the raw shards that are there.
    """
    rules: list[Rule] = []
    for step in asking(recipe):
        numbers = [
            number
            for number, source in sources.items()
            if step.sources is None or source in step.sources
        ]
        if isinstance(step, Decontaminate):
            rules.append(
                Common(
                    step=step,
                    inputs={name: inputs[name] for name in step.inputs().values()},
                    numbers=numbers,
                )
            )
        rules += [
            Ranking(step=step.name, measure=measure, end=end, share=share, numbers=numbers)
            for measure, end, share in getattr(step, "ranks", ())
        ]
    return rules


def asking(recipe: Recipe) -> list[Step]:
    """The steps that ask about the whole corpus, in order."""
    steps = [make_step(place, table) for place, table in enumerate(recipe.step)]
    return [
        step
        for step in steps
        if getattr(step, "ranks", ()) or getattr(step, "common", None) is not None
    ]


def reasons_of(recipe: Recipe) -> set[str]:
    """The reasons of its rules."""
    ends = {
        f"{step.name}.{end}" for step in asking(recipe) for _, end, _ in getattr(step, "ranks", ())
    }
    return ends | {
        f"{step.name}.overlap" for step in asking(recipe) if isinstance(step, Decontaminate)
    }


def judge_whole(
    rules: Sequence[Rule], shards: dict[int, Shard], relations: Callable[[], Relations], work: Path
) -> CorpusFiltered:
    """Ask the rules, one after another, of the documents that stand.

    `work` is for what is needed on the way.
    """
    corpus_filtered = CorpusFiltered(
        np.empty(0, np.int64), np.empty(0), np.empty(0, np.int8), [], [], []
    )
    for place, rule in enumerate(rules):
        asked = rule.ask(shards, corpus_filtered.documents, relations, work)
        documents = np.concatenate([corpus_filtered.documents, asked.documents])
        order = np.argsort(documents, kind="stable")
        marks = np.concatenate(
            [corpus_filtered.rules, np.full(len(asked.documents), place, np.int8)]
        )
        listed = list(corpus_filtered.listed)
        if asked.listed is not None:
            listed.append(
                asked.listed.add_column(
                    0, LISTED.field(0), pa.array(np.full(len(asked.listed), place))
                )
            )
        corpus_filtered = CorpusFiltered(
            documents[order],
            np.concatenate([corpus_filtered.values, asked.values])[order],
            marks[order],
            [*corpus_filtered.thresholds, asked.threshold],
            [*corpus_filtered.told, asked.told],
            listed,
        )
    return corpus_filtered


class CorpusFiltersTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that corpus filtering needs."""

    root: str
    rules: list[Rule]
    measures: dict[int, str]  # sha256 of each shard's measures
    provisional: dict[int, str]  # and of process's verdicts
    contamination: dict[int, str]  # and of what was found of benchmarks

    def key(self) -> str:
        """The content key."""
        given = {
            name: list(getattr(self, name).items())
            for name in ("measures", "provisional", "contamination")
        }
        return content_key("corpus_filters", rules=[rule.key() for rule in self.rules], **given)


def corpus_filters(
    task: CorpusFiltersTask, on_progress: Callable[[int], None], session: Session
) -> Record:
    """Find what goes by the rules; the drops rest under work/."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    corpus.forget("corpus_filters", "all")
    work = corpus.work / "corpus_filters"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shards = {}
    for number, sha256 in task.provisional.items():
        verdicts = proven(corpus.work / f"process/{shard_name(number)}.parquet", sha256)
        measures, contamination = (
            corpus.find(f"{folder}/{shard_name(number)}.parquet")
            for folder in ("measures", "contamination")
        )
        proven(measures, task.measures[number])
        if number in task.contamination:
            proven(contamination, task.contamination[number])
        shards[number] = Shard(measures, contamination, partial(_standing, verdicts))
    relations = partial(session.open, work / "spill", [work])
    corpus_filtered = judge_whole(task.rules, shards, relations, work)
    on_progress(len(corpus_filtered.documents))
    shutil.rmtree(work)
    with writing_table(corpus.work, "corpus_filters/drops.parquet", DROPS) as (table, part):
        for batch in drops_of(corpus_filtered, [rule.reason for rule in task.rules]).to_batches(
            max_chunksize=1 << 16
        ):
            table.write(batch)
    parts = [write_json(corpus.stage, TOLD, corpus_filtered.told)]
    if corpus_filtered.listed:
        with writing_table(corpus.stage, NGRAMS, LISTED) as (table, listed):
            for batch in pa.concat_tables(corpus_filtered.listed).to_batches(max_chunksize=1 << 16):
                table.write(batch)
        parts += listed
    counts = {
        "drops": part[0].sha256,
        "rows": len(corpus_filtered.documents),
        "seconds": time.perf_counter() - start,
    }
    return corpus.record(
        "corpus_filters", "all", Record(key=task.key(), parts=parts, work=part, counts=counts)
    )


def drops_of(corpus_filtered: CorpusFiltered, reasons: list[str]) -> pa.Table:
    """DROPS, sorted by document."""
    thresholds = np.array(corpus_filtered.thresholds, np.float64)
    columns = [
        pa.array(corpus_filtered.documents),
        pa.array(reasons, pa.string()).take(pa.array(corpus_filtered.rules)),
        pa.array(corpus_filtered.values),
        pa.array(thresholds[corpus_filtered.rules]),
    ]
    return pa.table(columns, schema=DROPS)


def _standing(verdicts: Path) -> np.ndarray:
    return np.asarray(
        pq.read_table(verdicts, columns=["reason"], use_threads=False)["reason"]
        .is_null()
        .to_numpy()
    )


def task_of(
    corpus: Corpus,
    recipe: Recipe,
    sources: Mapping[int, str],
    inputs: Mapping[str, Input],
    processed: dict[int, Record],
) -> CorpusFiltersTask | None:
    """The task of all shards that were processed; None: no step asks about the whole corpus."""
    rules = rules_of(recipe, sources, inputs)
    if not rules:
        return None
    return CorpusFiltersTask(
        root=str(corpus.root),
        rules=rules,
        measures={number: record.part("measures/").sha256 for number, record in processed.items()},
        provisional={number: record.counts["verdicts"] for number, record in processed.items()},
        contamination={
            number: part.sha256
            for number, record in processed.items()
            for part in record.parts
            if part.path.startswith("contamination/")
        },
    )
