"""Spans of a buffer as a column: their bytes behind each other."""

import numpy as np

from gristmill.kernels.jit.compile import BYTES, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s


@kernel(BYTES, Int64s, Int64s, Int32s, Bytes, allocates=True)
def _gather(data, starts, stops, offsets, out):
    at = np.int64(0)
    for i in range(len(starts)):
        start = starts[i]
        length = stops[i] - start
        out[at : at + length] = data[start : start + length]
        at += length
        offsets[i + 1] = at


def gather(
    data: np.ndarray, starts: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of data[starts[i]:stops[i]] behind each other: offsets (n + 1,) int32, and
    bytes (fewer than 2**31,) uint8.

    data (bytes,) uint8; starts and stops (n,) int64.
    """
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    offsets = np.zeros(len(starts) + 1, np.int32)
    out = np.empty(int((stops - starts).sum()), np.uint8)
    _gather(data, starts, stops, offsets, out)
    return offsets, out
