"""Verifying candidates: exact Jaccard similarity of the texts' shingles, out of core.

    likely pairs -> which documents stand in one -> their distinct shingles, on disk -> similarity of each pair

Shingles take about as many bytes as the texts, and rest on disk while pairs are compared; a run of pairs is compared at a time.
"""

import os
from collections.abc import Iterator
from itertools import chain, starmap
from pathlib import Path

import numpy as np
import pyarrow as pa

from gristmill.columns import utf8_buffers
from gristmill.dedup.rows import Table, read_documents
from gristmill.dedup.settings import Near
from gristmill.kernels import minhash, pairs
from gristmill.kernels.normalise import normalise
from gristmill.store.parts import read_batches

SHINGLES = 1 << 24  # hashes of a run (8 bytes each)
RUN = 1 << 16  # pairs of a run, at most


class Shingles:
    """The distinct shingles of the documents that stand in a pair."""

    def __init__(
        self, groups: list[tuple[list[Table], np.ndarray]], involved: np.ndarray, near: Near, target: Path
    ) -> None:
        """Write them to `target`. groups: tables, and which of their documents (sorted); all groups together are the rows `involved`."""
        bounds = _write(groups, near, target)
        order = np.argsort(involved, kind="stable")
        self._involved, self._target = involved[order], target
        self._begins, self._sizes = bounds[:-1][order], np.diff(bounds)[order]

    def compare(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The similarity of pairs of rows, grouped by `one`: (pairs,) float64."""
        left, right = np.searchsorted(self._involved, one), np.searchsorted(self._involved, other)
        similarities = np.empty(len(one))
        with open(self._target, "rb") as file:
            for start, stop in self._runs(left, right):
                wanted, places = np.unique(np.concatenate([left[start:stop], right[start:stop]]), return_inverse=True)
                offsets = np.zeros(len(wanted) + 1, np.int64)
                np.cumsum(self._sizes[wanted], out=offsets[1:])
                hashes = np.empty(offsets[-1], np.uint64)
                view = hashes.data.cast("B")
                for place, begin in enumerate(self._begins[wanted].tolist()):
                    if offsets[place] < offsets[place + 1]:
                        os.preadv(file.fileno(), [view[8 * offsets[place] : 8 * offsets[place + 1]]], 8 * begin)
                count = stop - start
                similarities[start:stop] = pairs.jaccard(offsets, hashes, places[:count], places[count:])
        return similarities

    def _runs(self, left: np.ndarray, right: np.ndarray) -> Iterator[tuple[int, int]]:
        """Cut pairs into runs that touch no more than SHINGLES hashes, or of one pair."""
        sizes = np.cumsum(self._sizes[left] + self._sizes[right])
        start = 0
        while start < len(left):
            base = int(sizes[start - 1]) if start else 0
            stop = min(int(np.searchsorted(sizes, base + SHINGLES, "right")), start + RUN)
            stop = max(stop, start + 1)
            yield start, stop
            start = stop


def involved_rows(likely: Path, size: int) -> np.ndarray:
    """Which of `size` rows stand in a pair, sorted."""
    stands = np.zeros(size, bool)
    for batch in read_batches(likely, ["document", "candidate"]):
        for column in batch.columns:
            stands[column.to_numpy()] = True
    return np.flatnonzero(stands)


def _write(groups: list[tuple[list[Table], np.ndarray]], near: Near, target: Path) -> np.ndarray:
    """Write the shingles of the wanted documents; where each begins, (n + 1,) int64."""
    sizes = [np.zeros(1, np.int64)]
    with open(target, "wb") as file:
        for texts in chain.from_iterable(starmap(_texts, groups)):
            offsets, hashes = minhash.distinct_shingles(
                *normalise(*utf8_buffers(texts)), width=near.shingle, characters=near.unit == "characters"
            )
            file.write(hashes.data)
            sizes.append(np.diff(offsets))
    return np.cumsum(np.concatenate(sizes))


def _texts(tables: list[Table], wanted: np.ndarray) -> Iterator[pa.Array]:
    for table in tables:
        for batch in read_documents(table.documents, wanted, ["document", "text"]):
            yield batch["text"]
