"""Tidy text: control characters, URLs and white space, in one pass over UTF-8.

64 bytes are looked at together: a mask says where something may have to be done, and what lies
before is copied as it is. The character there is then taken alone. What was written last tells all
that a decision needs, so that the result is that of the three rewritings one after another: control
characters, then URLs, then white space.

`unsettled` tells which texts Unicode's composition could change (UAX 15), which few texts need and
which costs ten times as much.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, UINT64S, helper, kernel
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
    valid_in,
)
from gristmill.kernels.unicode.tables import (
    CLASS_INDEX,
    CLASS_PAGES,
    LETTER,
    SYMBOL,
    UNSPACED,
    class_of,
    code_point,
    width_of,
)

ONE, TWO = np.uint64(1), np.uint64(2)
SPACE, LINE = np.uint8(0x20), np.uint8(0x0A)

# What a character is; from BREAK on it is white space.
KEPT, DROPPED, BREAK, BREAKS, SEPARATOR, BLANK, NEWLINE = range(7)

# so many unsettled code points in a row take a library that sorts marks by insertion too long
LONG_RUN = 128

# Code points that composition leaves alone wherever they stand: assigned in Unicode 17.0, of
# combining class 0, equal to their NFC, and never the second of a composed pair
# (DerivedNormalizationProps.txt, UnicodeData.txt). Short ranges are left out.
SETTLED = """
0-2FF 38E-3A1 3A3-482 488-52F 531-556 559-58A 5D0-5EA 600-60F 61B-64A 660-66F 671-6D5 6EE-70D 712-72F 74D-7B1 7C0-7EA 7FE-815
840-858 870-891 8A0-8C9 900-93B 93D-94C 960-983 993-9A8 9E6-9FD A13-A28 A66-A76 A93-AA8 B13-B28 B66-B77 BE6-BFA C12-C28 C2A-C39
C77-C8C C92-CA8 D12-D3A D66-D7F D85-D96 D9A-DB1 E01-E37 E4C-E5B E8C-EA3 EA7-EB7 F00-F17 F1A-F34 1000-102D 103B-108C 108E-10C5
10D0-1160 1176-11A7 11C3-1248 1260-1288 1290-12B0 12D8-1310 1318-135A 1360-137C 1380-1399 13A0-13F5 1400-169C 16A0-16F8 1700-1713
1780-17D1 1800-1819 1820-1878 1880-18A8 18B0-18F5 1980-19AB 19DE-1A16 1A1E-1A5E 1BFC-1C36 1C4D-1C8A 1C90-1CBA 1D00-1DBF 1E00-1F15
1F20-1F45 1F5F-1F70 1F80-1FB4 2002-2064 2074-208E 20A0-20C1 2100-2125 212C-218B 2190-2328 232B-2429 2460-2ADB 2ADD-2B73 2B76-2CEE
2CF9-2D25 2D30-2D67 2D80-2D96 2E00-2E5D 2E80-2E99 2E9B-2EF3 2F00-2FD5 2FF0-3029 3030-303F 3041-3096 309B-30FF 3105-312F 3131-318E
3190-31E5 31EF-321E 3220-A48C A490-A4C6 A4D0-A62B A640-A66E A67E-A69D A6A0-A6EF A700-A7DC A7F1-A805 A807-A82B A840-A877 A880-A8C3
A8F2-A92A A95F-A97C A980-A9B2 AA00-AA36 AA5C-AAAF AB30-AB6B AB70-ABEC AC00-D7A3 E000-F8FF FB4F-FDCF FDF0-FE19 FE30-FE52 FE54-FE66
FE76-FEFC FF01-FFBE FFE0-FFE6 FFF9-FFFD 10600-10736 12000-12399 13000-13455 13460-143FA 14400-14646 16800-16A38 17000-18CD5
1B000-1B122 1B170-1B2FB 1D552-1D6A5 1D6A8-1D7CB 1D7CE-1DA8B 1F1E6-1F202 1F300-1F6D8 1F700-1F7D9 1F900-1FA57 20000-2A6DF
2A700-2B81D 2B820-2CEAD 2CEB0-2EBE0 30000-3134A 31350-33479 E0100-E01EF F0000-FFFFD 100000-10FFFD
"""


def _settled() -> np.ndarray:
    bits = np.zeros(0x110000, np.uint8)
    for ends in SETTLED.split():
        first, last = (int(end, 16) for end in ends.split("-"))
        bits[first : last + 1] = 1
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


_SETTLED = _settled()  # (17408,) uint64: bit j of word i is code point 64 * i + j


@helper
def _kind(point):
    """What a code point is: white space of str.isspace, what is dropped, or what is kept."""
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
def _ends_url(point, kind, index, pages):
    """Whether a URL stops before a code point: white space, `"`, `<`, `>`, and where words stand
    without spaces its letters and signs.

    (RFC 3986, appendix C, for the delimiters.) None of these is ASCII of a URL's start, and none
    composes with what stood before.
    """
    if kind >= BREAK:
        return True
    if point < 0x80:
        return point == 0x22 or point == 0x3C or point == 0x3E
    bits = class_of(point, index, pages)
    if bits & SYMBOL:
        return (point >= 0x3000 and point <= 0x303F) or (point >= 0xFF01 and point <= 0xFF65)
    return (bits & LETTER) != 0 and (bits & UNSPACED) != 0


@helper
def _begins_url(out, begin, end, byte):
    """Bytes at the end of what is written that begin a URL together with the byte that comes next;
    -1: none.
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
def _url_stop(data, at, stop, control, index, pages):
    """Where a URL that goes on at `at` stops; `at` itself, or what is dropped after it, means that
    it has no more.
    """
    first = at
    empty = True
    while at < stop:
        width = width_of(data[at])
        point = code_point(data, at, width)
        kind = _kind(point)
        if kind == DROPPED and control:
            at += width
            continue
        if _ends_url(point, kind, index, pages):
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
    """A line break after what is written: no space before it, no more than two, none at the
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
def _take(data, at, stop, out, begin, end, control, urls, space, index, pages):
    """Take one character: (where the next starts, end of what is written, URLs removed)."""
    byte = data[at]
    if byte == 0x2E or byte == 0x2F:
        if urls:
            size = _begins_url(out, begin, end, byte)
            if size > 0:
                after = _url_stop(data, at + 1, stop, control, index, pages)
                if after > at + 1:
                    return after, end - size, 1
        out[end] = byte
        return at + 1, end + 1, 0
    width = width_of(byte)
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
def _events(block, control, urls, space, space_before, line_before, lines_before):
    """Of 64 bytes those where a character starts that may not be kept as it is."""
    events = np.uint64(0)
    if control:
        events |= mask_of_range(block, 0, 0, 8) | mask_of_range(block, 0, 0x0B, 0x14)
        events |= mask_of_range(block, 0, 0x7F, 0)
    if space:
        spaces = mask_of_range(block, 0, 0x20, 0)
        lines = mask_of_range(block, 0, 0x0A, 0)
        events |= mask_of_range(block, 0, 0x09, 0)
        events |= (spaces | lines) & ((spaces << ONE) | space_before)
        events |= (
            lines
            & ((lines << ONE) | line_before)
            & ((lines << TWO) | (line_before << ONE) | lines_before)
        )
    if urls:  # the byte before these 64 may be anything
        events |= mask_of_range(block, 0, 0x2F, 0) & (
            (mask_of_range(block, 0, 0x2F, 0) << ONE) | ONE
        )
        w = mask_of_range(block, 0, 0x77, 0) | mask_of_range(block, 0, 0x57, 0)
        events |= mask_of_range(block, 0, 0x2E, 0) & ((w << ONE) | ONE)
    if mask_of_range(block, 0, 0x80, 0x7F):
        events |= _wide_events(block)
    return events


@kernel(
    OFFSETS,
    BYTES,
    types.boolean,
    types.boolean,
    types.boolean,
    BYTES,
    BYTES,
    types.uint8[::1],
    types.uint8[::1],
    types.int32[::1],
    types.int64[::1],
)
def _tidy(offsets, data, control, urls, space, index, pages, tail, out, out_offsets, removed):
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
            events = _events(block, control, urls, space, space_before, line_before, lines_before)
            events &= valid_in(at, stop)
            size = count_trailing_zeros(events) if events else min(np.int64(64), stop - at)
            # More is copied than is meant: what follows writes over it, and copies of one size are
            # fast.
            _copy_64(block, out, end)
            end += size
            at += size
            if events:
                at, end, found = _take(
                    data, at, stop, out, begin, end, control, urls, space, index, pages
                )
                count += found
        if space:
            while end > begin and (out[end - 1] == SPACE or out[end - 1] == LINE):
                end -= 1
        removed[i] = count
    out_offsets[len(offsets) - 1] = end


def tidy(
    offsets: np.ndarray, data: np.ndarray, *, control: bool, urls: bool, space: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tidy n texts in UTF-8: offsets (n + 1,) int32 into data (bytes,) uint8;
    filters/extract/normalise.py says by which rules.

    `urls` removes URLs. Returns (offsets (n + 1,) int32, data (bytes,) uint8, URLs removed (n,)
    int64). No text grows.
    """
    count = len(offsets) - 1
    out = np.empty(int(offsets[-1]) - int(offsets[0]) + 64, np.uint8)
    out_offsets, removed = np.empty(count + 1, np.int32), np.empty(count, np.int64)
    tail = np.zeros(64, np.uint8)
    _tidy(
        offsets,
        data,
        control,
        urls,
        space,
        CLASS_INDEX,
        CLASS_PAGES,
        tail,
        out,
        out_offsets,
        removed,
    )
    return out_offsets, out[: out_offsets[-1]], removed


