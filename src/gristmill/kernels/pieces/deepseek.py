r"""DeepSeek's patterns since V3 (R1 has the same): three splits, one after another, each of the
fragments that the one before gave, matches and what lies between.

    \p{N}{1,3}
    [\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+
    [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
        | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+

The last does not match everything: control characters and unassigned code points that stand before
no letter are pieces, of all that lies between two matches.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.pieces.kinds import (
    BLANK,
    KANA_HAN,
    LETTER,
    MARK,
    NEW_LINE,
    NUMBER,
    RETURN,
    SIGN,
    SPACE,
    end_of_broken_spaces,
    end_of_line_breaks,
    end_of_numbers,
    end_of_others,
    end_of_run,
    kinds_of,
    next_point,
    start_piece,
)

WORD = LETTER | MARK


@helper
def _is_ascii_letter(byte):
    return 0x61 <= (byte | 0x20) <= 0x7A


@helper
def _end_of_match(data, kinds, at, stop):
    """The end of what the third split matches at `at`; `at`: nothing. `stop` ends the fragment."""
    kind, lead = kinds[at], data[at]
    if kind & WORD:
        return end_of_run(kinds, at, stop, WORD)
    following = next_point(data, at)
    if following < stop:
        if lead < 0x80 and kind & SIGN and _is_ascii_letter(data[following]):
            end = following
            while end < stop and _is_ascii_letter(data[end]):
                end += 1
            return end
        if not kind & SIGN and lead != NEW_LINE and lead != RETURN and kinds[following] & WORD:
            return end_of_run(kinds, following, stop, WORD)
    if kind & SIGN or (lead == BLANK and following < stop and kinds[following] & SIGN):
        return end_of_line_breaks(data, end_of_run(kinds, following, stop, SIGN), stop)
    return end_of_broken_spaces(data, kinds, at, stop) if kind & SPACE else at


@kernel(OFFSETS, BYTES, types.uint8[::1], types.uint64[::1])
def _mark(offsets, data, kinds, starts):
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        while at < stop:
            start_piece(starts, at)
            if kinds[at] & NUMBER:
                at = end_of_numbers(data, kinds, at, stop, 3)
                continue
            if kinds[at] & KANA_HAN:
                fragment = end_of_run(kinds, at, stop, KANA_HAN)
            else:
                fragment = end_of_others(kinds, at, stop, NUMBER | KANA_HAN)
            matched = True  # what ends at `at` was a match, or the fragment starts here
            while at < fragment:
                end = _end_of_match(data, kinds, at, fragment)
                if matched or end > at:
                    start_piece(starts, at)
                matched = end > at
                at = end if matched else next_point(data, at)
        start_piece(starts, stop)


def mark_deepseek(offsets: np.ndarray, data: np.ndarray, starts: np.ndarray) -> None:
    """Set the bits of piece starts, as kernels/pieces/patterns.py says."""
    _mark(offsets, data, kinds_of(offsets, data), starts)
