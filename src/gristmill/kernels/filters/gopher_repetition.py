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
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, OFFSETS, helper, kernel
from gristmill.kernels.jit.loads import (
    count_characters,
    count_continuations,
    load_u64,
    load_up_to_8,
    same_bytes,
    store_u64,
)
from gristmill.kernels.text import ngrams
from gristmill.kernels.text.pieces import after_break, find_newlines, mask_for, repeats, table
from gristmill.kernels.text.words import Bounds

TOPS = (2, 3, 4)
FIRST, LAST = 5, 10  # sizes of n-grams that are looked for twice
PREFIXES = (12, 20)  # bytes
SPARSITY = 8  # places a word, of the table that counts prefixes


class Counts(NamedTuple):
    """What the rules are made of; each is (n,) int64 but for the last two. Characters are code
    points.
    """

    paragraphs: np.ndarray
    repeated_paragraphs: np.ndarray
    repeated_paragraph_characters: np.ndarray
    lines: np.ndarray
    repeated_lines: np.ndarray
    repeated_line_characters: np.ndarray
    # (3, n): of the commonest 2-, 3- and 4-gram its characters, spaces between words included,
    # times its count
    top: np.ndarray
    # (6, n): characters of 5- to 10-grams that repeat an earlier one, found from the left, without
    # overlap
    repeated: np.ndarray


@kernel(
    OFFSETS,
    BYTES,
    INT64S,
    INT32S,
    INT32S,
    INT64S,
    INT32S,
    types.boolean,
    types.uint8[::1],
    types.int64[::1],
    types.int64[::1],
    types.uint64[::1],
    types.int64[::1],
    types.int64[::1],
    types.int64[:, ::1],
)
def _count_pieces(
    offsets,
    data,
    word_offsets,
    starts,
    stops,
    line_offsets,
    line_stops,
    by_newlines,
    tail,
    newlines,
    stamps,
    hashes,
    piece_starts,
    piece_stops,
    out,
):
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
                size = repeats(
                    data, piece, at, stamp, mask, stamps, hashes, piece_starts, piece_stops
                )
                out[3 * kind, i] += 1
                out[3 * kind + 1, i] += size >= 0
                out[3 * kind + 2, i] += max(size, np.int64(0))
                piece = behind
        if not by_newlines:
            stamp += 1
            line = begin
            for number in range(line_offsets[i], line_offsets[i + 1]):
                at = np.int64(line_stops[number])
                size = repeats(
                    data, line, at, stamp, mask, stamps, hashes, piece_starts, piece_stops
                )
                out[3, i] += 1
                out[4, i] += size >= 0
                out[5, i] += max(size, np.int64(0))
                line = after_break(data, at, stop)


@helper
def _join(data, starts, stops, begin, end, joined, places, points):
    """Lay words end to end; `places` (words + 1,) are where they start in bytes, `points` in code
    points.
    """
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
def _candidates(joined, places, size, level, chosen, count, prints):
    """Of the words chosen, those whose next `level` bytes occur at two of them, or that start an
    n-gram shorter than that.

    `chosen` is narrowed in place. Every word with so many bytes after it is counted, so that a long
    n-gram finds its equal that begins with a short one.
    """
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
def _repeated(
    joined, places, points, words, size, chosen, count, stamp, mask, stamps, hashes, firsts
):
    """The code points of n-grams that repeat an earlier one: from the left, on behind each that
    does.
    """
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


@kernel(
    BYTES,
    INT64S,
    INT32S,
    INT32S,
    types.uint8[::1],
    types.int32[::1],
    types.int32[::1],
    types.int32[::1],
    types.uint8[::1],
    types.int64[::1],
    types.uint64[::1],
    types.int32[::1],
    types.int64[:, ::1],
)
def _count_repeated(
    data,
    word_offsets,
    starts,
    stops,
    joined,
    places,
    points,
    chosen,
    prints,
    stamps,
    hashes,
    firsts,
    out,
):
    stamp = np.int64(0)
    for i in range(len(word_offsets) - 1):
        begin = word_offsets[i]
        end = word_offsets[i + 1]
        words = end - begin
        out[:, i] = 0
        if words <= FIRST:
            continue
        _join(data, starts, stops, begin, end, joined, places, points)
        count = words - FIRST + 1
        for j in range(count):
            chosen[j] = j
        # Written out, so that each is compiled for its own number of bytes.
        count = _candidates(joined, places, FIRST, PREFIXES[0], chosen, count, prints)
        count = _candidates(joined, places, FIRST, PREFIXES[1], chosen, count, prints)
        mask = mask_for(count)
        for size in range(FIRST, LAST + 1):
            stamp += 1
            out[size - FIRST, i] = _repeated(
                joined,
                places,
                points,
                words,
                size,
                chosen,
                count,
                stamp,
                mask,
                stamps,
                hashes,
                firsts,
            )


@kernel(BYTES, INT64S, INT32S, INT32S, types.int64, INT64S, INT64S, types.int64[::1])
def _top_characters(data, word_offsets, starts, stops, size, counts, firsts, out):
    for i in range(len(word_offsets) - 1):
        out[i] = 0
        if counts[i] > 0:
            length = size - 1
            for j in range(word_offsets[i] + firsts[i], word_offsets[i] + firsts[i] + size):
                length += count_characters(data, np.int64(starts[j]), np.int64(stops[j]))
            out[i] = length * counts[i]


def count(offsets: np.ndarray, data: np.ndarray, bounds: Bounds, *, by_newlines: bool) -> Counts:
    r"""Count what the rules need for n texts, given their words and lines: offsets (n + 1,) int32
    into data (bytes,) uint8.

    `by_newlines`: lines are what runs of \n part, an empty first or last one included; else
    str.splitlines().
    """
    texts = len(offsets) - 1
    numbers = np.empty((6, texts), np.int64)
    words = (bounds.word_offsets, bounds.starts, bounds.stops)
    # Every \n breaks a line, but for that of \r\n all of their own.
    most_lines = 2 * int(np.diff(bounds.line_offsets).max(initial=0)) + 2
    _count_pieces(
        offsets,
        data,
        *words,
        bounds.line_offsets,
        bounds.line_stops,
        by_newlines,
        np.zeros(64, np.uint8),
        np.empty(most_lines, np.int64),
        *table(most_lines),
        numbers,
    )
    top = np.empty((len(TOPS), texts), np.int64)
    for place, (size, found) in enumerate(
        zip(TOPS, ngrams.top(data, bounds, TOPS, most_words=ngrams.MOST_WORDS), strict=True)
    ):
        _top_characters(data, *words, size, found.counts, found.firsts, top[place])
    most_words = int(np.diff(bounds.word_offsets).max(initial=0))
    most_bytes = int(np.diff(offsets).max(initial=0))
    size = 64
    while size < max(2, SPARSITY) * (most_words + 1):
        size *= 2
    repeated = np.empty((LAST - FIRST + 1, texts), np.int64)
    starts, points, chosen = (np.empty(most_words + 1, np.int32) for _ in range(3))
    places = int(mask_for(most_words)) + 1
    _count_repeated(
        data,
        *words,
        np.zeros(most_bytes + 64, np.uint8),
        starts,
        points,
        chosen,
        np.empty(size, np.uint8),
        np.zeros(places, np.int64),
        np.empty(places, np.uint64),
        np.empty(places, np.int32),
        repeated,
    )
    return Counts(
        numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], top, repeated
    )
