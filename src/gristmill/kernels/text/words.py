"""Words and lines: where they start and stop.

Words are exactly those of Python's `str.split()`, lines exactly those of `str.splitlines()`. 64
bytes are looked at together: a mask says which are white space, and its edges are where words start
and stop. Kernels that count take these bounds, so that another rule's words can be fed to them. In
scripts written without spaces each character is a word (`separate`), where a filter does not ask
for str.split() alone.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bools, Bytes, Int32s, Int64s
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_ones,
    count_trailing_zeros,
    mask_of_range,
    valid_in,
    write_ones,
)
from gristmill.kernels.unicode.tables import CLASSES, UNSPACED, PointBits, code_point, unicode_bits

ONE = np.uint64(1)


class WordBounds(NamedTuple):
    """The words and lines of n texts; positions are bytes of the texts' buffer."""

    word_offsets: Int64s  # (n + 1,): text i has words word_offsets[i] up to word_offsets[i + 1]
    starts: Int32s  # (words,)
    stops: Int32s  # (words,)
    line_offsets: Int64s  # (n + 1,)
    line_stops: Int32s  # (lines,): where the line's break starts, or the text stops
    characters: Int64s  # (n,): code points
    word_characters: Int64s  # (n,): code points in all words


@helper
def _wide_space(data, at, stop):
    """Return bytes of the white space of two or three bytes that starts here; 0: none. Negative: it
    breaks a line as well.
    """
    lead = data[at]
    if lead == 0xC2:  # U+0085, U+00A0
        if at + 1 < stop:
            if data[at + 1] == 0x85:
                return -2
            if data[at + 1] == 0xA0:
                return 2
        return 0
    if at + 2 >= stop:
        return 0
    second = data[at + 1]
    third = data[at + 2]
    if lead == 0xE2:
        if second == 0x80:
            if third <= 0x8A or third == 0xAF:  # U+2000..U+200A, U+202F
                return 3
            if third == 0xA8 or third == 0xA9:  # U+2028, U+2029
                return -3
        elif second == 0x81 and third == 0x9F:  # U+205F
            return 3
    elif lead == 0xE1:
        if second == 0x9A and third == 0x80:  # U+1680
            return 3
    elif second == 0x80 and third == 0x80:  # E3: U+3000
        return 3
    return 0


@kernel(OFFSETS, BYTES, Bytes, WordBounds, returns=types.int64)
def _find(offsets, data, tail, out):
    """Write the bounds; how many lines there are."""
    word_offsets, starts, stops, line_offsets, line_stops, characters, word_characters = out
    words_begun = np.int64(0)
    words_ended = np.int64(0)
    lines = np.int64(0)
    for i in range(len(offsets) - 1):
        word_offsets[i] = words_begun
        line_offsets[i] = lines
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        points = np.int64(0)
        blanks = np.int64(0)
        # Carried from block to block: the byte before was white space; bytes of a wide space still
        # to come; its break.
        space_before = ONE
        spill = np.uint64(0)
        line_start = begin
        at = begin
        while at < stop:
            if at + 64 > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            valid = valid_in(at, stop)
            spaces = mask_of_range(block, 0, 9, 4) | mask_of_range(block, 0, 28, 3)
            breaks = mask_of_range(block, 0, 10, 3) | mask_of_range(block, 0, 28, 2)
            spaces |= mask_of_range(block, 0, 32, 0) | spill
            spill = np.uint64(0)
            high = mask_of_range(block, 0, 0x80, 0x7F) & valid
            if high:
                points -= count_ones(mask_of_range(block, 0, 0x80, 0x3F) & valid)
                wide = (mask_of_range(block, 0, 0xC2, 0) | mask_of_range(block, 0, 0xE1, 2)) & valid
                while wide:
                    j = count_trailing_zeros(wide)
                    wide &= wide - ONE
                    k = at + j
                    size = _wide_space(data, k, stop)
                    if size != 0:
                        if size < 0:
                            breaks |= ONE << np.uint64(j)
                            size = -size
                        blanks -= size - 1
                        run = (ONE << np.uint64(size)) - ONE
                        spaces |= run << np.uint64(j)
                        if j + size > 64:
                            spill = run >> np.uint64(64 - j)
            blanks += count_ones(spaces & valid)
            points += min(stop - at, np.int64(64))
            # Past the text everything is white space, which ends its last word.
            spaces |= ~valid
            shifted = (spaces << ONE) | space_before
            words_begun = write_ones(shifted & ~spaces, at, starts, words_begun)
            words_ended = write_ones(spaces & ~shifted, at, stops, words_ended)
            space_before = spaces >> np.uint64(63)
            breaks &= valid
            while breaks:
                j = at + count_trailing_zeros(breaks)
                breaks &= breaks - ONE
                if j < line_start:
                    continue  # the \n of \r\n
                line_stops[lines] = j
                lines += 1
                lead = data[j]
                if lead == 13 and j + 1 < stop and data[j + 1] == 10:
                    line_start = j + 2
                elif lead < 0x80:
                    line_start = j + 1
                elif lead == 0xC2:
                    line_start = j + 2
                else:
                    line_start = j + 3
            at += 64
        if words_ended < words_begun:
            stops[words_ended] = stop
            words_ended += 1
        if line_start < stop:
            line_stops[lines] = stop
            lines += 1
        characters[i] = points
        word_characters[i] = points - blanks
    word_offsets[len(offsets) - 1] = words_begun
    line_offsets[len(offsets) - 1] = lines
    return lines


