"""The n-grams of benchmark items as a table that documents are looked up in
(kernels/decontaminate/overlap.py).

    items' parts, normalised -> build -> Index: their distinct n-grams, and which parts each stands
    in

A part of fewer words than `width` is one n-gram, of all its words; one of fewer than two words has
none. A word's hash is of its bytes, a run's a polynomial of its words' hashes; in the table bytes
are compared, so that no hash decides. N-grams with the same parts (those of a template that ten
thousand items share) have one list.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN, OTHER_MULTIPLIER, mix
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, UINT64S, helper, kernel
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
# of a bitmap: of what is not there less than 1 % goes on to the table, (1 - e^(-4 / 16))^4 and what
# uneven words add
BITS_A_KEY = 16
BITS_A_HEAD = 128  # the same: less than 1 %
INT32_OUT, INT64_OUT, UINT64_OUT = types.int32[::1], types.int64[::1], types.uint64[::1]


class Index(NamedTuple):
    """The n-grams of p parts.

    g distinct ones have numbers in order of appearance, and l different lists of parts.
    """

    width: int  # words of an n-gram
    mask: int  # what of a hash is used: all of it, but where a test makes hashes collide
    data: np.ndarray  # (bytes,) uint8: the parts, normalised
    # uint64: a Bloom filter (1970) of the polynomials of `width` words, four bits of one word each
    bitmap: np.ndarray
    table: (
        np.ndarray
    )  # (2^m,) uint64, open addressing: half a hash, then 1 + the number of its n-gram; 0: none
    starts: np.ndarray  # (g,) int64: its first byte in data
    lengths: np.ndarray  # (g,) int32: its bytes
    lists: np.ndarray  # (g,) int32: its list
    list_offsets: np.ndarray  # (l + 1,) int64
    list_parts: np.ndarray  # int32: a list's parts, ascending
    part_offsets: np.ndarray  # (p + 1,) int64
    part_ngrams: np.ndarray  # int32: a part's distinct n-grams
    # (2^k,) uint64, k > 0: a bitmap of the first bits of `hash_pair`, a bit for each start of a
    # short part
    heads: np.ndarray
    head_keys: np.ndarray  # (2^i,) uint64, open addressing: `hash_pair` of their first two words
    head_widths: np.ndarray  # (2^i,) uint64: bit w: a part of w words starts so; 0: no entry


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
    """Whether one[start:start + length] equals other[place:place + length]."""
    j = np.int64(0)
    while length - j >= 8:
        if load_u64(one, start + j) != load_u64(other, place + j):
            return False
        j += 8
    return j == length or load_up_to_8(one, start + j, length - j) == load_up_to_8(
        other, place + j, length - j
    )


@helper
def find_ngram(key, data, start, length, table, known, starts, lengths):
    """The number of an n-gram, given as bytes of `data`; `known` holds those that are in the table.
    Negative: not there, -1 - its place.
    """
    mask = np.int64(len(table) - 1)
    place = np.int64(key & np.uint64(mask))
    while table[place] != 0:
        if (table[place] ^ key) >> np.uint64(32) == 0:
            number = np.int64(table[place] & np.uint64(0xFFFFFFFF)) - 1
            if np.int64(lengths[number]) == length and _same(
                known, starts[number], data, start, length
            ):
                return number
        place = (place + 1) & mask
    return -1 - place


@helper
def polynomial_of(hashes, first, words):
    """The polynomial of a run of words, from nothing."""
    polynomial = np.uint64(0)
    for j in range(words):
        polynomial = polynomial * GOLDEN + hashes[first + j]
    return polynomial


@helper
def key_of(polynomial, words):
    """The hash of a run of words."""
    return mix(polynomial + np.uint64(words))


@helper
def hash_pair(hashes, first):
    """A hash of two words that costs nearly nothing: every pair of a document is looked up among
    the heads.
    """
    return hashes[first] * GOLDEN + hashes[first + 1]


@helper
def bits_of(bitmap, polynomial):
    """Where in a bitmap a polynomial's four bits are: (word, bits). Words' hashes are even enough
    as they are.
    """
    word = ((polynomial >> np.uint64(32)) * np.uint64(len(bitmap))) >> np.uint64(32)
    bits = ONE << (polynomial & np.uint64(63))
    bits |= ONE << ((polynomial >> np.uint64(6)) & np.uint64(63))
    bits |= ONE << ((polynomial >> np.uint64(12)) & np.uint64(63))
    bits |= ONE << ((polynomial >> np.uint64(18)) & np.uint64(63))
    return np.int64(word), bits


@kernel(
    INT64S,
    BYTES,
    types.int64,
    types.uint64,
    types.uint8[::1],
    UINT64_OUT,
    INT64_OUT,
    UINT64_OUT,
    UINT64_OUT,
    INT64_OUT,
    INT32_OUT,
    INT32_OUT,
    INT64_OUT,
    INT32_OUT,
    UINT64_OUT,
    UINT64_OUT,
    returns=types.int64,
)
def _number(
    offsets,
    data,
    width,
    mask,
    tail,
    hashes,
    starts,
    table,
    polynomials,
    ngram_starts,
    ngram_lengths,
    seen,
    part_offsets,
    part_ngrams,
    head_keys,
    head_widths,
):
    """Number the distinct n-grams of all parts, and enter the beginnings of short ones; how many
    n-grams there are.
    """
    count = np.int64(0)
    end = np.int64(0)
    for part in range(len(offsets) - 1):
        part_offsets[part] = end
        words = hash_words(data, offsets[part], offsets[part + 1], tail, hashes, starts)
        if words < 2:
            continue
        size = min(words, width)
        for j in range(words - size + 1):
            polynomial = polynomial_of(hashes, j, size)
            key = key_of(polynomial, size) & mask
            start = starts[j]
            length = starts[j + size] - 1 - start
            number = find_ngram(key, data, start, length, table, data, ngram_starts, ngram_lengths)
            if number < 0:
                table[-1 - number] = (key & np.uint64(0xFFFFFFFF00000000)) | np.uint64(count + 1)
                number = count
                polynomials[number] = polynomial
                ngram_starts[number] = start
                ngram_lengths[number] = length
                seen[number] = -1
                count += 1
            if seen[number] != part:
                seen[number] = part
                part_ngrams[end] = number
                end += 1
        if words < width:
            key = hash_pair(hashes, 0)
            last = np.int64(len(head_keys) - 1)
            place = np.int64(key & np.uint64(last))
            while head_widths[place] != 0 and head_keys[place] != key:
                place = (place + 1) & last
            head_keys[place] = key
            head_widths[place] |= ONE << np.uint64(words)
    part_offsets[len(offsets) - 1] = end
    return count


@kernel(INT64S, INT32S, INT32S, BYTES, INT32_OUT, INT32_OUT)
def _count_items(part_offsets, part_ngrams, item_of, counted, last, counts):
    """Of each n-gram in how many of the items it stands whose parts are `counted`, each once;
    `last` is scratch, -1 everywhere.
    """
    for part in range(len(part_offsets) - 1):
        if counted[part] == 0:
            continue
        for j in range(part_offsets[part], part_offsets[part + 1]):
            number = part_ngrams[j]
            if last[number] != item_of[part]:
                last[number] = item_of[part]
                counts[number] += 1


@kernel(INT64S, INT32S, INT64S, INT32_OUT)
def _turn(part_offsets, part_ngrams, offsets, parts):
    """Of each n-gram its parts, ascending: offsets (g + 1,) say where they go."""
    ends = offsets.copy()
    for part in range(len(part_offsets) - 1):
        for j in range(part_offsets[part], part_offsets[part + 1]):
            number = part_ngrams[j]
            parts[ends[number]] = part
            ends[number] += 1


@kernel(INT64S, INT32S, INT32_OUT, INT32_OUT, INT32_OUT, returns=types.int64)
def _share(offsets, parts, table, lists, owners):
    """Give n-grams with equal parts one list: lists (g,), and of each list the n-gram that has it
    first; how many lists.
    """
    count = np.int64(0)
    last = np.int64(len(table) - 1)
    for number in range(len(offsets) - 1):
        start = offsets[number]
        size = offsets[number + 1] - start
        key = np.uint64(size)
        for j in range(size):
            key = mix(key * GOLDEN + np.uint64(parts[start + j]))
        place = np.int64(key & np.uint64(last))
        while True:
            known = table[place]
            if known < 0:
                table[place] = count
                owners[count] = number
                lists[number] = count
                count += 1
                break
            other = offsets[owners[known]]
            equal = offsets[owners[known] + 1] - other == size
            j = np.int64(0)
            while equal and j < size:
                equal = parts[start + j] == parts[other + j]
                j += 1
            if equal:
                lists[number] = known
                break
            place = (place + 1) & last
    return count


@kernel(UINT64S, UINT64_OUT)
def _mark(polynomials, bitmap):
    for j in range(len(polynomials)):
        word, bits = bits_of(bitmap, polynomials[j])
        bitmap[word] |= bits


def _power(least: int) -> int:
    size = 64
    while size < least:
        size *= 2
    return size


def _executor(
    part_offsets: np.ndarray, part_ngrams: np.ndarray, item_of: np.ndarray, count: int
) -> np.ndarray:
    """Of `count` n-grams in how many different items each stands, (count,) int32."""
    firsts = np.flatnonzero(np.diff(item_of, prepend=-1))  # an item's first part
    sizes = (part_offsets[1:] - part_offsets[:-1])[firsts]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ngrams = part_ngrams[
        np.arange(bounds[-1]) + np.repeat(part_offsets[firsts] - bounds[:-1], sizes)
    ]
    kinds, owners = np.empty(len(firsts), np.int32), np.empty(len(firsts), np.int32)
    _share(bounds, ngrams, np.full(_power(2 * len(firsts)), -1, np.int32), kinds, owners)
    different = np.zeros(int(item_of.max(initial=-1)) + 1, np.uint8)
    different[item_of[firsts[owners[np.unique(kinds)]]]] = 1
    counts = np.zeros(count, np.int32)
    _count_items(
        part_offsets, part_ngrams, item_of, different[item_of], np.full(count, -1, np.int32), counts
    )
    return counts


def build(
    offsets: np.ndarray,
    data: np.ndarray,
    *,
    width: int,
    mask: int = ALL,
    item_of: np.ndarray | None = None,
    most: int = 0,
) -> Index:
    """Index p parts: normalised texts, offsets (p + 1,) int64 into data (bytes,) uint8.

    An n-gram is `width` words, 2 to 63.

    N-grams that stand in more than `most` different items are set aside: no part has them. item_of:
    (p,) int32, of each part its item, ascending; items whose first parts have the same n-grams are
    one.
    """
    if not 2 <= width <= 63:
        raise ValueError(f"an n-gram of {width} words: 2 to 63 can be looked up")
    spaces = np.concatenate([[0], np.cumsum(data == SPACE)])
    words = np.where(np.diff(offsets) > 0, np.diff(spaces[offsets]) + 1, 0)  # (p,)
    windows = int(np.maximum(words - width + 1, words > 0).sum())
    longest = int(words.max(initial=0))
    short = int(((words >= 2) & (words < width)).sum())
    table, polynomials = np.zeros(_power(2 * windows), np.uint64), np.empty(windows, np.uint64)
    starts, lengths, seen = (
        np.empty(windows, np.int64),
        np.empty(windows, np.int32),
        np.empty(windows, np.int32),
    )
    part_offsets, part_ngrams = np.empty(len(offsets), np.int64), np.empty(windows, np.int32)
    head_keys = np.zeros(_power(2 * short) if short else 1, np.uint64)
    head_widths = np.zeros(len(head_keys), np.uint64)
    count = _number(
        offsets,
        data,
        width,
        np.uint64(mask),
        np.zeros(64, np.uint8),
        np.empty(longest, np.uint64),
        np.empty(longest + 1, np.int64),
        table,
        polynomials,
        starts,
        lengths,
        seen,
        part_offsets,
        part_ngrams,
        head_keys,
        head_widths,
    )
    part_ngrams = part_ngrams[: part_offsets[-1]]
    aside = np.zeros(count, bool)
    if most and item_of is not None:
        aside = _executor(part_offsets, part_ngrams, item_of, count) > most
        kept = ~aside[part_ngrams]
        part_offsets = np.concatenate([[0], np.cumsum(kept)])[part_offsets].astype(np.int64)
        part_ngrams = part_ngrams[kept]
    ngram_offsets = np.concatenate(
        [[0], np.cumsum(np.bincount(part_ngrams, minlength=count))]
    ).astype(np.int64)
    parts = np.empty(len(part_ngrams), np.int32)
    _turn(part_offsets, part_ngrams, ngram_offsets, parts)
    lists, owners = np.empty(count, np.int32), np.empty(count, np.int32)
    owners = owners[
        : _share(ngram_offsets, parts, np.full(_power(2 * count), -1, np.int32), lists, owners)
    ]
    sizes = (ngram_offsets[1:] - ngram_offsets[:-1])[owners]
    list_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.arange(list_offsets[-1]) + np.repeat(
        ngram_offsets[owners] - list_offsets[:-1], sizes
    )
    bitmap = np.zeros(BITS_A_KEY * count // 64 + 1, np.uint64)
    _mark(polynomials[:count][~aside], bitmap)
    heads = np.zeros(_power(max(BITS_A_HEAD * short, 128)) // 64, np.uint64)
    bits = head_keys[head_widths > 0] >> np.uint64(64 - (64 * len(heads) - 1).bit_length())
    np.bitwise_or.at(heads, (bits >> np.uint64(6)).astype(np.int64), ONE << (bits & np.uint64(63)))
    return Index(
        width,
        mask,
        data,
        bitmap,
        table,
        starts[:count],
        lengths[:count],
        lists,
        list_offsets,
        parts[places],
        part_offsets,
        part_ngrams,
        heads,
        head_keys,
        head_widths,
    )
