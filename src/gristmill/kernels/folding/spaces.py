"""Texts folded, with their white space in one form: what the default of `exact` compares.

A run of white space is one space, and there is none at the ends of a text. Where the run ends in a
line's indentation (ASCII spaces and tabs behind its last line break) it is a line break and the
indentation as it is: programs mean something by it. Case, punctuation and signs stay.

A block of 64 bytes at a time: what is copied as it is by masks; at white space that changes and at
what is not ASCII one character at a time. A text in which a character is HARD (fold_tables.py) is
folded first, which takes several times as long.
"""

import numpy as np
from numba import types

from gristmill.kernels.folding.fold_tables import (
    ASCII_FORMS,
    BREAK,
    HARD,
    MARK,
    SPACE,
    SWAP,
    Folding,
    folding,
)
from gristmill.kernels.folding.folded_text import BLOCK, GROWTH, FoldingRoom, fold_text, room_for
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes
from gristmill.kernels.jit.loads import (
    ALL,
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    load_u64,
    mask_of_range,
    store_u64,
    valid_in,
)
from gristmill.kernels.unicode.tables import PointBits, code_point, lead_width, unicode_bits

SPACE_BYTE, TAB, LINE_FEED, FULL_STOP = 0x20, 0x09, 0x0A, 0x2E


@helper
def _write_spaces(data, bounds, forms, out, begin, end):
    """Write the white space at bounds[0] to `out`, whose text begins at `begin`: (where it ends in
    data, where it ends in out).
    """
    at, stop = bounds
    broken = False
    indent = np.int64(0)
    while at < stop:
        width = lead_width(data[at])
        point = code_point(data, at, width)
        bits = unicode_bits(point, forms)
        if not bits & SPACE:
            break
        if bits & BREAK:
            broken = True
            indent = np.int64(0)
        elif broken and (point == SPACE_BYTE or point == TAB):
            out[end + 1 + indent] = point
            indent += 1
        at += width
    if at == stop or end == begin:
        return at, end
    out[end] = LINE_FEED if indent > 0 else SPACE_BYTE
    return at, end + 1 + indent


@helper
def _write_folded(data, bounds, forms, ascii_forms, look, tail, out, begin):
    """Write data[bounds[0]:bounds[1]] to `out` from `begin` on; where it ends, or -1 at a character
    whose bits are in `look`.
    """
    at, stop = bounds
    end = begin
    marked = np.int64(0)
    while at < stop:
        if at + BLOCK > len(data):
            copy_tail(data, at, stop, tail)
        block = block_of(data, at, tail)
        valid = valid_in(at, stop)
        plain = mask_of_range(block, 0, 0x21, 0x5D) & valid
        breaks = mask_of_range(block, 0, LINE_FEED, 0)
        # White space of one byte between characters that stay is copied with them.
        alone = (breaks | mask_of_range(block, 0, SPACE_BYTE, 0)) & (plain >> ONE) & (plain << ONE)
        length = count_trailing_zeros(~(plain | alone))
        if length > 0:
            for k in range(0, length, 8):
                store_u64(out, end + k, load_u64(block, k))
            breaks &= ALL >> np.uint64(64 - length)
            while breaks:
                out[end + count_trailing_zeros(breaks)] = SPACE_BYTE
                breaks &= breaks - ONE
            end += length
            at += length
            marked = np.int64(0)
            continue
        if data[at] < 0x80:
            if not unicode_bits(np.int64(data[at]), forms) & SPACE:
                return np.int64(-1)  # a control character
            at, end = _write_spaces(data, (at, stop), forms, out, begin, end)
            marked = np.int64(0)
            continue
        while at < stop and data[at] >= 0x80:
            width = lead_width(data[at])
            point = code_point(data, at, width)
            bits = unicode_bits(point, forms)
            if bits & look:
                if bits & HARD or marked:
                    return np.int64(-1)
            marked = bits & look
            if bits & SPACE:
                at, end = _write_spaces(data, (at, stop), forms, out, begin, end)
                continue
            if bits & SWAP:
                swap = unicode_bits(point, ascii_forms)
                if swap == 0:
                    out[end] = FULL_STOP
                    out[end + 1] = FULL_STOP
                    swap = FULL_STOP
                    end += 2
                out[end] = swap
                end += 1
            else:
                for k in range(width):
                    out[end + k] = data[at + k]
                end += width
            at += width
    return end


@kernel(OFFSETS, BYTES, Folding, PointBits, FoldingRoom, BYTES, Bytes, types.int64[::1])
def _folded(offsets, data, folding, ascii_forms, room, folded, out, out_offsets):
    """`folded` is `room.folded`, to read."""
    forms = folding.forms
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        bounds = (np.int64(offsets[i]), np.int64(offsets[i + 1]))
        after = _write_folded(
            data, bounds, forms, ascii_forms, np.int64(HARD | MARK), room.tail, out, end
        )
        if after < 0:
            bounds = (np.int64(0), fold_text(data, bounds, folding, room))
            after = _write_folded(
                folded, bounds, forms, ascii_forms, np.int64(0), room.tail, out, end
            )
        end = after
    out_offsets[len(offsets) - 1] = end


def fold_spaces(
    offsets: np.ndarray, data: np.ndarray, *, arabic_marks: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Fold n texts: offsets (n + 1,) int32 into data (bytes,) uint8.

    Returns (offsets (n + 1,) int64, data (bytes,) uint8).
    """
    size = int(offsets[-1]) - int(offsets[0])
    out = np.empty(GROWTH * size + BLOCK, np.uint8)
    out_offsets = np.empty(len(offsets), np.int64)
    room = room_for(offsets)
    tables = folding(arabic_marks=arabic_marks)
    _folded(offsets, data, tables, ASCII_FORMS, room, room.folded, out, out_offsets)
    return out_offsets, out[: out_offsets[-1]]


@kernel(OFFSETS, BYTES, Folding, FoldingRoom, types.int64[::1], Bytes, types.int32[::1])
def _unicode(offsets, data, folding, room, out_offsets, out, origins):
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        stop = fold_text(data, (np.int64(offsets[i]), np.int64(offsets[i + 1])), folding, room)
        for k in range(stop):
            out[end + k] = room.folded[k]
            origins[end + k] = room.origins[k]
        end += stop
    out_offsets[len(offsets) - 1] = end
    origins[end] = offsets[len(offsets) - 1]


def fold_unicode(
    offsets: np.ndarray, data: np.ndarray, *, arabic_marks: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fold the Unicode of n texts and nothing else, and say where their bytes came from.

    Returns (offsets (n + 1,) int32, data (bytes,) uint8, origins (bytes + 1,) int32: of each byte
    where in the given data that starts which it was made of).
    """
    size = int(offsets[-1]) - int(offsets[0])
    out = np.empty(GROWTH * size, np.uint8)
    origins = np.empty(GROWTH * size + 1, np.int32)
    out_offsets = np.empty(len(offsets), np.int64)
    room = room_for(offsets, origins=True)
    _unicode(offsets, data, folding(arabic_marks=arabic_marks), room, out_offsets, out, origins)
    end = out_offsets[-1]
    return out_offsets.astype(np.int32), out[:end], origins[: end + 1]
