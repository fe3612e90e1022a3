"""Tidy text: control characters, URLs and white space, in one pass over UTF-8.

64 bytes are looked at together: a mask says where something may have to be done, and what lies
before is copied as it is. The character there is then taken alone. What was written last tells all
that a decision needs, so that the result is that of the three rewritings one after another: control
characters, then URLs, then white space.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
    valid_in,
)
from gristmill.kernels.unicode.tables import (
    CLASSES,
    LETTER,
    SYMBOL,
    UNSPACED,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)

ONE, TWO = np.uint64(1), np.uint64(2)
SPACE, LINE = np.uint8(0x20), np.uint8(0x0A)

# What a character is; from BREAK on it is white space.
KEPT, DROPPED, BREAK, BREAKS, SEPARATOR, BLANK, NEWLINE = range(7)


class TidyRules(NamedTuple):
    """What is tidied."""

    control: bool  # control characters and other signs that are not text
    urls: bool  # URLs are removed
    space: bool


class Tidied(NamedTuple):
    """n tidy texts."""

    offsets: Int32s  # (n + 1,) into data
    data: Bytes
    removed: Int64s  # (n,): URLs


@helper
def _kind(point):
    """Return what a code point is: white space of str.isspace, what is dropped, or what is kept."""
    kind = KEPT
    if point < 0x20:
        if point == 0x0A:
            kind = NEWLINE
        elif point == 0x09:
            kind = BLANK
        elif point == 0x1F:
            kind = SEPARATOR
        elif (point >= 0x0B and point <= 0x0D) or point >= 0x1C:
            kind = BREAK
        else:
            kind = DROPPED
    elif point == 0x20 or point == 0xA0:
        kind = BLANK
    elif point < 0x7F:
        kind = KEPT
    elif point == 0x85:
        kind = BREAK
    elif point <= 0x9F or point == 0xAD:
        kind = DROPPED
    elif point < 0x1680:
        kind = KEPT
    elif point <= 0x206F:
        if (
            point == 0x1680
            or (point >= 0x2000 and point <= 0x200A)
            or point == 0x202F
            or point == 0x205F
        ):
            kind = BLANK
        elif point == 0x2028:
            kind = BREAK
        elif point == 0x2029:
            kind = BREAKS
        elif point == 0x200B or point == 0x2060 or (point >= 0x202A and point <= 0x202E):
            kind = DROPPED
        elif point >= 0x2066 and point <= 0x2069:
            kind = DROPPED
    elif point == 0x3000:
        kind = BLANK
    elif point == 0xFEFF or (point >= 0xFDD0 and point <= 0xFDEF) or (point & 0xFFFE) == 0xFFFE:
        kind = DROPPED
    return kind


@helper
def _is_letter(byte):
    return (byte | 0x20) >= 0x61 and (byte | 0x20) <= 0x7A


@helper
def _ends_url(point, kind, classes):
    """Return whether a URL stops before a code point: white space, `"`, `<`, `>`, and where words
    stand without spaces its letters and signs.

    (RFC 3986, appendix C, for the delimiters.) None of these is ASCII of a URL's start, and none
    composes with what stood before.
    """
    if kind >= BREAK:
        return True
    if point < 0x80:
        return point == 0x22 or point == 0x3C or point == 0x3E
    bits = unicode_bits(point, classes)
    if bits & SYMBOL:
        return (point >= 0x3000 and point <= 0x303F) or (point >= 0xFF01 and point <= 0xFF65)
    return (bits & LETTER) != 0 and (bits & UNSPACED) != 0


@helper
def _begins_url(out, begin, end, byte):
    """Return bytes at the end of what is written that begin a URL together with the byte that comes
    next; -1: none.
    """
    if byte == 0x2E:  # www.
        if end - begin < 3:
            return -1
        for k in range(1, 4):
            if (out[end - k] | 0x20) != 0x77:
                return -1
        if end - begin > 3:
            before = out[end - 4]
            if _is_letter(before) or (before >= 0x30 and before <= 0x39):
                return -1
        return 3
    if end - begin < 6 or out[end - 1] != 0x2F or out[end - 2] != 0x3A:  # http:/ or https:/
        return -1
    size = 6
    if (out[end - 3] | 0x20) == 0x73:
        size = 7
        if end - begin < 7:
            return -1
    at = end - size
    if (out[at] | 0x20) != 0x68 or (out[at + 1] | 0x20) != 0x74 or (out[at + 2] | 0x20) != 0x74:
        return -1
    return size if (out[at + 3] | 0x20) == 0x70 else -1


@helper
def _url_stop(data, at, stop, control, classes):
    """Return where a URL that goes on at `at` stops; `at` itself, or what is dropped after it,
    means that it has no more.
    """
    first = at
    empty = True
    while at < stop:
        width = lead_width(data[at])
        point = code_point(data, at, width)
        kind = _kind(point)
        if kind == DROPPED and control:
            at += width
            continue
        if _ends_url(point, kind, classes):
            break
        empty = False
        at += width
    return first if empty else at


@helper
def _copy_64(block, out, end):
    target = np.uint64(end)  # unsigned: an index that may be negative keeps LLVM from wide moves
    for j in range(np.uint64(64)):
        out[target + j] = block[j]


@helper
def _write_newline(out, begin, end, space):
    """Return a line break after what is written: no space before it, no more than two, none at the
    start.
    """
    if space:
        if end > begin and out[end - 1] == SPACE:
            end -= 1
        if end == begin or (end - begin >= 2 and out[end - 1] == LINE and out[end - 2] == LINE):
            return end
    out[end] = LINE
    return end + 1


@helper
def _take(data, at, stop, out, begin, end, rules, classes):
    """Take one character: (where the next starts, end of what is written, URLs removed)."""
    control, space = rules.control, rules.space
    byte = data[at]
    if byte == 0x2E or byte == 0x2F:
        if rules.urls:
            size = _begins_url(out, begin, end, byte)
            if size > 0:
                after = _url_stop(data, at + 1, stop, control, classes)
                if after > at + 1:
                    return after, end - size, 1
        out[end] = byte
        return at + 1, end + 1, 0
    width = lead_width(byte)
    point = code_point(data, at, width)
    kind = _kind(point)
    if control:
        if kind == DROPPED:
            return at + width, end, 0
        if kind == BREAK:
            if not (
                point == 0x0D and at + 1 < stop and data[at + 1] == LINE
            ):  # of \r\n the \n is enough
                end = _write_newline(out, begin, end, space)
            return at + width, end, 0
        if kind == BREAKS:
            end = _write_newline(out, begin, end, space)
            return at + width, _write_newline(out, begin, end, space), 0
        if kind == SEPARATOR and not space:
            out[end] = SPACE
            return at + width, end + 1, 0
    if space:
        if kind == NEWLINE:
            return at + width, _write_newline(out, begin, end, space), 0
        if kind == BLANK or (kind == SEPARATOR and control):
            if end > begin and out[end - 1] != SPACE:
                out[end] = SPACE
                end += 1
            return at + width, end, 0
    for j in range(width):
        out[end + j] = data[at + j]
    return at + width, end + width, 0


@helper
def _wide_events(block):
    """Of 64 bytes those where a character of two to four bytes starts that may not be kept as it
    is.

    What lies beyond the 64 bytes is taken for anything.
    """
    second_open = ONE << np.uint64(63)
    third_open = np.uint64(3) << np.uint64(62)
    mask_80 = mask_of_range(block, 0, 0x80, 0)
    after_80 = (mask_80 >> ONE) | second_open
    events = mask_of_range(block, 0, 0xC2, 0)
    events &= (
        (mask_of_range(block, 0, 0x80, 0x20) | mask_of_range(block, 0, 0xAD, 0)) >> ONE
    ) | second_open
    events |= mask_of_range(block, 0, 0xE1, 0) & (
        (mask_of_range(block, 0, 0x9A, 0) >> ONE) | second_open
    )
    punctuation = mask_of_range(block, 0, 0xE2, 0) & (
        (mask_of_range(block, 0, 0x80, 1) >> ONE) | second_open
    )
    if punctuation:  # U+2000..U+200B, U+2028..U+202F, U+205F..U+2069, and some that are kept
        third = (
            mask_of_range(block, 0, 0x80, 0x0B)
            | mask_of_range(block, 0, 0x9F, 0)
            | mask_of_range(block, 0, 0xA0, 0x0F)
        )
        events |= punctuation & ((third >> TWO) | third_open)
    events |= mask_of_range(block, 0, 0xE3, 0) & after_80 & ((mask_80 >> TWO) | third_open)
    last = mask_of_range(block, 0, 0xEF, 0)
    if last:
        second = (
            mask_of_range(block, 0, 0xB7, 0)
            | mask_of_range(block, 0, 0xBB, 0)
            | mask_of_range(block, 0, 0xBF, 0)
        )
        events |= last & ((second >> ONE) | second_open)
    # Of the noncharacters U+1FFFE, U+1FFFF and so on the third byte is BF.
    events |= mask_of_range(block, 0, 0xF0, 4) & (
        (mask_of_range(block, 0, 0xBF, 0) >> TWO) | third_open
    )
    return events


@helper
def _events(block, rules, space_before, line_before, lines_before):
    """Of 64 bytes those where a character starts that may not be kept as it is."""
    events = np.uint64(0)
    if rules.control:
        events |= mask_of_range(block, 0, 0, 8) | mask_of_range(block, 0, 0x0B, 0x14)
        events |= mask_of_range(block, 0, 0x7F, 0)
    if rules.space:
        spaces = mask_of_range(block, 0, 0x20, 0)
        lines = mask_of_range(block, 0, 0x0A, 0)
        events |= mask_of_range(block, 0, 0x09, 0)
        events |= (spaces | lines) & ((spaces << ONE) | space_before)
        events |= (
            lines
            & ((lines << ONE) | line_before)
            & ((lines << TWO) | (line_before << ONE) | lines_before)
        )
    if rules.urls:  # the byte before these 64 may be anything
        events |= mask_of_range(block, 0, 0x2F, 0) & (
            (mask_of_range(block, 0, 0x2F, 0) << ONE) | ONE
        )
        w = mask_of_range(block, 0, 0x77, 0) | mask_of_range(block, 0, 0x57, 0)
        events |= mask_of_range(block, 0, 0x2E, 0) & ((w << ONE) | ONE)
    if mask_of_range(block, 0, 0x80, 0x7F):
        events |= _wide_events(block)
    return events


@kernel(OFFSETS, BYTES, TidyRules, PointBits, Bytes, Tidied)
def _tidy(offsets, data, rules, classes, tail, tidied):
    out_offsets, out, removed = tidied
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        begin = end
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        count = np.int64(0)
        while at < stop:
            space_before = np.uint64(end == begin or out[end - 1] == SPACE)
            line_before = np.uint64(end > begin and out[end - 1] == LINE)
            lines_before = np.uint64(end - begin > 1 and out[end - 2] == LINE)
            if at + 64 > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            events = _events(block, rules, space_before, line_before, lines_before)
            events &= valid_in(at, stop)
            size = count_trailing_zeros(events) if events else min(np.int64(64), stop - at)
            # More is copied than is meant: what follows writes over it, and copies of one size are
            # fast.
            _copy_64(block, out, end)
            end += size
            at += size
            if events:
                at, end, found = _take(data, at, stop, out, begin, end, rules, classes)
                count += found
        if rules.space:
            while end > begin and (out[end - 1] == SPACE or out[end - 1] == LINE):
                end -= 1
        removed[i] = count
    out_offsets[len(offsets) - 1] = end


def tidy(
    offsets: np.ndarray, data: np.ndarray, *, control: bool, urls: bool, space: bool
) -> Tidied:
    """Tidy n texts in UTF-8: offsets (n + 1,) int32 into data (bytes,) uint8;
    filters/extract/normalise.py says by which rules. No text grows.
    """
    count = len(offsets) - 1
    found = Tidied(
        np.empty(count + 1, np.int32),
        np.empty(int(offsets[-1]) - int(offsets[0]) + 64, np.uint8),
        np.empty(count, np.int64),
    )
    rules = TidyRules(control, urls, space)
    _tidy(offsets, data, rules, CLASSES, np.zeros(64, np.uint8), found)
    return found._replace(data=found.data[: found.offsets[-1]])
