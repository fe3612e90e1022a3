"""Arrays filled from places of open files, whole or not at all."""

import os

import numpy as np


def read_into(handle: int, out: np.ndarray, offset: int) -> None:
    """Fill an array from a place of a file. Raises OSError where the file is too short."""
    if not out.size:
        return
    view = memoryview(out.data).cast("B")
    at = 0
    while at < len(view):
        read = os.preadv(handle, [view[at:]], offset + at)
        if not read:
            raise OSError("a file is shorter than it was written: run again")
        at += read


def read_all_pieces(
    handles: np.ndarray, pieces: tuple[np.ndarray, np.ndarray, np.ndarray], out: np.ndarray
) -> None:
    """Read n pieces of open files, one behind another.

    handles (files,) int64 descriptors; pieces: which of the files, first byte, bytes, each (n,)
    int64; out (bytes,) uint8. Raises OSError where a file is too short.
    """
    from gristmill.kernels.reading.file_pieces import read_pieces

    while len(pieces[0]):
        done = read_pieces(handles, *pieces, out)
        if done == len(pieces[0]):
            return
        # The system did not give this one at once: it says why, or does now.
        out = out[int(pieces[2][:done].sum()) :]
        file, start, size = (int(numbers[done]) for numbers in pieces)
        read_into(int(handles[file]), out[:size], start)
        out = out[size:]
        files, starts, sizes = (numbers[done + 1 :] for numbers in pieces)
        pieces = (files, starts, sizes)
