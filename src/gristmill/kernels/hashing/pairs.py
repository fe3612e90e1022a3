"""Pairs of documents: how like they are, and which of them goes.

Similarity is exact Jaccard of the documents' distinct shingle hashes (64 bits). Deciding is one
pass in document order: a document goes if an earlier one that stays is at or above the threshold.
The textbook's other way, connected components, is a union-find.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, UINT64S, helper, kernel

SIGNATURES = types.Array(types.uint32, 2, "C", readonly=True)
FLOAT64S = types.Array(types.float64, 1, "C", readonly=True)


@kernel(SIGNATURES, SIGNATURES, INT64S, INT64S, types.int64[::1])
def _agree(of_left, of_right, left, right, out):
    for i in range(len(left)):
        one = of_left[left[i]]
        other = of_right[right[i]]
        same = np.int64(0)
        for k in range(of_left.shape[1]):
            same += one[k] == other[k]
        out[i] = same


@kernel(INT64S, UINT64S, INT64S, INT64S, types.uint64[::1], types.int32[::1], types.float64[::1])
def _jaccard(offsets, shingles, left, right, table, stamps, out):
    """Pairs are grouped by `left`: its shingles go into a table once, each `right` is looked up in
    it.
    """
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


@helper
def _root(parents, row):
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@kernel(INT64S, INT64S, FLOAT64S, types.float64, types.int64[::1], types.float64[::1])
def _connect(rows, candidates, similarities, threshold, parents, best):
    for i in range(len(rows)):
        if similarities[i] < threshold:
            continue
        one, other = _root(parents, rows[i]), _root(parents, candidates[i])
        # The earliest is the root.
        parents[max(one, other)] = min(one, other)
        best[rows[i]] = max(best[rows[i]], similarities[i])
        best[candidates[i]] = max(best[candidates[i]], similarities[i])


@kernel(types.int64[::1])
def _settle(parents):
    for row in range(len(parents)):
        parents[row] = parents[parents[row]]


def agreement(
    of_left: np.ndarray, of_right: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """For each pair of rows of two arrays of signatures (n, k) uint32, in how many of the k places
    they agree: (pairs,) int64.
    """
    out = np.empty(len(left), np.int64)
    _agree(of_left, of_right, left, right, out)
    return out


def jaccard(
    offsets: np.ndarray, shingles: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Return the Jaccard similarity of pairs of sets: (pairs,) float64.

    Set i is shingles[offsets[i]:offsets[i + 1]], distinct
    (kernels.hashing.minhash.distinct_shingles). Group the pairs by `left`.
    """
    size = 16
    while size < 2 * int(np.diff(offsets).max(initial=0)):
        size *= 2
    out = np.empty(len(left), np.float64)
    _jaccard(
        offsets, shingles, left, right, np.empty(size, np.uint64), np.zeros(size, np.int32), out
    )
    return out


def decide(
    keepers: np.ndarray,
    kept: np.ndarray,
    rows: np.ndarray,
    candidates: np.ndarray,
    similarities: np.ndarray,
    *,
    threshold: float,
) -> None:
    """Decide which documents go, given verified pairs sorted by (row, candidate), candidate < row;
    in as many calls as one likes.

    keepers (n,) int64 starts as -1, which means that a document stays, and becomes the row of its
    keeper; kept (n,) float64 is the similarity to it.
    """
    _decide(rows, candidates, similarities, threshold, keepers, kept)


def connect(
    parents: np.ndarray,
    best: np.ndarray,
    rows: np.ndarray,
    candidates: np.ndarray,
    similarities: np.ndarray,
    *,
    threshold: float,
) -> None:
    """Join what is alike, chains included; pairs in any order, in as many calls as one likes.

    parents (n,) int64 starts as 0 to n - 1: a forest whose roots are the earliest rows. best (n,)
    float64 starts as 0: the highest similarity that a row has to any other.
    """
    _connect(rows, candidates, similarities, threshold, parents, best)


def components(parents: np.ndarray) -> np.ndarray:
    """Of each row the earliest that it is connected with, itself where it is that: (n,) int64, in
    place of `parents`.
    """
    _settle(parents)
    return parents
