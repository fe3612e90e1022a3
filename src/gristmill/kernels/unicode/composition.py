"""Which texts Unicode's composition (NFC, UAX 15) could change: few, and it costs ten times as much
as all else that tidies a text.

A code point is settled if composition leaves it alone wherever it stands: assigned in Unicode 17.0,
of combining class 0, equal to its NFC, and never the second of a composed pair. unicode.npz has a
bit for each (scripts/unicode_tables.py).
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, kernel
from gristmill.kernels.jit.groups import Bytes, Uint64s
from gristmill.kernels.jit.loads import (
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
    valid_in,
)
from gristmill.kernels.unicode.tables import SETTLED, code_point, lead_width

# this many unsettled code points in a row take a library that sorts marks by insertion too long
LONG_RUN = 128


@kernel(OFFSETS, BYTES, Uint64s, Bytes, types.int64[::1])
def _unsettled(offsets, data, settled, tail, longest):
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        most = np.int64(0)
        run = np.int64(0)
        while at < stop and most < LONG_RUN:
            if at + 64 > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            # Bytes from CC on start a code point from U+0300 on; all before are settled.
            high = mask_of_range(block, 0, 0xCC, 0x33) & valid_in(at, stop)
            if high == 0:
                run = np.int64(0)
                at += 64
                continue
            at += count_trailing_zeros(high)
            if count_trailing_zeros(high) > 0:
                run = np.int64(0)
            # On, code point by code point, as long as they are high.
            while at < stop and most < LONG_RUN and data[at] >= 0xCC:
                width = lead_width(data[at])
                point = code_point(data, at, width)
                run = np.int64(0) if settled[point >> 6] >> np.uint64(point & 63) & ONE else run + 1
                most = max(most, run)
                at += width
        longest[i] = most


def unsettled(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Of n texts in UTF-8 the longest run of code points that composition might change, up to
    LONG_RUN: (n,) int64. 0: the text is NFC, and stays so when code points are removed.

    offsets (n + 1,) int32 into data (bytes,) uint8.
    """
    longest = np.empty(len(offsets) - 1, np.int64)
    _unsettled(offsets, data, SETTLED, np.zeros(64, np.uint8), longest)
    return longest
