"""Whether bytes are well-formed UTF-8 (Unicode 16.0, table 3-7), 64 at a time.

The masks of a block say which bytes lead how many others; shifted, they say where others must be.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import block_of, copy_tail, mask_of_range, valid_in

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_ZERO = np.uint64(0)
_HIGH, _LOW = np.uint8(0x80), np.uint8(0x7F)


@helper
def _misplaced(block, threes, fours, carried):
    """Return the second bytes of a block that are wrong behind E0, ED, F0 or F4, by the last bit of
    the four masks of the block before; and these masks of this block, as one number.
    """
    low = mask_of_range(block, 0, np.uint8(0x80), np.uint8(0x0F))
    middle = mask_of_range(block, 0, np.uint8(0x90), np.uint8(0x0F))
    high = mask_of_range(block, 0, np.uint8(0xA0), np.uint8(0x1F))
    e0 = mask_of_range(block, 0, np.uint8(0xE0), np.uint8(0)) & threes
    ed = mask_of_range(block, 0, np.uint8(0xED), np.uint8(0)) & threes
    f0 = mask_of_range(block, 0, np.uint8(0xF0), np.uint8(0)) & fours
    f4 = mask_of_range(block, 0, np.uint8(0xF4), np.uint8(0)) & fours
    wrong = ((e0 << _ONE) | (carried & _ONE)) & (low | middle)
    wrong |= ((ed << _ONE) | ((carried >> _ONE) & _ONE)) & high
    wrong |= ((f0 << _ONE) | ((carried >> _TWO) & _ONE)) & low
    wrong |= ((f4 << _ONE) | ((carried >> _THREE) & _ONE)) & (middle | high)
    last = np.uint64(63)
    carry = (e0 >> last) | ((ed >> last) << _ONE)
    carry |= ((f0 >> last) << _TWO) | ((f4 >> last) << _THREE)
    return wrong, carry


@helper
def is_well_formed(data, start, stop, tail):
    """Return whether data[start:stop] is well-formed UTF-8. `tail` is (64,) uint8, scratch."""
    due = _ZERO  # the first bytes of the block that must be a sequence's second to fourth
    special = _ZERO  # whether the last byte before the block restricts the next one
    for at in range(start, stop, 64):
        if at + 64 > len(data):
            copy_tail(data, at, stop, tail)
        block = block_of(data, at, tail)
        valid = valid_in(at, stop)
        wide = mask_of_range(block, 0, _HIGH, _LOW) & valid
        if wide == _ZERO:
            if due != _ZERO:
                return False
            continue
        twos = mask_of_range(block, 0, np.uint8(0xC2), np.uint8(0x1D)) & valid
        threes = mask_of_range(block, 0, np.uint8(0xE0), np.uint8(0x0F)) & valid
        fours = mask_of_range(block, 0, np.uint8(0xF0), np.uint8(0x04)) & valid
        later = mask_of_range(block, 0, _HIGH, np.uint8(0x3F)) & valid
        if (twos | threes | fours | later) != wide:
            return False
        long = threes | fours
        leads = twos | long
        if ((leads << _ONE) | (long << _TWO) | (fours << _THREE) | due) != later:
            return False
        due = (leads >> np.uint64(63)) | (long >> np.uint64(62)) | (fours >> np.uint64(61))
        if (long | special) != _ZERO:
            wrong, special = _misplaced(block, threes, fours, special)
            if wrong & valid != _ZERO:
                return False
    return due == _ZERO
