"""A linear text classifier: logistic regression over hashed words and pairs of words, trained and
scored the same on every machine.

A text is normalised (kernels.unicode.normalised); each word, and each two words in a row, has a
bucket of a table of weights by its hash (Weinberger 2009: arXiv 0902.2206). With n features of sum
s, the score is logistic(bias + scale * s / sqrt(n)) while n is at most FULL, and from there on
logistic(bias + scale * sqrt(FULL) * s / n): the mean of the features, as fastText scores, so that a
text is not surer of itself for being longer. Of a text without a word n is 1. Why: docs/adr/0013.

Training is AdaGrad (Duchi 2011: jmlr.org/papers/v12/duchi11a.html) on the logistic loss, one text
after another in a seeded order, each class weighing the same. Weights are then rounded to int16, so
that a score is a sum of integers, which no order changes, and one exponential by
kernels.models.exp_log.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, GOLDEN, PRIME, mix
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, helper, kernel
from gristmill.kernels.models.exp_log import logistic

INT16S = types.Array(types.int16, 1, "C", readonly=True)
SPACE = 0x20
LARGEST = 32767  # of a weight
LEAST_BITS, MOST_BITS = 10, 24
ROOT = 14.142135623730951  # of FULL, the 200 features of some 100 words


class Weights(NamedTuple):
    """A trained classifier."""

    table: np.ndarray  # (2 ** bits,) int16
    scale: float  # what a weight of 1 is worth
    bias: float


@helper
def _word_end(data, at, stop):
    """Return (where the word at `at` ends, its hash)."""
    value = BASIS
    while at < stop and data[at] != SPACE:
        value = (value ^ np.uint64(data[at])) * PRIME
        at += 1
    return at, value


@helper
def _share(count):
    """Return the weight of one of a text's features, by how many there are."""
    size = np.float64(max(count, 1))
    return 1.0 / max(math.sqrt(size), size / ROOT)


@kernel(INT64S, BYTES, types.int64, types.int64[::1], types.int32[::1])
def _features(offsets, data, bits, out_offsets, out):
    shift = np.uint64(64 - bits)
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = count
        at = offsets[i]
        stop = offsets[i + 1]
        before = np.uint64(0)
        first = True
        while at < stop:
            at, value = _word_end(data, at, stop)
            at += 1
            out[count] = np.int32(mix(value) >> shift)
            count += 1
            if not first:
                out[count] = np.int32(mix(before * GOLDEN + value) >> shift)
                count += 1
            before = value
            first = False
    out_offsets[len(offsets) - 1] = count


def features(offsets: np.ndarray, data: np.ndarray, *, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the buckets of n normalised texts, offsets (n + 1,) int64 into data (bytes,) uint8:
    (offsets (n + 1,) int64, buckets int32).

    The k words of a text give 2 * k - 1, in the order of the text: each word, and before the next
    one the pair that it ends.
    """
    out_offsets = np.empty(len(offsets), np.int64)
    # A word has a byte, and a space before the next.
    out = np.empty(int(offsets[-1] - offsets[0]) + len(offsets), np.int32)
    _features(offsets, data, bits, out_offsets, out)
    return out_offsets, out[: out_offsets[-1]]


@kernel(
    INT64S,
    INT32S,
    BYTES,
    INT64S,
    types.float64[::1],
    types.float64,
    types.float64[::1],
    types.float64[::1],
    types.float64[::1],
)
def _train(offsets, buckets, good, order, importance, rate, weights, squares, bias):
    for i in order:
        begin = offsets[i]
        stop = offsets[i + 1]
        part = _share(stop - begin)
        total = 0.0
        for j in range(begin, stop):
            total += weights[buckets[j]]
        error = (logistic(bias[0] + total * part) - np.float64(good[i])) * importance[good[i]]
        slope = error * part
        for j in range(begin, stop):
            k = buckets[j]
            squares[k] += slope * slope
            weights[k] -= rate * slope / (math.sqrt(squares[k]) + 1e-8)
        bias[1] += error * error
        bias[0] -= rate * error / (math.sqrt(bias[1]) + 1e-8)


def train(
    offsets: np.ndarray,
    buckets: np.ndarray,
    good: np.ndarray,
    *,
    bits: int,
    epochs: int,
    rate: float,
    seed: int,
    numbers: np.ndarray | None = None,
) -> Weights:
    """Learn from n texts' features (`features`): good (n,) uint8 is 1 for the good, 0 for the bad;
    both must be there.

    The order of an epoch is that of a keyed hash of the texts' numbers (n,) int64, a permutation of
    0 to n - 1 (default: as they come).
    """
    from gristmill.kernels.hashing.shuffle import order_keys

    count = len(good)
    good_count = int(good.sum())
    importance = np.array([count / (2.0 * (count - good_count)), count / (2.0 * good_count)])
    weights, squares, bias = np.zeros(1 << bits), np.zeros(1 << bits), np.zeros(2)
    if numbers is None:
        numbers = np.arange(count, dtype=np.int64)
    for epoch in range(epochs):
        order = np.argsort(order_keys(numbers + epoch * count, seed)).astype(np.int64)
        _train(offsets, buckets, good, order, importance, rate, weights, squares, bias)
    largest = float(np.abs(weights).max())
    scale = largest / LARGEST if largest > 0 else 1.0
    return Weights(np.rint(weights / scale).astype(np.int16), scale, float(bias[0]))


@kernel(INT64S, BYTES, types.int64, INT16S, types.float64, types.float64, types.float64[::1])
def _score(offsets, data, bits, table, scale, bias, out):
    shift = np.uint64(64 - bits)
    for i in range(len(offsets) - 1):
        at = offsets[i]
        stop = offsets[i + 1]
        before = np.uint64(0)
        total = np.int64(0)
        count = np.int64(0)
        while at < stop:
            at, value = _word_end(data, at, stop)
            at += 1
            total += table[np.int64(mix(value) >> shift)]
            if count > 0:
                total += table[np.int64(mix(before * GOLDEN + value) >> shift)]
            before = value
            count += 1
        part = _share(2 * count - 1)
        out[i] = logistic(bias + scale * np.float64(total) * part)


def score(offsets: np.ndarray, data: np.ndarray, weights: Weights) -> np.ndarray:
    """Return how likely each of n normalised texts is good, (n,) float64 in [0, 1]: offsets (n +
    1,) int64 into data (bytes,) uint8.
    """
    out = np.empty(len(offsets) - 1)
    bits = len(weights.table).bit_length() - 1
    _score(offsets, data, bits, weights.table, weights.scale, weights.bias, out)
    return out
