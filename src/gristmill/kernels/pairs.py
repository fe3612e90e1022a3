"""Pairs of documents: how like they are, and which of them goes.

Similarity is exact Jaccard of the documents' distinct shingle hashes (64 bits). Deciding is one pass in document order: a document
goes if an earlier one that stays is at or above the threshold.
"""

import numpy as np
from numba import types

from gristmill.kernels.compile import INT64S, UINT64S, kernel

SIGNATURES = types.Array(types.uint32, 2, "C", readonly=True)
FLOAT64S = types.Array(types.float64, 1, "C", readonly=True)


@kernel(SIGNATURES, INT64S, INT64S, types.int64[::1])
def _agree(signatures, left, right, out):
    for i in range(len(left)):
        one = signatures[left[i]]
        other = signatures[right[i]]
        same = np.int64(0)
        for k in range(signatures.shape[1]):
            same += one[k] == other[k]
        out[i] = same


@kernel(INT64S, UINT64S, INT64S, INT64S, types.uint64[::1], types.int32[::1], types.float64[::1])
def _jaccard(offsets, shingles, left, right, table, stamps, out):
    """Pairs are grouped by `left`: its shingles go into a table once, each `right` is looked up in it."""
    stamp = np.int32(0)
    current = np.int64(-1)
    mask = np.int64(0)
    for i in range(len(left)):
        begin = offsets[left[i]]
        size = offsets[left[i] + 1] - begin
        if left[i] != current:
            current = left[i]
            stamp += np.int32(1)
            places = np.int64(16)
            while places < 2 * size:
                places *= 2
            mask = places - 1
            for j in range(begin, begin + size):
                place = np.int64(shingles[j] & np.uint64(mask))
                while stamps[place] == stamp:
                    place = (place + 1) & mask
                stamps[place] = stamp
                table[place] = shingles[j]
        other = offsets[right[i] + 1] - offsets[right[i]]
        shared = np.int64(0)
        for j in range(offsets[right[i]], offsets[right[i] + 1]):
            place = np.int64(shingles[j] & np.uint64(mask))
            while stamps[place] == stamp:
                if table[place] == shingles[j]:
                    shared += 1
                    break
                place = (place + 1) & mask
        union = size + other - shared
        out[i] = np.float64(shared) / np.float64(union) if union > 0 else 0.0


@kernel(INT64S, INT64S, FLOAT64S, types.float64, types.int64[::1], types.float64[::1])
def _decide(documents, candidates, similarities, threshold, keepers, kept_similarities):
    for i in range(len(documents)):
        document = documents[i]
        if similarities[i] < threshold or keepers[candidates[i]] >= 0:
            continue
        # The most like goes as keeper; of equals the earliest, which comes first.
        if keepers[document] < 0 or similarities[i] > kept_similarities[document]:
            keepers[document] = candidates[i]
            kept_similarities[document] = similarities[i]


@kernel(UINT64S, types.uint64[::1], types.uint64[::1])
def _mark(keys, seen_once, seen_twice):
    mask = np.uint64(len(seen_once) * 64 - 1)
    for key in keys:
        bit = key & mask
        word = np.int64(bit >> np.uint64(6))
        one = np.uint64(1) << (bit & np.uint64(63))
        seen_twice[word] |= seen_once[word] & one
        seen_once[word] |= one


@kernel(UINT64S, UINT64S, types.boolean[::1])
def _repeated(keys, seen_twice, out):
    mask = np.uint64(len(seen_twice) * 64 - 1)
    for i in range(len(keys)):
        bit = keys[i] & mask
        out[i] = (seen_twice[np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))) & np.uint64(1) != 0


def agreement(signatures: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """For each pair of rows of signatures (n, k) uint32, in how many of the k places they agree: (pairs,) int64."""
    out = np.empty(len(left), np.int64)
    _agree(signatures, left, right, out)
    return out


def jaccard(offsets: np.ndarray, shingles: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The Jaccard similarity of pairs of sets: (pairs,) float64.

    Set i is shingles[offsets[i]:offsets[i + 1]], distinct (kernels.minhash.distinct_shingles). Group the pairs by `left`.
    """
    size = 16
    while size < 2 * int(np.diff(offsets).max(initial=0)):
        size *= 2
    out = np.empty(len(left), np.float64)
    _jaccard(offsets, shingles, left, right, np.empty(size, np.uint64), np.zeros(size, np.int32), out)
    return out


def decide(
    count: int, documents: np.ndarray, candidates: np.ndarray, similarities: np.ndarray, *, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Decide which of `count` documents go, given verified pairs sorted by (document, candidate), candidate < document.

    Returns (keeper (count,) int64 or -1 for those that stay, similarity to it (count,) float64).
    """
    keepers = np.full(count, -1, np.int64)
    kept = np.zeros(count, np.float64)
    _decide(documents, candidates, similarities, threshold, keepers, kept)
    return keepers, kept


class Repeated:
    """Which keys may occur twice: two bitmaps, filled by `add`, asked by `mask`.

    A key that occurs twice is never missed; one that occurs once passes with the chance that another shares its bit.
    """

    def __init__(self, keys: int) -> None:
        """Make bitmaps for about so many keys: 8 bits a key, at least 2^16."""
        bits = 16
        while (1 << bits) < 8 * keys:
            bits += 1
        self._once = np.zeros((1 << bits) // 64, np.uint64)
        self._twice = np.zeros((1 << bits) // 64, np.uint64)

    def add(self, keys: np.ndarray) -> None:
        """Count (n,) uint64 keys."""
        _mark(keys, self._once, self._twice)

    def mask(self, keys: np.ndarray) -> np.ndarray:
        """Say of (n,) uint64 keys which may occur twice: (n,) bool."""
        out = np.empty(len(keys), np.bool_)
        _repeated(keys, self._twice, out)
        return out
