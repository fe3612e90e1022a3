r"""Where the pieces of DeepSeek's patterns start, by masks of 64 bytes.

The patterns are in kernels/pieces/deepseek.py. The first two split off numbers, and runs of Chinese
characters and kana. The last one sees each of these runs, and what lies between, as a text:

* Words (letters and marks) start a piece, or the white space before them does, or the control
  character or unassigned code point before them.
* One ASCII sign that is a run of its own goes with the ASCII letters behind it, and with no others:
  what else belongs to the word starts a piece.
* A run of signs starts one, or the space before it does; line breaks behind it belong to it.
* White space starts one where its run begins, behind its last line break, and with its last
  character, if something follows.
* What no part of the pattern matches is a piece, up to what one matches.
"""

import numpy as np

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Uint64s
from gristmill.kernels.jit.loads import ONE, count_trailing_zeros, mask_of_range
from gristmill.kernels.pieces.blocks import (
    ZERO,
    after,
    mark_at,
    mark_last_spaces,
    mark_rests,
    mark_texts,
    number_starts,
    open_block,
)
from gristmill.kernels.pieces.kinds import KANA_HAN, KINDS, LETTER, MARK, NUMBER, SIGN, SPACE
from gristmill.kernels.unicode.tables import PointBits, code_point, lead_width, unicode_bits

DIGITS = 3  # the most numbers in a piece


@helper
def _with(classes, run, kind):
    """Return the masks of words, signs, numbers and white space with a code point's bytes in the
    one of its kind, which control characters and unassigned code points have not; then of kana and
    Chinese characters, whatever else they are.
    """
    words, signs, numbers, spaces, kana_han = classes
    if kind & KANA_HAN:
        kana_han |= run
    if kind & (LETTER | MARK):
        words |= run
    elif kind & SIGN:
        signs |= run
    elif kind & NUMBER:
        numbers |= run
    elif kind & SPACE:
        spaces |= run
    return words, signs, numbers, spaces, kana_han


@helper
def _wide_classes(data, at, leads, kinds, reaching):
    """Return the masks of what has more than one byte in a block and starts at `leads`, and of
    `reaching`, the bytes and the kind of what began in the block before; then what reaches into the
    next one.
    """
    classes = _with((ZERO, ZERO, ZERO, ZERO, ZERO), reaching[0], reaching[1])
    kind = np.int64(0)
    ones = ZERO
    j = np.int64(0)
    while leads:
        j = count_trailing_zeros(leads)
        leads &= leads - ONE
        width = lead_width(data[at + j])
        kind = unicode_bits(code_point(data, at + j, width), kinds)
        ones = (ONE << np.uint64(width)) - ONE
        classes = _with(classes, ones << np.uint64(j), kind)
    return classes, ((ones >> np.uint64(63 - j)) >> ONE, kind)


@helper
def _mark_before(data, at, places, starts):
    """Mark the code points that stand before each bit of `places`."""
    while places:
        before = at + count_trailing_zeros(places) - 1
        places &= places - ONE
        while data[before] & 0xC0 == 0x80:
            before -= 1
        mark_at(starts, before)


