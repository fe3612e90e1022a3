"""Blocks of a page that are alike: of one path of elements and classes, or of the same text."""

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN, mix
from gristmill.kernels.html.blocks import IS_TITLE, Blocks
from gristmill.kernels.html.counts import Counts
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64s, Uint64s


@helper
def _signature(element, elements, levels):
    """Return a hash of an element's name and class, and of those that it lies in."""
    value = np.uint64(levels)
    for _ in range(levels):
        value = mix(value ^ elements.kinds[element])
        element = elements.parents[element]
    return value


@helper
def _slot(key, keys, shift):
    """Return where a key is, or may be put, in an open-addressed table."""
    slot = np.int64((key * GOLDEN) >> shift)
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & (len(keys) - 1)
    return slot


@helper
def _tally(key, words, linked, letters, good, keys, totals, shift):
    """Count a block under a key; the key's slot."""
    slot = _slot(key, keys, shift)
    keys[slot] = key
    totals[5 * slot] += 1
    totals[5 * slot + 1] += words
    totals[5 * slot + 2] += linked
    totals[5 * slot + 3] += letters
    totals[5 * slot + 4] += good
    return slot


@kernel(Elements, Blocks, types.int64, Counts, Uint64s, Int64s, Int32s, types.int64)
def _find_alike(elements, blocks, count, counts, keys, totals, slots, bits):
    shift = np.uint64(64 - bits)
    keys[:] = 0
    totals[:] = 0
    for block in range(count):
        if blocks.flags[block] & IS_TITLE:
            slots[3 * block] = slots[3 * block + 1] = slots[3 * block + 2] = 0
            continue
        element = np.int64(blocks.elements[block])
        words = counts.words[block]
        linked = blocks.linked[block]
        letters = counts.letters[block]
        good = counts.good[block]
        key = _signature(element, elements, 3) | np.uint64(1)
        slots[3 * block] = _tally(key, words, linked, letters, good, keys, totals, shift)
        element = np.int64(elements.parents[element])
        key = _signature(element, elements, 4) | np.uint64(1)
        slots[3 * block + 1] = _tally(key, words, linked, letters, good, keys, totals, shift)
        key = counts.hashes[block] | np.uint64(1)
        slots[3 * block + 2] = _tally(key, words, linked, letters, good, keys, totals, shift)


def find_alike(
    elements: Elements, blocks: Blocks, count: int, counts: Counts
) -> tuple[np.ndarray, np.ndarray]:
    """Return slots (3 * count + 3,) int32: of each block those of its path, of its parent's path
    and of its text; totals int64: of each slot the blocks, words, bytes in links, bytes, good
    blocks.
    """
    bits = max((2 * 3 * count).bit_length(), 4)
    keys, totals = np.empty(1 << bits, np.uint64), np.empty(5 << bits, np.int64)
    slots = np.empty(3 * count + 3, np.int32)
    _find_alike(elements, blocks, count, counts, keys, totals, slots, bits)
    return slots, totals
