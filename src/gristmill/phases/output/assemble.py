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
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.recipe import Recipe
from gristmill.schema import shard_name
from gristmill.store.parts import Part
from gristmill.store.proof import proven
from gristmill.tokens.shards import ShardWriter, TokenizedShard, in_order, shuffled


class AssembleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What assembling a source counted."""

    train_tokens: int
    train_documents: int
    train_shards: int
    val_tokens: int
    val_documents: int
    val_shards: int
    seconds: float


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


def tasks(state: State) -> Iterator[dict[int, AssembleTask]]:
    """A task for each source, by its place in the recipe."""
    tokens, tokenizer = state.recipe.tokens, state.tokenizer
    assert tokens is not None and tokenizer is not None
    written, shards = state.of(TOKENIZE), state.plan.shards
    found = {}
    for place, source in enumerate(state.recipe.source):
        numbers = [number for number in written if shards[number].source == source.name]
        found[place] = AssembleTask(
            root=str(state.corpus.root),
            source=source.name,
            numbers=numbers,
            inputs=[[part.sha256 for part in written[number].work] for number in numbers],
            dtype=tokenizer.dtype.str,
            tokens_per_shard=tokens.tokens_per_shard,
            order=tokens.order,
            seed=state.recipe.seed,
        )
    yield found


def assemble(task: AssembleTask, on_progress: Callable[[int], None]) -> Output:
    """Write train and validation shards of one source, in the order that the recipe asks for."""
    corpus = Corpus(Path(task.root))
    start = time.perf_counter()
    dtype = np.dtype(task.dtype)
    key = int.from_bytes(hashlib.sha256(f"order {task.seed}".encode()).digest()[:8], "little")
    parts: list[Part] = []
    counts: dict[str, int] = {}
    for place, split in enumerate(("train", "val")):
        runs = []
        for number, given in zip(task.numbers, task.inputs, strict=True):
            table = proven(corpus.work / f"tokens/{shard_name(number)}.parquet", given[2])
            index = pq.read_table(table, use_threads=False)
            index = index.filter(pa.compute.equal(index["validation"], split == "val"))
            path = corpus.work / f"tokens/{shard_name(number)}.{split}"
            runs.append(
                TokenizedShard(
                    path, index["document"].to_numpy(), index["tokens"].to_numpy(), given[place]
                )
            )
        prefix = f"tokens/{task.source}/{split}"
        with ShardWriter(corpus.stage, prefix, dtype, task.tokens_per_shard) as writer:
            blocks = (
                in_order(runs, dtype)
                if task.order == "append"
                else shuffled(runs, dtype, key, corpus.work / "assemble" / task.source)
            )
            for tokens, documents, lengths in blocks:
                writer.write(tokens, documents, lengths)
                on_progress(len(tokens) * dtype.itemsize)
        parts += writer.parts
        counts[f"{split}_tokens"] = sum(int(run.lengths.sum()) for run in runs)
        counts[f"{split}_documents"] = sum(len(run.documents) for run in runs)
        counts[f"{split}_shards"] = len(writer.parts) // 2
    return Output(AssembleCounts(**counts, seconds=time.perf_counter() - start), parts)


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