def find(offsets: np.ndarray, data: np.ndarray) -> WordBounds:
    """Find the words and lines of n texts in UTF-8: offsets (n + 1,) int32 into data (bytes,)
    uint8.
    """
    count = len(offsets) - 1
    size = int(offsets[-1]) - int(offsets[0])
    # A word takes two bytes, the space after it counted, but for the last of a text; a line takes
    # one.
    most = size // 2 + count + 9
    found = WordBounds(
        np.empty(count + 1, np.int64),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(count + 1, np.int64),
        np.empty(size + count + 1, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    lines = _find(offsets, data, np.zeros(64, np.uint8), found)
    words = int(found.word_offsets[-1])
    return found._replace(
        starts=found.starts[:words], stops=found.stops[:words], line_stops=found.line_stops[:lines]
    )


@kernel(OFFSETS, BYTES, Bytes, PointBits, Bools, returns=types.boolean)
def _find_unspaced(offsets, data, tail, classes, unspaced):
    """Return which texts have a character of an unspaced script; whether any has. The first of
    these (Thai) takes three bytes.
    """
    some = False
    for i in range(len(offsets) - 1):
        unspaced[i] = False
        stop = np.int64(offsets[i + 1])
        at = np.int64(offsets[i])
        while at < stop and not unspaced[i]:
            if at + 64 > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            leads = mask_of_range(block, 0, 0xE0, 0x1F) & valid_in(at, stop)
            while leads:
                k = at + count_trailing_zeros(leads)
                leads &= leads - ONE
                width = np.int64(3) if data[k] < 0xF0 else np.int64(4)
                if unicode_bits(code_point(data, k, width), classes) & UNSPACED:
                    unspaced[i] = True
                    some = True
                    break
            at += 64
    return some


@kernel(BYTES, WordBounds, Bools, PointBits, Int64s, Int32s, Int32s, returns=types.int64)
def _separate(data, bounds, unspaced, classes, out_offsets, out_starts, out_stops):
    """With room for none, only the new offsets are written."""
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    count = np.int64(0)
    room = len(out_starts)
    for i in range(len(word_offsets) - 1):
        out_offsets[i] = count
        if not unspaced[i]:
            if room:
                for j in range(word_offsets[i + 1] - word_offsets[i]):
                    out_starts[count + j] = starts[word_offsets[i] + j]
                    out_stops[count + j] = stops[word_offsets[i] + j]
            count += word_offsets[i + 1] - word_offsets[i]
            continue
        for j in range(word_offsets[i], word_offsets[i + 1]):
            begin = np.int64(starts[j])
            stop = np.int64(stops[j])
            at = begin
            while at < stop:
                lead = data[at]
                if lead < 0xE0:
                    at += 1
                    continue
                width = np.int64(3) if lead < 0xF0 else np.int64(4)
                if unicode_bits(code_point(data, at, width), classes) & UNSPACED:
                    for piece in range(2):
                        left = begin if piece == 0 else at
                        right = at if piece == 0 else at + width
                        if right > left:
                            if room:
                                out_starts[count] = left
                                out_stops[count] = right
                            count += 1
                    begin = at + width
                at += width
            if stop > begin:
                if room:
                    out_starts[count] = begin
                    out_stops[count] = stop
                count += 1
    out_offsets[len(word_offsets) - 1] = count
    return count


def separate(offsets: np.ndarray, data: np.ndarray, bounds: WordBounds) -> WordBounds:
    """Cut the words of n texts so that each character of an unspaced script is one; the rest of a
    word stays together.
    """
    unspaced = np.empty(len(offsets) - 1, np.bool_)
    if not _find_unspaced(offsets, data, np.zeros(64, np.uint8), CLASSES, unspaced):
        return bounds
    new, nothing = np.empty_like(bounds.word_offsets), np.empty(0, np.int32)
    words = (data, bounds, unspaced, CLASSES, new)
    count = _separate(*words, nothing, nothing)
    starts, stops = np.empty(count, np.int32), np.empty(count, np.int32)
    _separate(*words, starts, stops)
    return bounds._replace(word_offsets=new, starts=starts, stops=stops)
