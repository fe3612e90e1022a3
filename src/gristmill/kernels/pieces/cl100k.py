r"""tiktoken's pattern of cl100k_base, and those of Llama 3 and Qwen, which differ in a few points:

    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
        |\s*[\r\n]+|\s+(?!\S)|\s+

Qwen's numbers are \p{N} alone; since Qwen 3.5 a mark is a letter. tiktoken (since 0.8) has `\s++$`
before `\s*[\r\n]`: white space that ends a text is one piece, line breaks or not.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, kernel
from gristmill.kernels.pieces.kinds import (
    APOSTROPHE,
    BLANK,
    LETTER,
    MARK,
    NEW_LINE,
    NUMBER,
    RETURN,
    SPACE,
    end_of_broken_spaces,
    end_of_line_breaks,
    end_of_numbers,
    end_of_others,
    end_of_run,
    folded_contraction_in,
    kinds_of,
    next_point,
    start_piece,
)


@kernel(
    *(OFFSETS, BYTES, types.uint8[::1]),
    *(types.uint8, types.int64, types.boolean, types.uint64[::1]),
)
def _mark(offsets, data, kinds, letters, digits, whole_tail, starts):
    """`letters`: the bits of what counts as a letter; `digits`: the most numbers in a piece."""
    others = letters | NUMBER | SPACE  # what ends a run of signs
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        while at < stop:
            start_piece(starts, at)
            kind = kinds[at]
            if kind & letters:
                at = end_of_run(kinds, at, stop, letters)
                continue
            lead = data[at]
            if lead == APOSTROPHE:
                width = folded_contraction_in(data, at, stop)
                if width > 0:
                    at += width
                    continue
            if kind & NUMBER:
                at = end_of_numbers(data, kinds, at, stop, digits)
                continue
            following = next_point(data, at)
            if (
                following < stop
                and kinds[following] & letters
                and lead != NEW_LINE
                and lead != RETURN
            ):
                at = end_of_run(kinds, following, stop, letters)
            elif not kind & SPACE or (
                lead == BLANK and following < stop and not kinds[following] & others
            ):
                at = end_of_others(kinds, following, stop, others)
                at = end_of_line_breaks(data, at, stop)
            elif whole_tail and end_of_run(kinds, at, stop, SPACE) == stop:
                at = stop
            else:
                at = end_of_broken_spaces(data, kinds, at, stop)
        start_piece(starts, stop)


def mark_cl100k(
    offsets: np.ndarray,
    data: np.ndarray,
    starts: np.ndarray,
    *,
    digits: int = 3,
    marks: bool = False,
    whole_tail: bool = False,
) -> None:
    """Set the bits of piece starts, as kernels/pieces/patterns.py says.

    `digits`: the most numbers in a piece; `marks`: a mark counts as a letter; `whole_tail`: white
    space that ends a text is one piece.
    """
    letters = LETTER | MARK if marks else LETTER
    _mark(offsets, data, kinds_of(offsets, data), letters, digits, whole_tail, starts)
