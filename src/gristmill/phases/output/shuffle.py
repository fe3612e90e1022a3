"""The tokens of a source in their shuffled order, made by tasks that threads or nodes share: first
runs of some raw shards each are sorted (tokens/sorted_runs.py), then token shards are merged out of
all runs.

    work/tokens/<shard>.train, .val, .parquet
      -> sort_shards    work/assemble/<source>/runs.*       for each stream: a split, and a label
      -> write_piece    tokens/<source>/train_00000.bin ... shards of a part of a stream's order

Between the two the process that assembles adds up how many tokens each bucket of the order has:
what is in a token shard follows from it.

Where threads share it, no document is repeated, there are no partitions, and all fits memory
(`fits`), nothing is sorted before: write_piece reads documents where tokenizing wrote them
(tokens/ordered_documents.py).
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus
from gristmill.engine.engine import Session
from gristmill.engine.executor import fresh
from gristmill.phases.output.repeats import Values, count_repeats, join_labels
from gristmill.store.parts import Part
from gristmill.store.proof import proven
from gristmill.system.memory_use import free_memory
from gristmill.tables.schema import shard_name
from gristmill.tokens.ordered_documents import OrderedDocuments
from gristmill.tokens.shards import (
    Apart,
    Block,
    ShardWriter,
    TokenizedShard,
    in_order,
    slice_blocks,
)
from gristmill.tokens.sorted_runs import (
    Piece,
    RunWriter,
    SeededOrder,
    SortedRun,
    choose_order,
    merged,
)
from gristmill.tokens.token_settings import Partition, Repeat

SPLITS = ("train", "val")
# Of a source that is written without runs: raw shards, of which each has two files open, and
# documents, of which each takes 60 bytes, and as much again while they are ordered.
MOST_FILES, MOST_DOCUMENTS = 100, 1 << 21
UNKNOWN_FREE = 4 << 30  # bytes of memory where the system does not say what is free

Stream = tuple[str, str]  # a split, and the label of a partition ("": there are none)


class RawShardTokens(NamedTuple):
    """What tokenizing left of a raw shard under work/."""

    number: int
    sha256: list[str]  # of the tokens of each split, then of the index
    size: int  # bytes of tokens
    documents: int


class SortTask(NamedTuple):
    """Some raw shards to sort."""

    root: str
    work: Path  # a folder for runs
    shards: list[RawShardTokens]
    order: SeededOrder
    dtype: str
    seed: int
    repeat: Repeat | None
    partition: Partition | None
    values: list[Values]  # of these shards: what repeats and partitions are made by


class SortedShards(NamedTuple):
    """What sorting some raw shards gave, by stream."""

    runs: dict[Stream, list[SortedRun]]
    sizes: dict[Stream, np.ndarray]  # (buckets,) int64: tokens
    documents: dict[Stream, int]
    # (rows of the table of repeats, 4) int64: the fields of RepeatCounts; the last row: no row's
    repeats: np.ndarray


class ListedRuns(NamedTuple):
    """The runs of a stream."""

    path: Path  # a list of them
    bits: int

    def blocks(self, piece: Piece, dtype: np.dtype) -> Iterator[Block]:
        """Return the documents of a piece. Raises OSError where runs are not what they were."""
        runs = msgspec.msgpack.decode(self.path.read_bytes(), type=list[SortedRun])
        blocks = merged(runs, self.bits, dtype, piece.ranges)
        return slice_blocks(blocks, piece.skip, piece.tokens)


def listed_runs(path: Path, runs: list[SortedRun], bits: int) -> ListedRuns:
    """List runs in a file, which all tasks read."""
    path.write_bytes(msgspec.msgpack.encode(runs))
    return ListedRuns(path, bits)


class PieceTask(NamedTuple):
    """A part of a stream's token shards to write."""

    stage: Path
    prefix: str
    dtype: str
    tokens_per_shard: int
    documents: ListedRuns | OrderedDocuments
    piece: Piece
    repeats: bool  # whether documents may be there more than once


class WrittenPiece(NamedTuple):
    """Token shards that were written, and the copies that could not be."""

    parts: list[Part]
    left_out: int
    left_out_tokens: int


def seeded_order(seed: int, shards: list[RawShardTokens]) -> SeededOrder:
    """Return the order that a recipe's seed asks for, cut for all these raw shards."""
    digest = hashlib.sha256(f"order {seed}".encode()).digest()
    return choose_order(int.from_bytes(digest[:8], "little"), sum(shard.size for shard in shards))


def fits(shards: list[RawShardTokens], session: Session) -> bool:
    """Return whether a source's tokens are read where tokenizing wrote them: threads share the
    order of its documents, which is small, and the system keeps the tokens between two reads of
    them.
    """
    size = sum(shard.size for shard in shards)
    free = free_memory()
    return (
        session.in_one_process
        and 0 < len(shards) <= MOST_FILES
        and sum(shard.documents for shard in shards) <= MOST_DOCUMENTS
        and size <= (UNKNOWN_FREE if free is None else free) // 4
    )