@kernel(OFFSETS, BYTES, UINT64S, types.uint8[::1], types.int64[::1])
def _unsettled(offsets, data, settled, tail, longest):
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        most = np.int64(0)
        run = np.int64(0)
        while at < stop and most < LONG_RUN:
            if at + 64 > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            # Bytes from CC on start a code point from U+0300 on; all before are settled.
            high = mask_of_range(block, 0, 0xCC, 0x33) & valid_in(at, stop)
            if high == 0:
                run = np.int64(0)
                at += 64
                continue
            at += count_trailing_zeros(high)
            if count_trailing_zeros(high) > 0:
                run = np.int64(0)
            # On, code point by code point, as long as they are high.
            while at < stop and most < LONG_RUN and data[at] >= 0xCC:
                width = width_of(data[at])
                point = code_point(data, at, width)
                run = np.int64(0) if settled[point >> 6] >> np.uint64(point & 63) & ONE else run + 1
                most = max(most, run)
                at += width
        longest[i] = most


def unsettled(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Of n texts in UTF-8 the longest run of code points that composition might change, up to
    LONG_RUN: (n,) int64. 0: the text is NFC.

    offsets (n + 1,) int32 into data (bytes,) uint8. Removing code points from a text of 0 leaves it
    one.
    """
    longest = np.empty(len(offsets) - 1, np.int64)
    _unsettled(offsets, data, _SETTLED, np.zeros(64, np.uint8), longest)
    return longest
