"""Band keys in partitions by their first bits: all documents of one bucket are in one partition.

    the same partition of all groups -> its pairs           files of pairs (pairs_in)
                                     -> its large buckets   (m, 2) int64, by key and number

A bucket is all documents that have one key. Each document makes a pair with the first few documents
of each of its buckets that are earlier than itself. So a document's pairs never change when later
documents are added, and a bucket of n documents makes at most n pairs a place, however large it is.

A key that surely occurs once makes no pair and is left out. Memory is a few chunks of CHUNK keys,
40 bytes for each key that may occur twice, and a few times HELD pairs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.dedup.disk_arrays import map_array, write_array
from gristmill.dedup.sort_pairs import sort_pairs
from gristmill.engine.executor import fresh

CHUNK = 1 << 19  # keys that are looked at together
SORTED = 1 << 21  # keys that may occur twice and are sorted together, about
HELD = 1 << 20  # pairs that are made together, and that wait to be written


class KeyFile(NamedTuple):
    """Keys of one partition and their documents' numbers: a file, (m, 2) int64."""

    path: Path
    base: int  # the number of a document is this plus the number in the file


class PartitionTask(NamedTuple):
    """All keys of one partition: a task."""

    place: int
    files: list[KeyFile]
    candidates: int  # of each bucket
    first: int  # the number of the first document that is not of a reference corpus
    large: bool  # whether to write the buckets of more documents than `candidates`
    work: Path


def write_pairs(task: PartitionTask) -> tuple[list[Path], list[Path]]:
    """Write the pairs of a partition: files of pairs (pairs_in), and a file of its large buckets if
    it has any.
    """
    pairs, target = _PairFiles(task), fresh(task.work, f"large-{task.place:04d}")
    with open(target, "wb") as large:
        for keys, numbers in _in_buckets(_find_repeats(task.files)):
            heads = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            sizes = np.diff(np.r_[heads, len(keys)])
            if task.large:
                often = np.repeat(sizes > task.candidates, sizes)
                large.write(np.stack([keys[often], numbers[often]], axis=1).data)
            for left, right in _first_of_each(numbers, np.repeat(heads, sizes), task.candidates):
                pairs.add(left, right)
    pairs.flush()
    if target.stat().st_size:
        return pairs.written, [target]
    target.unlink()
    return pairs.written, []


def pairs_in(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return a file of pairs, mapped: documents (n,) int64 and their candidates (n,) int64, by
    number, candidate < document; sorted by both, each pair once.
    """
    both = map_array(path, np.int64)
    return both[: len(both) // 2], both[len(both) // 2 :]


def distinct(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each pair (n,), (n,) int64 once, sorted by both."""
    left, right = sort_pairs(left, right)
    new = np.ones(len(left), bool)
    new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return left[new], right[new]


def _find_repeats(files: list[KeyFile]) -> np.ndarray:
    """Return the keys of a partition that may occur twice, and their numbers: (m, 2) int64."""
    from gristmill.kernels.hashing.band_keys import Repeated

    repeated = Repeated(count_keys(files))
    for chunk in read_keys(files):
        repeated.add(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))
    parts = [np.empty((0, 2), np.int64)]
    for chunk in read_keys(files):
        parts.append(chunk[repeated.mask(np.ascontiguousarray(chunk[:, 0]).view(np.uint64))])
    return np.concatenate(parts)


def _in_buckets(every: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield keys and numbers, sorted by both, of the buckets of at least two documents: about
    SORTED together, cut by the last bits of the keys.
    """
    parts = 1 << max(0, (len(every) - 1) // SORTED).bit_length()
    for part in range(parts):
        some = every if parts == 1 else every[(every[:, 0] & (parts - 1)) == part]
        keys, numbers = sort_pairs(some[:, 0], some[:, 1])
        twice = np.zeros(len(keys), bool)
        twice[1:] = keys[1:] == keys[:-1]
        twice[:-1] |= twice[1:]
        if twice.any():
            yield keys[twice], numbers[twice]


def _first_of_each(
    numbers: np.ndarray, heads: np.ndarray, candidates: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of documents and the first `candidates` ones of their buckets that are earlier,
    about HELD together.

    numbers (n,) of the documents of one bucket after another; heads (n,): where each one's begins.
    """
    counts = np.minimum(np.arange(len(numbers)) - heads, candidates)
    ends = np.cumsum(counts)
    for base in range(0, int(ends[-1]), HELD):
        start, stop = np.searchsorted(ends, [base, base + HELD], "right")
        some = counts[start:stop]
        left = np.repeat(numbers[start:stop], some)
        within = np.arange(len(left)) - np.repeat(np.cumsum(some) - some, some)
        right = numbers[np.repeat(heads[start:stop], some) + within]
        earlier = right < left
        yield left[earlier], right[earlier]


class _PairFiles:
    """Pairs on their way to files."""

    def __init__(self, task: PartitionTask) -> None:
        self._task = task
        self._held: list[tuple[np.ndarray, np.ndarray]] = []
        self._count = 0
        self.written: list[Path] = []

    def add(self, left: np.ndarray, right: np.ndarray) -> None:
        """Take pairs of documents; those of reference corpora among themselves are not kept."""
        new = left >= self._task.first
        self._held.append(distinct(left[new], right[new]))
        self._count += len(self._held[-1][0])
        if self._count >= HELD:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._count:
            return
        columns = distinct(*map(np.concatenate, zip(*self._held, strict=True)))
        self._held, self._count = [], 0
        self.written.append(fresh(self._task.work, f"pairs-{self._task.place:04d}"))
        write_array(self.written[-1], np.concatenate(columns))


def count_keys(files: list[KeyFile]) -> int:
    """Return how many keys a partition has."""
    return sum(file.path.stat().st_size for file in files) // 16


def read_keys(files: list[KeyFile]) -> Iterator[np.ndarray]:
    """Yield a partition in chunks: (n, 2) int64, key and number. All but the last have CHUNK
    keys.
    """
    chunk, count = np.empty((CHUNK, 2), np.int64), 0
    for keys in files:
        with open(keys.path, "rb") as file:
            while read := file.readinto(chunk[count:].data.cast("B")) // 16:
                chunk[count : count + read, 1] += keys.base
                count += read
                if count == CHUNK:
                    yield chunk
                    chunk, count = np.empty((CHUNK, 2), np.int64), 0
    if count:
        yield chunk[:count]
