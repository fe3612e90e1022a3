"""Runs: tokens in pieces that fit memory, each sorted by a keyed hash of its documents' numbers,
and the merging of them. Tasks write runs side by side; then others read each a part of the order.

    tokens of raw shards    -> RunWriter -> NAME.tokens, NAME.rows
    a part of the order     -> merged    -> blocks of documents, from all runs

The order is cut into 2^bits buckets by the first bits of the hash, and a run says where each of its
buckets begins. The number of buckets and how documents are cut into runs do not change the order.

NAME.tokens   the tokens of one run after another
NAME.rows     for each run 2^bits + 1 rows of two int64: how many documents and tokens are before a
              bucket, and in the end; then, for each document, three: its place in the order (as
              uint64), its number, its length
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from gristmill.engine.pread import read_into
from gristmill.tokens.shards import Block

# Of tokens: in a run, at least (a file has few runs, so that slices of a bucket stay long), ...
RUN_BYTES, MOST_RUN_BYTES, MANY_RUNS = 16 << 20, 96 << 20, 256
BUCKET_BYTES = 2 << 20  # ... in a bucket, about, while there are fewer than 2^MOST_BITS, ...
MERGED_BYTES = 12 << 20  # ... merged together, ...
PIECE_BYTES = 32 << 20  # ... and written by a task, at least
MOST_BITS = 14


class SeededOrder(msgspec.Struct, frozen=True):
    """The order of documents, and how it is cut."""

    key: int  # of the hash
    bits: int  # of the hash that choose a bucket
    run_bytes: int  # of tokens in a run, about


class SortedRun(msgspec.Struct, frozen=True, array_like=True):
    """Where the documents of one stream are that were sorted together."""

    path: str  # without its ending
    first_token: int
    first_byte: int  # of its rows


class Piece(NamedTuple):
    """Consecutive token shards, and the part of the order that they hold."""

    first: int  # the number of the first
    skip: int  # tokens of the first bucket that are in the shard before
    tokens: int
    ranges: list[tuple[int, int]]  # of buckets that are merged together: from one, to before one


def choose_order(key: int, total: int) -> SeededOrder:
    """Return how to sort `total` bytes of tokens."""
    bits = 0
    while bits < MOST_BITS and (total >> bits) > BUCKET_BYTES:
        bits += 1
    return SeededOrder(key, bits, min(max(RUN_BYTES, total // MANY_RUNS), MOST_RUN_BYTES))


class RunWriter:
    """Sorts documents of several streams and writes them as runs."""

    def __init__(self, path: Path, order: SeededOrder, dtype: np.dtype) -> None:
        """Write `path`.tokens and .rows; use as a context."""
        self._path, self._order, self._dtype = str(path), order, dtype
        self._held: list[tuple[np.ndarray, ...]] = []
        self._bytes = self._tokens = 0
        self.runs: dict[int, list[SortedRun]] = {}  # by stream
        self.sizes: dict[int, np.ndarray] = {}  # by stream: the tokens of each bucket
        self.documents: dict[int, int] = {}  # by stream

    def __enter__(self) -> "RunWriter":
        # The buffer of rows is for the few bytes of a run of few documents.
        self._file, self._rows = (
            open(f"{self._path}.tokens", "wb", 0),
            open(f"{self._path}.rows", "wb"),
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._file, self._rows:
            if kind is None and self._held:
                self._flush()

    def add(self, block: Block, times: np.ndarray, streams: np.ndarray) -> None:
        """Add documents (n,): how often each is written (n,) int64, and its stream (n,) int64."""
        self._held.append((*block, times, streams))
        self._bytes += int((block[2] * times).sum()) * self._dtype.itemsize
        if self._bytes >= self._order.run_bytes:
            self._flush()

    def _flush(self) -> None:
        """Write what is held."""
        from gristmill.kernels.hashing import shuffle

        held, self._held, self._bytes = self._held, [], 0
        tokens, documents, lengths, times, streams = (
            held[0] if len(held) == 1 else map(np.concatenate, zip(*held, strict=True))
        )
        held.clear()
        rows, keys = placed(documents, times, self._order.key)
        order = np.lexsort((documents[rows], keys, streams[rows]))
        rows, keys = rows[order], keys[order]
        stops = np.cumsum(lengths)
        sorted_tokens = shuffle.gather(tokens, stops - lengths, stops, rows)
        del tokens
        _write_all(self._file.fileno(), sorted_tokens.view(np.uint8))
        streams, documents, lengths = streams[rows], documents[rows], lengths[rows]
        ends = np.append(0, np.cumsum(lengths))
        bounds = np.flatnonzero(np.diff(streams, prepend=-1, append=-1))
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            before = np.searchsorted(
                bucket_numbers(keys[start:stop], self._order.bits), self._numbers
            )
            tokens_before = ends[start + before] - ends[start]
            run = SortedRun(self._path, self._tokens + int(ends[start]), self._rows.tell())
            self._rows.write(np.stack([before, tokens_before], 1).astype(np.int64).tobytes())
            table = (keys[start:stop].view(np.int64), documents[start:stop], lengths[start:stop])
            self._rows.write(np.stack(table, 1).tobytes())
            stream = int(streams[start])
            self.runs.setdefault(stream, []).append(run)
            self.sizes[stream] = self.sizes.get(stream, 0) + np.diff(tokens_before)
            self.documents[stream] = self.documents.get(stream, 0) + stop - start
        self._tokens += int(ends[-1])

    @property
    def _numbers(self) -> np.ndarray:
        return np.arange((1 << self._order.bits) + 1)


def _write_all(handle: int, data: np.ndarray) -> None:
    at = 0
    while at < len(data):
        at += os.write(handle, data[at:].data)


def bucket_numbers(keys: np.ndarray, bits: int) -> np.ndarray:
    """Return the buckets (n,) int64 of places in the order (n,) uint64."""
    if bits == 0:
        return np.zeros(len(keys), np.int64)
    return (keys >> np.uint64(64 - bits)).astype(np.int64)


def pieces(sizes: np.ndarray, tokens_per_shard: int, itemsize: int, *, whole: bool) -> list[Piece]:
    """Return how tasks share the token shards of a stream, whose buckets have `sizes` (b,) int64
    tokens; with `whole` one task has all.
    """
    total = int(sizes.sum())
    shards = max(1, PIECE_BYTES // (tokens_per_shard * itemsize))
    each = total if whole else shards * tokens_per_shard
    ends = np.cumsum(sizes)
    tasks = []
    for start in range(0, total, each) if total else ():
        stop = min(total, start + each)
        first = int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(ends, stop, "left")) + 1
        skip = start - int(ends[first] - sizes[first])
        ranges = _ranges(sizes[first:last].tolist(), first, MERGED_BYTES // itemsize)
        tasks.append(Piece(start // tokens_per_shard, skip, stop - start, ranges))
    return tasks


def _ranges(sizes: list[int], first: int, most: int) -> list[tuple[int, int]]:
    """Return buckets from `first` on, those together that have up to `most` tokens, and at least
    one.
    """
    ranges, start, held = [], first, 0
    for number, size in enumerate(sizes, first):
        if held and held + size > most:
            ranges.append((start, number))
            start, held = number, 0
        held += size
    return [*ranges, (start, first + len(sizes))]


def merged(
    runs: list[SortedRun], bits: int, dtype: np.dtype, ranges: list[tuple[int, int]]
) -> Iterator[Block]:
    """Yield the documents of some buckets of a stream, in the order: a block for each range of
    them.
    """
    from gristmill.kernels.hashing import shuffle

    for first, last in ranges:
        slices = [_read_rows(run, bits, first, last) for run in runs]
        keys, documents, lengths = np.concatenate([rows for rows, _, _ in slices]).T
        tokens = np.empty(sum(count for _, _, count in slices), dtype)
        at = 0
        for run, (_, start, count) in zip(runs, slices, strict=True):
            if count:
                with open(f"{run.path}.tokens", "rb", 0) as file:
                    read_into(file.fileno(), tokens[at : at + count], start * dtype.itemsize)
            at += count
        order = np.lexsort((documents, np.ascontiguousarray(keys).view(np.uint64)))
        stops = np.cumsum(lengths)
        values = shuffle.gather(tokens, stops - lengths, stops, order)
        del tokens
        yield values, documents[order], lengths[order]


def _read_rows(run: SortedRun, bits: int, first: int, last: int) -> tuple[np.ndarray, int, int]:
    """Of some buckets of a run the rows of documents, (n, 3) int64, the first token, and how many
    tokens there are.
    """
    with open(f"{run.path}.rows", "rb", 0) as file:
        handle, at = file.fileno(), run.first_byte
        bounds = np.empty((2, 2), np.int64)
        for row, bucket in enumerate((first, last)):
            read_into(handle, bounds[row], at + 16 * bucket)
        (first_row, first_token), (row, token) = bounds.tolist()
        rows = np.empty((row - first_row, 3), np.int64)
        read_into(handle, rows, at + 16 * ((1 << bits) + 1) + 24 * first_row)
    return rows, run.first_token + first_token, token - first_token


def placed(documents: np.ndarray, repeats: np.ndarray, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where n documents come in the shuffled order, each as often as `repeats` (n,) says:
    (m,) int64 which document, (m,) uint64 its place.

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
