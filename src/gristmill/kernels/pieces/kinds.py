"""What patterns of pieces ask of a code point, of Unicode 16.0, and the loops that they share.

The first pass of every pattern writes the kind of each byte's code point, so that the second never
decodes: a run of one kind is a run of bytes, of whatever width its code points are.
"""

from pathlib import Path

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes
from gristmill.kernels.jit.loads import ONE
from gristmill.kernels.unicode.tables import PointBits, code_point, unicode_bits, width_of

# Bits of a kind.
LETTER = 1  # general category L*
NUMBER = 2  # general category N*
SPACE = 4  # White_Space, what \s is in these patterns
MARK = 8  # general category M*
CAPITAL = 16  # general category Lu or Lt
SMALL = 32  # general category Ll
SIGN = 64  # general category P* or S*
KANA_HAN = 128  # U+4E00..U+9FA5 and U+3040..U+30FF, assigned or not (DeepSeek's class)

LETTER_NUMBER_SPACE = LETTER | NUMBER | SPACE

with np.load(Path(__file__).with_name("kinds.npz")) as _tables:
    KINDS = PointBits(_tables["blocks"], _tables["pages"])
ASCII_KINDS = np.ascontiguousarray(KINDS.every()[:128])

NEW_LINE, RETURN, BLANK, APOSTROPHE = 0x0A, 0x0D, 0x20, 0x27


@kernel(OFFSETS, BYTES, Bytes, PointBits, types.uint8[::1])
def _write_kinds(offsets, data, ascii_kinds, table, kinds):
    at = np.int64(offsets[0])
    stop = np.int64(offsets[len(offsets) - 1])
    while at < stop:
        lead = data[at]
        if lead < 0x80:
            kinds[at] = ascii_kinds[lead]
            at += 1
        else:
            width = width_of(lead)
            kind = np.uint8(unicode_bits(code_point(data, at, width), table))
            for j in range(at, at + width):
                kinds[j] = kind
            at += width


def kinds_of(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The kind of every byte's code point in n texts of UTF-8, (offsets[-1],) uint8; what lies
    before the first text is not written.

    offsets (n + 1,) int32 into data (bytes,) uint8.
    """
    kinds = np.empty(int(offsets[-1]), np.uint8)
    _write_kinds(offsets, data, ASCII_KINDS, KINDS, kinds)
    return kinds


@helper
def start_piece(starts, at):
    """Set a bit of the bitmap."""
    starts[at >> 6] |= ONE << np.uint64(at & 63)


@helper
def next_point(data, at):
    """Where the code point after the one at `at` starts."""
    return at + width_of(data[at])


@helper
def end_of_run(kinds, at, stop, bits):
    """The end of the run from `at` of code points that have one of these bits."""
    while at < stop and kinds[at] & bits:
        at += 1
    return at


@helper
def end_of_others(kinds, at, stop, bits):
    """The end of the run from `at` of code points that have none of these bits."""
    while at < stop and not kinds[at] & bits:
        at += 1
    return at


@helper
def end_of_numbers(data, kinds, at, stop, most):
    """The end of the run of numbers from `at`, of at most `most` code points."""
    count = 0
    while at < stop and kinds[at] & NUMBER and count < most:
        at = next_point(data, at)
        count += 1
    return at


@helper
def end_of_line_breaks(data, at, stop):
    r"""The end of `[\r\n]*`."""
    while at < stop and (data[at] == NEW_LINE or data[at] == RETURN):
        at += 1
    return at


@helper
def without_last(data, at, end):
    """The end of white space from `at` to `end` without its last character, if it has more."""
    last = end - 1
    while data[last] & 0xC0 == 0x80:
        last -= 1
    return last if last > at else end


@helper
def end_of_spaces(data, kinds, at, stop):
    r"""The end of `\s+(?!\S)|\s+`: the last character of white space belongs to what follows."""
    end = end_of_run(kinds, at, stop, SPACE)
    return end if end == stop else without_last(data, at, end)


@helper
def end_of_broken_spaces(data, kinds, at, stop):
    r"""The end of `\s*[\r\n]+|\s+(?!\S)|\s+`: white space up to its last line break, if it has
    one.
    """
    end = end_of_run(kinds, at, stop, SPACE)
    for j in range(end - 1, at - 1, -1):
        if data[j] == NEW_LINE or data[j] == RETURN:
            return j + 1
    return end if end == stop else without_last(data, at, end)


@helper
def contraction_in(data, at, stop):
    """The bytes of `'s|'t|'re|'ve|'m|'ll|'d` at `at`, in small letters; 0: there is none."""
    if at + 1 >= stop or data[at] != APOSTROPHE:
        return 0
    second = data[at + 1]
    if second == 0x73 or second == 0x74 or second == 0x6D or second == 0x64:  # s t m d
        return 2
    if at + 2 >= stop:
        return 0
    third = data[at + 2]
    if third == 0x65 and (second == 0x72 or second == 0x76):  # re ve
        return 3
    return 3 if third == 0x6C and second == 0x6C else 0  # ll


@helper
def folded_contraction_in(data, at, stop):
    """The bytes of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `at`; 0: there is none.

    By simple case folding U+017F, the long s, is an s (CaseFolding.txt); no other code point of
    more than one byte folds to one of these letters.
    """
    if at + 1 >= stop or data[at] != APOSTROPHE:
        return 0
    second = data[at + 1] | 0x20
    if second == 0x73 or second == 0x74 or second == 0x6D or second == 0x64:  # s t m d
        return 2
    if at + 2 >= stop:
        return 0
    if data[at + 1] == 0xC5 and data[at + 2] == 0xBF:
        return 3
    third = data[at + 2] | 0x20
    if third == 0x65 and (second == 0x72 or second == 0x76):  # re ve
        return 3
    return 3 if third == 0x6C and second == 0x6C else 0  # ll
