"""Two columns of numbers, sorted by the first and among equals by the second.

numpy sorts one column of 64 bits by vectors (AVX-512 or AVX2: x86-simd-sort), and two columns by
`lexsort`, which merges and takes some thirty times as long. So both are put into one number.
"""

import numpy as np

BITS = 63  # of a number that is not negative


def sort_pairs(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both columns (n,), sorted by both.

    `first` is int64 or uint64, `second` int64 and not negative.
    """
    if not len(first):
        return first, second
    low = int(second.max()).bit_length()
    if int(first.min()) >= 0 and int(first.max()).bit_length() + low <= BITS:
        return _apart(np.sort(_together(first, second, low)), low, first.dtype)
    order = np.argsort(first)
    first, second = first[order], second[order]
    groups = np.cumsum(np.r_[False, first[1:] != first[:-1]])
    if int(groups[-1]).bit_length() + low > BITS:
        return first, second[np.lexsort((second, groups))]
    return first, _apart(np.sort(_together(groups, second, low)), low, second.dtype)[1]


def _together(first: np.ndarray, second: np.ndarray, low: int) -> np.ndarray:
    both = first.astype(np.int64)
    both <<= low
    both |= second
    return both


def _apart(both: np.ndarray, low: int, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    return (both >> low).astype(kind, copy=False), both & ((1 << low) - 1)
