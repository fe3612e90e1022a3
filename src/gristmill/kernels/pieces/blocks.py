"""What finds the starts of pieces by masks of 64 bytes, for every pattern.

All texts of a batch are read as one stream of blocks of 64 bytes: bit j of a mask is byte j, and
every byte of a code point is of its class. Where a class changes, a run begins. Texts' starts are
marked first, in the bitmap that is returned; nothing is joined across them.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import ONE, count_trailing_zeros
from gristmill.kernels.pieces.kinds import NUMBER, SPACE
from gristmill.kernels.unicode.tables import code_point, unicode_bits, width_of

ZERO = np.uint64(0)


@helper
def mark_texts(offsets, starts):
    """Set the bit where each text starts, and where the last one stops."""
    if len(offsets) == 1:
        return
    for offset in offsets:
        at = np.uint64(offset)
        starts[at >> np.uint64(6)] |= ONE << (at & np.uint64(63))


@helper
def after(mask, carried):
    """The mask moved to the next byte; the first bit is the last of the block before."""
    return (mask << ONE) | (carried >> np.uint64(63))


@helper
def wide_classes(data, at, leads, kinds, letter):
    """Letters, numbers and white space of more than one byte in a block, whose first bytes are
    `leads`: their masks, and what they reach into the next block, shifted there. `letter`: the bits
    of a kind that make a letter.
    """
    letters = ZERO
    numbers = ZERO
    spaces = ZERO
    more_letters = ZERO
    more_numbers = ZERO
    more_spaces = ZERO
    while leads:
        j = count_trailing_zeros(leads)
        leads &= leads - ONE
        width = width_of(data[at + j])
        bits = unicode_bits(code_point(data, at + j, width), kinds)
        ones = (ONE << np.uint64(width)) - ONE
        run = ones << np.uint64(j)
        rest = (ones >> np.uint64(63 - j)) >> ONE
        if bits & letter:
            letters |= run
            more_letters |= rest
        elif bits & NUMBER:
            numbers |= run
            more_numbers |= rest
        elif bits & SPACE:
            spaces |= run
            more_spaces |= rest
    return letters, numbers, spaces, more_letters, more_numbers, more_spaces


@helper
def is_start(starts, at):
    """Whether a bitmap of starts has the bit of a byte."""
    return (starts[at >> 6] >> np.uint64(at & 63)) & ONE != 0


@helper
def last_space(data, at):
    """Where the white space of more than one byte that stops at `at` starts."""
    return at - 2 if data[at - 2] >= 0xC0 else at - 3


@helper
def number_starts(numbers, numbers_before, continued, texts, most, count):
    """Where pieces of at most `most` numbers start in a block; (their mask, new count). `count`
    says how many the last piece of the block before has, 0: as many as it may.
    """
    runs = (numbers & ~after(numbers, numbers_before)) | texts
    points = numbers & ~continued
    starts = ZERO
    while points:
        bit = points & (ZERO - points)
        points ^= bit
        if runs & bit:
            count = np.int64(0)
        if count == 0:
            starts |= bit
        count += 1
        if count == most:
            count = np.int64(0)
    return starts, count