@kernel(OFFSETS, BYTES, Bytes, PointBits, Uint64s)
def _mark(offsets, data, tail, kinds, starts):
    mark_texts(offsets, starts)
    start = np.int64(offsets[0])
    stop = np.int64(offsets[len(offsets) - 1])
    first = start >> 6
    # The masks of the block before; what its last code point reaches into this.
    words_before = ZERO
    signs_before = ZERO
    numbers_before = ZERO
    spaces_before = ZERO
    inner_before = ZERO
    breaks_before = ZERO
    blanks_before = ZERO
    kana_han_before = ZERO
    unmatched_before = ZERO
    wide_before = ZERO
    alone_before = ZERO
    absorbed = ZERO
    joined = ZERO
    reaching = (ZERO, np.int64(0))
    count = np.int64(0)  # numbers of the last piece
    pending = np.int64(-1)  # white space behind a line break that reaches the end of the block
    for word in range(first, (stop + 63) >> 6):
        at = word << 6
        block, valid = open_block(data, at, start, stop, tail)
        texts = starts[word]
        letters = mask_of_range(block, 0, 0x61, 25) | mask_of_range(block, 0, 0x41, 25)
        words = letters
        numbers = mask_of_range(block, 0, 0x30, 9)
        ascii_signs = mask_of_range(block, 0, 0x21, 0x5D) & ~(letters | numbers)
        signs = ascii_signs
        blanks = mask_of_range(block, 0, 0x20, 0)
        breaks = mask_of_range(block, 0, 10, 0) | mask_of_range(block, 0, 13, 0)
        spaces = mask_of_range(block, 0, 9, 4) | blanks
        kana_han = ZERO
        wide = mask_of_range(block, 0, 0x80, 0x7F)
        continued = ZERO
        if wide:
            continued = mask_of_range(block, 0, 0x80, 0x3F)
            leads = wide & ~continued & valid
            found, reaching = _wide_classes(data, at, leads, kinds, reaching)
            words |= found[0]
            signs |= found[1]
            numbers |= found[2]
            spaces |= found[3]
            kana_han = found[4]
        unmatched = ~(words | signs | numbers | spaces)
        cuts = kana_han ^ after(kana_han, kana_han_before)
        texts |= cuts
        # Line breaks behind signs: the addition carries through their run.
        after_signs = after(signs, signs_before)
        bound = breaks & ~texts
        behind = bound & (after_signs | (absorbed >> np.uint64(63)))
        absorbed = bound & ~(bound + behind)
        breaks &= ~absorbed
        spaces &= ~absorbed
        inner = spaces & ~breaks
        after_inner = after(inner, inner_before) & ~texts
        after_blanks = after(blanks, blanks_before) & ~texts
        runs = signs & (~after_signs | texts) & ~after_blanks
        # ASCII letters behind one ASCII sign: the addition carries through their run.
        alone = runs & ascii_signs
        through = letters & ~texts
        behind = through & (after(alone, alone_before) | (joined >> np.uint64(63)))
        after_joined = joined
        joined = through & ~(through + behind)
        after_joined = after(joined, after_joined)
        after_unmatched = after(unmatched, unmatched_before) & ~texts
        begins = words & ~(after(words, words_before) | after_inner | after_unmatched)
        begins = (begins & ~behind) | (words & after_joined & ~letters)
        begins |= runs
        begins |= spaces & ~after(spaces, spaces_before)
        begins |= cuts
        begins |= unmatched & ~after(unmatched, unmatched_before)
        if numbers:
            found_numbers = number_starts(numbers, numbers_before, continued, texts, DIGITS, count)
            begins |= found_numbers[0]
            count = found_numbers[1]
        _mark_before(data, at, words & after_unmatched & valid, starts)
        # The last white space before something else; numbers are split off.
        resumed = after_inner & ~(spaces | numbers)
        mark_last_spaces(data, at, resumed & valid, (wide, wide_before), starts)
        rests = inner & after(breaks, breaks_before) & ~texts & valid
        pending = mark_rests(at, (inner, breaks, texts), rests, pending, False, starts)
        starts[word] |= begins & valid
        words_before = words
        signs_before = signs
        numbers_before = numbers
        spaces_before = spaces
        inner_before = inner
        breaks_before = breaks
        blanks_before = blanks
        kana_han_before = kana_han
        unmatched_before = unmatched
        wide_before = wide
        alone_before = alone
    if pending >= 0:
        mark_at(starts, pending)


def mark(offsets: np.ndarray, data: np.ndarray, starts: np.ndarray) -> None:
    """Mark where the pieces of n texts start, as kernels/pieces/blocks_gpt2.py says."""
    _mark(offsets, data, np.zeros(64, np.uint8), KINDS, starts)
