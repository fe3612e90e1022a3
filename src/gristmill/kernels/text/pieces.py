"""Pieces of text that repeat an earlier one: lines and paragraphs. Exact: equal hashes are compared
byte for byte.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import hash_bytes
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Int64s, Uint64s
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_characters,
    count_trailing_zeros,
    mask_of_range,
    same_bytes,
    valid_in,
)

NEWLINE = 0x0A
ONE = np.uint64(1)


class SeenPieces(NamedTuple):
    """The pieces of a text that were seen: a table for `repeats`."""

    stamps: Int64s  # of the text that filled a place; 0: none
    hashes: Uint64s
    starts: Int64s
    stops: Int64s


@helper
def find_newlines(data, begin, stop, tail, found):
    r"""Write where each \n of data[begin:stop] is; their number. `tail` (64,) uint8 is scratch
    space.
    """
    count = np.int64(0)
    at = begin
    while at < stop:
        if at + 64 > len(data):
            copy_tail(data, at, stop, tail)
        block = block_of(data, at, tail)
        newlines = mask_of_range(block, 0, NEWLINE, 0) & valid_in(at, stop)
        while newlines:
            found[count] = at + count_trailing_zeros(newlines)
            newlines &= newlines - ONE
            count += 1
        at += 64
    return count


@helper
def mask_for(pieces):
    """Return the mask of a table with room for this many pieces: a power of two of places, at least
    twice as many, less one.
    """
    size = np.int64(64)
    while size < 2 * pieces + 2:
        size *= 2
    return size - 1


@helper
def repeats(data, start, stop, stamp, mask, seen):
    """Return the code points of a piece that was seen before under this stamp; -1: it is new, and
    remembered.

    `seen` is a SeenPieces whose size is mask + 1: open addressing; stamps tell this text's entries
    from those of the texts before.
    """
    stamps, hashes, starts, stops = seen
    value = hash_bytes(data, start, stop)
    at = np.int64(value & np.uint64(mask))
    while stamps[at] == stamp:
        if hashes[at] == value and stops[at] - starts[at] == stop - start:
            if same_bytes(data, np.int64(starts[at]), start, stop - start):
                return count_characters(data, start, stop)
        at = (at + 1) & mask
    stamps[at] = stamp
    hashes[at] = value
    starts[at] = start
    stops[at] = stop
    return np.int64(-1)


@helper
def after_break(data, at, stop):
    """Return where the next line starts, given where a line's break does (str.splitlines)."""
    if at >= stop:
        return at
    lead = data[at]
    if lead == 13 and at + 1 < stop and data[at + 1] == NEWLINE:
        return at + 2
    if lead < 0x80:
        return at + 1
    if lead == 0xC2:
        return at + 2
    return at + 3


def table(pieces: int) -> SeenPieces:
    """Return an empty table with room for `pieces` pieces of a text."""
    # mask_for(pieces) + 1, in Python: a helper that Python calls is compiled at every start.
    size = max(64, 1 << (2 * pieces + 1).bit_length())
    return SeenPieces(
        np.zeros(size, np.int64),
        np.empty(size, np.uint64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
