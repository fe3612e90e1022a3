"""Values of Parquet's encoding PLAIN (Apache Parquet, Encodings.md): byte arrays, each behind its
length in four bytes, little-endian.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, kernel


@kernel(BYTES, types.int64[::1])
def _longest(data, out):
    longest = np.int64(0)
    at = np.int64(0)
    end = np.int64(len(data))
    while at + 4 <= end:
        size = np.int64(0)
        for j in range(4):
            size |= np.int64(data[at + j]) << np.int64(8 * j)
        at += 4 + size
        longest = max(longest, size)
    out[0] = longest if at == end else np.int64(-1)


def longest(data: np.ndarray) -> int:
    """Return the bytes of the longest value of `data` (bytes,) uint8; -1: these are no such
    values.
    """
    out = np.empty(1, np.int64)
    _longest(data, out)
    return int(out[0])
