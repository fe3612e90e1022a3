"""Texts of many batches laid end to end as they come.

A row group is written from one piece. Put together from its batches at the end, its texts would be
in memory twice, and what holds the batches would be full of holes.
"""

import mmap

import numpy as np
import pyarrow as pa

from gristmill.tables.columns import utf8_buffers


class JoinedTexts:
    """A string column that grows; `take` ends it and begins another in the same memory."""

    def __init__(self, size: int) -> None:
        """Hold `size` bytes of texts, more where they come. What was not used takes no memory."""
        self._room = _room(size)
        self._size = self._rows = 0
        self._stops: list[np.ndarray] = []
        self._valid: list[pa.Array] = []

    def add(self, column: pa.Array) -> None:
        """Add n texts, (n,) string."""
        bounds, data = utf8_buffers(column)
        start, stop = int(bounds[0]), int(bounds[-1])
        size = self._size + stop - start
        if size > len(self._room):
            room = _room(size + size // 4)
            room[: self._size] = self._room[: self._size]
            self._room = room
        self._room[self._size : size] = data[start:stop]
        self._stops.append(bounds[1:] + np.int64(self._size - start))
        self._valid.append(column.is_valid())
        self._size = size
        self._rows += len(column)

    def take(self) -> pa.Array:
        """Return all that was added, without a copy: it must be gone when the next texts are added.

        Raises ArrowInvalid over 2 GiB.
        """
        stops = np.concatenate([np.zeros(1, np.int64), *self._stops])
        if self._size > np.iinfo(np.int32).max:
            raise pa.ArrowInvalid(f"{self._size} bytes of texts do not go into one string column")
        valid = pa.concat_arrays(self._valid) if self._valid else pa.array([], pa.bool_())
        missing = len(valid) - (valid.true_count or 0)
        buffers = [
            valid.buffers()[1] if missing else None,
            pa.py_buffer(stops.astype(np.int32)),
            pa.py_buffer(self._room[: self._size]),
        ]
        column = pa.Array.from_buffers(pa.string(), self._rows, buffers, null_count=missing)
        self._size = self._rows = 0
        self._stops, self._valid = [], []
        return column


def _room(size: int) -> np.ndarray:
    """Return memory of its own, (size,) uint8: a page is taken when it is first written to."""
    own = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, max(size, 1), flags=own), np.uint8)
