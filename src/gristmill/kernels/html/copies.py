"""Bodies that a page has twice: for print, for a script, as JSON.

A long block is a copy where nine tenths of its pairs of words, neighbours each, are in blocks that
are kept before it. Short blocks are none: forms of words recur, and so does filler text.
"""

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, GOLDEN, PRIME, mix
from gristmill.kernels.html.blocks import Blocks
from gristmill.kernels.html.title_words import next_word
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bools, Bytes, Int32s, Uint64s

LONG = 150  # words of a block that may be a copy
COPIED, OF = 9, 10  # the share of its pairs that are known
MOST_BITS = 18  # of a table of pairs; pairs that it has no room for are not known


@helper
def _pair(before, value):
    return mix((before * PRIME) ^ value) | np.uint64(1)


@helper
def _slot(key, table, shift):
    """Return where a key is, or may be put, in an open-addressed table."""
    slot = np.int64((key * GOLDEN) >> shift)
    while table[slot] != 0 and table[slot] != key:
        slot = (slot + 1) & (len(table) - 1)
    return slot


@kernel(Bytes, Blocks, Bools, types.int64, Bools, Uint64s, types.int64)
def _leave_copies(text, blocks, maybe, count, kept, table, bits):
    shift = np.uint64(64 - bits)
    table[:] = 0
    room = np.int64(len(table) // 2)
    for block in range(count):
        if not kept[block]:
            continue
        stop = np.int64(blocks.stops[block])
        if maybe[block]:
            pairs = known = np.int64(0)
            before, at, _ = next_word(text, np.int64(blocks.starts[block]), stop)
            while True:
                value, at, _ = next_word(text, at, stop)
                if value == BASIS:
                    break
                key = _pair(before, value)
                known += table[_slot(key, table, shift)] == key
                pairs += 1
                before = value
            if pairs > 0 and OF * known >= COPIED * pairs:
                kept[block] = False
                continue
        before, at, _ = next_word(text, np.int64(blocks.starts[block]), stop)
        while room > 0:
            value, at, _ = next_word(text, at, stop)
            if value == BASIS:
                break
            key = _pair(before, value)
            slot = _slot(key, table, shift)
            if table[slot] == 0:
                table[slot] = key
                room -= 1
            before = value


@kernel(Int32s, Bools, Bools, returns=types.UniTuple(types.int64, 2))
def _find_long(words, kept, maybe):
    """Mark the blocks that may be copies: the last of them, and how many words are before it."""
    before = found = np.int64(0)
    last = np.int64(-1)
    for block in range(len(kept)):
        if not kept[block]:
            continue
        if words[block] >= LONG and OF * before >= COPIED * words[block]:
            maybe[block] = True
            last = np.int64(block)
            found = before
        before += words[block]
    return last, found


def leave_copies(
    text: np.ndarray, blocks: Blocks, words: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """Return the blocks that are kept, (blocks,) bool, without those that are copies; words: of
    each.
    """
    maybe = np.zeros(len(kept), np.bool_)
    last, before = _find_long(words, kept, maybe)
    if last < 0:
        return kept
    bits = min((4 * before).bit_length(), MOST_BITS)
    stays: np.ndarray = kept.copy()
    table = np.empty(1 << bits, np.uint64)
    _leave_copies(text, blocks, maybe, last + 1, stays, table, bits)
    return stays
