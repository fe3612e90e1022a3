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

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Uint64s
from gristmill.kernels.jit.loads import (
    ALL,
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
)
from gristmill.kernels.pieces.blocks import (
    ZERO,
    after,
    is_start,
    last_space,
    mark_texts,
    number_starts,
    wide_classes,
)
from gristmill.kernels.pieces.kinds import KINDS, LETTER, MARK
from gristmill.kernels.unicode.tables import PointBits


@helper
def folded_contraction(data, at, starts):
    """Bytes of the contraction of small or capital letters that starts with the apostrophe at `at`;
    0: none. `starts` has the starts of the texts here and behind. U+017F folds to an s.
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
def _ends_run(stops, breaks, texts, whole_tail):
    """Whether white space behind a line break is the rest of its run: it stops at the lowest bit of
    `stops`, and that is no line break.
    """
    bit = stops & (ZERO - stops)
    if texts & bit:
        return not whole_tail
    return breaks & bit == 0


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
    more_letters = ZERO
    more_numbers = ZERO
    more_spaces = ZERO
    begun = ZERO
    count = np.int64(0)  # numbers of the last piece
    pending = np.int64(-1)  # white space behind a line break that reaches the end of the block
    for word in range(first, (stop + 63) >> 6):
        at = word << 6
        if at + 64 > len(data):
            copy_tail(data, at, stop, tail)
        block = block_of(data, at, tail)
        valid = ALL if stop - at >= 64 else (ONE << np.uint64(stop - at)) - ONE
        if word == first:
            valid &= ALL << np.uint64(start & 63)
        texts = starts[word]
        letters = mask_of_range(block, 0, 0x61, 25) | mask_of_range(block, 0, 0x41, 25)
        letters |= more_letters
        numbers = mask_of_range(block, 0, 0x30, 9) | more_numbers
        blanks = mask_of_range(block, 0, 0x20, 0)
        breaks = mask_of_range(block, 0, 10, 0) | mask_of_range(block, 0, 13, 0)
        spaces = mask_of_range(block, 0, 9, 4) | blanks | more_spaces
        wide = mask_of_range(block, 0, 0x80, 0x7F)
        continued = ZERO
        more_letters = ZERO
        more_numbers = ZERO
        more_spaces = ZERO
        if wide:
            continued = mask_of_range(block, 0, 0x80, 0x3F)
            found = wide_classes(data, at, wide & ~continued & valid, kinds, letter)
            letters |= found[0]
            numbers |= found[1]
            spaces |= found[2]
            more_letters = found[3]
            more_numbers = found[4]
            more_spaces = found[5]
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
        narrow = resumed & ~after(wide, wide_before)
        begins |= narrow >> ONE
        if word > first:
            starts[word - 1] |= narrow << np.uint64(63)
        odd = (resumed ^ narrow) & valid
        while odd:
            place = last_space(data, at + count_trailing_zeros(odd))
            odd &= odd - ONE
            starts[place >> 6] |= ONE << np.uint64(place & 63)
        # White space behind the last line break of its run.
        ends = ~inner | texts
        if pending >= 0 and ends != 0:
            if _ends_run(ends, breaks, texts, whole_tail):
                starts[pending >> 6] |= ONE << np.uint64(pending & 63)
            pending = np.int64(-1)
        rests = inner & after(breaks, breaks_before) & ~texts & valid
        while rests:
            j = count_trailing_zeros(rests)
            rests &= rests - ONE
            behind = ends & (ALL << np.uint64(j))
            if behind == 0:
                pending = at + j
            elif _ends_run(behind, breaks, texts, whole_tail):
                begins |= ONE << np.uint64(j)
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
        starts[pending >> 6] |= ONE << np.uint64(pending & 63)


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
