r"""Texts as the words that they are compared by: folded, in lower case, one space between words.

Of category P and S, and all white space, nothing is left; marks and numbers are. Each character of
a script written without spaces (Han, Kana, Thai, Lao, Khmer, Burmese, Tibetan) is a word of its
own. With `signs` each run of operators and signs is a word: category S but for accents that stand
alone, and # $ % & * - / @ \ of ASCII, `!` before `=`. A dash right behind a word is a hyphen, and
none.

A block of 64 bytes at a time: what is ASCII in it by masks, what is not one character at a time. A
text in which a character is HARD (fold_tables.py) is folded first, which takes several times as
long.
"""

import numpy as np
from numba import types

from gristmill.kernels.folding.fold_tables import (
    ALONE,
    GAP,
    HARD,
    MARK,
    SIGN,
    SWAP,
    Folding,
    folding,
)
from gristmill.kernels.folding.folded_text import (
    BLOCK,
    GROWTH,
    FoldingRoom,
    fold_text,
    put,
    room_for,
)
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes
from gristmill.kernels.jit.loads import (
    ALL,
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_letter,
    mask_of_range,
    store_lower_64,
    valid_in,
)
from gristmill.kernels.unicode.tables import (
    LOWER_CASE,
    PointSteps,
    code_point,
    lead_width,
    lower_of,
    unicode_bits,
)

SPACE_BYTE, DASH, EQUAL, BANG, DELETE = 0x20, 0x2D, 0x3D, 0x21, 0x7F
# What the character before was.
NOTHING, WORD, SIGNS = 0, 1, 2


@helper
def _control_mask(block):
    """Return which of 64 bytes are ASCII control characters that are no white space, but for
    U+007F.
    """
    low = mask_of_range(block, 0, 0x00, 0x1F)
    if low == 0:  # as in most blocks
        return low
    return low & ~(mask_of_range(block, 0, 0x09, 4) | mask_of_range(block, 0, 0x1C, 3))


@helper
def _solid_mask(block):
    """Return which of 64 bytes are ASCII letters and digits."""
    solid = mask_of_range(block, 0, 0x61, 25) | mask_of_range(block, 0, 0x41, 25)
    return solid | mask_of_range(block, 0, 0x30, 9)


@helper
def _sign_mask(block, solid):
    """Return which of 64 bytes are ASCII signs, or dashes that do not stand right behind a letter
    or digit of the block.
    """
    signs = mask_of_range(block, 0, 0x23, 3) | mask_of_range(block, 0, 0x2A, 1)
    signs |= mask_of_range(block, 0, 0x2F, 0) | mask_of_range(block, 0, 0x3C, 2)
    signs |= mask_of_range(block, 0, 0x40, 0)
    signs |= mask_of_letter(block, 0, 0x7C) | mask_of_letter(block, 0, 0x7E)
    return signs | (mask_of_range(block, 0, DASH, 0) & ~(solid << ONE))


@helper
def _copy_words(block, place, length, solid, out, end):
    """Write the ASCII at `place` of a block, which is `solid` there: of each run of gaps the first
    one as a space. What lies between runs of two gaps and more is copied at once.
    """
    gaps = ~(solid >> np.uint64(place))
    left = (ALL >> np.uint64(64 - length)) & ~(gaps & (gaps << ONE))
    while left:
        skip = count_trailing_zeros(left)
        store_lower_64(out, end, block, place + skip, gaps >> np.uint64(skip))
        end += count_trailing_zeros(~(left >> np.uint64(skip)))
        # A carry from the first bit of a run clears the run.
        left &= left + (ONE << np.uint64(skip))
    return end


@helper
def _follows_bang(data, start, at):
    """Return whether a `!`, wide (U+FF01) and small (U+FE57) ones too, stands before an index."""
    if at == start:
        return False
    if data[at - 1] == BANG:
        return True
    if at < start + 3 or data[at - 3] != 0xEF:
        return False
    wide = data[at - 2] == 0xBC and data[at - 1] == 0x81
    return wide or (data[at - 2] == 0xB9 and data[at - 1] == 0x97)


