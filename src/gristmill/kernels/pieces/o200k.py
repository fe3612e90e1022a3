r"""tiktoken's pattern of o200k_base, which Llama 4 has as well, and Mistral's (Tekken), without
contractions and with one number in a piece:

    [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|...)?
        |[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|...)?
        |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.pieces.kinds import (
    BLANK,
    CAPITAL,
    LETTER,
    LETTER_NUMBER_SPACE,
    MARK,
    NEW_LINE,
    NUMBER,
    RETURN,
    SMALL,
    SPACE,
    end_of_broken_spaces,
    end_of_numbers,
    end_of_others,
    folded_contraction_in,
    kinds_of,
    next_point,
    start_piece,
)

SLASH = 0x2F
WORD = LETTER | MARK


@helper
def _end_of_word(kinds, at, stop):
    """The end of what the two alternatives of words match from `at`, without what may stand before
    and after; `at`: they match nothing.

    All that is no small letter, then all that is no capital. Where no small letter follows, the
    first alternative gives capitals back until its second class has one character: it ends after
    the last that is neither, and the capitals after that begin the next piece. Only where all are
    capitals the second alternative has its turn.
    """
    end = at
    uncased = at
    while end < stop and kinds[end] & WORD and not kinds[end] & SMALL:
        end += 1
        if not kinds[end - 1] & CAPITAL:
            uncased = end
    if end < stop and kinds[end] & SMALL:
        while end < stop and kinds[end] & WORD and not kinds[end] & CAPITAL:
            end += 1
        return end
    return uncased if uncased > at else end


@kernel(OFFSETS, BYTES, types.uint8[::1], types.boolean, types.int64, types.uint64[::1])
def _mark(offsets, data, kinds, contractions, digits, starts):
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        while at < stop:
            start_piece(starts, at)
            kind = kinds[at]
            if kind & NUMBER:
                at = end_of_numbers(data, kinds, at, stop, digits)
                continue
            # One character that is no line break, letter or number may begin a word. A mark is a
            # part of the word itself: the result is the same.
            word = at
            if not kind & WORD and data[at] != NEW_LINE and data[at] != RETURN:
                word = next_point(data, at)
            end = _end_of_word(kinds, word, stop)
            if end > word:
                at = end
                if contractions:
                    at += folded_contraction_in(data, at, stop)
                continue
            following = next_point(data, at)
            if not kind & SPACE or (
                data[at] == BLANK
                and following < stop
                and not kinds[following] & LETTER_NUMBER_SPACE
            ):
                at = end_of_others(kinds, following, stop, LETTER_NUMBER_SPACE)
                while at < stop and (
                    data[at] == NEW_LINE or data[at] == RETURN or data[at] == SLASH
                ):
                    at += 1
            else:
                at = end_of_broken_spaces(data, kinds, at, stop)
        start_piece(starts, stop)


def mark_o200k(
    offsets: np.ndarray,
    data: np.ndarray,
    starts: np.ndarray,
    *,
    contractions: bool = True,
    digits: int = 3,
) -> None:
    """Set the bits of piece starts, as kernels/pieces/patterns.py says.

    `contractions`: 's, 't and others belong to the word before; `digits`: the most numbers in a
    piece.
    """
    _mark(offsets, data, kinds_of(offsets, data), contractions, digits, starts)
