"""Token shards: fixed-size files of one source's tokens, without a header, each with a `.docs` file
beside it.

    train_00000.bin     tokens_per_shard tokens, little-endian uint16 or uint32; the last file may
                        be shorter
    train_00000.docs    n int64 document numbers, then n uint64 exclusive ends in tokens of this
                        shard, with the end-of-text tokens

A withdrawn document (docs/withdrawal.md) keeps its place: its tokens are end-of-text tokens, and
its number n is written as -1 - n.

A document may continue in the next shard; its number is in the `.docs` of each of its shards. A
document that is repeated has a row for each copy, and no two copies follow one another.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.store.parts import HashingFile, Part, write_bytes, writing
from gristmill.store.proof import Reading

BLOCK_BYTES = 8 << 20  # of tokens that are read together

Block = tuple[np.ndarray, np.ndarray, np.ndarray]  # tokens, documents, lengths


class TokenizedShard(NamedTuple):
    """The tokens of one raw shard's documents on disk, in document order."""

    tokens: Path
    documents: np.ndarray  # (n,) int64
    lengths: np.ndarray  # (n,) int64, with the end-of-text token
    sha256: str | None = None  # of the file of tokens, checked while it is read; None: not checked


class ShardWriter:
    """Writes a stream of documents as shards of one split (train or validation)."""

    def __init__(
        self, root: Path, prefix: str, dtype: np.dtype, tokens_per_shard: int, first: int = 0
    ) -> None:
        """Write to root/prefix_00000.bin and the following; `prefix` is, for example,
        tokens/web/train, and `first` the number of the first.
        """
        self._first = first
        self._root, self._prefix, self._dtype, self._size = root, prefix, dtype, tokens_per_shard
        self._stack = ExitStack()
        self._file: HashingFile | None = None
        self._tokens = 0  # in the open shard
        self._documents: list[np.ndarray] = []
        self._ends: list[np.ndarray] = []
        self.parts: list[Part] = []

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._close()
        else:
            self._stack.__exit__(kind, *rest)  # type: ignore[arg-type]

    def write(self, tokens: np.ndarray, documents: np.ndarray, lengths: np.ndarray) -> None:
        """Add whole documents: their consecutive tokens (m,), numbers (n,) and lengths (n,)."""
        ends = np.cumsum(lengths)
        at = 0
        while at < len(tokens):
            if self._file is None:
                self._file = self._stack.enter_context(writing(self._root, f"{self._name}.bin"))
            stop = min(len(tokens), at + self._size - self._tokens)
            # The documents with tokens in at..stop: they end after `at` and begin before `stop`.
            first = int(np.searchsorted(ends, at, "right"))
            last = int(np.searchsorted(ends, stop, "left")) + 1
            self._documents.append(documents[first:last])
            self._ends.append(np.minimum(ends[first:last], stop) - at + self._tokens)
            self._file.write(np.ascontiguousarray(tokens[at:stop], self._dtype))
            self._tokens += stop - at
            at = stop
            if self._tokens == self._size:
                self._close()

    @property
    def _name(self) -> str:
        return f"{self._prefix}_{self._first + len(self.parts) // 2:05d}"

    def _close(self) -> None:
        if self._file is None:
            return
        file = self._file
        self._stack.close()
        name = self._name
        documents = np.concatenate(self._documents).astype("<i8")
        ends = np.concatenate(self._ends).astype("<u8")
        counts = {"tokens": self._tokens, "documents": len(documents)}
        self.parts.append(Part(f"{name}.bin", file.size, file.hexdigest(), counts))
        self.parts.append(
            write_bytes(
                self._root,
                f"{name}.docs",
                documents.tobytes() + ends.tobytes(),
                documents=len(documents),
            )
        )
        self._file, self._tokens, self._documents, self._ends = None, 0, [], []


def in_order(tokenized: list[TokenizedShard], dtype: np.dtype) -> Iterator[Block]:
    """Yield documents in their own order, in blocks that fit memory: (tokens, documents, lengths).

    Raises VerificationError if a file of tokens does not have its sha256.
    """
    for shard in tokenized:
        with Reading(shard.tokens, shard.sha256) as file:
            for start, stop in _blocks(shard.lengths, dtype):
                lengths = shard.lengths[start:stop]
                tokens = file.read(dtype, int(lengths.sum()))
                yield tokens, shard.documents[start:stop], lengths
            file.end()


def slice_blocks(blocks: Iterator[Block], skip: int, count: int | None = None) -> Iterator[Block]:
    """Yield blocks of documents without their first `skip` tokens, and of `count` tokens, which
    they must have; None: all that follow.
    """
    for tokens, documents, lengths in blocks:
        if skip >= len(tokens):
            skip -= len(tokens)
            continue
        stop = len(tokens) if count is None else min(len(tokens), skip + count)
        ends = np.minimum(np.cumsum(lengths), stop)
        first = int(np.searchsorted(ends, skip, "right"))
        last = int(np.searchsorted(ends, stop, "left")) + 1
        yield tokens[skip:stop], documents[first:last], np.diff(ends[first:last], prepend=skip)
        count = None if count is None else count - (stop - skip)
        if count == 0:
            return
        skip = 0


class Apart:
    """Blocks of documents in which no copy follows another copy of its document: the `.docs` could
    not say where the one ends. It comes behind the next other document; where there is none any
    more, it is left out: `left_out` and `left_out_tokens` are how many.
    """

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self.left_out = 0
        self.left_out_tokens = 0

    def __iter__(self) -> Iterator[Block]:
        from gristmill.kernels.hashing import shuffle

        last: int | None = None
        waiting: tuple[np.ndarray, ...] = ()  # copies of `last`: tokens, documents, lengths
        for block in self._blocks:
            tokens, documents, lengths = (
                (np.concatenate(pair) for pair in zip(waiting, block, strict=True))
                if waiting
                else block
            )
            order, left = _apart(documents.tolist(), last)
            stops = np.cumsum(lengths)
            starts = stops - lengths
            last = int(documents[order[-1]]) if len(order) else last
            waiting = (shuffle.gather(tokens, starts, stops, left), documents[left], lengths[left])
            if len(order) < len(documents) or (np.diff(order) != 1).any():
                tokens = shuffle.gather(tokens, starts, stops, order)
                documents, lengths = documents[order], lengths[order]
            yield tokens, documents, lengths
        if waiting:
            self.left_out, self.left_out_tokens = len(waiting[1]), int(waiting[2].sum())


def _apart(documents: list[int], last: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of n documents in which none follows its equal, and those that have no place
    in it, which are all equal to the last one. `last` is the document before.
    """
    order: list[int] = []
    waiting: list[int] = []  # all of document `last`
    for place, document in enumerate(documents):
        if document == last:
            waiting.append(place)
            continue
        order.append(place)
        last = document
        if waiting:
            order.append(waiting.pop(0))
            last = documents[order[-1]]
    return np.array(order, np.int64), np.array(waiting, np.int64)


def _blocks(lengths: np.ndarray, dtype: np.dtype) -> Iterator[tuple[int, int]]:
    """Yield documents that fit memory together: from one, to before another."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        base = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, base + BLOCK_BYTES // dtype.itemsize, "right"))
        stop = max(stop, start + 1)
        yield start, stop
        start = stop
