"""The plainest rules: words in capitals, and characters that are neither letters nor numbers, of
every text in one call.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, kernel
from gristmill.kernels.text.words import WordBounds
from gristmill.kernels.unicode.tables import (
    ALPHANUMERIC,
    LOWER,
    SIGNS,
    UPPER,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)


@kernel(BYTES, WordBounds, PointBits, types.int64[::1], types.int64[::1])
def _count(data, bounds, signs, capitals, special):
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    for i in range(len(word_offsets) - 1):
        upper_words = np.int64(0)
        others = np.int64(0)
        for j in range(word_offsets[i], word_offsets[i + 1]):
            at = np.int64(starts[j])
            stop = np.int64(stops[j])
            seen = np.int64(0)  # UPPER and LOWER as they occur
            while at < stop:
                lead = data[at]
                if lead < 0x80:
                    if np.uint8((lead | 0x20) - 0x61) < 26:
                        seen |= LOWER if lead & 0x20 else UPPER
                    elif np.uint8(lead - 0x30) >= 10:
                        others += 1
                    at += 1
                else:
                    width = lead_width(lead)
                    sign = unicode_bits(code_point(data, at, width), signs)
                    seen |= sign & (UPPER | LOWER)
                    others += (sign & ALPHANUMERIC) == 0
                    at += width
            upper_words += seen == UPPER
        capitals[i] = upper_words
        special[i] = others


def count(data: np.ndarray, bounds: WordBounds) -> tuple[np.ndarray, np.ndarray]:
    """Of n texts, given their words: words that are str.isupper, and characters that are neither
    str.isalnum nor white space.

    data (bytes,) uint8 is the texts' buffer; (n,) int64 each.
    """
    texts = len(bounds.word_offsets) - 1
    capitals, special = np.empty(texts, np.int64), np.empty(texts, np.int64)
    _count(data, bounds, SIGNS, capitals, special)
    return capitals, special
