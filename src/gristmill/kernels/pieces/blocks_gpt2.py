r"""Where the pieces of GPT-2's pattern start, by masks of 64 bytes.

's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

A run of one class starts a piece, or the space before it does. Where numbers stand alone, each of
them starts one, and white space before a number is one.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Uint64s
from gristmill.kernels.jit.loads import ONE, count_trailing_zeros, mask_of_range
from gristmill.kernels.pieces.blocks import (
    ZERO,
    after,
    is_start,
    mark_last_spaces,
    mark_texts,
    open_block,
    wide_letters,
)
from gristmill.kernels.pieces.kinds import KINDS, LETTER
from gristmill.kernels.unicode.tables import PointBits


@helper
def _contraction(data, at, starts):
    """Return bytes of GPT-2's contraction that starts with the apostrophe at `at`; 0: none.
    `starts` has the starts of the texts here and behind.
    """
    if is_start(starts, at + 1):
        return np.int64(0)
    second = data[at + 1]
    if second == 0x73 or second == 0x74 or second == 0x6D or second == 0x64:  # s t m d
        return np.int64(2)
    if (second == 0x72 or second == 0x76 or second == 0x6C) and not is_start(starts, at + 2):
        if data[at + 2] == (0x6C if second == 0x6C else 0x65):  # re ve ll
            return np.int64(3)
    return np.int64(0)


@kernel(OFFSETS, BYTES, Bytes, PointBits, types.boolean, Uint64s)
def _mark(offsets, data, tail, kinds, single_numbers, starts):
    mark_texts(offsets, starts)
    start = np.int64(offsets[0])
    stop = np.int64(offsets[len(offsets) - 1])
    first = start >> 6
    # The masks of the block before; what its last code point and its contractions reach into this.
    letters_before = ZERO
    numbers_before = ZERO
    spaces_before = ZERO
    others_before = ZERO
    blanks_before = ZERO
    wide_before = ZERO
    reaching = (ZERO, np.int64(0))
    begun = ZERO
    joined = ZERO
    for word in range(first, (stop + 63) >> 6):
        at = word << 6
        block, valid = open_block(data, at, start, stop, tail)
        texts = starts[word]
        letters = mask_of_range(block, 0, 0x61, 25) | mask_of_range(block, 0, 0x41, 25)
        numbers = mask_of_range(block, 0, 0x30, 9)
        blanks = mask_of_range(block, 0, 0x20, 0)
        spaces = mask_of_range(block, 0, 9, 4) | blanks
        wide = mask_of_range(block, 0, 0x80, 0x7F)
        if wide:
            leads = mask_of_range(block, 0, 0xC0, 0x3F) & valid
            found = wide_letters(data, at, leads, kinds, LETTER, reaching)
            letters |= found[0]
            numbers |= found[1]
            spaces |= found[2]
            reaching = found[3]
        others = ~(letters | numbers | spaces)
        after_others = after(others, others_before)
        after_spaces = after(spaces, spaces_before)
        after_blanks = after(blanks, blanks_before)
        begins = (
            (letters & ~after(letters, letters_before))
            | (numbers & ~after(numbers, numbers_before))
            | (spaces & ~after_spaces)
            | (others & ~after_others)
        )
        # The last white space of a run does not belong to it; a space goes with what follows.
        resumed = ~spaces & after_spaces & ~texts
        if single_numbers:
            begins |= numbers & ~mask_of_range(block, 0, 0x80, 0x3F)
            resumed &= ~numbers
        mark_last_spaces(data, at, resumed & valid, (wide, wide_before), starts)
        begins &= ~(resumed & after_blanks)
        begins = (begins & ~joined) | begun
        begun = ZERO
        joined = ZERO
        quotes = mask_of_range(block, 0, 0x27, 0) & valid & (~(after_others | after_blanks) | texts)
        while quotes:
            j = count_trailing_zeros(quotes)
            quotes &= quotes - ONE
            length = _contraction(data, at + j, starts)
            if length:
                begins &= ~((ONE << np.uint64(j)) << ONE)
                begins |= (ONE << np.uint64(j)) << np.uint64(length)
                if j + 1 > 63:
                    joined = ONE
                if j + length > 63:
                    begun = ONE << np.uint64(j + length - 64)
        starts[word] |= begins & valid
        letters_before = letters
        numbers_before = numbers
        spaces_before = spaces
        others_before = others
        blanks_before = blanks
        wide_before = wide


def mark(
    offsets: np.ndarray, data: np.ndarray, starts: np.ndarray, *, single_numbers: bool = False
) -> None:
    """Mark where the pieces of n texts start: offsets (n + 1,) int32 into data (bytes,) uint8.

    starts (ceil(offsets[-1] / 64) + 1,) uint64 is zeros. Bit i of word w then says that a piece
    starts at byte 64 w + i; every text starts one, and there is a bit where the last text stops.
    Bytes before the first text have no bits. `single_numbers`: each number is a piece of its own,
    as kernels/pieces/gpt2.py has it.
    """
    _mark(offsets, data, np.zeros(64, np.uint8), KINDS, single_numbers, starts)
