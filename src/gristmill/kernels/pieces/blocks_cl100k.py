r"""Where the pieces of cl100k's pattern start, and of its relatives, by masks of 64 bytes.

The pattern (kernels/pieces/cl100k.py has what differs):

    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
        |\s*[\r\n]+|\s+(?!\S)|\s+

* Letters start a piece, or the white space before them does, or a sign that is a run of its own.
* A run of signs starts one, or the space before it does; line breaks behind it belong to it.
* White space starts one where its run begins, behind its last line break, and with its last
  character, if that is no line break and something follows.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, kernel
from gristmill.kernels.jit.groups import Bytes, Uint64s
from gristmill.kernels.jit.loads import ONE, count_trailing_zeros, mask_of_range
from gristmill.kernels.pieces.blocks import (
    ZERO,
    after,
    folded_contraction,
    mark_at,
    mark_last_spaces,
    mark_rests,
    mark_texts,
    number_starts,
    open_block,
    wide_letters,
)
from gristmill.kernels.pieces.kinds import KINDS, LETTER, MARK
from gristmill.kernels.unicode.tables import PointBits


@kernel(*(OFFSETS, BYTES, Bytes, PointBits), *(types.int64, types.int64, types.boolean, Uint64s))
def _mark(offsets, data, tail, kinds, letter, digits, whole_tail, starts):
    mark_texts(offsets, starts)
    start = np.int64(offsets[0])
    stop = np.int64(offsets[len(offsets) - 1])
    first = start >> 6
    # The masks of the block before; what its last code point and its contractions reach into this.
    letters_before = ZERO
    numbers_before = ZERO
    others_before = ZERO
    spaces_before = ZERO
    inner_before = ZERO
    breaks_before = ZERO
    blanks_before = ZERO
    wide_before = ZERO
    absorbed = ZERO
    alone_before = ZERO
    reaching = (ZERO, np.int64(0))
    begun = ZERO
    count = np.int64(0)  # numbers of the last piece
    pending = np.int64(-1)  # white space behind a line break that reaches the end of the block
    for word in range(first, (stop + 63) >> 6):
        at = word << 6
        block, valid = open_block(data, at, start, stop, tail)
        texts = starts[word]
        letters = mask_of_range(block, 0, 0x61, 25) | mask_of_range(block, 0, 0x41, 25)
        numbers = mask_of_range(block, 0, 0x30, 9)
        blanks = mask_of_range(block, 0, 0x20, 0)
        breaks = mask_of_range(block, 0, 10, 0) | mask_of_range(block, 0, 13, 0)
        spaces = mask_of_range(block, 0, 9, 4) | blanks
        wide = mask_of_range(block, 0, 0x80, 0x7F)
        continued = ZERO
        if wide:
            continued = mask_of_range(block, 0, 0x80, 0x3F)
            leads = wide & ~continued & valid
            found = wide_letters(data, at, leads, kinds, letter, reaching)
            letters |= found[0]
            numbers |= found[1]
            spaces |= found[2]
            reaching = found[3]
        others = ~(letters | numbers | spaces)
        after_others = after(others, others_before)
        after_blanks = after(blanks, blanks_before) & ~texts
        # Line breaks behind signs: the addition carries through their run.
        bound = breaks & ~texts
        behind = bound & (after_others | (absorbed >> np.uint64(63)))
        absorbed = bound & ~(bound + behind)
        breaks &= ~absorbed
        spaces &= ~absorbed
        inner = spaces & ~breaks
        after_inner = after(inner, inner_before) & ~texts
        # Signs that begin a piece, and the first code points of these, which letters may join.
        runs = others & (~after_others | texts) & ~after_blanks
        alone = runs | ((alone_before >> np.uint64(63)) & continued)
        if wide:
            for _ in range(3):
                alone |= (alone << ONE) & continued
        begins = letters & ~(after(letters, letters_before) | after_inner)
        begins = (begins & ~after(alone, alone_before)) | runs
        begins |= spaces & ~after(spaces, spaces_before)
        if numbers:
            found_numbers = number_starts(numbers, numbers_before, continued, texts, digits, count)
            begins |= found_numbers[0]
            count = found_numbers[1]
        # The last white space before something else.
        resumed = ~spaces & after_inner
        mark_last_spaces(data, at, resumed & valid, (wide, wide_before), starts)
        rests = inner & after(breaks, breaks_before) & ~texts & valid
        pending = mark_rests(at, (inner, breaks, texts), rests, pending, whole_tail, starts)
        begins |= begun
        begun = ZERO
        quotes = mask_of_range(block, 0, 0x27, 0) & valid & runs
        while quotes:
            j = count_trailing_zeros(quotes)
            quotes &= quotes - ONE
            length = folded_contraction(data, at + j, starts)
            if length:
                begins |= (ONE << np.uint64(j)) << np.uint64(length)
                if j + length > 63:
                    begun = ONE << np.uint64(j + length - 64)
        starts[word] |= begins & valid
        letters_before = letters
        numbers_before = numbers
        others_before = others
        spaces_before = spaces
        inner_before = inner
        breaks_before = breaks
        blanks_before = blanks
        wide_before = wide
        alone_before = alone
    if pending >= 0 and not whole_tail:
        mark_at(starts, pending)


def mark(
    offsets: np.ndarray,
    data: np.ndarray,
    starts: np.ndarray,
    *,
    digits: int = 3,
    marks: bool = False,
    whole_tail: bool = False,
) -> None:
    """Mark where the pieces of n texts start, as kernels/pieces/blocks_gpt2.py says.

    `digits`: the most numbers in a piece; `marks`: a mark counts as a letter; `whole_tail`: white
    space that ends a text is one piece.
    """
    letter = LETTER | MARK if marks else LETTER
    _mark(offsets, data, np.zeros(64, np.uint8), KINDS, letter, digits, whole_tail, starts)
