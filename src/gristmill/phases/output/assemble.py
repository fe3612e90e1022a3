"""Assemble: the tokens of one source, in the order that the recipe asks for, as shards of fixed
size; with `[tokens] partition` by label, with `[tokens] repeat` some documents more than once.

    work/tokens/<shard>.train, .val, .parquet -> tokens/<source>/train_00000.bin ...
      by label (repeats.py)                   -> tokens/<source>~<label>/train_00000.bin ...
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gristmill.corpus.clusters import found_in
from gristmill.corpus.copy_counts import digests
from gristmill.corpus.corpus import Corpus, Record
from gristmill.engine.engine import Session
from gristmill.phases.output.full_shards import FullShards, LastFull, checkpoint, still_full
from gristmill.phases.output.repeats import Values, check_labels
from gristmill.phases.output.shuffle import (
    SPLITS,
    PieceTask,
    RawShardTokens,
    SortTask,
    Stream,
    fits,
    listed_runs,
    proven_tokens,
    seeded_order,
    sort_shards,
    sort_tasks,
    tokenized,
    write_piece,
)
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.corpus_filters import CORPUS_FILTERS
from gristmill.recipe import Recipe
from gristmill.store.parts import Part
from gristmill.tables.schema import shard_name
from gristmill.tokens.ordered_documents import OrderedDocuments, ordered
from gristmill.tokens.partitions import partition_name
from gristmill.tokens.shards import ShardWriter, in_order, slice_blocks
from gristmill.tokens.sorted_runs import SeededOrder, SortedRun, pieces
from gristmill.tokens.token_settings import COPIES, Partition, Repeat, TokenSettings

WHAT = ("tokens", "documents", "shards")


class RepeatCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What repeats made of the training documents that have one row of their table."""

    documents: int
    tokens: int
    written_documents: int
    written_tokens: int


class AssembleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What assembling a source counted; copies are documents."""

    train_tokens: int
    train_documents: int
    train_shards: int
    val_tokens: int
    val_documents: int
    val_shards: int
    seconds: float
    # by split, with order = "append": where the full shards end
    checkpoints: dict[str, LastFull] = {}
    # by label: what the counts above say of its partition; {}: there are no partitions
    partitions: dict[str, dict[str, int]] = {}
    repeats: list[RepeatCounts] = []  # by row of the table, then of documents that none is for
    # copies that would have followed another copy of their document, and their tokens
    left_out: int = 0
    left_out_tokens: int = 0


class AssembleTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that assembling one source's token shards needs."""

    root: Runtime[str]
    source: str
    numbers: list[int]
    # of each shard, what tokenizing left under work/: sha256 of train, val and index
    inputs: list[list[str]]
    sizes: Runtime[list[int]]  # of each shard, the bytes of its tokens
    documents: Runtime[list[int]]  # of each shard, how many
    dtype: str
    tokens_per_shard: int
    order: str
    seed: int
    # by split: the shards that are full, and stay; the bytes are those of writing all again
    full: Runtime[dict[str, FullShards]] = {}
    repeat: Repeat | None = None
    partition: Partition | None = None
    values: list[Values] = []  # what repeats and partitions are made by

    def shards(self) -> list[RawShardTokens]:
        """Return what tokenizing left of each raw shard."""
        return list(map(RawShardTokens, self.numbers, self.inputs, self.sizes, self.documents))


def tasks(state: State) -> Iterator[dict[int, AssembleTask]]:
    """Yield a task for each source, by its place in the recipe."""
    tokens, tokenizer = state.recipe.tokens, state.tokenizer
    assert tokens is not None and tokenizer is not None
    written, shards = state.of(TOKENIZE), state.plan.shards
    jobs = {}
    copies = None
    if tokens.repeat is not None and tokens.repeat.by == COPIES:
        copies = digests(found_in(state.corpus), list(state.of(PROCESS)))
    for place, source in enumerate(state.recipe.source):
        numbers = [number for number in written if shards[number].source == source.name]
        task = AssembleTask(
            root=str(state.corpus.root),
            source=source.name,
            numbers=numbers,
            inputs=[[part.sha256 for part in written[number].work] for number in numbers],
            sizes=[sum(part.size for part in written[number].work[:2]) for number in numbers],
            documents=[written[number].work[-1].counts["rows"] for number in numbers],
            dtype=tokenizer.dtype.str,
            tokens_per_shard=tokens.tokens_per_shard,
            order=tokens.order,
            seed=state.recipe.seed,
            repeat=tokens.repeat,
            partition=tokens.partition,
            values=_value_files(state, tokens, source.name, numbers, copies),
        )
        full = _full_shards(state, task) if task.order == "append" else {}
        jobs[place] = msgspec.structs.replace(task, full=full)
    yield jobs


