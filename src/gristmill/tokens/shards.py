"""Token shards: fixed-size files of one source's tokens, without a header, each with a `.docs` file
beside it.

    train_00000.bin     tokens_per_shard tokens, little-endian uint16 or uint32; the last file may
                        be shorter
    train_00000.docs    n int64 document numbers, then n uint64 exclusive ends in tokens of this
                        shard, with the end-of-text tokens

A withdrawn document (docs/withdrawal.md) keeps its place: its tokens are end-of-text tokens, and
its number n is written as -1 - n.

A document may continue in the next shard; its number is in the `.docs` of each of its shards.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.store.parts import HashingFile, Part, write_bytes, writing
from gristmill.store.proof import Reading

BUCKET_BYTES = 96 << 20  # of tokens that are sorted in memory together


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


def in_order(
    tokenized: list[TokenizedShard], dtype: np.dtype
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Documents in their own order, in blocks that fit memory: (tokens, documents, lengths).

    Raises VerificationError if a file of tokens does not have its sha256.
    """
    for shard in tokenized:
        with Reading(shard.tokens, shard.sha256) as file:
            ends = np.cumsum(shard.lengths)
            start = 0
            while start < len(ends):
                base = int(ends[start - 1]) if start else 0
                stop = int(np.searchsorted(ends, base + BUCKET_BYTES // dtype.itemsize, "right"))
                stop = max(stop, start + 1)
                tokens = file.read(dtype, int(ends[stop - 1]) - base)
                yield tokens, shard.documents[start:stop], shard.lengths[start:stop]
                start = stop
            file.end()


def shuffled(
    tokenized: list[TokenizedShard], dtype: np.dtype, key: int, work: Path
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Documents in the order of a keyed hash of their numbers, in blocks as `in_order` gives them.

    Documents are written to buckets by the first bits of the hash, and each bucket is sorted by the
    other bits, so the number of buckets does not change the order. One bucket is in memory.
    """
    from gristmill.kernels.hashing import shuffle

    total = sum(int(shard.lengths.sum()) for shard in tokenized) * dtype.itemsize
    bits = 0
    while (total >> bits) > BUCKET_BYTES:
        bits += 1
    if bits == 0:
        blocks = list(in_order(tokenized, dtype))
        if blocks:
            tokens, documents, lengths = (
                np.concatenate(column) for column in zip(*blocks, strict=True)
            )
            yield _sorted(tokens, documents, lengths, key)
        return
    work.mkdir(parents=True, exist_ok=True)
    names = [work / f"bucket_{number:05d}" for number in range(1 << bits)]
    of_buckets: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in names]
    with ExitStack() as stack:
        files = [stack.enter_context(open(name, "wb", buffering=1 << 18)) for name in names]
        for tokens, documents, lengths in in_order(tokenized, dtype):
            buckets = (shuffle.order_keys(documents, key) >> np.uint64(64 - bits)).astype(np.int64)
            order = np.argsort(buckets, kind="stable")
            stops = np.cumsum(lengths)
            bounds = np.searchsorted(buckets[order], np.arange((1 << bits) + 1))
            for number, file in enumerate(files):
                members = order[bounds[number] : bounds[number + 1]]
                file.write(shuffle.gather(tokens, stops - lengths, stops, members).data)
                of_buckets[number].append((documents[members], lengths[members]))
    for name, pieces in zip(names, of_buckets, strict=True):
        tokens = np.fromfile(name, dtype)
        name.unlink()
        documents, lengths = (np.concatenate(column) for column in zip(*pieces, strict=True))
        yield _sorted(tokens, documents, lengths, key)


def _sorted(
    tokens: np.ndarray, documents: np.ndarray, lengths: np.ndarray, key: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from gristmill.kernels.hashing import shuffle

    order = np.argsort(shuffle.order_keys(documents, key))
    stops = np.cumsum(lengths)
    return shuffle.gather(tokens, stops - lengths, stops, order), documents[order], lengths[order]
