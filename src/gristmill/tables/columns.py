"""Conversions of columns between Arrow and the arrays of kernels."""

import re

import numpy as np
import pyarrow as pa

LINE = 64  # bytes of a cache line

_SURROGATES = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Return a string without lone surrogates: each becomes U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def utf8_buffers(column: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return a string column without nulls as offsets (n + 1,) int32 and data (bytes,) uint8,
    without copying.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return bounds, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def fixed_binary(rows: np.ndarray) -> pa.Array:
    """Return rows (n, k) of numbers as a fixed-size binary column of n values, without copying."""
    rows = np.ascontiguousarray(rows)
    width = rows.shape[1] * rows.dtype.itemsize
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(rows), [None, pa.py_buffer(rows)]
    )


def view_rows(column: pa.Array, dtype: type) -> np.ndarray:
    """Return a fixed-size binary column without nulls as rows (n, k) of numbers, without
    copying.
    """
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)[
        column.offset * width : (column.offset + len(column)) * width
    ]
    return data.view(dtype).reshape(len(column), -1)


def view_strings(offsets: np.ndarray, data: np.ndarray) -> pa.Array:
    """Well-formed UTF-8 as a string column of n values, without copying.

    offsets (n + 1,) int32 are places in data (bytes,) uint8; the first is 0.
    """
    buffers = [
        None,
        pa.py_buffer(np.ascontiguousarray(offsets)),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def on_lines(rows: int, columns: int, kind: type[np.generic]) -> np.ndarray:
    """Return zeros (rows, columns) from the begin of a cache line on: a row of one line is not on
    two.
    """
    size = rows * columns * np.dtype(kind).itemsize
    room = np.zeros(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(kind).reshape(rows, columns)
