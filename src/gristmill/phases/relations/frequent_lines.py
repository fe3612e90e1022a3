"""Frequent lines: what stands in too many of the documents that are kept, counted after near
duplicates are gone.

documents + verdicts of a shard -> work: count_lines/<shard>.parquet      in how many documents each
    line stands
lines of all shards             -> duplicates/lines.parquet         those that stand in more than
                                                                    `most`, and in how many

`finish` cuts them.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from gristmill.corpus.corpus import Corpus, Record, content_key
from gristmill.corpus.kept_documents import finish
from gristmill.dedup.lines import line_counts
from gristmill.dedup.settings import Deduplicate, FrequentLines
from gristmill.engine.engine import Session
from gristmill.schema import shard_name
from gristmill.store.parts import Part, writing_table
from gristmill.store.proof import prove_all, proven

LIST = "duplicates/lines.parquet"


class CountTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that counting a shard's lines needs."""

    root: str
    number: int
    documents: str  # sha256 of the shard's documents
    verdicts: str  # and of its verdicts
    unit: str
    least_characters: int

    def key(self) -> str:
        """The content key. How often a line may stand is not in it: another limit counts nothing
        again.
        """
        fields = msgspec.structs.asdict(self)
        del fields["root"]
        return content_key("count_lines", **fields)


def count(task: CountTask, tell: Callable[[int], None]) -> Record:
    """Count the lines of one shard's kept documents."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    name = shard_name(task.number)
    documents = proven(corpus.find(f"documents/{name}.parquet"), task.documents)
    stream = finish(documents, proven(corpus.find(f"verdicts/{name}.parquet"), task.verdicts))

    def told() -> Iterator[pa.RecordBatch]:
        for batch in stream:
            tell(batch["text"].nbytes)
            yield batch

    settings = FrequentLines(most=1, unit=task.unit, least_characters=task.least_characters)  # type: ignore[arg-type]
    with writing_table(
        corpus.work, f"count_lines/{name}.parquet", line_counts.COUNTED, plain=True
    ) as (table, part):
        for batch in line_counts.count(told(), settings):
            table.write(batch)
    counts = {"work": part[0].sha256, "rows": table.rows, "seconds": time.perf_counter() - start}
    return corpus.record("count_lines", name, Record(key=task.key(), work=part, counts=counts))


class ListTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that listing the frequent lines needs."""

    root: str
    numbers: list[int]
    scopes: list[int]
    sources: dict[int, str]  # the name of each scope; empty: lines are counted over all sources
    documents: list[str]  # sha256 of each shard's documents: a line is shown as one of them has it
    counted: list[str]  # and of its lines
    lines: FrequentLines

    def key(self) -> str:
        """The content key."""
        fields = msgspec.structs.asdict(self)
        for name in ("root", "sources"):
            del fields[name]
        return content_key("frequent_lines", **fields, sources=list(self.sources.items()))


def list_frequent(task: ListTask, on_progress: Callable[[int], None], session: Session) -> Record:
    """List the lines that stand in too many documents of the corpus."""
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
        found = line_counts.frequent(tables, task.lines, work, opener=session.open)
        for batch in found:
            sources = pa.array(
                [task.sources.get(scope) for scope in batch["scope"].to_pylist()], pa.string()
            )
            columns = [*(batch[name] for name in line_counts.LISTED.names[:-1]), sources]
            table.write(pa.RecordBatch.from_arrays(columns, schema=line_counts.LISTED))
            on_progress(batch.nbytes)
    shutil.rmtree(work, ignore_errors=True)
    counts = {"listed": table.rows, "seconds": time.perf_counter() - start}
    return corpus.record("frequent_lines", "all", Record(key=task.key(), parts=part, counts=counts))


def count_tasks(
    root: str,
    settings: FrequentLines,
    processed: dict[int, Record],
    verdicts_written: dict[int, Record],
) -> dict[int, CountTask]:
    """A task for each shard that was processed."""
    return {
        number: CountTask(
            root=root,
            number=number,
            documents=record.part("documents/").sha256,
            verdicts=verdicts_written[number].parts[0].sha256,
            unit=settings.unit,
            least_characters=settings.least_characters,
        )
        for number, record in processed.items()
    }


def list_task(
    root: str,
    settings: FrequentLines,
    processed: dict[int, Record],
    counted: dict[int, Record],
    scopes: list[int],
    names: list[str],
) -> ListTask:
    """The task of all shards that were counted; scope i > 0 is the source names[i - 1]."""
    return ListTask(
        root=root,
        numbers=list(processed),
        scopes=scopes,
        sources={scope: names[scope - 1] for scope in sorted(set(scopes)) if scope},
        documents=[record.part("documents/").sha256 for record in processed.values()],
        counted=[record.counts["work"] for record in counted.values()],
        lines=settings,
    )


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The list and what is done by it, for the phases that finish."""

    sha256: str  # of the list
    settings: FrequentLines
    by_source: bool

    def cutter(self, path: Path, source: str) -> line_counts.LineRemover:
        """What cuts a shard of a source; `path` is where the list lies."""
        return line_counts.LineRemover(
            line_counts.load(
                proven(path, self.sha256), self.sha256, source if self.by_source else None
            ),
            self.settings,
        )


def cut_of(settings: Deduplicate | None, parts: Iterable[Part]) -> Cut | None:
    """What is cut by a recipe's settings, its list among the parts; None: nothing."""
    if settings is None or settings.lines is None:
        return None
    listed = next(part for part in parts if part.path == LIST)
    return Cut(sha256=listed.sha256, settings=settings.lines, by_source=settings.scope == "source")