def sort_tasks(task: SortTask) -> Iterator[SortTask]:
    """Yield a task for each few raw shards, which have the tokens of a run in all."""
    held: list[RawShardTokens] = []
    size = 0
    for shard in task.shards:
        if held and size + shard.size > task.order.run_bytes:
            yield _of_shards(task, held)
            held, size = [], 0
        held.append(shard)
        size += shard.size
    if held:
        yield _of_shards(task, held)


def _of_shards(task: SortTask, shards: list[RawShardTokens]) -> SortTask:
    numbers = [shard.number for shard in shards]
    values = [
        msgspec.structs.replace(
            value,
            sha256={number: value.sha256[number] for number in numbers if number in value.sha256},
        )
        for value in task.values
    ]
    return task._replace(shards=shards, values=values)


def sort_shards(task: SortTask) -> SortedShards:
    """Sort the tokens of some raw shards. Raises Damaged, RecipeError."""
    dtype = np.dtype(task.dtype)
    streams: dict[Stream, int] = {}
    counted = np.zeros((len(task.repeat.table) + 1 if task.repeat is not None else 0, 4), np.int64)
    with RunWriter(fresh(task.work, "runs"), task.order, dtype) as writer:
        for shard in task.shards:
            for split, run in zip(SPLITS, tokenized(task.root, shard), strict=True):
                times = _times(task, shard.number, split, run, counted)
                numbers = _streams(task, shard.number, split, run, streams)
                start = 0
                for block in in_order([run], dtype):
                    stop = start + len(block[1])
                    writer.add(block, times[start:stop], numbers[start:stop])
                    start = stop
    names = {number: stream for stream, number in streams.items()}
    return SortedShards(
        {names[number]: runs for number, runs in writer.runs.items()},
        {names[number]: sizes for number, sizes in writer.sizes.items()},
        {stream: writer.documents.get(number, 0) for stream, number in streams.items()},
        counted,
    )


def tokenized(root: str, shard: RawShardTokens) -> list[TokenizedShard]:
    """Return the tokens of each split of a raw shard. Raises Damaged."""
    corpus, name = Corpus(Path(root)), shard_name(shard.number)
    table = proven(corpus.work / f"tokens/{name}.parquet", shard.sha256[len(SPLITS)])
    index = pq.read_table(table, use_threads=False)
    splits = []
    for split, sha256 in zip(SPLITS, shard.sha256, strict=False):
        own = index.filter(pa.compute.equal(index["validation"], split == "val"))
        documents, lengths = (own[column].to_numpy() for column in ("document", "tokens"))
        path = corpus.work / f"tokens/{name}.{split}"
        splits.append(TokenizedShard(path, documents, lengths, sha256))
    return splits


def proven_tokens(root: str, shard: RawShardTokens) -> list[TokenizedShard]:
    """Return `tokenized`, its tokens checked as well. Raises Damaged."""
    splits = tokenized(root, shard)
    for split, sha256 in zip(splits, shard.sha256, strict=False):
        proven(split.tokens, sha256)
    return splits


def _times(
    task: SortTask, number: int, split: str, run: TokenizedShard, counted: np.ndarray
) -> np.ndarray:
    """Return how often each document is written, (n,) int64, a validation document at most once;
    adds those of training to `counted`.
    """
    if task.repeat is None:
        return np.ones(len(run.documents), np.int64)
    values = _values(task, task.repeat.by).of(Corpus(Path(task.root)), number, run.documents)
    times, rows = count_repeats(values, run.documents, task.repeat, task.seed)
    if split == "val":
        return np.asarray(np.minimum(times, 1), np.int64)
    amounts = (np.ones_like(times), run.lengths, times, times * run.lengths)
    for field, amount in enumerate(amounts):
        np.add.at(counted[:, field], rows, amount)  # row -1 is the last
    return times


def _streams(
    task: SortTask, number: int, split: str, run: TokenizedShard, known: dict[Stream, int]
) -> np.ndarray:
    """Return the number of each document's stream, (n,) int64; adds new ones to `known`."""
    if task.partition is None:
        return np.full(len(run.documents), known.setdefault((split, ""), len(known)), np.int64)
    columns = [
        _values(task, name).of(Corpus(Path(task.root)), number, run.documents)
        for name in task.partition.by
    ]
    labels = join_labels(columns, task.partition).dictionary_encode()
    names = labels.dictionary.to_pylist()
    numbers = [known.setdefault((split, name), len(known)) for name in names]
    return np.asarray(np.array(numbers, np.int64)[labels.indices.to_numpy()], np.int64)


def _values(task: SortTask, name: str) -> Values:
    """Return where the values of a name are."""
    return next(value for value in task.values if value.name == name)


def write_piece(task: PieceTask) -> WrittenPiece:
    """Write some token shards of a stream. Raises OSError where files are not what they were."""
    dtype, piece = np.dtype(task.dtype), task.piece
    blocks = task.documents.blocks(piece, dtype)
    apart = Apart(blocks)
    with ShardWriter(task.stage, task.prefix, dtype, task.tokens_per_shard, piece.first) as writer:
        for block in apart if task.repeats else blocks:
            writer.write(*block)
    return WrittenPiece(writer.parts, apart.left_out, apart.left_out_tokens)
