"""Lines and paragraphs: where they are, what they are compared by, and texts without some of them.

Lines are those of `str.splitlines()`. A paragraph is a run of lines that are not blank; the blank lines behind it are its end, and
blank lines before the first are one of their own, which is blank. A line's end is its break, of one byte to three, or nothing at the end of a text.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.compile import BYTES, INT32S, INT64S, OFFSETS, kernel
from gristmill.kernels.minhash import BASIS, PRIME, mix
from gristmill.kernels.unicode import (
    CLASS_INDEX,
    CLASS_PAGES,
    LINE_BREAK,
    PYTHON_SPACE,
    class_of,
    code_point,
    width_of,
)

BOOLS = types.Array(types.boolean, 1, "C", readonly=True)


class Lines(NamedTuple):
    """The lines (or paragraphs) of n texts. Those of one text follow each other without a gap, each with its end behind it."""

    offsets: np.ndarray  # (n + 1,) int64: text i has lines offsets[i] up to offsets[i + 1]
    starts: np.ndarray  # (lines + 1,) int32: bytes of the texts' buffer; the last is where the last text stops
    stops: np.ndarray  # (lines,) int32: where the line's end begins
    blank: np.ndarray  # (lines,) bool: nothing but white space


@kernel(
    OFFSETS, BYTES, types.boolean, BYTES, BYTES, types.int64[::1], types.int32[::1], types.int32[::1], types.boolean[::1],
    returns=types.int64,
)  # fmt: skip
def _find(offsets, data, paragraphs, class_index, class_pages, line_offsets, starts, stops, blank):
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        line_offsets[i] = count
        stop = np.int64(offsets[i + 1])
        at = np.int64(offsets[i])
        open_ = False  # the line before is of a paragraph that may go on
        while at < stop:
            start = at
            solid = False
            ended = stop
            while at < stop:
                lead = data[at]
                width = np.int64(1)
                if lead < 0x80:
                    if lead > 0x20:
                        solid = True
                        at += 1
                        continue
                    bits = class_of(np.int64(lead), class_index, class_pages)
                else:
                    width = width_of(lead)
                    bits = class_of(code_point(data, at, width), class_index, class_pages)
                if bits & LINE_BREAK:
                    ended = at
                    at += width
                    if lead == 0x0D and at < stop and data[at] == 0x0A:
                        at += 1
                    break
                solid |= (bits & PYTHON_SPACE) == 0
                at += width
            if not paragraphs or (solid and not open_) or (not solid and count == line_offsets[i]):
                starts[count] = start
                # Blank lines before the first paragraph are all end.
                stops[count] = ended if solid or not paragraphs else start
                blank[count] = not solid
                count += 1
            elif solid:
                stops[count - 1] = ended
            open_ = solid
    line_offsets[len(offsets) - 1] = count
    starts[count] = offsets[len(offsets) - 1]
    return count


def find(offsets: np.ndarray, data: np.ndarray, *, paragraphs: bool) -> Lines:
    """Find the lines, or the paragraphs, of n texts in UTF-8: offsets (n + 1,) int32 into data (bytes,) uint8."""
    size = int(offsets[-1]) - int(offsets[0])  # a line takes a byte; what is not written takes no memory
    line_offsets = np.empty(len(offsets), np.int64)
    starts, stops, blank = np.empty(size + 1, np.int32), np.empty(size, np.int32), np.empty(size, np.bool_)
    count = _find(offsets, data, paragraphs, CLASS_INDEX, CLASS_PAGES, line_offsets, starts, stops, blank)
    return Lines(line_offsets, starts[: count + 1], stops[:count], blank[:count])


@kernel(INT64S, BYTES, types.int64, types.int64[::1], types.boolean[::1])
def _hash(offsets, data, least, hashes, long_enough):
    for i in range(len(offsets) - 1):
        value = BASIS
        characters = np.int64(0)
        for at in range(offsets[i], offsets[i + 1]):
            byte = data[at]
            characters += (byte & 0xC0) != 0x80
            value = (value ^ np.uint64(byte)) * PRIME
        hashes[i] = np.int64(mix(value))
        long_enough[i] = characters >= least


def hash_lines(offsets: np.ndarray, data: np.ndarray, *, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Hash n normalised lines: offsets (n + 1,) int64 into data (bytes,) uint8.

    Returns (hashes (n,) int64: fmix64 of FNV-1a of 64 bits; which lines have `least` code points or more, (n,) bool).
    """
    hashes, long_enough = np.empty(len(offsets) - 1, np.int64), np.empty(len(offsets) - 1, np.bool_)
    _hash(offsets, data, least, hashes, long_enough)
    return hashes, long_enough


@kernel(BYTES, INT64S, INT32S, INT32S, BOOLS, BOOLS, types.uint8[::1], types.int32[::1])
def _cut(data, line_offsets, starts, stops, blank, gone, out, out_offsets):
    to = np.int64(0)
    for i in range(len(line_offsets) - 1):
        out_offsets[i] = to
        first = line_offsets[i]
        last = line_offsets[i + 1]
        some_gone = False
        solid = False
        for line in range(first, last):
            some_gone |= gone[line]
            solid |= not (gone[line] or blank[line])
        if not some_gone:
            if last > first:
                for at in range(np.int64(starts[first]), np.int64(starts[last])):
                    out[to] = data[at]
                    to += 1
            continue
        if not solid:
            continue
        before = np.int64(-1)
        for line in range(first, last):
            if gone[line]:
                continue
            if before >= 0:
                for at in range(np.int64(stops[before]), np.int64(starts[before + 1])):
                    out[to] = data[at]
                    to += 1
            for at in range(np.int64(starts[line]), np.int64(stops[line])):
                out[to] = data[at]
                to += 1
            before = line
        for at in range(np.int64(stops[last - 1]), np.int64(starts[last])):
            out[to] = data[at]
            to += 1
    out_offsets[len(line_offsets) - 1] = to


def cut_lines(data: np.ndarray, lines: Lines, gone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut lines out of n texts: data (bytes,) uint8, and which of their lines go, (lines,) bool.

    Returns (offsets (n + 1,) int32, data (bytes,) uint8). A line goes with its end; what stays ends as the text did, with a break or
    without. A text of which something goes and nothing but white space would stay becomes empty.
    """
    out = np.empty(int(lines.starts[-1]) - int(lines.starts[0]), np.uint8)
    out_offsets = np.empty(len(lines.offsets), np.int32)
    _cut(data, *lines, gone, out, out_offsets)
    return out_offsets, out[: out_offsets[-1]]
