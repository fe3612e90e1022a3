r"""FineWeb's rules: counts of lines (pieces between \n) of every text in one call, all exact."""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int64s
from gristmill.kernels.jit.loads import count_characters
from gristmill.kernels.text.pieces import SeenPieces, find_newlines, mask_for, repeats, table
from gristmill.kernels.text.words import WordBounds
from gristmill.kernels.unicode.tables import SIGNS, TERMINAL, PointBits, code_point, unicode_bits

ASCII_STOPS = b".'\"!?"  # what ended a line in datatrove 0.2


class FinewebCounts(NamedTuple):
    r"""What the rules are made of; each is (n,) int64. Characters are code points, a line is what
    stands between two \n.
    """

    lines: Int64s
    blank_lines: Int64s  # white space alone, or nothing
    stopped_lines: Int64s  # lines whose last character ends a sentence
    short_lines: Int64s  # lines of at most `short` characters, blank ones included
    short_blank_lines: Int64s
    repeated_characters: Int64s  # in lines, not blank, that repeat an earlier one


@helper
def _is_stop(data, begin, stop, ascii_only, signs):
    """Return whether a piece's last character ends a sentence."""
    if stop == begin:
        return False
    at = stop - 1
    last = data[at]
    if last < 0x80:
        if ascii_only:
            return last == 0x2E or last == 0x27 or last == 0x22 or last == 0x21 or last == 0x3F
        return last == 0x2E or last == 0x21 or last == 0x3F
    if ascii_only:
        return False
    while (data[at] & 0xC0) == 0x80:
        at -= 1
    return (unicode_bits(code_point(data, at, stop - at), signs) & TERMINAL) != 0


@kernel(
    *(OFFSETS, BYTES, WordBounds, types.boolean, types.int64),
    *(PointBits, Bytes, Int64s, SeenPieces, FinewebCounts),
)
def _count(offsets, data, bounds, ascii_only, short, signs, tail, newlines, seen, out):
    word_offsets, starts = bounds.word_offsets, bounds.starts
    for i in range(len(offsets) - 1):
        stop = np.int64(offsets[i + 1])
        piece = np.int64(offsets[i])
        count = find_newlines(data, piece, stop, tail, newlines)
        newlines[count] = stop
        mask = mask_for(count + 1)
        word = word_offsets[i]
        end = word_offsets[i + 1]
        blank_lines = np.int64(0)
        stopped_lines = np.int64(0)
        short_lines = np.int64(0)
        short_blank_lines = np.int64(0)
        repeated_characters = np.int64(0)
        for k in range(count + 1):
            at = newlines[k]
            while word < end and starts[word] < piece:
                word += 1
            blank = word == end or starts[word] >= at
            length = at - piece
            if length > short and length <= 4 * short:
                length = count_characters(data, piece, at)
            blank_lines += blank
            short_lines += length <= short
            short_blank_lines += blank & (length <= short)
            if _is_stop(data, piece, at, ascii_only, signs):
                stopped_lines += 1
            if not blank:
                size = repeats(data, piece, at, np.int64(i + 1), mask, seen)
                repeated_characters += max(size, np.int64(0))
            piece = at + 1
        out.lines[i] = count + 1
        out.blank_lines[i] = blank_lines
        out.stopped_lines[i] = stopped_lines
        out.short_lines[i] = short_lines
        out.short_blank_lines[i] = short_blank_lines
        out.repeated_characters[i] = repeated_characters


def count(
    offsets: np.ndarray, data: np.ndarray, bounds: WordBounds, *, short: int, ascii_stops: bool
) -> FinewebCounts:
    """Count what the rules need for n texts, given their words: offsets (n + 1,) int32 into data
    (bytes,) uint8.

    `short` is the most characters of a short line; `ascii_stops`: what ends a line is ASCII_STOPS,
    else TERMINAL (kernels.unicode.tables).
    """
    texts = len(offsets) - 1
    # Every \n breaks a line, but for that of \r\n all of their own.
    most_lines = 2 * int(np.diff(bounds.line_offsets).max(initial=0)) + 2
    out = FinewebCounts(*(np.empty(texts, np.int64) for _ in FinewebCounts._fields))
    newlines, tail = np.empty(most_lines, np.int64), np.zeros(64, np.uint8)
    seen = table(most_lines)
    _count(offsets, data, bounds, ascii_stops, short, SIGNS, tail, newlines, seen, out)
    return out
