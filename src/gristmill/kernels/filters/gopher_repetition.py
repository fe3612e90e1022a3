"""Gopher's repetition rules as datatrove states them: repeated paragraphs, lines and n-grams of
every text, all exact.

An n-gram's text is its words joined by nothing ("ab c" equals "a bc"), so the words are laid end to
end once, and n-grams are runs of these bytes. Two equal n-grams begin with the same bytes: only
words whose next 12 and then 20 bytes occur twice in the text can start a repetition, a few in a
hundred; the scan goes from one of these to the next.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN, OTHER_MULTIPLIER, hash_bytes
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64Rows, Int64s, Uint64s
from gristmill.kernels.jit.loads import (
    count_characters,
    count_continuations,
    load_u64,
    load_up_to_8,
    same_bytes,
    store_u64,
)
from gristmill.kernels.text import ngrams
from gristmill.kernels.text.pieces import (
    SeenPieces,
    after_break,
    find_newlines,
    mask_for,
    repeats,
    table,
)
from gristmill.kernels.text.words import WordBounds

TOPS = (2, 3, 4)
FIRST, LAST = 5, 10  # sizes of n-grams that are looked for twice
PREFIXES = (12, 20)  # bytes
SPARSITY = 8  # places a word, of the table that counts prefixes


class RepetitionCounts(NamedTuple):
    """What the rules are made of; each is (n,) int64 but for the last two. Characters are code
    points.
    """

    paragraphs: Int64s
    repeated_paragraphs: Int64s
    repeated_paragraph_characters: Int64s
    lines: Int64s
    repeated_lines: Int64s
    repeated_line_characters: Int64s
    # (3, n): of the commonest 2-, 3- and 4-gram its characters, spaces between words included,
    # times its count
    top: Int64Rows
    # (6, n): characters of 5- to 10-grams that repeat an earlier one, found from the left, without
    # overlap
    repeated: Int64Rows


class _Joined(NamedTuple):
    """The words of a text laid end to end, without spaces."""

    data: Bytes
    places: Int32s  # (words + 1,) where each word starts, in bytes
    points: Int32s  # (words + 1,) the same in code points


class _Ngrams(NamedTuple):
    """The n-grams of a text that were seen: a table, filled with this stamp."""

    stamps: Int64s
    hashes: Uint64s
    firsts: Int32s  # the word that an n-gram starts with


@kernel(OFFSETS, BYTES, WordBounds, types.boolean, Bytes, Int64s, SeenPieces, Int64Rows)
def _count_pieces(offsets, data, bounds, by_newlines, tail, newlines, seen, out):
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    line_offsets, line_stops = bounds.line_offsets, bounds.line_stops
    stamp = np.int64(0)
    out[:] = 0
    for i in range(len(offsets) - 1):
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        # Paragraphs are of the stripped text: from the first word's start to the last word's stop.
        first = begin
        last = begin
        if word_offsets[i] < word_offsets[i + 1]:
            first = np.int64(starts[word_offsets[i]])
            last = np.int64(stops[word_offsets[i + 1] - 1])
        count = find_newlines(data, begin, stop, tail, newlines)
        mask = mask_for(max(count, line_offsets[i + 1] - line_offsets[i]) + 2)
        # Paragraphs first, then lines: each time the runs of newlines, and the text's end as the
        # last.
        for kind in range(2 if by_newlines else 1):
            stamp += 1
            piece = begin if kind else first
            k = np.int64(0)
            while k <= count:
                at = stop
                behind = stop
                if k < count:
                    at = newlines[k]
                    while k + 1 < count and newlines[k + 1] == newlines[k] + 1:
                        k += 1
                    behind = newlines[k] + 1
                k += 1
                if kind == 0:
                    if k <= count and (behind - at < 2 or at < first or at >= last):
                        continue
                    at = min(at, last)
                size = repeats(data, piece, at, stamp, mask, seen)
                out[3 * kind, i] += 1
                out[3 * kind + 1, i] += size >= 0
                out[3 * kind + 2, i] += max(size, np.int64(0))
                piece = behind
        if not by_newlines:
            stamp += 1
            line = begin
            for number in range(line_offsets[i], line_offsets[i + 1]):
                at = np.int64(line_stops[number])
                size = repeats(data, line, at, stamp, mask, seen)
                out[3, i] += 1
                out[4, i] += size >= 0
                out[5, i] += max(size, np.int64(0))
                line = after_break(data, at, stop)


@helper
def _join(data, bounds, begin, end, out):
    """Lay words end to end; `out` is a _Joined."""
    starts, stops = bounds.starts, bounds.stops
    joined, places, points = out
    to = np.int64(0)
    count = np.int64(0)
    for j in range(begin, end):
        at = np.int64(starts[j])
        length = np.int64(stops[j]) - at
        places[j - begin] = to
        points[j - begin] = count
        count += length
        for k in range(0, length, 8):
            value = load_up_to_8(data, at + k, length - k)
            store_u64(joined, to + k, value)
            count -= count_continuations(value)
        to += length
    places[end - begin] = to
    points[end - begin] = count


@helper
def _prefix(joined, at, size):
    """32 bits from `size` bytes, 12 or 20."""
    value = (load_u64(joined, at) * GOLDEN) ^ load_u64(joined, at + size - 8)
    if size > 16:
        value ^= load_u64(joined, at + 8) * np.uint64(0x165667B19E3779F9)
    value *= OTHER_MULTIPLIER
    return np.uint32(value >> np.uint64(32))


@helper
def _candidates(text, size, level, chosen, count, prints):
    """Narrow `chosen` to the words whose next `level` bytes occur at two of them, or that start an
    n-gram shorter than that; how many are left.

    Every word with as many bytes after it is counted, so that a long n-gram finds its equal that
    begins with a short one.
    """
    joined, places = text.data, text.places
    bits = 6
    while (1 << bits) < SPARSITY * count:
        bits += 1
    shift = np.uint32(32 - bits)
    prints[: np.int64(1) << bits] = 0
    # Past the words stands what a longer text left there: at worst a word more is chosen.
    for k in range(count):
        place = _prefix(joined, np.int64(places[chosen[k]]), level) >> shift
        prints[place] = min(prints[place] + 1, 2)
    left = np.int64(0)
    for k in range(count):
        j = chosen[k]
        at = np.int64(places[j])
        chosen[left] = j
        left += (prints[_prefix(joined, at, level) >> shift] == 2) | (places[j + size] - at < level)
    return left


@helper
def _repeated(text, words, size, chosen, count, stamp, mask, seen):
    """Return the code points of n-grams that repeat an earlier one: from the left, on behind each
    that does.
    """
    joined, places, points = text
    stamps, hashes, firsts = seen
    characters = np.int64(0)
    free = np.int64(0)  # the first word that no repeated n-gram covers
    for k in range(count):
        j = np.int64(chosen[k])
        if j < free:
            continue
        if j + size > words:
            break
        start = np.int64(places[j])
        length = np.int64(places[j + size]) - start
        value = hash_bytes(joined, start, start + length)
        at = np.int64(value & np.uint64(mask))
        known = False
        while stamps[at] == stamp:
            if hashes[at] == value:
                other = np.int64(firsts[at])
                base = np.int64(places[other])
                if places[other + size] - base == length and same_bytes(
                    joined, base, start, length
                ):
                    known = True
                    break
            at = (at + 1) & mask
        if known:
            characters += points[j + size] - points[j]
            free = j + size
        else:
            stamps[at] = stamp
            hashes[at] = value
            firsts[at] = j
    return characters


@kernel(BYTES, WordBounds, _Joined, Int32s, Bytes, _Ngrams, Int64Rows)
def _count_repeated(data, bounds, text, chosen, prints, seen, out):
    word_offsets = bounds.word_offsets
    stamp = np.int64(0)
    for i in range(len(word_offsets) - 1):
        begin = word_offsets[i]
        end = word_offsets[i + 1]
        words = end - begin
        out[:, i] = 0
        if words <= FIRST:
            continue
        _join(data, bounds, begin, end, text)
        count = words - FIRST + 1
        for j in range(count):
            chosen[j] = j
        # Written out, so that each is compiled for its own number of bytes.
        count = _candidates(text, FIRST, PREFIXES[0], chosen, count, prints)
        count = _candidates(text, FIRST, PREFIXES[1], chosen, count, prints)
        mask = mask_for(count)
        for size in range(FIRST, LAST + 1):
            stamp += 1
            out[size - FIRST, i] = _repeated(text, words, size, chosen, count, stamp, mask, seen)


@kernel(BYTES, WordBounds, types.int64, ngrams.Top, types.int64[::1])
def _top_characters(data, bounds, size, top, out):
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    counts, firsts = top
    for i in range(len(word_offsets) - 1):
        out[i] = 0
        if counts[i] > 0:
            length = size - 1
            for j in range(word_offsets[i] + firsts[i], word_offsets[i] + firsts[i] + size):
                length += count_characters(data, np.int64(starts[j]), np.int64(stops[j]))
            out[i] = length * counts[i]


def count(
    offsets: np.ndarray, data: np.ndarray, bounds: WordBounds, *, by_newlines: bool
) -> RepetitionCounts:
    r"""Count what the rules need for n texts, given their words and lines: offsets (n + 1,) int32
    into data (bytes,) uint8.

    `by_newlines`: lines are what runs of \n part, an empty first or last one included; else
    str.splitlines().
    """
    texts = len(offsets) - 1
    numbers = np.empty((6, texts), np.int64)
    # Every \n breaks a line, but for that of \r\n all of their own.
    most_lines = 2 * int(np.diff(bounds.line_offsets).max(initial=0)) + 2
    tail, newlines = np.zeros(64, np.uint8), np.empty(most_lines, np.int64)
    seen = table(most_lines)
    _count_pieces(offsets, data, bounds, by_newlines, tail, newlines, seen, numbers)
    top = np.empty((len(TOPS), texts), np.int64)
    found = ngrams.top(data, bounds, TOPS, most_words=ngrams.MOST_WORDS)
    for size, best, out in zip(TOPS, found, top, strict=True):
        _top_characters(data, bounds, size, best, out)
    most_bytes = int(np.diff(offsets).max(initial=0))
    repeated = _repeated_characters(data, bounds, most_bytes)
    pieces = (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5])
    return RepetitionCounts(*pieces, top, repeated)


def _repeated_characters(data: np.ndarray, bounds: WordBounds, most_bytes: int) -> np.ndarray:
    """Return `RepetitionCounts.repeated` of texts of at most `most_bytes`."""
    most_words = int(np.diff(bounds.word_offsets).max(initial=0))
    size = 64
    while size < max(2, SPARSITY) * (most_words + 1):
        size *= 2
    places = max(64, 1 << (2 * most_words + 1).bit_length())  # mask_for(most_words) + 1
    starts, points, chosen = (np.empty(most_words + 1, np.int32) for _ in range(3))
    text = _Joined(np.zeros(most_bytes + 64, np.uint8), starts, points)
    seen = _Ngrams(
        np.zeros(places, np.int64), np.empty(places, np.uint64), np.empty(places, np.int32)
    )
    repeated = np.empty((LAST - FIRST + 1, len(bounds.word_offsets) - 1), np.int64)
    _count_repeated(data, bounds, text, chosen, np.empty(size, np.uint8), seen, repeated)
    return repeated
