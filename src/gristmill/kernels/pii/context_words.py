"""Words that kernels look up: of each 64 bits of FNV-1a, its ASCII letters in lower case."""

from collections.abc import Iterable

import numpy as np

from gristmill.kernels.hashing.primitives import BASIS, PRIME, fnv_1a
from gristmill.kernels.jit.compile import helper


def word_hashes(names: Iterable[bytes]) -> np.ndarray:
    """Names in lower case as what `known` looks up: (names,) uint64, ascending."""
    return np.unique(np.array([fnv_1a(name) for name in names], np.uint64))


@helper
def hash_of(data, start, stop):
    """The hash of data[start:stop] with its ASCII letters in lower case."""
    value = BASIS
    for at in range(start, stop):
        byte = data[at]
        if byte >= 0x41 and byte <= 0x5A:
            byte |= np.uint8(0x20)
        value = (value ^ np.uint64(byte)) * PRIME
    return value


@helper
def known(value, hashes):
    """Whether a hash is one of `word_hashes`."""
    low = 0
    high = len(hashes)
    while low < high:
        middle = (low + high) // 2
        if hashes[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < len(hashes) and hashes[low] == value
