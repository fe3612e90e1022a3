"""A value for every position of a batch, out of its segments."""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, kernel


@kernel(INT64S, INT64S, INT64S, INT64S, types.int32[:, ::1])
def _count(rows, starts, lengths, firsts, out):
    for i in range(len(rows)):
        line = out[rows[i]]
        start, first = starts[i], firsts[i]
        for j in range(lengths[i]):
            line[start + j] = first + j


@kernel(INT64S, INT64S, INT64S, types.int32[:, ::1])
def _number(rows, starts, lengths, out):
    number, row = np.int32(0), np.int64(-1)
    for i in range(len(rows)):
        number = np.int32(0) if rows[i] != row else np.int32(number + 1)
        row = rows[i]
        line = out[row]
        for j in range(starts[i], starts[i] + lengths[i]):
            line[j] = number


def count(
    rows: np.ndarray, starts: np.ndarray, lengths: np.ndarray, firsts: np.ndarray, out: np.ndarray
) -> None:
    """Write firsts[i], firsts[i] + 1 and so on into the columns of segment i. All (n,) int64; out
    (b, L) int32, contiguous, whose other positions stay as they are.
    """
    _count(rows, starts, lengths, firsts, out)


def number(rows: np.ndarray, starts: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
    """Write the segment's number within its row, 0, 1 and so on, into its columns; as `count`."""
    _number(rows, starts, lengths, out)
