"""Gopher's quality rules as the lab states them: the counts of every document in one call, all exact.

The commonest n-gram is found without interning words. Every n-gram adds one to a place of a small table that a fingerprint
chooses: a place's count bounds the count of each n-gram that falls on it. Only n-grams whose place has the highest count are
then compared, byte for byte, and counted; where that gives as much as the next lower bound, nothing else can be commoner.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.compile import BYTES, INT32S, INT64S, UINT32S, helper, kernel
from gristmill.kernels.loads import load_u64, load_up_to_8
from gristmill.kernels.words import Bounds

HYPHEN, ASTERISK = 0x2D, 0x2A
MIX = np.uint64(0x9E3779B97F4A7C15)
OTHER_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
SPARSITY = 16  # places a word; with few, chance puts three n-grams on one place oftener than any text repeats one
MOST_WORDS = 1 << 28  # a table's place number fits 32 bits


class Counts(NamedTuple):
    """What the rules are made of; each is (n,) int64."""

    bullets: np.ndarray  # lines that start with `•`, `-` or `*`
    ellipses: np.ndarray  # lines that end in `…`
    top_2_gram: np.ndarray  # count of the commonest 2-gram; -1: not counted, the document has more than `most_words`
    top_3_gram: np.ndarray


@kernel(BYTES, INT64S, INT32S, INT32S, INT64S, INT32S, types.int64[::1], types.int64[::1])
def _count_lines(data, word_offsets, starts, stops, line_offsets, line_stops, bullets, ellipses):
    """A line's first and last characters that are no white space are those of its first and last word."""
    for i in range(len(word_offsets) - 1):
        word = word_offsets[i]
        end = word_offsets[i + 1]
        bulleted = np.int64(0)
        trailing = np.int64(0)
        for line in range(line_offsets[i], line_offsets[i + 1]):
            line_stop = line_stops[line]
            first = word
            while word < end and starts[word] < line_stop:
                word += 1
            if word == first:
                continue
            at = np.int64(starts[first])
            size = np.int64(stops[first]) - at
            lead = data[at]
            if lead in (HYPHEN, ASTERISK):
                bulleted += 1
            elif lead == 0xE2 and size >= 3 and data[at + 1] == 0x80 and data[at + 2] == 0xA2:
                bulleted += 1
            at = np.int64(stops[word - 1]) - 3
            if at >= starts[word - 1] and data[at] == 0xE2 and data[at + 1] == 0x80 and data[at + 2] == 0xA6:
                trailing += 1
        bullets[i] = bulleted
        ellipses[i] = trailing


@kernel(BYTES, INT32S, INT32S, types.uint32[::1])
def _fingerprint(data, starts, stops, out):
    """32 bits from a word's length, first 8 and last 8 bytes: without a loop, and no proof that two words are equal."""
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
        mixed = (head ^ np.uint64(length << 56)) * MIX
        out[j] = np.uint32((mixed ^ (tail * OTHER_MIX)) >> np.uint64(32))


@helper
def _same(data, starts, stops, one, other, size):
    """Whether the n-grams of `size` words at two places are equal, byte for byte."""
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
def _top(data, starts, stops, begin, grams, size, most, places, bounds, mask, stamp, stamps, first, counts):
    """The count of the commonest n-gram, given for each the place whose count bounds its own."""
    best = np.int32(0)
    bound = np.int32(most)
    while best < bound:
        # 255 stands for all that is more, and leaves the bound of the next round 254.
        # Only n-grams that share a place with this count can occur so often. `first` and `counts` are a table of them.
        stamp[0] += np.int32(1)
        for j in range(grams):
            if bounds[places[j]] != bound:
                continue
            at = np.int64(places[j])
            while stamps[at] == stamp[0] and not _same(data, starts, stops, first[at], begin + j, size):
                at = (at + 1) & mask
            if stamps[at] != stamp[0]:
                stamps[at] = stamp[0]
                first[at] = begin + j
                counts[at] = 0
            counts[at] += np.int32(1)
            best = max(best, counts[at])
        bound -= np.int32(1)
    return best


@kernel(
    BYTES, INT64S, INT32S, INT32S, UINT32S, types.int64, types.int64, types.uint32[::1], types.uint8[::1],
    types.int32[::1], types.int32[::1], types.int32[::1], types.int64[::1],
)  # fmt: skip
def _count_ngrams(
    data, word_offsets, starts, stops, fingerprints, size, most_words, places, bounds, stamps, first, counts, out
):
    stamp = np.zeros(1, np.int32)
    for i in range(len(word_offsets) - 1):
        begin = word_offsets[i]
        total = word_offsets[i + 1] - begin
        if total > most_words:
            out[i] = -1
            continue
        bits = 6
        while (1 << bits) < SPARSITY * total:
            bits += 1
        shift = np.uint32(32 - bits)
        mask = (np.int64(1) << bits) - 1
        words = fingerprints[begin : begin + total]
        grams = max(total - size + 1, 0)
        if size == 2:
            for j in range(grams):
                mixed = np.uint32(words[j] * np.uint32(0x85EBCA6B)) + words[j + 1]
                places[j] = np.uint32(np.uint32(mixed) * np.uint32(0x9E3779B1)) >> shift
        else:
            for j in range(grams):
                mixed = np.uint32(words[j] * np.uint32(0x85EBCA6B)) + np.uint32(words[j + 1] * np.uint32(0xC2B2AE35))
                places[j] = np.uint32(np.uint32(mixed + words[j + 2]) * np.uint32(0x9E3779B1)) >> shift
        bounds[: mask + 1] = 0
        most = np.uint8(0)
        for j in range(grams):
            place = places[j]
            bound = np.uint8(bounds[place] + (bounds[place] < 255))
            bounds[place] = bound
            most = max(most, bound)
        out[i] = _top(data, starts, stops, begin, grams, size, most, places, bounds, mask, stamp, stamps, first, counts)


def count(data: np.ndarray, bounds: Bounds, *, most_words: int) -> Counts:
    """Count what the rules need for n texts, given their words and lines (kernels.words).

    data (bytes,) uint8 is the texts' buffer. N-grams are counted for texts of at most `most_words` words.
    """
    texts = len(bounds.characters)
    most_words = min(most_words, MOST_WORDS)
    lengths = np.diff(bounds.word_offsets)
    longest = int(lengths[lengths <= most_words].max(initial=0))
    size = 64
    while size < SPARSITY * longest:
        size *= 2
    out = Counts(*(np.empty(texts, np.int64) for _ in Counts._fields))
    words = (bounds.word_offsets, bounds.starts, bounds.stops)
    _count_lines(data, *words, bounds.line_offsets, bounds.line_stops, out.bullets, out.ellipses)
    fingerprints = np.empty(len(bounds.starts), np.uint32)
    _fingerprint(data, bounds.starts, bounds.stops, fingerprints)
    places = np.empty(longest + 1, np.uint32)
    tables = (np.empty(size, np.uint8), np.zeros(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32))
    for length, top in ((2, out.top_2_gram), (3, out.top_3_gram)):
        tables[1].fill(0)
        _count_ngrams(data, *words, fingerprints, length, most_words, places, *tables, top)
    return out
