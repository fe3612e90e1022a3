"""Repeated substrings: stretches of bytes that occur again in the documents that are kept, after
frequent lines are cut.

    documents and verdicts of all shards -> duplicates/substrings.parquet
        which bytes of which documents, in how many places, and which document has them first

`kept_documents.read_kept` cuts them.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.kept_documents import read_kept
from gristmill.dedup.disk_arrays import map_array
from gristmill.dedup.settings import Deduplicate, Substrings
from gristmill.dedup.substrings import repeated_spans, windows
from gristmill.dedup.substrings.span_cutter import SpanCutter
from gristmill.engine.engine import Session
from gristmill.engine.executor import fresh
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.deduplicate import shard_scopes
from gristmill.phases.relations.frequent_lines import FREQUENT_LINES, Cut, make_cut
from gristmill.phases.relations.frequent_lines import LIST as LINES
from gristmill.phases.relations.write_verdicts import WRITE_VERDICTS, row_digests
from gristmill.recipe import Recipe
from gristmill.store.defaults import without_defaults
from gristmill.store.parts import writing_table
from gristmill.store.proof import prove_all, proven
from gristmill.tables.schema import shard_name

LIST = "duplicates/substrings.parquet"


class SubstringCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What listing the repeated spans counted."""

    listed: int
    bytes: int
    documents: int
    seconds: float


class SubstringsTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that listing the repeated spans needs."""

    root: Runtime[str]
    numbers: list[int]
    scopes: list[int]
    sources: Runtime[list[str]]  # of each shard; the scopes say what is compared with what
    documents: list[str]  # sha256 of each shard's documents
    verdicts: list[str]  # and of its verdicts
    cut: Cut | None  # the frequent lines that are cut before; null: none
    size: int  # bytes of a window
    most: int
    keep: Literal["first", "none"]


class _ShardTexts(NamedTuple):
    """One shard's texts: a task of the session."""

    root: str
    number: int
    scope: int
    source: str
    documents: str  # sha256
    verdicts: str
    cut: Cut | None
    size: int
    work: Path
    repeated: Path | None = None  # the anchors that occur again; null: not known yet
    bits: int = 0

    def texts(self) -> Iterator[pa.RecordBatch]:
        """Return its kept documents, without frequent lines."""
        corpus, name = Corpus(Path(self.root)), shard_name(self.number)
        return read_kept(
            proven(corpus.find(f"documents/{name}.parquet"), self.documents),
            proven(corpus.find(f"verdicts/{name}.parquet"), self.verdicts),
            self.cut.cutter(corpus.find(LINES), self.source) if self.cut is not None else None,
        )


def tasks(state: State) -> Iterator[dict[int, SubstringsTask]]:
    """Yield one task of all shards that were processed."""
    deduplicate = state.recipe.deduplicate
    assert deduplicate is not None and deduplicate.substrings is not None
    settings, processed, written = (
        deduplicate.substrings,
        state.of(PROCESS),
        state.of(WRITE_VERDICTS),
    )
    listed = state.one(FREQUENT_LINES)
    task = SubstringsTask(
        root=str(state.corpus.root),
        numbers=list(processed),
        scopes=shard_scopes(state),
        sources=[state.plan.shards[number].source for number in processed],
        documents=[record.part("documents/").sha256 for record in processed.values()],
        verdicts=[written[number].parts[0].sha256 for number in processed],
        cut=make_cut(deduplicate, listed.parts) if listed else None,
        size=settings.bytes,
        most=settings.most,
        keep=settings.keep,
    )
    yield {0: task}


