"""What finds the starts of pieces by masks of 64 bytes, for every pattern.

All texts of a batch are read as one stream of blocks of 64 bytes: bit j of a mask is byte j, and
every byte of a code point is of its class. Where a class changes, a run begins. Texts' starts are
marked first, in the bitmap that is returned; nothing is joined across them.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import (
    ALL,
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    valid_in,
)
from gristmill.kernels.pieces.kinds import CAPITAL, LETTER, MARK, NUMBER, SMALL, SPACE
from gristmill.kernels.unicode.tables import code_point, lead_width, unicode_bits

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
    """Return the mask moved to the next byte; the first bit is the last of the block before."""
    return (mask << ONE) | (carried >> np.uint64(63))


@helper
def open_block(data, at, start, stop, tail):
    """Return the address of the 64 bytes at `at`, and which of them lie in data[start:stop]."""
    if at + 64 > len(data):
        copy_tail(data, at, stop, tail)
    valid = valid_in(at, stop)
    if at < start:
        valid &= ALL << np.uint64(start & 63)
    return block_of(data, at, tail), valid


@helper
def _with_case(classes, run, kind):
    """Return the masks of words (letters and marks), marks, numbers, white space, capitals and
    small letters, with a code point's bytes in those of its kind.
    """
    words, marks, numbers, spaces, capitals, smalls = classes
    if kind & (LETTER | MARK):
        words |= run
        if kind & SMALL:
            smalls |= run
        elif kind & CAPITAL:
            capitals |= run
        elif kind & MARK:
            marks |= run
    elif kind & NUMBER:
        numbers |= run
    elif kind & SPACE:
        spaces |= run
    return words, marks, numbers, spaces, capitals, smalls


@helper
def wide_classes(data, at, leads, kinds, reaching):
    """Return the masks of words (letters and marks), marks, numbers, white space, capitals and
    small letters of more than one byte in a block, which start at `leads`, and of `reaching`, the
    bytes and the kind of what began in the block before; then what reaches into the next one.
    """
    classes = _with_case((ZERO, ZERO, ZERO, ZERO, ZERO, ZERO), reaching[0], reaching[1])
    kind = np.int64(0)
    ones = ZERO
    j = np.int64(0)
    while leads:
        j = count_trailing_zeros(leads)
        leads &= leads - ONE
        width = lead_width(data[at + j])
        kind = unicode_bits(code_point(data, at + j, width), kinds)
        ones = (ONE << np.uint64(width)) - ONE
        classes = _with_case(classes, ones << np.uint64(j), kind)
    return classes, ((ones >> np.uint64(63 - j)) >> ONE, kind)


@helper
def wide_letters(data, at, leads, kinds, letter, reaching):
    """As `wide_classes` for patterns without cases: letters, numbers and white space, and what
    reaches into the next block. `letter`: the bits of a kind that make a letter.
    """
    before, kind = reaching
    letters = before if kind & letter else ZERO
    numbers = before if kind & NUMBER else ZERO
    spaces = before if kind & SPACE else ZERO
    kind = np.int64(0)
    ones = ZERO
    j = np.int64(0)
    while leads:
        j = count_trailing_zeros(leads)
        leads &= leads - ONE
        width = lead_width(data[at + j])
        kind = unicode_bits(code_point(data, at + j, width), kinds)
        ones = (ONE << np.uint64(width)) - ONE
        run = ones << np.uint64(j)
        if kind & letter:
            letters |= run
        elif kind & NUMBER:
            numbers |= run
        elif kind & SPACE:
            spaces |= run
    rest = (ones >> np.uint64(63 - j)) >> ONE
    return letters, numbers, spaces, (rest, kind)


@helper
def is_start(starts, at):
    """Return whether a bitmap of starts has the bit of a byte."""
    return (starts[at >> 6] >> np.uint64(at & 63)) & ONE != 0


@helper
def folded_contraction(data, at, starts):
    """Return bytes of the contraction of small or capital letters that starts with the apostrophe
    at `at`; 0: none. `starts` has the starts of the texts here and behind. U+017F folds to an s.
    """
    if is_start(starts, at + 1):
        return np.int64(0)
    second = data[at + 1] | 0x20
    if second == 0x73 or second == 0x74 or second == 0x6D or second == 0x64:  # s t m d
        return np.int64(2)
    if second == 0x72 or second == 0x76 or second == 0x6C or second == 0xE5:
        if not is_start(starts, at + 2):
            third = data[at + 2] | 0x20
            if second == 0xE5:
                if data[at + 1] == 0xC5 and data[at + 2] == 0xBF:
                    return np.int64(3)
            elif third == (0x6C if second == 0x6C else 0x65):  # re ve ll
                return np.int64(3)
    return np.int64(0)


@helper
def mark_last_spaces(data, at, resumed, widths, starts):
    """Mark the white space that stands before each bit of `resumed`; `widths`: what has more than
    one byte in this block, and in the one before.
    """
    narrow = resumed & ~after(widths[0], widths[1])
    word = at >> 6
    starts[word] |= narrow >> ONE
    starts[max(word - 1, 0)] |= narrow << np.uint64(63)
    odd = resumed ^ narrow
    while odd:
        behind = at + count_trailing_zeros(odd)
        odd &= odd - ONE
        mark_at(starts, behind - 2 if data[behind - 2] >= 0xC0 else behind - 3)


@helper
def mark_at(starts, at):
    """Set the bit of a byte."""
    starts[at >> 6] |= ONE << np.uint64(at & 63)


@helper
def _ends_run(stops, breaks, texts, whole_tail):
    """Return whether white space behind a line break is the rest of its run: it stops at the lowest
    bit of `stops`, and that is no line break.
    """
    bit = stops & (ZERO - stops)
    if texts & bit:
        return not whole_tail
    return breaks & bit == 0


@helper
def mark_rests(at, spaces, rests, pending, whole_tail, starts):
    """Mark white space behind the last line break of its run. `spaces`: white space that is no line
    break, line breaks, starts of texts; `rests`: of the first, what stands behind line breaks.

    `pending` is such white space of an earlier block that has not stopped yet, or -1; returned is
    that of this block.
    """
    inner, breaks, texts = spaces
    stops = ~inner | texts
    if pending >= 0 and stops != 0:
        if _ends_run(stops, breaks, texts, whole_tail):
            mark_at(starts, pending)
        pending = np.int64(-1)
    while rests:
        j = count_trailing_zeros(rests)
        rests &= rests - ONE
        behind = stops & (ALL << np.uint64(j))
        if behind == 0:
            pending = at + j
        elif _ends_run(behind, breaks, texts, whole_tail):
            mark_at(starts, at + j)
    return pending


@helper
def number_starts(numbers, numbers_before, continued, texts, most, count):
    """Return where pieces of at most `most` numbers start in a block; (their mask, new count).
    `count` says how many the last piece of the block before has, 0: as many as it may.
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
