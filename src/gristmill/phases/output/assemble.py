"""Assemble: the tokens of one source, in the order that the recipe asks for, as shards of fixed
size.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus
from gristmill.phases.output.full_shards import (
    FullShards,
    LastFull,
    checkpoint,
    still_full,
    without_first,
)
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.recipe import Recipe
from gristmill.schema import shard_name
from gristmill.store.parts import Part
from gristmill.store.proof import proven
from gristmill.tokens.shards import ShardWriter, TokenizedShard, in_order, shuffled

SPLITS = ("train", "val")


class AssembleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What assembling a source counted."""

    train_tokens: int
    train_documents: int
    train_shards: int
    val_tokens: int
    val_documents: int
    val_shards: int
    seconds: float
    # by split, with order = "append": where the full shards end
    checkpoints: dict[str, LastFull] = {}


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


def tasks(state: State) -> Iterator[dict[int, AssembleTask]]:
    """A task for each source, by its place in the recipe."""
    tokens, tokenizer = state.recipe.tokens, state.tokenizer
    assert tokens is not None and tokenizer is not None
    written, shards = state.of(TOKENIZE), state.plan.shards
    found = {}
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
        )
        full = _full_shards(state, task) if task.order == "append" else {}
        found[place] = msgspec.structs.replace(task, full=full)
    yield found


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
    corpus = Corpus(Path(task.root))
    start = time.perf_counter()
    dtype = np.dtype(task.dtype)
    key = int.from_bytes(hashlib.sha256(f"order {task.seed}".encode()).digest()[:8], "little")
    parts: list[Part] = []
    counts: dict[str, int] = {}
    checkpoints = {}
    for split in SPLITS:
        full = task.full.get(split, FullShards())
        runs = _runs(corpus, task, split, full.at.shards)
        prefix = f"tokens/{task.source}/{split}"
        size = task.tokens_per_shard
        with ShardWriter(corpus.stage, prefix, dtype, size, full.count) as writer:
            blocks = (
                without_first(in_order(runs, dtype), full.count * size - full.at.tokens)
                if task.order == "append"
                else shuffled(runs, dtype, key, corpus.work / "assemble" / task.source)
            )
            for tokens, documents, lengths in blocks:
                writer.write(tokens, documents, lengths)
                on_progress(len(tokens) * dtype.itemsize)
        parts += [*full.parts, *writer.parts]
        lengths_of = [(int(run.lengths.sum()), len(run.documents)) for run in runs]
        counts[f"{split}_tokens"] = full.at.tokens + sum(tokens for tokens, _ in lengths_of)
        counts[f"{split}_documents"] = full.at.documents + sum(count for _, count in lengths_of)
        counts[f"{split}_shards"] = full.count + len(writer.parts) // 2
        if task.order == "append":
            whole = counts[f"{split}_tokens"] // size * size
            settings = (task.dtype, size)
            checkpoints[split] = checkpoint(lengths_of, full.at, whole, task.inputs, settings)
    seconds = time.perf_counter() - start
    return Output(AssembleCounts(**counts, seconds=seconds, checkpoints=checkpoints), parts)


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
    recipe=("seed", "source.name", "tokens.tokens_per_shard", "tokens.order"),
    reads=("work/tokens",),
    writes=("tokens",),
    formats=("assemble",),
    counts=AssembleCounts,
    function=assemble,
    tasks=tasks,
    is_asked=is_asked,
)
