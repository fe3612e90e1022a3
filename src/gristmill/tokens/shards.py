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

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.store.parts import HashingFile, Part, write_bytes, writing
from gristmill.store.proof import Reading

BLOCK_BYTES = 8 << 20  # of tokens that are read together
# of tokens that are sorted in memory together: so few where MOST_SMALL buckets are enough, for each
# is an open file with a buffer; then up to BUCKET_BYTES
SMALL_BUCKET_BYTES, MOST_SMALL = 16 << 20, 64
BUCKET_BYTES = 96 << 20


class TokenizedShard(NamedTuple):
    """The tokens of one raw shard's documents on disk, in document order."""

    tokens: Path
    documents: np.ndarray  # (n,) int64
    lengths: np.ndarray  # (n,) int64, with the end-of-text token
    sha256: str | None = None  # of the file of tokens, checked while it is read; None: not checked
    repeats: np.ndarray | None = None  # (n,) int64: how often each is written; None: once

    @property
    def times(self) -> np.ndarray:
        """How often each is written: (n,) int64."""
        return np.ones(len(self.documents), np.int64) if self.repeats is None else self.repeats


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
            for start, stop in _blocks(shard.lengths, dtype):
                lengths = shard.lengths[start:stop]
                tokens = file.read(dtype, int(lengths.sum()))
                yield tokens, shard.documents[start:stop], lengths
            file.end()


def shuffled(
    tokenized: list[TokenizedShard], dtype: np.dtype, key: int, work: Path
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Documents in the order of a keyed hash of their numbers, in blocks as `in_order` gives them.

    Documents are written to buckets by the first bits of the hash, and each bucket is sorted by the
    other bits, so the number of buckets does not change the order. One bucket is in memory. Copies
    of a document are spread over the order (`placed`).
    """
    from gristmill.kernels.hashing import shuffle

    total = sum(int((shard.lengths * shard.times).sum()) for shard in tokenized) * dtype.itemsize
    bits = _bits(total)
    blocks = zip(in_order(tokenized, dtype), _repeats(tokenized, dtype), strict=True)
    if bits == 0:
        held = [(*block, repeats) for block, repeats in blocks]
        if held:
            tokens, documents, lengths, repeats = (
                np.concatenate(column) for column in zip(*held, strict=True)
            )
            rows, keys = placed(documents, repeats, key)
            yield _sorted(tokens, documents, lengths, rows, keys)
        return
    work.mkdir(parents=True, exist_ok=True)
    names = [work / f"bucket_{number:05d}" for number in range(1 << bits)]
    of_buckets: list[list[tuple[np.ndarray, ...]]] = [[] for _ in names]
    with ExitStack() as stack:
        files = [stack.enter_context(open(name, "wb", buffering=1 << 18)) for name in names]
        for (tokens, documents, lengths), repeats in blocks:
            rows, keys = placed(documents, repeats, key)
            buckets = (keys >> np.uint64(64 - bits)).astype(np.int64)
            order = np.argsort(buckets, kind="stable")
            stops = np.cumsum(lengths)
            bounds = np.searchsorted(buckets[order], np.arange((1 << bits) + 1))
            for number, file in enumerate(files):
                members = order[bounds[number] : bounds[number + 1]]
                own = rows[members]
                file.write(shuffle.gather(tokens, stops - lengths, stops, own).data)
                of_buckets[number].append((documents[own], lengths[own], keys[members]))
    for name, pieces in zip(names, of_buckets, strict=True):
        tokens = np.fromfile(name, dtype)
        name.unlink()
        documents, lengths, keys = (np.concatenate(column) for column in zip(*pieces, strict=True))
        yield _sorted(tokens, documents, lengths, np.arange(len(documents)), keys)


def _bits(total: int) -> int:
    """How many bits of the hash choose the bucket, of tokens of `total` bytes."""
    bits = 0
    while (total >> bits) > (SMALL_BUCKET_BYTES if 1 << bits < MOST_SMALL else BUCKET_BYTES):
        bits += 1
    return bits


class Apart:
    """Blocks of documents in which no copy follows another copy of its document: the `.docs` could
    not say where the one ends. It comes behind the next other document; where there is none any
    more, it is left out: `left_out` and `left_out_tokens` are how many.
    """

    def __init__(self, blocks: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        self._blocks = blocks
        self.left_out = 0
        self.left_out_tokens = 0

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
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
    """An order of n documents in which none follows its equal, and those that have no place in it,
    which are all equal to the last one. `last` is the document before.
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


def placed(documents: np.ndarray, repeats: np.ndarray, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Where n documents come in the shuffled order, each as often as `repeats` (n,) says: (m,)
    int64 which document, (m,) uint64 its place.

    The first copy has the place that a document without copies has. Of r copies the next comes
    between half and one and a half times 2^64 / r behind the one before, by a hash of its own:
    copies are spread over the order, and two documents are not neighbours again.
    """
    from gristmill.kernels.hashing import shuffle

    keys = shuffle.order_keys(documents, key)
    if (repeats == 1).all():
        return np.arange(len(documents)), keys
    rows = np.repeat(np.arange(len(documents)), repeats)
    starts = np.cumsum(repeats) - repeats
    copies = np.arange(len(rows)) - starts[rows]
    places = keys[rows]
    for copy in range(1, int(repeats.max(initial=0))):
        mine = np.flatnonzero(copies == copy)
        own = rows[mine]
        apart = (np.uint64(0xFFFFFFFFFFFFFFFF) // repeats[own].astype(np.uint64)).astype(np.uint64)
        further = shuffle.order_keys(documents[own], _key_of_copy(key, copy))
        places[mine] += np.uint64(copy) * apart + further % (apart // np.uint64(2))
    return rows, places


def _key_of_copy(key: int, copy: int) -> int:
    digest = hashlib.sha256(f"copy {copy} {key}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def _repeats(tokenized: list[TokenizedShard], dtype: np.dtype) -> Iterator[np.ndarray]:
    """How often the documents of each block of `in_order` are written: (n,) int64."""
    for shard in tokenized:
        for start, stop in _blocks(shard.lengths, dtype):
            yield shard.times[start:stop]


def _blocks(lengths: np.ndarray, dtype: np.dtype) -> Iterator[tuple[int, int]]:
    """Documents that fit memory together: from one, to before another."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        base = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, base + BLOCK_BYTES // dtype.itemsize, "right"))
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _sorted(
    tokens: np.ndarray,
    documents: np.ndarray,
    lengths: np.ndarray,
    rows: np.ndarray,
    keys: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The documents `rows` (m,) of n, in the order of `keys` (m,)."""
    from gristmill.kernels.hashing import shuffle

    order = rows[np.lexsort((documents[rows], keys))]
    stops = np.cumsum(lengths)
    return shuffle.gather(tokens, stops - lengths, stops, order), documents[order], lengths[order]
