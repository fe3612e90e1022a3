"""Lines and paragraphs: where they are, what they are compared by, and texts without some of them.

Lines are those of `str.splitlines()`. A paragraph is a run of lines that are not blank; the blank
lines behind it are its end, and blank lines before the first are one of their own, which is blank.
A line's end is its break, of one byte to three, or nothing at the end of a text. 64 bytes are
looked at together for breaks.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, PRIME, mix
from gristmill.kernels.jit.compile import BYTES, INT64S, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bools, Bytes, Int32s, Int64s
from gristmill.kernels.jit.loads import count_trailing_zeros, mask_of_range
from gristmill.kernels.unicode.tables import (
    CLASSES,
    PYTHON_SPACE,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)

ONE, ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
BOOLS = types.Array(types.boolean, 1, "C", readonly=True)


class Lines(NamedTuple):
    """The lines (or paragraphs) of n texts.

    Those of one text follow each other without a gap, each with its end behind it.
    """

    offsets: Int64s  # (n + 1,): text i has lines offsets[i] up to offsets[i + 1]
    starts: Int32s  # (lines + 1,): bytes of the texts' buffer; the last is where the last text ends
    stops: Int32s  # (lines,): where the line's end begins
    blank: Bools  # (lines,): nothing but white space


@helper
def _is_blank(data, at, stop, classes):
    """Return whether there is nothing but white space."""
    while at < stop:
        lead = data[at]
        if lead > 0x20 and lead < 0x80:
            return False
        width = lead_width(lead)
        if not unicode_bits(code_point(data, at, width), classes) & PYTHON_SPACE:
            return False
        at += width
    return True


@helper
def _add(starts, stops, blank, count, first, start, stop, is_blank, goes_on):
    """Note a line, of `first` and those behind it; return how many there are. `goes_on`: it belongs
    to the paragraph before, if not blank.
    """
    if goes_on and count > first:
        if not is_blank:
            stops[count - 1] = stop
        return count
    starts[count] = start
    stops[count] = stop
    blank[count] = is_blank
    return count + 1


@kernel(OFFSETS, BYTES, types.boolean, Bytes, PointBits, Lines, returns=types.int64)
def _find(offsets, data, paragraphs, tail, classes, out):
    """Write the lines; how many there are."""
    starts, stops, blank = out.starts, out.stops, out.blank
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        out.offsets[i] = count
        first = count
        stop = np.int64(offsets[i + 1])
        at = np.int64(offsets[i])
        start = at
        before = True  # the line before is blank, or there is none
        while at < stop:
            block = data
            place = at
            if at + 64 > len(data):
                # The buffer may stop inside these 64 bytes: read a copy.
                for j in range(stop - at):
                    tail[j] = data[at + j]
                block = tail
                place = np.int64(0)
            valid = ALL if stop - at >= 64 else (ONE << np.uint64(stop - at)) - ONE
            breaks = mask_of_range(block, place, 10, 3) | mask_of_range(block, place, 28, 2)
            wide = (
                mask_of_range(block, place, 0xC2, 0) | mask_of_range(block, place, 0xE2, 0)
            ) & valid
            while wide:
                j = count_trailing_zeros(wide)
                wide &= wide - ONE
                k = at + j
                if data[k] == 0xC2:
                    if data[k + 1] == 0x85:  # U+0085
                        breaks |= ONE << np.uint64(j)
                elif (
                    data[k + 1] == 0x80 and data[k + 2] >= 0xA8 and data[k + 2] <= 0xA9
                ):  # U+2028, U+2029
                    breaks |= ONE << np.uint64(j)
            breaks &= valid
            while breaks:
                ended = at + count_trailing_zeros(breaks)
                breaks &= breaks - ONE
                if ended < start:
                    continue  # the \n of \r\n
                is_blank = _is_blank(data, start, ended, classes)
                # Blank lines before the first paragraph are all end.
                stops_at = start if paragraphs and is_blank else ended
                goes_on = paragraphs and (is_blank or not before)
                count = _add(starts, stops, blank, count, first, start, stops_at, is_blank, goes_on)
                before = is_blank
                start = ended + lead_width(data[ended])
                if data[ended] == 0x0D and start < stop and data[start] == 0x0A:
                    start += 1
            at += 64
        if start < stop:
            is_blank = _is_blank(data, start, stop, classes)
            stops_at = start if paragraphs and is_blank else stop
            goes_on = paragraphs and (is_blank or not before)
            count = _add(starts, stops, blank, count, first, start, stops_at, is_blank, goes_on)
    out.offsets[len(offsets) - 1] = count
    out.starts[count] = offsets[len(offsets) - 1]
    return count


def find(offsets: np.ndarray, data: np.ndarray, *, paragraphs: bool) -> Lines:
    """Find the lines, or the paragraphs, of n texts in UTF-8: offsets (n + 1,) int32 into data
    (bytes,) uint8.
    """
    # A line takes a byte; what is not written takes no memory.
    size = int(offsets[-1]) - int(offsets[0])
    found = Lines(
        np.empty(len(offsets), np.int64),
        np.empty(size + 1, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.bool_),
    )
    count = _find(offsets, data, paragraphs, np.zeros(64, np.uint8), CLASSES, found)
    return Lines(found.offsets, found.starts[: count + 1], found.stops[:count], found.blank[:count])


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


def hash_lines(
    offsets: np.ndarray, data: np.ndarray, *, least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Hash n normalised lines: offsets (n + 1,) int64 into data (bytes,) uint8.

    Returns (hashes (n,) int64: fmix64 of FNV-1a of 64 bits; which lines have `least` code points or
    more, (n,) bool).
    """
    hashes, long_enough = np.empty(len(offsets) - 1, np.int64), np.empty(len(offsets) - 1, np.bool_)
    _hash(offsets, data, least, hashes, long_enough)
    return hashes, long_enough


@kernel(BYTES, Lines, BOOLS, Bytes, types.int32[::1])
def _cut(data, lines, dropped, out, out_offsets):
    line_offsets, starts, stops, blank = lines
    to = np.int64(0)
    for i in range(len(line_offsets) - 1):
        out_offsets[i] = to
        first = line_offsets[i]
        last = line_offsets[i + 1]
        some_dropped = False
        solid = False
        for line in range(first, last):
            some_dropped |= dropped[line]
            solid |= not (dropped[line] or blank[line])
        if not some_dropped:
            if last > first:
                for at in range(np.int64(starts[first]), np.int64(starts[last])):
                    out[to] = data[at]
                    to += 1
            continue
        if not solid:
            continue
        before = np.int64(-1)
        for line in range(first, last):
            if dropped[line]:
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


def cut_lines(data: np.ndarray, lines: Lines, dropped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop lines of n texts: data (bytes,) uint8, and which of their lines, (lines,) bool.

    Returns (offsets (n + 1,) int32, data (bytes,) uint8). A line is dropped with its end; the rest
    ends as the text did, with a break or without. A text that loses lines and keeps nothing but
    white space becomes empty.
    """
    out = np.empty(int(lines.starts[-1]) - int(lines.starts[0]), np.uint8)
    out_offsets = np.empty(len(lines.offsets), np.int32)
    _cut(data, lines, dropped, out, out_offsets)
    return out_offsets, out[: out_offsets[-1]]
