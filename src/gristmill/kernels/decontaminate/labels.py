"""Labels of choices left out: `A.`, `(B)`, `c)`, `1.`, `[2]` and the like become blanks, so that a
question meets itself whatever its choices are called.

    raw texts -> blank -> texts of the same length, with spaces for the letters and digits of labels

A label is one ASCII letter, or one or two ASCII digits, that stands

    behind      the start of the text, white space, `*` or `_`, a sign that is not ASCII, or a
                script without spaces
    before      `.`, `)`, `:` or `]` with white space, the end, `*` or `_` behind it; or one of the
                wide signs ．）：、, whatever follows
    between     or is held by a pair of brackets, `(A)`, `[A]` or （A）, of which the same is asked

so a letter of an alphabet alone (`a`, `I`, a variable) stays a word. The initials of a name and a
number that ends a sentence go.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes
from gristmill.kernels.jit.loads import (
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
    valid_in,
)
from gristmill.kernels.unicode.tables import (
    CLASSES,
    PYTHON_SPACE,
    SYMBOL,
    UNSPACED,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)

STEP = 60  # bytes of 64 that a round decides on: a label's sign is among those behind
SPACE = 0x20
WIDE_STOP, WIDE_CLOSE, WIDE_COLON, WIDE_COMMA, WIDE_OPEN = 0xFF0E, 0xFF09, 0xFF1A, 0x3001, 0xFF08


@helper
def _blank_ascii(byte):
    """Return whether an ASCII byte may stand beside a label: what Python calls a space, `*` and
    `_`.
    """
    return byte == SPACE or 9 <= byte <= 13 or 28 <= byte <= 31 or byte == 0x2A or byte == 0x5F


@helper
def _behind(data, begin, at, classes):
    """Return whether a label may start at an index: by the character before it, in a text that
    starts at `begin`.
    """
    if at == begin:
        return True
    last = at - 1
    if data[last] < 0x80:
        return _blank_ascii(data[last])
    while data[last] & 0xC0 == 0x80:
        last -= 1
    bits = unicode_bits(code_point(data, last, at - last), classes)
    return bits & (PYTHON_SPACE | SYMBOL | UNSPACED) != 0


@helper
def _before(data, at, stop, classes):
    """Return whether a label may end before an index: by the character there, in a text that ends
    at `stop`.
    """
    if at == stop:
        return True
    if data[at] < 0x80:
        return _blank_ascii(data[at])
    return unicode_bits(code_point(data, at, lead_width(data[at])), classes) & PYTHON_SPACE != 0


@helper
def _point_before(data, begin, at):
    """Return the code point before an index; 0: the text starts there."""
    if at == begin:
        return np.int64(0)
    last = at - 1
    while data[last] & 0xC0 == 0x80:
        last -= 1
    return code_point(data, last, at - last)


@helper
def _is_label(data, begin, at, end, stop, classes):
    """Return whether data[at:end], letters or digits of a text data[begin:stop], is a label;
    something stands at `end`.
    """
    width = lead_width(data[end])
    closer = code_point(data, end, width)
    opener = _point_before(data, begin, at)
    if (opener == 0x28 and closer == 0x29) or (opener == 0x5B and closer == 0x5D):
        return _behind(data, begin, at - 1, classes) and _before(data, end + 1, stop, classes)
    if opener == WIDE_OPEN and closer == WIDE_CLOSE:
        return True
    if closer in (WIDE_STOP, WIDE_CLOSE, WIDE_COLON, WIDE_COMMA):
        return _behind(data, begin, at, classes)
    if closer in (0x2E, 0x29, 0x3A, 0x5D):
        return _behind(data, begin, at, classes) and _before(data, end + 1, stop, classes)
    return False


@kernel(OFFSETS, BYTES, PointBits, Bytes, Bytes, returns=types.int64)
def _blank(offsets, data, classes, tail, out):
    """Write blanks where labels are; `out` is a copy of data from the first offset on. How many
    labels there were.
    """
    found = np.int64(0)
    base = np.int64(offsets[0])
    for i in range(len(offsets) - 1):
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        before = np.uint64(0)  # bit 0: what stands before the block is a letter or digit
        for at in range(begin, stop, STEP):
            if at + len(tail) > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            valid = valid_in(at, stop)
            digits = mask_of_range(block, 0, 0x30, 9) & valid
            solid = mask_of_range(block, 0, 0x61, 25) | mask_of_range(block, 0, 0x41, 25)
            solid = (solid & valid) | digits
            signs = mask_of_range(block, 0, 0x2E, 0) | mask_of_range(block, 0, 0x29, 0)
            signs |= mask_of_range(block, 0, 0x3A, 0) | mask_of_range(block, 0, 0x5D, 0)
            signs |= mask_of_range(block, 0, 0xEF, 0) | mask_of_range(
                block, 0, 0xE3, 0
            )  # how the wide ones start
            signs &= valid
            starts = solid & ~((solid << ONE) | before)
            one = starts & (signs >> ONE)
            two = starts & digits & (digits >> ONE) & (signs >> np.uint64(2))
            before = (solid >> np.uint64(STEP - 1)) & ONE
            rest = (one | two) & ((ONE << np.uint64(STEP)) - ONE)
            while rest:
                place = count_trailing_zeros(rest)
                rest &= rest - ONE
                start = at + place
                end = start + 1 + np.int64((two >> np.uint64(place)) & ONE)
                if _is_label(data, begin, start, end, stop, classes):
                    found += 1
                    for j in range(start, end):
                        out[j - base] = SPACE
    return found


def blank(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave labels out of n texts: offsets (n + 1,) int32 into data (bytes,) uint8.

    Returns (offsets (n + 1,) int32, data (bytes,) uint8), the first offset 0, of texts of the same
    lengths.
    """
    out = data[int(offsets[0]) : int(offsets[-1])].copy()
    _blank(offsets, data, CLASSES, np.zeros(64, np.uint8), out)
    return offsets - offsets[0], out
