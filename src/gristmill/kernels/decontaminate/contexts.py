"""The text around places of documents, cut at whole characters.

texts, and places in them -> cut -> of each place some characters before it and behind it
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, INT64S, OFFSETS, kernel
from gristmill.kernels.jit.groups import Bytes, Int64s


@kernel(OFFSETS, BYTES, INT64S, INT64S, types.int64, types.int64, Int64s, Int64s)
def _measure(offsets, data, texts, places, before, most, firsts, cuts):
    """Of each place where its characters start, and the sum of their bytes so far."""
    end = np.int64(0)
    for row in range(len(places)):
        start = np.int64(offsets[texts[row]])
        stop = np.int64(offsets[texts[row] + 1])
        first = places[row]
        count = np.int64(0)
        while count < before and first > start:
            first -= 1
            while data[first] & 0xC0 == 0x80:
                first -= 1
            count += 1
        last = places[row]
        while last < stop:
            count += np.int64(data[last] & 0xC0 != 0x80)
            if count > most:
                break
            last += 1
        firsts[row] = first
        cuts[row] = end
        end += last - first
    cuts[len(places)] = end


@kernel(BYTES, INT64S, INT64S, Bytes)
def _copy(data, firsts, cuts, out):
    for row in range(len(firsts)):
        first = firsts[row] - cuts[row]
        for j in range(cuts[row], cuts[row + 1]):
            out[j] = data[first + j]


def cut(
    offsets: np.ndarray,
    data: np.ndarray,
    texts: np.ndarray,
    places: np.ndarray,
    *,
    before: int,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Of each of r places in texts, offsets (n + 1,) int32 into data (bytes,) uint8, `most`
    characters of its text, of which `before` stand before it; fewer where the text starts or ends.

    texts, places: (r,) int64, the number of its text, and a byte of data where a character starts.
    before, most: 0 <= before <= most. Returns (offsets (r + 1,) int32, data (bytes,) uint8). Raises
    ValueError where they are 2 GiB and more.
    """
    firsts, cuts = np.empty(len(places), np.int64), np.empty(len(places) + 1, np.int64)
    _measure(offsets, data, texts, places, before, most, firsts, cuts)
    if cuts[-1] >= 1 << 31:
        raise ValueError(f"{len(places):,} rows, {int(cuts[-1]):,} bytes: too many for one array")
    out = np.empty(int(cuts[-1]), np.uint8)
    _copy(data, firsts, cuts, out)
    return cuts.astype(np.int32), out
