"""Keys of LSH's bands, many more than memory holds: partitioned by their first bits, and those
that occur once separated from the others.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, UINT64S, kernel


@kernel(
    types.Array(types.uint64, 2, "C", readonly=True),
    INT64S,
    types.int64,
    types.int64[::1],
    types.int64[:, ::1],
)
def _split(keys, numbers, bits, ends, out):
    places = np.int64(len(ends) - 1)
    shift = np.uint64(64 - bits)
    ends[:] = 0
    for i in range(keys.shape[0]):
        for band in range(keys.shape[1]):
            ends[np.int64(keys[i, band] >> shift) + 1 if bits else 1] += 1
    for part in range(places):
        ends[part + 1] += ends[part]
    for i in range(keys.shape[0]):
        for band in range(keys.shape[1]):
            part = np.int64(keys[i, band] >> shift) if bits else 0
            out[ends[part], 0] = np.int64(keys[i, band])
            out[ends[part], 1] = numbers[i]
            ends[part] += 1


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
        out[i] = (seen_twice[np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))) & np.uint64(
            1
        ) != 0


def split(keys: np.ndarray, numbers: np.ndarray, *, bits: int) -> list[np.ndarray]:
    """Cut the keys (n, bands) int64 of rows with numbers (n,) int64 apart by their first bits:
    2^bits arrays (m, 2) int64 of key and number.
    """
    out = np.empty((keys.size, 2), np.int64)
    ends = np.zeros((1 << bits) + 1, np.int64)
    _split(keys.view(np.uint64), numbers, bits, ends, out)
    return np.split(out, ends[:-2])


class Repeated:
    """Which keys may occur twice: two bitmaps, filled by `add`, asked by `mask`.

    A key that occurs twice is never missed; one that occurs once passes with the chance that
    another shares its bit.
    """

    def __init__(self, keys: int) -> None:
        """Make bitmaps for about `keys` keys: 8 bits a key, at least 2^16."""
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