@helper
def _write_words(data, bounds, folding, lower_case, look, signs, tail, out, begin):
    """Write the words of data[bounds[0]:bounds[1]] to `out` from `begin` on; where they end, or -1
    at a character whose bits are in `look`.
    """
    forms = folding.forms
    start, stop = bounds
    at = start
    end = begin
    gap = np.int64(0)  # 1: a space is due before the next character, unless it is the first
    before = np.int64(NOTHING)
    marked = np.int64(0)
    while at < stop:
        if at + BLOCK > len(data):
            copy_tail(data, at, stop, tail)
        block = block_of(data, at, tail)
        valid = valid_in(at, stop)
        if look and _control_mask(block) & valid:
            return np.int64(-1)
        wide = mask_of_range(block, 0, DELETE, 0x80) & valid  # U+007F as well
        solid = _solid_mask(block) & valid
        marks = _sign_mask(block, solid) & valid if signs else np.uint64(0)
        held = min(np.int64(64), stop - at)
        place = np.int64(0)
        while place < held:
            skip = count_trailing_zeros((wide | solid | marks) >> np.uint64(place))
            if skip > 0:
                gap = np.int64(1)
                before = np.int64(NOTHING)
                marked = np.int64(0)
            place = min(place + skip, held)
            if place == held:
                break
            if (solid >> np.uint64(place)) & ONE:
                out[end] = SPACE_BYTE
                end += gap & np.int64(end > begin)
                length = count_trailing_zeros((wide | marks) >> np.uint64(place))
                length = min(length, held - place)
                end = _copy_words(block, place, length, solid, out, end)
                place += length
                # A gap at the end waits for what follows.
                gap = np.int64(~(solid >> np.uint64(place - 1)) & ONE)
                end -= gap
                before = np.int64(NOTHING) if gap else np.int64(WORD)
                marked = np.int64(0)
                continue
            width = lead_width(data[at + place])
            point = code_point(data, at + place, width)
            bits = np.int64(GAP | SIGN)
            if width > 1 or point == DELETE:
                bits = unicode_bits(point, forms)
            if bits & look:
                if bits & HARD or marked:
                    return np.int64(-1)
            marked = bits & look
            dash = (width == 1 and point == DASH) or bits & (SIGN | SWAP) == SIGN | SWAP
            if bits & SIGN and signs and not (dash and before == WORD):
                if before != SIGNS and end > begin:
                    out[end] = SPACE_BYTE
                    end += 1
                if point == EQUAL and _follows_bang(data, start, at + place):
                    out[end] = BANG
                    end += 1
                end = put(np.int64(DASH) if dash else point, out, end)
                before = np.int64(SIGNS)
                gap = np.int64(1)
            elif bits & GAP:
                gap = np.int64(1)
                before = np.int64(NOTHING)
            else:
                alone = (bits & ALONE) != 0
                if (gap != 0 or alone) and end > begin:
                    out[end] = SPACE_BYTE
                    end += 1
                gap = np.int64(alone)
                end = put(lower_of(point, lower_case), out, end)
                before = np.int64(WORD)
            place += width
        at += place
    return end


@kernel(
    OFFSETS, BYTES, Folding, PointSteps, types.boolean, FoldingRoom, BYTES, Bytes, types.int64[::1]
)
def _words(offsets, data, folding, lower_case, signs, room, folded, out, out_offsets):
    """`folded` is `room.folded`, to read."""
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        bounds = (np.int64(offsets[i]), np.int64(offsets[i + 1]))
        after = _write_words(
            data, bounds, folding, lower_case, np.int64(HARD | MARK), signs, room.tail, out, end
        )
        if after < 0:
            bounds = (np.int64(0), fold_text(data, bounds, folding, room))
            after = _write_words(
                folded, bounds, folding, lower_case, np.int64(0), signs, room.tail, out, end
            )
        end = after
    out_offsets[len(offsets) - 1] = end


def find_words(
    offsets: np.ndarray, data: np.ndarray, *, signs: bool, arabic_marks: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of n texts: offsets (n + 1,) int32 into data (bytes,) uint8.

    Returns (offsets (n + 1,) int64, data (bytes,) uint8).
    """
    # A character of n bytes is at most one of n + 1 and a space, or one of n with two.
    size = int(offsets[-1]) - int(offsets[0])
    out = np.empty(2 * GROWTH * size + BLOCK, np.uint8)
    out_offsets = np.empty(len(offsets), np.int64)
    room = room_for(offsets)
    tables = folding(arabic_marks=arabic_marks)
    _words(offsets, data, tables, LOWER_CASE, signs, room, room.folded, out, out_offsets)
    return out_offsets, out[: out_offsets[-1]]
