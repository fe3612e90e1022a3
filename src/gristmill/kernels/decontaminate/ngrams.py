"""Word n-grams of normalised texts: hashes of words and of runs of words, the table in which they
are looked up (kernels/decontaminate/items.py makes it), and its bitmap.

A word's hash is of its bytes, a run's a polynomial of its words' hashes; in the table bytes are
compared, so that no hash decides.
"""

import numpy as np

from gristmill.kernels.hashing.primitives import GOLDEN, OTHER_MULTIPLIER, mix
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import (
    ONE,
    block_of,
    copy_tail,
    count_trailing_zeros,
    load_u64,
    load_up_to_8,
    mask_of_range,
    valid_in,
)

ALL = 0xFFFFFFFFFFFFFFFF
SPACE = 0x20


@helper
def _hash_word(base, start, stop, last):
    """64 bits from a word's bytes, behind an address; eight bytes can be loaded at `last` and
    before.

    The bytes of its end, one to eight, are loaded together and cut by a mask: how many there are no
    processor can predict.
    """
    value = np.uint64(stop - start)
    at = start
    while stop - at > 8:
        value = (value ^ load_u64(base, at)) * OTHER_MULTIPLIER
        value ^= value >> np.uint64(29)
        at += 8
    place = min(at, last)
    end = load_u64(base, place) >> np.uint64(8 * (at - place))
    value = (value ^ (end & (np.uint64(ALL) >> np.uint64(64 - 8 * (stop - at))))) * OTHER_MULTIPLIER
    return value ^ (value >> np.uint64(32))


@helper
def hash_words(data, start, stop, tail, hashes, starts):
    """Hash the words of a normalised text; their count. starts[j] is where word j starts,
    starts[words] one past the text's end.
    """
    if stop == start:
        return np.int64(0)
    if len(data) < 64:
        copy_tail(data, 0, len(data), tail)
    # An address: for an array that several helpers take, numba counts references, which takes as
    # long as the hash.
    base = block_of(data, 0, tail)
    last = max(len(data), 64) - 8
    words = np.int64(0)
    begin = start
    for at in range(start, stop, 64):
        block = min(at, last - 56)
        spaces = mask_of_range(base, block, SPACE, 0) >> np.uint64(at - block) & valid_in(at, stop)
        while spaces:
            j = at + count_trailing_zeros(spaces)
            spaces &= spaces - ONE
            hashes[words] = _hash_word(base, begin, j, last)
            starts[words] = begin
            words += 1
            begin = j + 1
    hashes[words] = _hash_word(base, begin, stop, last)
    starts[words] = begin
    starts[words + 1] = stop + 1
    return words + 1


@helper
def _same(one, start, other, place, length):
    """Return whether one[start:start + length] equals other[place:place + length]."""
    j = np.int64(0)
    while length - j >= 8:
        if load_u64(one, start + j) != load_u64(other, place + j):
            return False
        j += 8
    return j == length or load_up_to_8(one, start + j, length - j) == load_up_to_8(
        other, place + j, length - j
    )


@helper
def is_ngram(number, data, start, length, known, starts, lengths):
    """Return whether an n-gram, given as bytes of `data`, is the one of this number, if there is
    one.
    """
    return (
        number < len(starts)
        and np.int64(lengths[number]) == length
        and _same(known, starts[number], data, start, length)
    )


@helper
def find_ngram(key, data, start, length, table, known, starts, lengths):
    """Return the number of an n-gram, given as bytes of `data`; `known` holds those that are in the
    table. Negative: not there, -1 - its place.
    """
    mask = np.int64(len(table) - 1)
    place = np.int64(key & np.uint64(mask))
    while table[place] != 0:
        if (table[place] ^ key) >> np.uint64(32) == 0:
            number = np.int64(table[place] & np.uint64(0xFFFFFFFF)) - 1
            if is_ngram(number, data, start, length, known, starts, lengths):
                return number
        place = (place + 1) & mask
    return -1 - place


@helper
def start_polynomial(hashes, first, words):
    """Return the polynomial of a run of words, from nothing."""
    polynomial = np.uint64(0)
    for j in range(words):
        polynomial = polynomial * GOLDEN + hashes[first + j]
    return polynomial


@helper
def hash_run(polynomial, words):
    """Return the hash of a run of words."""
    return mix(polynomial + np.uint64(words))


@helper
def hash_pair(hashes, first):
    """Return a hash of two words that costs nearly nothing: every pair of a document is looked up
    among the heads.
    """
    return hashes[first] * GOLDEN + hashes[first + 1]


@helper
def bitmap_bits(bitmap, polynomial):
    """Return where in a bitmap a polynomial's four bits are: (word, bits). Words' hashes are even
    enough as they are.
    """
    word = ((polynomial >> np.uint64(32)) * np.uint64(len(bitmap))) >> np.uint64(32)
    bits = ONE << (polynomial & np.uint64(63))
    bits |= ONE << ((polynomial >> np.uint64(6)) & np.uint64(63))
    bits |= ONE << ((polynomial >> np.uint64(12)) & np.uint64(63))
    bits |= ONE << ((polynomial >> np.uint64(18)) & np.uint64(63))
    return np.int64(word), bits