def _value_files(
    state: State,
    tokens: TokenSettings,
    source: str,
    numbers: list[int],
    copies: dict[int, str] | None,
) -> list[Values]:
    """Return where the values are that repeats and partitions of a source are made by."""
    values = []
    if copies is not None:
        rows = {number: copies[number] for number in numbers}
        values.append(Values(name=COPIES, folder="duplicates", sha256=rows))
    steps = {step.name: step for step in state.recipe.steps(source)}
    for name in tokens.reads():
        step = steps.get(name.partition(".")[0])
        folder = f"tables/{step.name}" if step is not None and step.reads else "measures"
        filtered = state.one(CORPUS_FILTERS)
        records: list[Record[Any]] = [filtered] if filtered is not None else []
        if folder == "measures":
            records = list(state.of(PROCESS).values()) if step is not None else []
        parts = {part.path: part.sha256 for record in records for part in record.parts}
        paths = {number: f"{folder}/{shard_name(number)}.parquet" for number in numbers}
        own = {number: parts[path] for number, path in paths.items() if path in parts}
        values.append(Values(name=name, folder=folder, sha256=own))
    return values


def _full_shards(state: State, task: AssembleTask) -> dict[str, FullShards]:
    """Return the shards that are full since the source was assembled last, by split."""
    last = state.corpus.last("assemble", task.source, AssembleCounts)
    if last is None:
        return {}
    settings = (task.dtype, task.tokens_per_shard)
    shards = {}
    for split, at in last.counts.checkpoints.items():
        prefix = f"tokens/{task.source}/{split}_"
        shards[split] = still_full(state.corpus, last, prefix, at, task.inputs, settings)
    return shards


def assemble(task: AssembleTask, on_progress: Callable[[int], None], session: Session) -> Output:
    """Write train and validation shards of one source, in the order that the recipe asks for."""
    start = time.perf_counter()
    write = _append if task.order == "append" else _shuffle
    counts, parts = write(task, on_progress, session)
    return Output(AssembleCounts(**counts, seconds=time.perf_counter() - start), parts)


def _append(
    task: AssembleTask, on_progress: Callable[[int], None], session: Session
) -> tuple[dict[str, Any], list[Part]]:
    """Return shards in document order, behind those that are full: the counts, and the parts."""
    corpus, dtype, size = Corpus(Path(task.root)), np.dtype(task.dtype), task.tokens_per_shard
    parts: list[Part] = []
    counts: dict[str, Any] = {"checkpoints": {}}
    first = min(task.full.get(split, FullShards()).at.shards for split in SPLITS)
    read = list(session.map(partial(tokenized, task.root), task.shards()[first:]))
    for place, split in enumerate(SPLITS):
        full = task.full.get(split, FullShards())
        runs = [pair[place] for pair in read[full.at.shards - first :]]
        prefix = f"tokens/{task.source}/{split}"
        with ShardWriter(corpus.stage, prefix, dtype, size, full.count) as writer:
            behind = full.count * size - full.at.tokens
            for tokens, documents, lengths in slice_blocks(in_order(runs, dtype), behind):
                writer.write(tokens, documents, lengths)
                on_progress(len(tokens) * dtype.itemsize)
        parts += [*full.parts, *writer.parts]
        lengths_of = [(int(run.lengths.sum()), len(run.documents)) for run in runs]
        counts[f"{split}_tokens"] = full.at.tokens + sum(tokens for tokens, _ in lengths_of)
        counts[f"{split}_documents"] = full.at.documents + sum(count for _, count in lengths_of)
        counts[f"{split}_shards"] = full.count + len(writer.parts) // 2
        whole = counts[f"{split}_tokens"] // size * size
        settings = (task.dtype, size)
        at = checkpoint(lengths_of, full.at, whole, task.inputs, settings)
        counts["checkpoints"][split] = at
    return counts, parts


def _shuffle(
    task: AssembleTask, on_progress: Callable[[int], None], session: Session
) -> tuple[dict[str, Any], list[Part]]:
    """Return shards in a seeded order, for each label: the counts, and the parts."""
    corpus = Corpus(Path(task.root))
    work = corpus.work / "assemble" / task.source
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with ExitStack() as files:
        plain = not (task.repeat or task.partition) and fits(task.shards(), session)
        layout = _ordered(task, session, files) if plain else _sorted(task, work, session)
        written = [
            _write_stream(corpus, task, work, stream, layout, session, on_progress)
            for stream in _streams(task, layout)
        ]
    shutil.rmtree(work)
    totals = dict.fromkeys((f"{split}_{what}" for split in SPLITS for what in WHAT), 0)
    partitions: dict[str, dict[str, int]] = {}
    for result in written:
        split, label = result.stream
        for what, count in zip(WHAT, result.counts, strict=True):
            totals[f"{split}_{what}"] += count
            if task.partition is not None:
                own = partitions.setdefault(label, dict.fromkeys(totals, 0))
                own[f"{split}_{what}"] += count
    return {
        **totals,
        "partitions": partitions,
        "repeats": [
            RepeatCounts(**dict(zip(RepeatCounts.__struct_fields__, row, strict=True)))
            for row in layout.repeats.tolist()
        ],
        "left_out": sum(result.left_out for result in written),
        "left_out_tokens": sum(result.left_out_tokens for result in written),
    }, [part for result in written for part in result.parts]


