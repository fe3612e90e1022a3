"""Letters counted by script: what a document is written in, without a model."""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, kernel
from gristmill.kernels.jit.loads import count_ones, mask_of_range
from gristmill.kernels.unicode.tables import code_point, lead_width


@kernel(OFFSETS, BYTES, types.int64, BYTES, types.int64, types.int32[:, ::1])
def _count(offsets, data, characters, scripts, latin, counts):
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        left = characters
        while at < stop and left > 0:
            if left >= 64 and stop - at >= 64 and not mask_of_range(data, at, 0x80, 0x7F):
                letters = mask_of_range(data, at, 0x41, 25) | mask_of_range(data, at, 0x61, 25)
                counts[i, latin] += count_ones(letters)
                at += 64
                left -= 64
                continue
            # On for 64 bytes or so, code point by code point.
            until = min(stop, at + 64)
            while at < until and left > 0:
                width = lead_width(data[at])
                counts[i, scripts[code_point(data, at, width)]] += 1
                at += width
                left -= 1
        counts[i, 0] = 0


def count_letters(
    offsets: np.ndarray, data: np.ndarray, scripts: np.ndarray, size: int, *, characters: int
) -> np.ndarray:
    """Count the letters of the first `characters` code points of n texts: offsets (n + 1,) int32
    into data (bytes,) uint8.

    scripts (0x110000,) uint8 gives the script of each letter, from 1 to `size` - 1, and 0 for all
    that is none. Returns (n, size) int32; column 0 is 0.
    """
    counts = np.zeros((len(offsets) - 1, size), np.int32)
    _count(offsets, data, characters, scripts, int(scripts[ord("a")]), counts)
    return counts
