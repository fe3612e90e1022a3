"""Assemble: the tokens of one source, in the order that the recipe asks for, as shards of fixed
size; with `[tokens] partition` by label, with `[tokens] repeat` some documents more than once.

    work/tokens/<shard>.train, .val, .parquet -> tokens/<source>/train_00000.bin ...
      by label (repeats.py)                   -> tokens/<source>~<label>/train_00000.bin ...
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.clusters import found_in
from gristmill.corpus.copy_counts import digests
from gristmill.corpus.corpus import Corpus, Record
from gristmill.phases.output.full_shards import (
    FullShards,
    LastFull,
    checkpoint,
    still_full,
    without_first,
)
from gristmill.phases.output.repeats import Values, check_labels, labels_of, times_of
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.phase import Later, Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.corpus_filters import CORPUS_FILTERS
from gristmill.recipe import Recipe
from gristmill.schema import shard_name
from gristmill.store.parts import Part
from gristmill.store.proof import proven
from gristmill.tokens.partitions import by_label, partition_name
from gristmill.tokens.shards import Apart, ShardWriter, TokenizedShard, in_order, shuffled
from gristmill.tokens.token_settings import COPIES, Partition, Repeat, TokenSettings

SPLITS = ("train", "val")


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
    dtype: str
    tokens_per_shard: int
    order: str
    seed: int
    # by split: the shards that are full, and stay; the bytes are those of writing all again
    full: Runtime[dict[str, FullShards]] = {}
    repeat: Later[Repeat | None] = None
    partition: Later[Partition | None] = None
    values: Later[list[Values]] = []  # what repeats and partitions are made by

    def value(self, name: str) -> Values:
        """Where the values of a name are."""
        return next(one for one in self.values if one.name == name)


def tasks(state: State) -> Iterator[dict[int, AssembleTask]]:
    """A task for each source, by its place in the recipe."""
    tokens, tokenizer = state.recipe.tokens, state.tokenizer
    assert tokens is not None and tokenizer is not None
    written, shards = state.of(TOKENIZE), state.plan.shards
    found = {}
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
            dtype=tokenizer.dtype.str,
            tokens_per_shard=tokens.tokens_per_shard,
            order=tokens.order,
            seed=state.recipe.seed,
            repeat=tokens.repeat,
            partition=tokens.partition,
            values=_values_of(state, tokens, source.name, numbers, copies),
        )
        full = _full_shards(state, task) if task.order == "append" else {}
        found[place] = msgspec.structs.replace(task, full=full)
    yield found


def _values_of(
    state: State,
    tokens: TokenSettings,
    source: str,
    numbers: list[int],
    copies: dict[int, str] | None,
) -> list[Values]:
    """Where the values are that repeats and partitions of a source are made by."""
    found = []
    if copies is not None:
        rows = {number: copies[number] for number in numbers}
        found.append(Values(name=COPIES, folder="duplicates", sha256=rows))
    steps = {step.name: step for step in state.recipe.steps(source)}
    for name in tokens.reads():
        step = steps.get(name.partition(".")[0])
        folder = f"tables/{step.name}" if step is not None and step.reads else "measures"
        filtered = state.one(CORPUS_FILTERS)
        records: list[Record[Any]] = [filtered] if filtered is not None else []
        if folder == "measures":
            records = list(state.of(PROCESS).values()) if step is not None else []
        parts = {part.path: part.sha256 for one in records for part in one.parts}
        paths = {number: f"{folder}/{shard_name(number)}.parquet" for number in numbers}
        own = {number: parts[path] for number, path in paths.items() if path in parts}
        found.append(Values(name=name, folder=folder, sha256=own))
    return found


def _full_shards(state: State, task: AssembleTask) -> dict[str, FullShards]:
    """The shards that are full since the source was assembled last, by split."""
    last = state.corpus.last("assemble", task.source, AssembleCounts)
    if last is None:
        return {}
    settings = (task.dtype, task.tokens_per_shard)
    found = {}
    for split, at in last.counts.checkpoints.items():
        prefix = f"tokens/{task.source}/{split}_"
        found[split] = still_full(state.corpus, last, prefix, at, task.inputs, settings)
    return found


def assemble(task: AssembleTask, on_progress: Callable[[int], None]) -> Output:
    """Write train and validation shards of one source, in the order that the recipe asks for."""
    start = time.perf_counter()
    write = _append if task.order == "append" else _shuffle
    counts, parts = write(task, on_progress)
    return Output(AssembleCounts(**counts, seconds=time.perf_counter() - start), parts)


def _append(
    task: AssembleTask, on_progress: Callable[[int], None]
) -> tuple[dict[str, Any], list[Part]]:
    """Shards in document order, behind those that are full: the counts, and the parts."""
    corpus, dtype, size = Corpus(Path(task.root)), np.dtype(task.dtype), task.tokens_per_shard
    parts: list[Part] = []
    counts: dict[str, Any] = {"checkpoints": {}}
    for split in SPLITS:
        full = task.full.get(split, FullShards())
        runs = _runs(corpus, task, split, full.at.shards)
        prefix = f"tokens/{task.source}/{split}"
        with ShardWriter(corpus.stage, prefix, dtype, size, full.count) as writer:
            behind = full.count * size - full.at.tokens
            for tokens, documents, lengths in without_first(in_order(runs, dtype), behind):
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
    task: AssembleTask, on_progress: Callable[[int], None]
) -> tuple[dict[str, Any], list[Part]]:
    """Shards in a seeded order, for each label: the counts, and the parts."""
    corpus, dtype = Corpus(Path(task.root)), np.dtype(task.dtype)
    key = int.from_bytes(hashlib.sha256(f"order {task.seed}".encode()).digest()[:8], "little")
    work = corpus.work / "assemble" / task.source
    parts: list[Part] = []
    totals = {
        f"{split}_{what}": 0 for split in SPLITS for what in ("tokens", "documents", "shards")
    }
    partitions: dict[str, dict[str, int]] = {}
    left_out = left_out_tokens = 0
    runs = {split: _runs(corpus, task, split, 0) for split in SPLITS}
    counted = _repeated(corpus, task, runs)
    for split, label, own in _labelled(corpus, task, runs, work):
        prefix = f"tokens/{partition_name(task.source, label)}/{split}"
        written = {"tokens": 0, "documents": 0}
        with ShardWriter(corpus.stage, prefix, dtype, task.tokens_per_shard) as writer:
            blocks = shuffled(own, dtype, key, work)
            apart = Apart(blocks)
            for tokens, documents, lengths in apart if task.repeat is not None else blocks:
                writer.write(tokens, documents, lengths)
                written["tokens"] += len(tokens)
                written["documents"] += len(documents)
                on_progress(len(tokens) * dtype.itemsize)
        left_out += apart.left_out
        left_out_tokens += apart.left_out_tokens
        parts += writer.parts
        written["shards"] = len(writer.parts) // 2
        for what, count in written.items():
            totals[f"{split}_{what}"] += count
            if task.partition is not None:
                empty = dict.fromkeys(totals, 0)
                partitions.setdefault(label, empty)[f"{split}_{what}"] += count
    extra = {"partitions": partitions, "repeats": counted, "left_out": left_out}
    return {**totals, **extra, "left_out_tokens": left_out_tokens}, parts


def _repeated(
    corpus: Corpus, task: AssembleTask, runs: dict[str, list[TokenizedShard]]
) -> list[RepeatCounts]:
    """Say in `runs` how often each document is written; a validation document at most once."""
    if task.repeat is None:
        return []
    rows_of_table = len(task.repeat.table) + 1  # the last: of documents that no row is for
    sums = np.zeros((4, rows_of_table), np.int64)
    for split, shards in runs.items():
        for place, (number, run) in enumerate(zip(task.numbers, shards, strict=True)):
            values = task.value(task.repeat.by).of(corpus, number, run.documents)
            times, rows = times_of(values, run.documents, task.repeat, task.seed)
            if split == "val":
                times = np.minimum(times, 1)
            else:
                for sum_, amount in zip(
                    sums,
                    (np.ones_like(times), run.lengths, times, times * run.lengths),
                    strict=True,
                ):
                    np.add.at(sum_, rows, amount)  # row -1 is the last
            shards[place] = run._replace(repeats=times)
    return [
        RepeatCounts(**dict(zip(RepeatCounts.__struct_fields__, row, strict=True)))
        for row in sums.T.tolist()
    ]


def _labelled(
    corpus: Corpus, task: AssembleTask, runs: dict[str, list[TokenizedShard]], work: Path
) -> Iterator[tuple[str, str, list[TokenizedShard]]]:
    """(split, label, its tokens), by split and label; without partitions the label is empty."""
    if task.partition is None:
        yield from ((split, "", own) for split, own in runs.items())
        return
    labels: dict[str, list[pa.Array]] = {}
    counts: dict[str, int] = {}
    for split, shards in runs.items():
        labels[split] = []
        for number, run in zip(task.numbers, shards, strict=True):
            columns = [
                task.value(name).of(corpus, number, run.documents) for name in task.partition.by
            ]
            labels[split].append(labels_of(columns, task.partition))
            for entry in labels[split][-1].value_counts().to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
    check_labels(counts, task.source, task.partition)
    names = sorted(counts)
    for split, shards in runs.items():
        places = [
            np.asarray(pa.compute.index_in(one, pa.array(names, pa.string())).to_numpy(), np.int64)
            for one in labels[split]
        ]
        own = by_label(shards, places, len(names), np.dtype(task.dtype), work / split)
        for label, tokenized in zip(names, own, strict=True):
            yield split, label, [tokenized]
        shutil.rmtree(work / split)


def _runs(corpus: Corpus, task: AssembleTask, split: str, first: int) -> list[TokenizedShard]:
    """The tokens of a split of the source's raw shards, from one on."""
    runs = []
    for number, given in zip(task.numbers[first:], task.inputs[first:], strict=True):
        table = proven(corpus.work / f"tokens/{shard_name(number)}.parquet", given[2])
        index = pq.read_table(table, use_threads=False)
        index = index.filter(pa.compute.equal(index["validation"], split == "val"))
        path = corpus.work / f"tokens/{shard_name(number)}.{split}"
        documents, lengths = (index[name].to_numpy() for name in ("document", "tokens"))
        runs.append(TokenizedShard(path, documents, lengths, given[SPLITS.index(split)]))
    return runs


def is_asked(recipe: Recipe) -> bool:
    """Whether a recipe asks for tokens."""
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
    writes=("tokens",),
    formats=("assemble",),
    counts=AssembleCounts,
    function=assemble,
    tasks=tasks,
    is_asked=is_asked,
)
