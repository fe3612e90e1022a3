"""The commonest n-gram of every text: how often it occurs, and where first. Exact, without
interning words.

Every n-gram adds one to a place of a small table that a fingerprint chooses: a place's count bounds
the count of each n-gram that falls on it. Only n-grams whose place has the highest count are then
compared, byte for byte, and counted; where that gives as much as the next lower bound, nothing else
can be commoner.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN, OTHER_MULTIPLIER
from gristmill.kernels.jit.compile import BYTES, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint32s
from gristmill.kernels.jit.loads import (
    count_ones,
    count_trailing_zeros,
    load_u64,
    load_up_to_8,
    mask_of_range,
)
from gristmill.kernels.text.words import WordBounds

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# places a word; with few, chance puts three n-grams on one place oftener than any text repeats one
SPARSITY = 16
MOST_WORDS = 1 << 28  # a table's place number fits 32 bits


class Top(NamedTuple):
    """The commonest n-gram of n texts; each is (n,) int64."""

    counts: Int64s  # 0: the text has no n-gram; -1: not counted, it has more than `most_words`
    # the word that it starts at, counted from the text's first; of equally common ones the first
    # seen
    firsts: Int64s


class _Tables(NamedTuple):
    """What counting the n-grams of one text takes; used again for the next."""

    places: Uint32s  # (n-grams,) the place that each falls on
    own: Bytes  # (n-grams + 64,) of each the bound of its count
    bounds: Bytes  # (places,) of each how many n-grams fell on it, 255 at most
    # Open addressing, of n-grams that are compared: filled with this stamp, where the n-gram was
    # seen first, and how often.
    stamps: Int32s
    firsts: Int32s
    counts: Int32s


@kernel(BYTES, WordBounds, Uint32s)
def _fingerprint(data, words, out):
    """32 bits from a word's length, first 8 and last 8 bytes: without a loop, and no proof that two
    words are equal.
    """
    starts, stops = words.starts, words.stops
    safe = len(data) - 8
    for j in range(len(starts)):
        start = np.int64(starts[j])
        length = np.int64(stops[j]) - start
        last = start + max(length - 8, 0)
        if last <= safe:
            mask = ALL >> np.uint64(64 - 8 * min(length, 8))
            head = load_u64(data, start) & mask
            tail = load_u64(data, last) & mask
        else:
            head = load_up_to_8(data, start, length)
            tail = load_up_to_8(data, last, length)
        mixed = (head ^ np.uint64(length << 56)) * GOLDEN
        out[j] = np.uint32((mixed ^ (tail * OTHER_MULTIPLIER)) >> np.uint64(32))


@helper
def _same(data, starts, stops, one, other, size):
    """Return whether the n-grams of `size` words at two places are equal, byte for byte."""
    for k in range(size):
        a = np.int64(starts[one + k])
        b = np.int64(starts[other + k])
        length = np.int64(stops[one + k]) - a
        if np.int64(stops[other + k]) - b != length:
            return False
        for j in range(0, length, 8):
            if load_up_to_8(data, a + j, length - j) != load_up_to_8(data, b + j, length - j):
                return False
    return True


@helper
def _top(data, words, begin, grams, size, most, stamp, tables):
    """Return the count of the commonest n-gram and where it stands first; `own` bounds the count of
    each.
    """
    starts, stops, places, own = words.starts, words.stops, tables.places, tables.own
    stamps, first, counts = tables.stamps, tables.firsts, tables.counts
    best = np.int32(0)
    earliest = np.int64(0)
    bound = np.int32(most)
    # Equally common ones may stand on a place with just this bound, which is looked at for their
    # sake; not if all occur once: then the first of all is first.
    while bound > best or (bound == best and best > 1):
        # 255 stands for all that is more, and leaves the bound of the next round 254. Only n-grams
        # that share a place with this count can occur so often. `first` and `counts` are a table of
        # them.
        stamp[0] += np.int32(1)
        some = np.int64(0)
        for block in range(0, grams, 64):
            some += count_ones(mask_of_range(own, np.int64(block), np.uint8(bound), 0))
        mask = np.int64(63)  # of a table just large enough, which is most often small and near
        while mask < 2 * some:
            mask = 2 * mask + 1
        for block in range(0, grams, 64):
            hits = mask_of_range(own, np.int64(block), np.uint8(bound), 0)
            while hits:
                j = block + count_trailing_zeros(hits)
                hits &= hits - ONE
                at = np.int64(places[j]) & mask
                while stamps[at] == stamp[0] and not _same(
                    data, starts, stops, first[at], begin + j, size
                ):
                    at = (at + 1) & mask
                if stamps[at] != stamp[0]:
                    stamps[at] = stamp[0]
                    first[at] = begin + j
                    counts[at] = 0
                counts[at] += np.int32(1)
                if counts[at] > best:
                    best = counts[at]
                    earliest = np.int64(first[at])
                elif counts[at] == best:
                    earliest = min(earliest, np.int64(first[at]))
        bound -= np.int32(1)
    if best == 1:
        earliest = begin
    return best, earliest - begin


@kernel(BYTES, WordBounds, Uint32s, types.int64, types.int64, _Tables, Top, allocates=True)
def _count_ngrams(data, words, fingerprints, size, most_words, tables, out):
    word_offsets, places, own, bounds = words.word_offsets, tables.places, tables.own, tables.bounds
    stamp = np.zeros(1, np.int32)
    for i in range(len(word_offsets) - 1):
        begin = word_offsets[i]
        total = word_offsets[i + 1] - begin
        if total > most_words:
            out.counts[i] = -1
            out.firsts[i] = -1
            continue
        bits = 6
        while (1 << bits) < SPARSITY * total:
            bits += 1
        shift = np.uint32(32 - bits)
        mask = (np.int64(1) << bits) - 1
        prints = fingerprints[begin : begin + total]
        grams = max(total - size + 1, 0)
        if size == 2:
            for j in range(grams):
                mixed = np.uint32(prints[j] * np.uint32(0x85EBCA6B)) + prints[j + 1]
                places[j] = np.uint32(np.uint32(mixed) * np.uint32(0x9E3779B1)) >> shift
        elif size == 4:
            for j in range(grams):
                mixed = np.uint32(prints[j] * np.uint32(0x85EBCA6B)) + np.uint32(
                    prints[j + 1] * np.uint32(0xC2B2AE35)
                )
                mixed = np.uint32(mixed + np.uint32(prints[j + 2] * np.uint32(0x27D4EB2F)))
                places[j] = (
                    np.uint32(np.uint32(mixed + prints[j + 3]) * np.uint32(0x9E3779B1)) >> shift
                )
        else:
            for j in range(grams):
                mixed = np.uint32(prints[j] * np.uint32(0x85EBCA6B)) + np.uint32(
                    prints[j + 1] * np.uint32(0xC2B2AE35)
                )
                places[j] = (
                    np.uint32(np.uint32(mixed + prints[j + 2]) * np.uint32(0x9E3779B1)) >> shift
                )
        bounds[: mask + 1] = 0
        most = np.uint8(0)
        for j in range(grams):
            place = places[j]
            bound = np.uint8(bounds[place] + (bounds[place] < 255))
            bounds[place] = bound
            most = max(most, bound)
        for j in range(grams):
            own[j] = bounds[places[j]]
        own[grams : grams + 64] = 0
        out.counts[i], out.firsts[i] = _top(data, words, begin, grams, size, most, stamp, tables)


def top(
    data: np.ndarray, bounds: WordBounds, sizes: tuple[int, ...], *, most_words: int
) -> list[Top]:
    """Return the commonest n-grams of n texts for each size of 2 to 4, given their words; data
    (bytes,) uint8 is the texts' buffer.

    They are counted for texts of at most `most_words` words.
    """
    texts = len(bounds.word_offsets) - 1
    most_words = min(most_words, MOST_WORDS)
    lengths = np.diff(bounds.word_offsets)
    longest = int(lengths[lengths <= most_words].max(initial=0))
    size = 64
    while size < SPARSITY * longest:
        size *= 2
    fingerprints = np.empty(len(bounds.starts), np.uint32)
    _fingerprint(data, bounds, fingerprints)
    tables = _Tables(
        np.empty(longest + 1, np.uint32),
        np.empty(longest + 65, np.uint8),
        np.empty(size, np.uint8),
        np.zeros(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
    )
    found = []
    for length in sizes:
        tables.stamps.fill(0)
        top = Top(np.empty(texts, np.int64), np.empty(texts, np.int64))
        _count_ngrams(data, bounds, fingerprints, length, most_words, tables, top)
        found.append(top)
    return found
