"""Assemble: the tokens of one source, in the order that the recipe asks for, as shards of fixed
size.
"""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus, Record, content_key
from gristmill.phases.inputs.plan import Plan
from gristmill.recipe import Recipe
from gristmill.schema import shard_name
from gristmill.store.parts import Part
from gristmill.store.proof import proven
from gristmill.tokens.shards import ShardWriter, TokenizedShard, in_order, shuffled


class AssembleTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that assembling one source's token shards needs."""

    root: str
    source: str
    numbers: list[int]
    inputs: list[
        list[str]
    ]  # of each shard, what tokenizing left under work/: sha256 of train, val and index
    dtype: str
    tokens_per_shard: int
    order: str
    seed: int

    def key(self) -> str:
        """The content key."""
        fields = msgspec.structs.asdict(self)
        del fields["root"]
        return content_key("assemble", **fields)


def tasks(
    corpus: Corpus, plan: Plan, recipe: Recipe, written: dict[int, Record], *, dtype: str
) -> dict[int, AssembleTask]:
    """A task for each source, by its place in the recipe."""
    tokens = recipe.tokens
    assert tokens is not None
    found = {}
    for place, source in enumerate(recipe.source):
        numbers = [number for number in written if plan.shards[number].source == source.name]
        found[place] = AssembleTask(
            root=str(corpus.root),
            source=source.name,
            numbers=numbers,
            inputs=[written[number].counts["work"] for number in numbers],
            dtype=dtype,
            tokens_per_shard=tokens.tokens_per_shard,
            order=tokens.order,
            seed=recipe.seed,
        )
    return found


def assemble(task: AssembleTask, tell: Callable[[int], None]) -> Record:
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
                tell(len(tokens) * dtype.itemsize)
        parts += writer.parts
        counts[f"{split}_tokens"] = sum(int(run.lengths.sum()) for run in runs)
        counts[f"{split}_documents"] = sum(len(run.documents) for run in runs)
        counts[f"{split}_shards"] = len(writer.parts) // 2
    seconds = {"seconds": time.perf_counter() - start}
    return corpus.record(
        "assemble", task.source, Record(key=task.key(), parts=parts, counts={**counts, **seconds})
    )
