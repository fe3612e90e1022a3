"""Token shards: fixed-size files of one source's tokens, without a header, each with its `.docs`
beside it.

    train_00000.bin     tokens, little-endian uint16 or uint32; tokens_per_shard of them, the last
                        file shorter
    train_00000.docs    n int64 document numbers, then n uint64 exclusive ends in tokens of this
                        shard, end of text included

A document may run on into the next shard; its number stands in each that it touches.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.store.parts import HashingFile, Part, write_bytes, writing
from gristmill.store.proof import Reading

BUCKET_BYTES = 96 << 20  # tokens sorted in memory at a time


class Run(NamedTuple):
    """The tokens of one raw shard's documents, in document order, on disk: what tokenizing left."""

    tokens: Path
    documents: np.ndarray  # (n,) int64
    lengths: np.ndarray  # (n,) int64, end of text included
    sha256: str | None = None  # of the file of tokens, which is held against it while it is read


class ShardWriter:
    """Cuts a stream of documents into shards of one split."""

    def __init__(self, root: Path, prefix: str, dtype: np.dtype, tokens_per_shard: int) -> None:
        """Write to root/prefix_00000.bin and on; `prefix` is like tokens/web/train."""
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
        """Add whole documents: their tokens one after another."""
        ends = np.cumsum(lengths)
        at = 0
        while at < len(tokens):
            if self._file is None:
                name = f"{self._prefix}_{len(self.parts) // 2:05d}.bin"
                self._file = self._stack.enter_context(writing(self._root, name))
            stop = min(len(tokens), at + self._size - self._tokens)
            # The documents with tokens in at..stop: those that end behind at, and begin before
            # stop.
            first = int(np.searchsorted(ends, at, "right"))
            last = int(np.searchsorted(ends, stop, "left")) + 1
            self._documents.append(documents[first:last])
            self._ends.append(np.minimum(ends[first:last], stop) - at + self._tokens)
            self._file.write(np.ascontiguousarray(tokens[at:stop], self._dtype))
            self._tokens += stop - at
            at = stop
            if self._tokens == self._size:
                self._close()

    def _close(self) -> None:
        if self._file is None:
            return
        file = self._file
        self._stack.close()
        name = f"{self._prefix}_{len(self.parts) // 2:05d}"
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
    runs: list[Run], dtype: np.dtype
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Documents in their own order, in blocks that fit memory: (tokens, documents, lengths)."""
    for run in runs:
        with Reading(run.tokens, run.sha256) as file:
            ends = np.cumsum(run.lengths)
            start = 0
            while start < len(ends):
                base = int(ends[start - 1]) if start else 0
                stop = int(np.searchsorted(ends, base + BUCKET_BYTES // dtype.itemsize, "right"))
                stop = max(stop, start + 1)
                tokens = file.read(dtype, int(ends[stop - 1]) - base)
                yield tokens, run.documents[start:stop], run.lengths[start:stop]
                start = stop
            file.end()


def shuffled(
    runs: list[Run], dtype: np.dtype, key: int, work: Path
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Documents in the order of a keyed hash of their numbers; memory for one bucket.

    Documents are dealt to buckets by the hash's first bits, each bucket is sorted by the rest: how
    many buckets there are changes nothing.
    """
    from gristmill.kernels.hashing import shuffle

    total = sum(int(run.lengths.sum()) for run in runs) * dtype.itemsize
    bits = 0
    while (total >> bits) > BUCKET_BYTES:
        bits += 1
    if bits == 0:
        blocks = list(in_order(runs, dtype))
        if blocks:
            tokens, documents, lengths = (
                np.concatenate(column) for column in zip(*blocks, strict=True)
            )
            yield _sorted(tokens, documents, lengths, key)
        return
    work.mkdir(parents=True, exist_ok=True)
    names = [work / f"bucket_{number:05d}" for number in range(1 << bits)]
    dealt: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in names]
    with ExitStack() as stack:
        files = [stack.enter_context(open(name, "wb", buffering=1 << 18)) for name in names]
        for tokens, documents, lengths in in_order(runs, dtype):
            buckets = (shuffle.order_keys(documents, key) >> np.uint64(64 - bits)).astype(np.int64)
            order = np.argsort(buckets, kind="stable")
            stops = np.cumsum(lengths)
            bounds = np.searchsorted(buckets[order], np.arange((1 << bits) + 1))
            for number, file in enumerate(files):
                members = order[bounds[number] : bounds[number + 1]]
                file.write(shuffle.gather(tokens, stops - lengths, stops, members).data)
                dealt[number].append((documents[members], lengths[members]))
    for name, pieces in zip(names, dealt, strict=True):
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
