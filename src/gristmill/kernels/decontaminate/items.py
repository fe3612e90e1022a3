"""The n-grams of benchmark items as a table that documents are looked up in
(kernels/decontaminate/overlap.py).

    items' parts, normalised -> build -> Index: their distinct n-grams, and which parts each stands
    in

A part of fewer words than `width` is one n-gram, of all its words; one of fewer than two words has
none. N-grams with the same parts (those of a template that ten thousand items share) have one list.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.decontaminate.ngrams import (
    ALL,
    SPACE,
    bitmap_bits,
    find_ngram,
    hash_pair,
    hash_run,
    hash_words,
    start_polynomial,
)
from gristmill.kernels.hashing.primitives import GOLDEN, mix
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import (
    Bytes,
    Int32s,
    Int64s,
    ReadBytes,
    ReadInt32s,
    ReadInt64s,
    ReadUint64s,
    Uint64,
    Uint64s,
)
from gristmill.kernels.jit.loads import ONE

# Bits of a bitmap. Of what is not there less than 1 % goes on to the table: (1 - e^(-4 / 16))^4,
# and what uneven words add.
BITS_A_KEY = 16
BITS_A_HEAD = 128  # the same: less than 1 %


class Index(NamedTuple):
    """The n-grams of p parts.

    g distinct ones have numbers in order of appearance, and l different lists of parts.
    """

    width: int  # words of an n-gram
    mask: Uint64  # the bits of a hash that are used: all, but where a test makes hashes collide
    data: ReadBytes  # the parts, normalised
    # a Bloom filter (1970) of the polynomials of `width` words, four bits of one word each
    bitmap: ReadUint64s
    # (2^m,), open addressing: half a hash, then 1 + the number of its n-gram; 0: none
    table: ReadUint64s
    starts: ReadInt64s  # (g,): its first byte in data
    lengths: ReadInt32s  # (g,): its bytes
    lists: ReadInt32s  # (g,): its list
    list_offsets: ReadInt64s  # (l + 1,)
    list_parts: ReadInt32s  # a list's parts, ascending
    part_offsets: ReadInt64s  # (p + 1,)
    part_ngrams: ReadInt32s  # a part's distinct n-grams
    # (2^k,), k > 0: a bitmap of the first bits of `hash_pair`, a bit for each start of a short part
    heads: ReadUint64s
    head_keys: ReadUint64s  # (2^i,), open addressing: `hash_pair` of their first two words
    head_widths: ReadUint64s  # (2^i,): bit w: a part of w words starts so; 0: no entry


class _Numbered(NamedTuple):
    """The n-grams of all parts as they are numbered."""

    table: Uint64s  # as Index's, and so on
    polynomials: Uint64s  # (g,)
    starts: Int64s
    lengths: Int32s
    seen: Int32s  # (g,): the last part that had it
    part_offsets: Int64s
    part_ngrams: Int32s
    head_keys: Uint64s
    head_widths: Uint64s


class _PartWords(NamedTuple):
    """The words of one part."""

    tail: Bytes
    hashes: Uint64s
    starts: Int64s


@helper
def _add_head(key, words, head_keys, head_widths):
    """Enter how a part of fewer words than an n-gram begins."""
    last = np.int64(len(head_keys) - 1)
    place = np.int64(key & np.uint64(last))
    while head_widths[place] != 0 and head_keys[place] != key:
        place = (place + 1) & last
    head_keys[place] = key
    head_widths[place] |= ONE << np.uint64(words)


@kernel(INT64S, BYTES, types.int64, types.uint64, _PartWords, _Numbered, returns=types.int64)
def _number(offsets, data, width, mask, text, out):
    """Number the distinct n-grams of all parts, and enter the beginnings of short ones; how many
    n-grams there are.
    """
    hashes, starts, table = text.hashes, text.starts, out.table
    ngram_starts, ngram_lengths, seen, part_ngrams = (
        out.starts,
        out.lengths,
        out.seen,
        out.part_ngrams,
    )
    count = np.int64(0)
    end = np.int64(0)
    for part in range(len(offsets) - 1):
        out.part_offsets[part] = end
        words = hash_words(data, offsets[part], offsets[part + 1], text.tail, hashes, starts)
        if words < 2:
            continue
        size = min(words, width)
        for j in range(words - size + 1):
            polynomial = start_polynomial(hashes, j, size)
            key = hash_run(polynomial, size) & mask
            start = starts[j]
            length = starts[j + size] - 1 - start
            number = find_ngram(key, data, start, length, table, data, ngram_starts, ngram_lengths)
            if number < 0:
                table[-1 - number] = (key & np.uint64(0xFFFFFFFF00000000)) | np.uint64(count + 1)
                number = count
                out.polynomials[number] = polynomial
                ngram_starts[number] = start
                ngram_lengths[number] = length
                seen[number] = -1
                count += 1
            if seen[number] != part:
                seen[number] = part
                part_ngrams[end] = number
                end += 1
        if words < width:
            _add_head(hash_pair(hashes, 0), words, out.head_keys, out.head_widths)
    out.part_offsets[len(offsets) - 1] = end
    return count


@kernel(INT64S, INT32S, INT32S, BYTES, Int32s, Int32s)
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


@kernel(INT64S, INT32S, INT64S, Int32s, allocates=True)
def _turn(part_offsets, part_ngrams, offsets, parts):
    """Of each n-gram its parts, ascending: offsets (g + 1,) say where they go."""
    ends = offsets.copy()
    for part in range(len(part_offsets) - 1):
        for j in range(part_offsets[part], part_offsets[part + 1]):
            number = part_ngrams[j]
            parts[ends[number]] = part
            ends[number] += 1


@kernel(INT64S, INT32S, Int32s, Int32s, Int32s, returns=types.int64)
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


@kernel(UINT64S, Uint64s)
def _mark(polynomials, bitmap):
    for j in range(len(polynomials)):
        word, bits = bitmap_bits(bitmap, polynomials[j])
        bitmap[word] |= bits


def _power(least: int) -> int:
    size = 64
    while size < least:
        size *= 2
    return size


def _count_different_items(
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

    An n-gram is `width` words, 2 to 63. N-grams that stand in more than `most` different items are
    set aside: no part has them. item_of: (p,) int32, of each part its item, ascending; items whose
    first parts have the same n-grams are one.
    """
    if not 2 <= width <= 63:
        raise ValueError(f"an n-gram of {width} words: 2 to 63 can be looked up")
    count, short, found = _numbered(offsets, data, width, mask)
    part_offsets = found.part_offsets
    part_ngrams = found.part_ngrams[: part_offsets[-1]]
    aside = np.zeros(count, bool)
    if most and item_of is not None:
        aside = _count_different_items(part_offsets, part_ngrams, item_of, count) > most
        kept = ~aside[part_ngrams]
        part_offsets = np.concatenate([[0], np.cumsum(kept)])[part_offsets].astype(np.int64)
        part_ngrams = part_ngrams[kept]
    bitmap = np.zeros(BITS_A_KEY * count // 64 + 1, np.uint64)
    _mark(found.polynomials[:count][~aside], bitmap)
    heads = np.zeros(_power(max(BITS_A_HEAD * short, 128)) // 64, np.uint64)
    bits = found.head_keys[found.head_widths > 0]
    bits >>= np.uint64(64 - (64 * len(heads) - 1).bit_length())
    np.bitwise_or.at(heads, (bits >> np.uint64(6)).astype(np.int64), ONE << (bits & np.uint64(63)))
    return Index(
        width,
        np.uint64(mask),
        data,
        bitmap,
        found.table,
        found.starts[:count],
        found.lengths[:count],
        *_lists(part_offsets, part_ngrams, count),
        part_offsets,
        part_ngrams,
        heads,
        found.head_keys,
        found.head_widths,
    )


def _numbered(
    offsets: np.ndarray, data: np.ndarray, width: int, mask: int
) -> tuple[int, int, _Numbered]:
    """Return how many different n-grams p parts have, how many parts are shorter than one, and
    these n-grams.
    """
    spaces = np.concatenate([[0], np.cumsum(data == SPACE)])
    words = np.where(np.diff(offsets) > 0, np.diff(spaces[offsets]) + 1, 0)  # (p,)
    windows = int(np.maximum(words - width + 1, words > 0).sum())
    longest = int(words.max(initial=0))
    short = int(((words >= 2) & (words < width)).sum())
    heads = _power(2 * short) if short else 1
    found = _Numbered(
        np.zeros(_power(2 * windows), np.uint64),
        np.empty(windows, np.uint64),
        np.empty(windows, np.int64),
        np.empty(windows, np.int32),
        np.empty(windows, np.int32),
        np.empty(len(offsets), np.int64),
        np.empty(windows, np.int32),
        np.zeros(heads, np.uint64),
        np.zeros(heads, np.uint64),
    )
    text = _PartWords(
        np.zeros(64, np.uint8), np.empty(longest, np.uint64), np.empty(longest + 1, np.int64)
    )
    return _number(offsets, data, width, np.uint64(mask), text, found), short, found


def _lists(
    part_offsets: np.ndarray, part_ngrams: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `Index.lists`, `list_offsets` and `list_parts` of `count` n-grams."""
    sums = np.cumsum(np.bincount(part_ngrams, minlength=count))
    ngram_offsets = np.concatenate([[0], sums]).astype(np.int64)
    parts = np.empty(len(part_ngrams), np.int32)
    _turn(part_offsets, part_ngrams, ngram_offsets, parts)
    lists, owners = np.empty(count, np.int32), np.empty(count, np.int32)
    table = np.full(_power(2 * count), -1, np.int32)
    owners = owners[: _share(ngram_offsets, parts, table, lists, owners)]
    sizes = (ngram_offsets[1:] - ngram_offsets[:-1])[owners]
    list_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.arange(list_offsets[-1]) + np.repeat(
        ngram_offsets[owners] - list_offsets[:-1], sizes
    )
    return lists, list_offsets, parts[places]
