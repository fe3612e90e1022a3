"""Normalised text: what duplicates and benchmark n-grams are compared by.

Lower case; every code point of category P or S, and all white space, is a gap; marks and numbers
stay. The words that are left stand with one space between them. Each character of a script written
without spaces (Han, Kana, Thai, Lao, Khmer, Burmese, Tibetan) is a word of its own.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s
from gristmill.kernels.jit.loads import (
    ALL,
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
    store_lower_64,
    valid_in,
)
from gristmill.kernels.unicode.tables import (
    CLASSES,
    LOWER_CASE,
    PYTHON_SPACE,
    SYMBOL,
    UNSPACED,
    PointBits,
    PointSteps,
    code_point,
    lead_width,
    lower_of,
    unicode_bits,
)

GAP = 0x20
# bytes that may be loaded or stored together: 64 from any place of a block of 64
BLOCK = 64 + 64


@helper
def _solid_ascii(block):
    """Return which of 64 bytes are ASCII that stays: letters, digits, control characters that are
    no white space.
    """
    solid = mask_of_range(block, 0, 0x61, 25) | mask_of_range(block, 0, 0x41, 25)
    solid |= mask_of_range(block, 0, 0x30, 9)
    solid |= mask_of_range(block, 0, 0x00, 8) | mask_of_range(block, 0, 0x0E, 13)
    return solid | mask_of_range(block, 0, 0x7F, 0)


@helper
def _copy_ascii(block, place, length, solid, out, end):
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


@kernel(OFFSETS, BYTES, PointBits, PointSteps, Bytes, Bytes, types.int64[::1])
def _normalise(offsets, data, classes, lower_case, tail, out, out_offsets):
    """A block of 64 bytes at a time: what is ASCII in it by masks, what is not one character at a
    time.
    """
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        begin = end
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        gap = np.int64(0)  # 1: a space is due before the next character, unless it is the first
        while at < stop:
            if at + BLOCK > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            valid = valid_in(at, stop)
            wide = mask_of_range(block, 0, 0x80, 0x7F) & valid
            solid = _solid_ascii(block) & valid
            held = min(np.int64(64), stop - at)
            place = np.int64(0)
            while place < held:
                rest = (wide | solid) >> np.uint64(place)
                skip = count_trailing_zeros(rest)
                gap |= np.int64(skip > 0)
                place = min(place + skip, held)
                if place == held:
                    break
                if (solid >> np.uint64(place)) & ONE:
                    out[end] = GAP
                    end += gap & np.int64(end > begin)
                    length = min(count_trailing_zeros(wide >> np.uint64(place)), held - place)
                    end = _copy_ascii(block, place, length, solid, out, end)
                    place += length
                    # A gap at the end waits for what follows.
                    gap = np.int64(~(solid >> np.uint64(place - 1)) & ONE)
                    end -= gap
                    continue
                width = lead_width(data[at + place])
                point = code_point(data, at + place, width)
                place += width
                bits = unicode_bits(point, classes)
                if bits & (PYTHON_SPACE | SYMBOL):
                    gap = np.int64(1)
                    continue
                alone = (bits & UNSPACED) != 0
                if (gap != 0 or alone) and end > begin:
                    out[end] = GAP
                    end += 1
                gap = np.int64(alone)
                point = lower_of(point, lower_case)
                if point < 0x80:
                    out[end] = point
                    end += 1
                elif point < 0x800:
                    out[end] = 0xC0 | (point >> 6)
                    out[end + 1] = 0x80 | (point & 0x3F)
                    end += 2
                elif point < 0x10000:
                    out[end] = 0xE0 | (point >> 12)
                    out[end + 1] = 0x80 | ((point >> 6) & 0x3F)
                    out[end + 2] = 0x80 | (point & 0x3F)
                    end += 3
                else:
                    out[end] = 0xF0 | (point >> 18)
                    out[end + 1] = 0x80 | ((point >> 12) & 0x3F)
                    out[end + 2] = 0x80 | ((point >> 6) & 0x3F)
                    out[end + 3] = 0x80 | (point & 0x3F)
                    end += 4
            at += place
    out_offsets[len(offsets) - 1] = end


@kernel(OFFSETS, BYTES, PointBits, Bytes, types.int64[::1], Int32s, Int32s)
def _locate(offsets, data, classes, tail, word_offsets, starts, stops):
    """A block of 64 bytes at a time, as `_normalise`."""
    words = np.int64(0)
    for i in range(len(offsets) - 1):
        word_offsets[i] = words
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        ended = words
        inside = np.uint64(0)  # 1: what follows goes on with a word
        while at < stop:
            if at + BLOCK > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            valid = valid_in(at, stop)
            wide = mask_of_range(block, 0, 0x80, 0x7F) & valid
            solid = _solid_ascii(block) & valid
            held = min(np.int64(64), stop - at)
            place = np.int64(0)
            while place < held:
                length = min(count_trailing_zeros(wide >> np.uint64(place)), held - place)
                if length > 0:
                    run = ALL >> np.uint64(64 - length)
                    own = (solid >> np.uint64(place)) & run
                    before = (own << ONE) | inside
                    begins = own & ~before
                    ends = ~own & before & run
                    while begins:
                        starts[words] = at + place + count_trailing_zeros(begins)
                        begins &= begins - ONE
                        words += 1
                    while ends:
                        stops[ended] = at + place + count_trailing_zeros(ends)
                        ends &= ends - ONE
                        ended += 1
                    inside = (own >> np.uint64(length - 1)) & ONE
                    place += length
                    continue
                width = lead_width(data[at + place])
                bits = unicode_bits(code_point(data, at + place, width), classes)
                gap = (bits & (PYTHON_SPACE | SYMBOL)) != 0
                alone = not gap and (bits & UNSPACED) != 0
                if inside and (gap or alone):
                    stops[ended] = at + place
                    ended += 1
                    inside = np.uint64(0)
                if not gap and not inside:
                    starts[words] = at + place
                    words += 1
                    inside = ONE
                place += width
                if alone:
                    stops[ended] = at + place
                    ended += 1
                    inside = np.uint64(0)
            at += place
        if inside:
            stops[ended] = stop
    word_offsets[len(offsets) - 1] = words


def normalise(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normalise n texts: offsets (n + 1,) int32 into data (bytes,) uint8.

    Returns (offsets (n + 1,) int64, data (bytes,) uint8) of the normalised texts.
    """
    # Two bytes can become three (U+023A) and a space each, three can become three and a space:
    # never more than twice.
    size = int(offsets[-1]) - int(offsets[0])
    out = np.empty(2 * size + BLOCK, np.uint8)
    out_offsets = np.empty(len(offsets), np.int64)
    _normalise(offsets, data, CLASSES, LOWER_CASE, np.zeros(BLOCK, np.uint8), out, out_offsets)
    return out_offsets, out[: out_offsets[-1]]


def locate(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the words of n texts' normalised form stand in the texts: offsets (n + 1,) int32
    into data (bytes,) uint8.

    Returns (word offsets (n + 1,) int64, starts (words,) int32, stops (words,) int32), bytes of
    data.
    """
    # A word takes two bytes, the gap after it counted, but for the last of a text.
    most = (int(offsets[-1]) - int(offsets[0]) + len(offsets)) // 2 + 1
    starts, stops, word_offsets = (
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(len(offsets), np.int64),
    )
    tail = np.zeros(BLOCK, np.uint8)
    _locate(offsets, data, CLASSES, tail, word_offsets, starts, stops)
    return word_offsets, starts[: word_offsets[-1]], stops[: word_offsets[-1]]
