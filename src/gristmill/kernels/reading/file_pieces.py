"""Pieces of files read one behind another, each by a call of the system: of files that are in
memory 150,000 documents take 0.2 s, half of what calls from Python take, and no lock is held.
"""

import ctypes
from functools import cache

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, kernel
from gristmill.kernels.jit.reads import call_pread


@kernel(types.int64, INT64S, INT64S, INT64S, INT64S, types.uint8[::1], returns=types.int64)
def _read(function, handles, files, starts, sizes, out):
    at = np.int64(0)
    for i in range(len(files)):
        filled = np.int64(0)
        while filled < sizes[i]:
            read = call_pread(
                function, handles[files[i]], out, at + filled, sizes[i] - filled, starts[i] + filled
            )
            if read <= 0:
                return np.int64(i)
            filled += read
        at += sizes[i]
    return np.int64(len(files))


def read_pieces(
    handles: np.ndarray, files: np.ndarray, starts: np.ndarray, sizes: np.ndarray, out: np.ndarray
) -> int:
    """Read n pieces of open files, one behind another: the bytes starts[i]:starts[i] + sizes[i] of
    the file handles[files[i]].

    handles (files,) int64 descriptors; files, starts, sizes (n,) int64; out (bytes,) uint8.
    Returns how many were read whole: fewer than n where the system did not give the next one (it
    was interrupted, the file ends there, the disk is broken). Raises IndexError for pieces that do
    not fit.
    """
    if len(files) and (
        files.min() < 0
        or files.max() >= len(handles)
        or starts.min() < 0
        or sizes.min() < 0
        or sizes.sum() > len(out)
    ):
        raise IndexError(f"{len(files):,} pieces of {len(handles):,} files for {len(out):,} bytes")
    return int(_read(_pread(), handles, files, starts, sizes, out))


@cache
def _pread() -> int:
    """Return the address of pread in the C library."""
    return ctypes.cast(ctypes.CDLL(None).pread, ctypes.c_void_p).value or 0
