"""A keyed permutation of 0..n - 1 in constant memory, and its inverse.

A Feistel network (Luby and Rackoff 1988) over the next even number of bits, and cycle walking
(Black and Rogaway 2002): a result of n or more is permuted again, at most 4 times on average.
"""

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import mix
from gristmill.kernels.jit.compile import INT64S, UINT64S, helper, kernel

ROUNDS = 8


@helper
def _forward(value, half, keys):
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = value >> half, value & mask
    for key in keys:
        left, right = right, left ^ (mix(right ^ key) & mask)
    return left << half | right


@helper
def _backward(value, half, keys):
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = value >> half, value & mask
    for j in range(len(keys)):
        left, right = right ^ (mix(left ^ keys[len(keys) - 1 - j]) & mask), left
    return left << half | right


@kernel(INT64S, types.int64, UINT64S, types.boolean, types.int64[::1])
def _permute(indices, count, keys, inverse, out):
    half = np.uint64(0)
    while np.uint64(1) << (np.uint64(2) * half) < np.uint64(count):
        half += np.uint64(1)
    for i in range(len(indices)):
        value = np.uint64(indices[i])
        if inverse:
            value = _backward(value, half, keys)
            while value >= np.uint64(count):
                value = _backward(value, half, keys)
        else:
            value = _forward(value, half, keys)
            while value >= np.uint64(count):
                value = _forward(value, half, keys)
        out[i] = np.int64(value)


def permute(
    indices: np.ndarray, count: int, keys: np.ndarray, *, inverse: bool = False
) -> np.ndarray:
    """Return where a permutation of 0..count - 1 has each index, (k,) int64; `inverse`: from where.

    indices (k,) int64, each of 0..count - 1; keys (ROUNDS,) uint64; count below 2^62. Raises
    IndexError.
    """
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < count:
        raise IndexError(f"indices {indices.min()} to {indices.max()} of {count}")
    out = np.empty(len(indices), np.int64)
    _permute(indices, count, keys, inverse, out)
    return out
