r"""GPT-2's pattern (Radford 2019), which tiktoken's r50k_base and p50k_base have as well:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

StarCoder, SmolLM and Cohere first make each number (\p{N}) a piece of its own: what stands between
two numbers is then cut as if it were a text.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, kernel
from gristmill.kernels.pieces.kinds import (
    APOSTROPHE,
    BLANK,
    LETTER_NUMBER_SPACE,
    NUMBER,
    SPACE,
    contraction_in,
    end_of_others,
    end_of_run,
    end_of_spaces,
    kinds_of,
    next_point,
    start_piece,
)


@kernel(OFFSETS, BYTES, types.uint8[::1], types.boolean, types.uint64[::1])
def _mark(offsets, data, kinds, single_numbers, starts):
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        while at < stop:
            start_piece(starts, at)
            kind = kinds[at] & LETTER_NUMBER_SPACE
            first = at
            if data[at] == BLANK and at + 1 < stop:
                following = kinds[at + 1] & LETTER_NUMBER_SPACE
                if following != SPACE and not (single_numbers and following == NUMBER):
                    kind = following
                    first = at + 1
            elif data[at] == APOSTROPHE:
                width = contraction_in(data, at, stop)
                if width > 0:
                    at += width
                    continue
            if kind == 0:
                at = end_of_others(kinds, first, stop, LETTER_NUMBER_SPACE)
            elif kind == SPACE:
                end = end_of_run(kinds, at, stop, SPACE)
                if single_numbers and end < stop and kinds[end] & NUMBER:
                    at = end
                else:
                    at = end_of_spaces(data, kinds, at, stop)
            elif kind == NUMBER and single_numbers:
                at = next_point(data, at)
            else:
                at = end_of_run(kinds, first, stop, kind)
        start_piece(starts, stop)


def mark_gpt2(
    offsets: np.ndarray, data: np.ndarray, starts: np.ndarray, *, single_numbers: bool = False
) -> None:
    """Set the bits of piece starts, as kernels/pieces/patterns.py says."""
    _mark(offsets, data, kinds_of(offsets, data), single_numbers, starts)