class _Sorted(NamedTuple):
    """The runs of all raw shards of a source, or where its documents are, by stream."""

    order: SeededOrder
    runs: dict[Stream, list[SortedRun]]
    sizes: dict[Stream, np.ndarray]  # (buckets,) int64: tokens
    documents: dict[Stream, int]
    repeats: np.ndarray  # as SortedShards
    ordered: dict[Stream, OrderedDocuments]  # {}: there are runs


def _sorted(task: AssembleTask, work: Path, session: Session) -> _Sorted:
    """Sort the tokens of all raw shards."""
    shards = task.shards()
    order = seeded_order(task.seed, shards)
    whole = SortTask(
        root=task.root,
        work=work,
        shards=shards,
        order=order,
        dtype=task.dtype,
        seed=task.seed,
        repeat=task.repeat,
        partition=task.partition,
        values=task.values,
    )
    layout = _Sorted(order, {}, {}, {}, np.zeros(0, np.int64), {})
    for result in session.map(sort_shards, sort_tasks(whole)):
        for stream, documents in result.documents.items():
            layout.documents[stream] = layout.documents.get(stream, 0) + documents
        for stream, runs in result.runs.items():
            layout.runs.setdefault(stream, []).extend(runs)
            layout.sizes[stream] = layout.sizes.get(stream, 0) + result.sizes[stream]
        layout = layout._replace(
            repeats=result.repeats + (layout.repeats if layout.repeats.size else 0)
        )
    return layout


def _ordered(task: AssembleTask, session: Session, files: ExitStack) -> _Sorted:
    """Check the tokens of all raw shards, and find the order of their documents."""
    shards = task.shards()
    layout = _Sorted(seeded_order(task.seed, shards), {}, {}, {}, np.zeros(0, np.int64), {})
    read = list(session.map(partial(proven_tokens, task.root), shards))
    for split, of_split in zip(SPLITS, zip(*read, strict=True), strict=True):
        documents = ordered(list(of_split), layout.order.key, files)
        stream = (split, "")
        layout.ordered[stream] = documents
        layout.sizes[stream] = np.array([documents.tokens])
        layout.documents[stream] = len(documents.documents)
    return layout


def _streams(task: AssembleTask, found: _Sorted) -> list[Stream]:
    """Return the streams, by split and label. Raises RecipeError for labels that cannot be."""
    if task.partition is None:
        return [(split, "") for split in SPLITS]
    counts: dict[str, int] = {}
    for (_, label), documents in found.documents.items():
        counts[label] = counts.get(label, 0) + documents
    check_labels(counts, task.source, task.partition)
    return [(split, label) for split in SPLITS for label in sorted(counts)]


class _WrittenStream(NamedTuple):
    """A stream whose shards are written."""

    stream: Stream
    counts: tuple[int, int, int]  # WHAT
    parts: list[Part]
    left_out: int
    left_out_tokens: int


def _write_stream(
    corpus: Corpus,
    task: AssembleTask,
    work: Path,
    stream: Stream,
    found: _Sorted,
    session: Session,
    on_progress: Callable[[int], None],
) -> _WrittenStream:
    """Write the shards of a stream."""
    split, label = stream
    sizes = found.sizes.get(stream, np.zeros(1, np.int64))
    documents = found.ordered.get(stream) or listed_runs(
        work / f"{split}~{label}.list", found.runs.get(stream, []), found.order.bits
    )
    itemsize, repeats = np.dtype(task.dtype).itemsize, task.repeat is not None
    tasks = [
        PieceTask(
            stage=corpus.stage,
            prefix=f"tokens/{partition_name(task.source, label)}/{split}",
            dtype=task.dtype,
            tokens_per_shard=task.tokens_per_shard,
            documents=documents,
            piece=piece,
            repeats=repeats,
        )
        for piece in pieces(sizes, task.tokens_per_shard, itemsize, whole=repeats)
    ]
    parts: list[Part] = []
    left_out = left_out_tokens = 0
    for piece, result in zip(tasks, session.map(write_piece, tasks), strict=True):
        parts += result.parts
        left_out += result.left_out
        left_out_tokens += result.left_out_tokens
        on_progress(piece.piece.tokens * itemsize)
    tokens = int(sizes.sum()) - left_out_tokens
    counts = (tokens, found.documents.get(stream, 0) - left_out, len(parts) // 2)
    return _WrittenStream(stream, counts, parts, left_out, left_out_tokens)


def opens(task: AssembleTask) -> set[str]:
    """Return the folders that a task opens."""
    return {"work/tokens", *(values.folder for values in task.values)}


def is_asked(recipe: Recipe) -> bool:
    """Return whether a recipe asks for tokens."""
    return recipe.tokens is not None


ASSEMBLE = Phase(
    name="assemble",
    scope="source",
    recipe=(
        "seed",
        "step",
        "source.name",
        "tokens.tokens_per_shard",
        "tokens.order",
        "tokens.repeat",
        "tokens.partition",
    ),
    reads=("work/tokens", "measures", "tables", "duplicates"),
    opens=opens,
    writes=("tokens",),
    formats=("assemble",),
    counts=AssembleCounts,
    function=assemble,
    tasks=tasks,
    is_asked=is_asked,
)
