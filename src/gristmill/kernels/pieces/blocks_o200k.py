r"""Where the pieces of o200k's pattern start, and of its relatives, by masks of 64 bytes.

The pattern is in kernels/pieces/o200k.py. It is cl100k's with these differences:

* A mark is a part of a word, and in a run of signs it is a sign: it is one where signs stand before
  it that do not begin the word.
* In a word a capital behind a small letter starts a piece, also where letters and marks without
  case stand between the two. Capitals that end a word and stand behind one without case start one.
* A contraction belongs to the word before it. What follows starts a piece.
* Line breaks behind signs belong to them, and from the first of these on slashes as well.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Uint64s
from gristmill.kernels.jit.loads import ALL, ONE, count_trailing_zeros, mask_of_range
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
    wide_classes,
)
from gristmill.kernels.pieces.kinds import KINDS
from gristmill.kernels.unicode.tables import PointBits


@helper
def _contractions(data, at, quotes, taken, starts):
    """Return the bytes of the contractions that start at `quotes`, with `taken`, those of
    contractions before; then what reaches into the next block.

    Behind a contraction none starts: an apostrophe there begins a piece.
    """
    reached = ZERO
    while quotes:
        j = count_trailing_zeros(quotes)
        quotes &= quotes - ONE
        if ((taken << ONE) >> np.uint64(j)) & ONE == 0:
            length = folded_contraction(data, at + j, starts)
            ones = (ONE << np.uint64(length)) - ONE
            taken |= ones << np.uint64(j)
            reached |= (ones >> np.uint64(63 - j)) >> ONE
    return taken, reached


@helper
def _mark_capitals(at, classes, trailing, pending, starts):
    """Mark capitals that end a word behind something without case: `trailing` are the first of
    them. `classes`: capitals, words, starts of texts. `pending` is as in `mark_rests`.
    """
    capitals, words, texts = classes
    stops = ~capitals | texts
    ends = texts | ~words
    if pending >= 0 and stops != 0:
        if stops & (ZERO - stops) & ends:
            mark_at(starts, pending)
        pending = np.int64(-1)
    while trailing:
        j = count_trailing_zeros(trailing)
        trailing &= trailing - ONE
        behind = stops & (ALL << np.uint64(j))
        if behind == 0:
            pending = at + j
        elif behind & (ZERO - behind) & ends:
            mark_at(starts, at + j)
    return pending


@kernel(*(OFFSETS, BYTES, Bytes, PointBits), *(types.int64, types.boolean, Uint64s))
def _mark(offsets, data, tail, kinds, digits, contractions, starts):
    mark_texts(offsets, starts)
    start = np.int64(offsets[0])
    stop = np.int64(offsets[len(offsets) - 1])
    first = start >> 6
    words_before = ZERO
    numbers_before = ZERO
    others_before = ZERO
    spaces_before = ZERO
    inner_before = ZERO
    breaks_before = ZERO
    blanks_before = ZERO
    wide_before = ZERO
    alone_before = ZERO
    low_before = ZERO
    uncased_before = ZERO
    absorbed = ZERO
    reaching = (ZERO, np.int64(0))
    taken = ZERO
    count = np.int64(0)  # numbers of the last piece
    # White space behind a line break, and capitals, that reach the end of the block.
    pending = np.int64(-1)
    capitals_pending = np.int64(-1)
    for word in range(first, (stop + 63) >> 6):
        at = word << 6
        block, valid = open_block(data, at, start, stop, tail)
        texts = starts[word]
        smalls = mask_of_range(block, 0, 0x61, 25)
        capitals = mask_of_range(block, 0, 0x41, 25)
        words = smalls | capitals
        marks = ZERO
        numbers = mask_of_range(block, 0, 0x30, 9)
        blanks = mask_of_range(block, 0, 0x20, 0)
        breaks = mask_of_range(block, 0, 10, 0) | mask_of_range(block, 0, 13, 0)
        slashes = mask_of_range(block, 0, 0x2F, 0)
        spaces = mask_of_range(block, 0, 9, 4) | blanks
        wide = mask_of_range(block, 0, 0x80, 0x7F)
        continued = ZERO
        if wide:
            continued = mask_of_range(block, 0, 0x80, 0x3F)
            leads = wide & ~continued & valid
            found, reaching = wide_classes(data, at, leads, kinds, reaching)
            words |= found[0]
            marks = found[1]
            numbers |= found[2]
            spaces |= found[3]
            capitals |= found[4]
            smalls |= found[5]
        words &= ~taken
        others = ~(words | numbers | spaces | taken)
        after_blanks = after(blanks, blanks_before) & ~texts
        bound = (breaks | slashes) & ~texts
        absorbed_before = absorbed >> np.uint64(63)
        while True:
            behind = bound & ((breaks & after(others, others_before)) | absorbed_before)
            absorbed = (bound & ~(bound + behind)) | behind
            signs = others & ~absorbed
            after_signs = after(signs, others_before)
            runs = signs & (~after_signs | texts) & ~after_blanks
            alone = runs | ((alone_before >> np.uint64(63)) & continued)
            if wide:
                for _ in range(3):
                    alone |= (alone << ONE) & continued
            odd = marks & after_signs & ~(after(alone, alone_before) | texts)
            if odd == 0:
                break
            # Marks in a run of signs, the first such run of them.
            through = marks & ~texts
            run = through & ~(through + (odd & (ZERO - odd)))
            marks ^= run
            words &= ~run
            others |= run
        breaks &= ~absorbed
        spaces &= ~absorbed
        inner = spaces & ~breaks
        after_inner = after(inner, inner_before) & ~texts
        reached = ZERO
        if contractions:
            quotes = mask_of_range(block, 0, 0x27, 0) & after(words, words_before) & valid & ~texts
            taken, reached = _contractions(data, at, quotes, taken, starts)
            words &= ~taken
            signs &= ~taken
            runs &= ~taken
            alone &= ~taken
        capitals &= words
        smalls &= words
        begins = words & ~(after(words, words_before) | after_inner)
        begins = (begins & ~after(alone, alone_before)) | runs
        begins |= spaces & ~after(spaces, spaces_before)
        # Small letters, and what has no case behind them.
        uncased = words & ~(capitals | smalls)
        low = smalls
        through = uncased & ~texts
        low |= through & ~(through + (through & after(smalls, low_before)))
        after_low = after(low, low_before)
        begins |= capitals & after_low
        if (wide | uncased_before) != 0 or capitals_pending >= 0:
            trailing = capitals & after(uncased, uncased_before) & ~(after_low | texts) & valid
            classes = (capitals, words, texts)
            capitals_pending = _mark_capitals(at, classes, trailing, capitals_pending, starts)
        if numbers:
            found_numbers = number_starts(numbers, numbers_before, continued, texts, digits, count)
            begins |= found_numbers[0]
            count = found_numbers[1]
        # The last white space before something else.
        resumed = ~spaces & after_inner
        mark_last_spaces(data, at, resumed & valid, (wide, wide_before), starts)
        rests = inner & after(breaks, breaks_before) & ~texts & valid
        pending = mark_rests(at, (inner, breaks, texts), rests, pending, False, starts)
        starts[word] |= begins & valid
        words_before = words
        numbers_before = numbers
        others_before = signs
        spaces_before = spaces
        inner_before = inner
        breaks_before = breaks
        blanks_before = blanks
        wide_before = wide
        alone_before = alone
        low_before = low
        uncased_before = uncased
        taken = reached
    if pending >= 0:
        mark_at(starts, pending)
    if capitals_pending >= 0:
        mark_at(starts, capitals_pending)


def mark(
    offsets: np.ndarray,
    data: np.ndarray,
    starts: np.ndarray,
    *,
    contractions: bool = True,
    digits: int = 3,
) -> None:
    """Mark where the pieces of n texts start, as kernels/pieces/blocks_gpt2.py says.

    `contractions`: 's, 't and others belong to the word before; `digits`: the most numbers in a
    piece.
    """
    _mark(offsets, data, np.zeros(64, np.uint8), KINDS, digits, contractions, starts)
