"""Arrays of numbers in files: written whole, mapped into memory, or read row by row."""

import mmap
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.engine.pread import read_all_pieces


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array to a file, in its own byte order and without a header.

    Raises OSError with its error number where the disk is full; numpy's `tofile` loses that number.
    """
    path.write_bytes(np.ascontiguousarray(array).data)


def map_array(path: Path, kind: Any, width: int = 1) -> np.ndarray:
    """Map a file of numbers into memory: (n,), or (n, width) where `width` is over 1; read-only.

    Pages that were touched count as memory while the array lives, so map a file again for each
    piece of work.
    """
    if path.stat().st_size == 0:
        flat = np.empty(0, kind)
    else:
        with open(path, "rb") as file:
            flat = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), kind)
    return flat if width == 1 else flat.reshape(-1, width)


def read_rows(path: Path, rows: np.ndarray, out: np.ndarray) -> None:
    """Fill out (n, width) uint32 with the rows (n,) of a file of `width` numbers a row.

    `rows` are sorted, each once. A memory map would be shorter, but it would hold sixteen pages for
    each page that is touched: a kernel also maps the neighbours of a page.
    """
    if not len(rows):
        return
    heads = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1] + 1])
    size = out.dtype.itemsize * out.shape[1]
    counts = np.diff(np.r_[heads, len(rows)])
    with open(path, "rb", 0) as file:
        read_all_pieces(
            np.array([file.fileno()]),
            (np.zeros(len(heads), np.int64), rows[heads] * size, counts * size),
            np.frombuffer(out.data, np.uint8),
        )


def in_sorted(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return which of the values are among the sorted `others`: (n,) bool.

    Time grows with the values, not with the others.
    """
    if not len(others):
        return np.zeros(len(values), bool)
    places = np.minimum(np.searchsorted(others, values), len(others) - 1)
    return np.asarray(others[places] == values)