def find_substrings(
    task: SubstringsTask, on_progress: Callable[[int], None], session: Session
) -> Output:
    """List the repeated spans of the corpus."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    work = corpus.work / "repeated_substrings"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    prove_all(_read(corpus, task), session.threads)
    relations = partial(session.open, work / "spill", [work])
    shards = [
        _ShardTexts(task.root, *of_one, task.cut, task.size, work)
        for of_one in zip(
            task.numbers, task.scopes, task.sources, task.documents, task.verdicts, strict=True
        )
    ]
    anchors = list(session.map(_write_anchors, shards))
    repeated, runs = repeated_spans.repeated_anchors(anchors, task.most, relations, work)
    for path in anchors:
        path.unlink()
    bits = repeated_spans.partition_bits(runs, task.size)
    files = []
    for made in session.map(
        _write_members, [shard._replace(repeated=repeated, bits=bits) for shard in shards]
    ):
        files.append(made)
        on_progress(0)
    counts = {"bytes": 0, "documents": 0}
    last = -1
    with writing_table(corpus.stage, LIST, repeated_spans.SPANS) as (table, part):
        for batch in repeated_spans.find_repeated_spans(
            files,
            bits,
            repeated_spans.WindowSettings(task.size, task.most, task.keep == "first"),
            work,
            relations=relations,
            executor=session.map,
        ):
            documents = batch["document"].to_numpy()
            counts["bytes"] += int(
                (batch["end_byte"].to_numpy() - batch["first_byte"].to_numpy()).sum()
            )
            counts["documents"] += int(np.count_nonzero(np.diff(documents, prepend=last)))
            last = int(documents[-1])
            table.write(batch)
            on_progress(batch.nbytes)
    shutil.rmtree(work, ignore_errors=True)
    counted = SubstringCounts(listed=table.rows, **counts, seconds=time.perf_counter() - start)
    return Output(counted, part)


def _read(corpus: Corpus, task: SubstringsTask) -> Iterator[tuple[Path, str]]:
    """Yield what must be as it was written."""
    for folder, digests in (("documents", task.documents), ("verdicts", task.verdicts)):
        for number, sha256 in zip(task.numbers, digests, strict=True):
            yield corpus.find(f"{folder}/{shard_name(number)}.parquet"), sha256


def _write_anchors(shard: _ShardTexts) -> Path:
    """Write the anchors of a shard's windows."""
    target = fresh(shard.work, f"anchors-{shard_name(shard.number)}")
    with pq.ParquetWriter(target, windows.ANCHORS, compression="none") as writer:
        for batch in windows.make_anchors(shard.texts(), shard.size):
            writer.write_batch(windows.scoped(batch, shard.scope))
    return target


def _write_members(shard: _ShardTexts) -> windows.MemberFiles:
    """Write what comparing a shard's windows needs."""
    assert shard.repeated is not None
    base = fresh(shard.work, f"members-{shard_name(shard.number)}")
    made = windows.MemberFiles(
        base,
        base.with_name(f"{base.name}.contexts"),
        base.with_name(f"{base.name}.index"),
        shard.scope,
    )
    repeated = map_array(shard.repeated, np.int64)
    windows.write_members(shard.texts(), shard.size, repeated, shard.bits, made)
    return made


def cuts_substrings(recipe: Recipe) -> bool:
    """Return whether a recipe looks for repeated substrings."""
    return recipe.deduplicate is not None and recipe.deduplicate.substrings is not None


class SpanCut(msgspec.Struct, frozen=True, kw_only=True):
    """What is cut out of a shard, for the phases that finish."""

    number: int
    rows: str  # digest of the shard's rows of the list
    settings: Substrings
    sha256: str  # of the list

    def key(self) -> dict[str, object]:
        """Return what its bytes depend on: the list's rows that are about other shards do not
        count.
        """
        return {"rows": self.rows, "settings": without_defaults(self.settings)}

    def cutter(self, path: Path) -> SpanCutter:
        """Return what cuts; `path` is where the list lies."""
        return SpanCutter(proven(path, self.sha256), self.number, self.settings)


def span_cuts(
    settings: Deduplicate | None, path: Path, sha256: str, numbers: list[int]
) -> dict[int, SpanCut]:
    """Return what is cut out of each shard by a recipe's settings; `path` is where the list
    lies.
    """
    if settings is None or settings.substrings is None:
        return {}
    return {
        number: SpanCut(number=number, rows=rows, settings=settings.substrings, sha256=sha256)
        for number, rows in row_digests(proven(path, sha256), numbers).items()
    }


REPEATED_SUBSTRINGS = Phase(
    name="repeated_substrings",
    stop="deduplicate",
    scope="corpus",
    recipe=(
        "source.name",
        "deduplicate.lines",
        "deduplicate.scope",
        "deduplicate.substrings.bytes",
        "deduplicate.substrings.most",
        "deduplicate.substrings.keep",
    ),
    reads=("documents", "verdicts", "duplicates"),
    writes=("duplicates",),
    formats=("repeated_substrings", "unicode"),
    counts=SubstringCounts,
    function=find_substrings,
    tasks=tasks,
    is_asked=cuts_substrings,
)
