r"""FineWeb's rules: counts of lines (pieces between \n) of every text in one call, all exact."""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, OFFSETS, helper, kernel
from gristmill.kernels.jit.loads import count_characters
from gristmill.kernels.text.pieces import find_newlines, mask_for, repeats, table
from gristmill.kernels.text.words import Bounds
from gristmill.kernels.unicode.tables import SIGN_INDEX, SIGN_PAGES, TERMINAL, code_point, sign_of

ASCII_STOPS = b".'\"!?"  # what ended a line in datatrove 0.2


class Counts(NamedTuple):
    r"""What the rules are made of; each is (n,) int64. Characters are code points, a line is what
    stands between two \n.
    """

    lines: np.ndarray
    blank_lines: np.ndarray  # white space alone, or nothing
    stopped_lines: np.ndarray  # lines whose last character ends a sentence
    short_lines: np.ndarray  # lines of at most so many characters, blank ones included
    short_blank_lines: np.ndarray
    repeated_characters: np.ndarray  # in lines, not blank, that repeat an earlier one


@helper
def _is_stop(data, begin, stop, ascii_only, sign_index, sign_pages):
    """Whether a piece's last character ends a sentence."""
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
    return (sign_of(code_point(data, at, stop - at), sign_index, sign_pages) & TERMINAL) != 0


@kernel(
    OFFSETS,
    BYTES,
    INT64S,
    INT32S,
    types.boolean,
    types.int64,
    BYTES,
    BYTES,
    types.uint8[::1],
    types.int64[::1],
    types.int64[::1],
    types.uint64[::1],
    types.int64[::1],
    types.int64[::1],
    types.int64[:, ::1],
)
def _count(
    offsets,
    data,
    word_offsets,
    starts,
    ascii_only,
    short,
    sign_index,
    sign_pages,
    tail,
    newlines,
    stamps,
    hashes,
    piece_starts,
    piece_stops,
    out,
):
    out[:] = 0
    for i in range(len(offsets) - 1):
        stop = np.int64(offsets[i + 1])
        piece = np.int64(offsets[i])
        count = find_newlines(data, piece, stop, tail, newlines)
        newlines[count] = stop
        mask = mask_for(count + 1)
        word = word_offsets[i]
        end = word_offsets[i + 1]
        for k in range(count + 1):
            at = newlines[k]
            while word < end and starts[word] < piece:
                word += 1
            blank = word == end or starts[word] >= at
            length = at - piece
            if length > short and length <= 4 * short:
                length = count_characters(data, piece, at)
            out[1, i] += blank
            out[3, i] += length <= short
            out[4, i] += blank & (length <= short)
            if _is_stop(data, piece, at, ascii_only, sign_index, sign_pages):
                out[2, i] += 1
            if not blank:
                size = repeats(
                    data,
                    piece,
                    at,
                    np.int64(i + 1),
                    mask,
                    stamps,
                    hashes,
                    piece_starts,
                    piece_stops,
                )
                out[5, i] += max(size, np.int64(0))
            piece = at + 1
        out[0, i] = count + 1


def count(
    offsets: np.ndarray, data: np.ndarray, bounds: Bounds, *, short: int, ascii_stops: bool
) -> Counts:
    """Count what the rules need for n texts, given their words: offsets (n + 1,) int32 into data
    (bytes,) uint8.

    `short` is the most characters of a short line; `ascii_stops`: what ends a line is ASCII_STOPS,
    else TERMINAL (kernels.unicode.tables).
    """
    texts = len(offsets) - 1
    # Every \n breaks a line, but for that of \r\n all of their own.
    most_lines = 2 * int(np.diff(bounds.line_offsets).max(initial=0)) + 2
    out = np.empty((len(Counts._fields), texts), np.int64)
    _count(
        offsets,
        data,
        bounds.word_offsets,
        bounds.starts,
        ascii_stops,
        short,
        SIGN_INDEX,
        SIGN_PAGES,
        np.zeros(64, np.uint8),
        np.empty(most_lines, np.int64),
        *table(most_lines),
        out,
    )
    return Counts(*out)
