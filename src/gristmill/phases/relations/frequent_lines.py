"""Frequent lines: lines that occur in too many of the documents that are kept, counted after near
duplicates are dropped.

    documents and verdicts of a shard -> work/count_lines/<shard>.parquet
        in how many documents each line occurs
    lines of all shards               -> duplicates/lines.parquet
        those that occur in more than `most`, and in how many

`kept_documents.finish` cuts them.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.kept_documents import read_kept
from gristmill.dedup.lines import line_counts
from gristmill.dedup.settings import Deduplicate, FrequentLines
from gristmill.engine.engine import Session
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.deduplicate import shard_scopes
from gristmill.phases.relations.write_verdicts import WRITE_VERDICTS
from gristmill.recipe import Recipe
from gristmill.store.defaults import without_defaults
from gristmill.store.parts import Part, writing_table
from gristmill.store.proof import prove_all, proven
from gristmill.tables.schema import shard_name

LIST = "duplicates/lines.parquet"


class LineCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What counting a shard's lines counted."""

    rows: int  # different lines
    seconds: float


class CountTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that counting a shard's lines needs. How often a line may occur is not in it: another
    limit counts nothing again.
    """

    root: Runtime[str]
    number: int
    documents: str  # sha256 of the shard's documents
    verdicts: str  # and of its verdicts
    unit: Literal["lines", "paragraphs", "sentences"]
    least_characters: int
    arabic_marks: bool = True


def count_tasks(state: State) -> Iterator[dict[int, CountTask]]:
    """Yield a task for each shard that was processed."""
    settings, written = _line_files(state), state.of(WRITE_VERDICTS)
    yield {
        number: CountTask(
            root=str(state.corpus.root),
            number=number,
            documents=record.part("documents/").sha256,
            verdicts=written[number].parts[0].sha256,
            unit=settings.unit,
            least_characters=settings.least_characters,
            arabic_marks=settings.arabic_marks,
        )
        for number, record in state.of(PROCESS).items()
    }


def count(task: CountTask, on_progress: Callable[[int], None]) -> Output:
    """Count the lines of one shard's kept documents."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    name = shard_name(task.number)
    documents = proven(corpus.find(f"documents/{name}.parquet"), task.documents)
    stream = read_kept(documents, proven(corpus.find(f"verdicts/{name}.parquet"), task.verdicts))

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in stream:
            on_progress(batch["text"].nbytes)
            yield batch

    settings = FrequentLines(
        most=1,
        unit=task.unit,
        least_characters=task.least_characters,
        arabic_marks=task.arabic_marks,
    )
    with writing_table(
        corpus.work, f"count_lines/{name}.parquet", line_counts.COUNTED, plain=True
    ) as (table, part):
        for batch in line_counts.count(counted(), settings):
            table.write(batch)
    counts = LineCounts(rows=table.rows, seconds=time.perf_counter() - start)
    return Output(counts, work=part)


class ListedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What listing the frequent lines counted."""

    listed: int
    seconds: float


class ListTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that listing the frequent lines needs."""

    root: Runtime[str]
    numbers: list[int]
    scopes: list[int]
    sources: dict[int, str]  # the name of each scope; empty: lines are counted over all sources
    documents: list[str]  # sha256 of each shard's documents: a line is shown as one of them has it
    counted: list[str]  # and of its lines
    lines: FrequentLines


def list_tasks(state: State) -> Iterator[dict[int, ListTask]]:
    """Yield one task of all shards that were counted."""
    scopes, names = shard_scopes(state), [source.name for source in state.recipe.source]
    processed = state.of(PROCESS)
    task = ListTask(
        root=str(state.corpus.root),
        numbers=list(processed),
        scopes=scopes,
        sources={scope: names[scope - 1] for scope in sorted(set(scopes)) if scope},
        documents=[record.part("documents/").sha256 for record in processed.values()],
        counted=[record.work[0].sha256 for record in state.of(COUNT_LINES).values()],
        lines=_line_files(state),
    )
    yield {0: task}


def _line_files(state: State) -> FrequentLines:
    settings = state.recipe.deduplicate
    assert settings is not None and settings.lines is not None
    return settings.lines


def cuts_lines(recipe: Recipe) -> bool:
    """Return whether a recipe cuts frequent lines."""
    return recipe.deduplicate is not None and recipe.deduplicate.lines is not None


def list_frequent(task: ListTask, on_progress: Callable[[int], None], session: Session) -> Output:
    """List the lines that occur in too many documents of the corpus."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    work = corpus.work / "frequent_lines"
    shutil.rmtree(work, ignore_errors=True)
    tables, read = [], []
    for number, scope, sha256, texts in zip(
        task.numbers, task.scopes, task.counted, task.documents, strict=True
    ):
        read.append((corpus.work / f"count_lines/{shard_name(number)}.parquet", sha256))
        read.append((corpus.find(f"documents/{shard_name(number)}.parquet"), texts))
        tables.append(line_counts.CountedShard(read[-2][0], read[-1][0], scope))
    prove_all(read, session.threads)
    with writing_table(corpus.stage, LIST, line_counts.LISTED) as (table, part):
        batches = line_counts.frequent(tables, task.lines, work, opener=session.open)
        for batch in batches:
            sources = pa.array(
                [task.sources.get(scope) for scope in batch["scope"].to_pylist()], pa.string()
            )
            columns = [*(batch[name] for name in line_counts.LISTED.names[:-1]), sources]
            table.write(pa.RecordBatch.from_arrays(columns, schema=line_counts.LISTED))
            on_progress(batch.nbytes)
    shutil.rmtree(work, ignore_errors=True)
    counts = ListedCounts(listed=table.rows, seconds=time.perf_counter() - start)
    return Output(counts, part)


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The list and what is done by it, for the phases that finish."""

    sha256: str  # of the list
    settings: FrequentLines
    by_source: bool

    def key(self) -> dict[str, Any]:
        """Return what keys are made of."""
        return {**without_defaults(self), "settings": self.settings.key()}

    def cutter(self, path: Path, source: str) -> line_counts.LineRemover:
        """Return what cuts a shard of a source; `path` is where the list lies."""
        return line_counts.LineRemover(
            line_counts.load(
                proven(path, self.sha256), self.sha256, source if self.by_source else None
            ),
            self.settings,
        )


def make_cut(settings: Deduplicate | None, parts: Iterable[Part]) -> Cut | None:
    """Return what is cut by a recipe's settings, its list among the parts; None: nothing."""
    if settings is None or settings.lines is None:
        return None
    listed = next(part for part in parts if part.path == LIST)
    return Cut(sha256=listed.sha256, settings=settings.lines, by_source=settings.scope == "source")


COUNT_LINES = Phase(
    name="count_lines",
    stop="deduplicate",
    scope="shard",
    recipe=(
        "deduplicate.lines.unit",
        "deduplicate.lines.least_characters",
        "deduplicate.lines.arabic_marks",
    ),
    reads=("documents", "verdicts"),
    writes=("work/count_lines",),
    formats=("count_lines", "unicode", "compared"),
    counts=LineCounts,
    function=count,
    tasks=count_tasks,
    is_asked=cuts_lines,
)

FREQUENT_LINES = Phase(
    name="frequent_lines",
    stop="deduplicate",
    scope="corpus",
    recipe=("source.name", "deduplicate.lines", "deduplicate.scope"),
    reads=("documents", "work/count_lines"),
    writes=("duplicates",),
    formats=("frequent_lines", "unicode", "compared"),
    counts=ListedCounts,
    function=list_frequent,
    tasks=list_tasks,
    is_asked=cuts_lines,
)
