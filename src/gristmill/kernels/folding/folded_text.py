"""One text folded: NFC (UAX 15), one form for width, ligatures, quotes and dashes, and nothing that
is not drawn (fold_tables.py). White space and letters' case stay.

A code point becomes those that its expansion names. A starter and the marks behind it wait; when
the next starter comes, marks are put into canonical order, and what composes is composed. More than
MARKS marks in a row are taken MARKS at a time, so that hostile rows of them cost no more than
others (as in UAX 15's stream-safe texts, whose limit is 30).
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.folding.fold_tables import HARD, MARK, SWAP
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int32s
from gristmill.kernels.unicode.tables import code_point, lead_width, unicode_bits

MARKS = 64
# Hangul syllables, by rule: a leading consonant, a vowel, a trailing consonant.
LEADS, VOWELS, TRAILS, SYLLABLES = 0x1100, 0x1161, 0x11A7, 0xAC00
LEAD_COUNT, VOWEL_COUNT, TRAIL_COUNT = 19, 21, 28


# bytes that may be loaded or stored together: 64 from any place of a block of 64
BLOCK = 64 + 64
GROWTH = 3  # the most bytes that a byte becomes by folding


class FoldingRoom(NamedTuple):
    """What kernels write besides their result."""

    points: Int32s  # (MARKS + 1,) a starter and marks that are not written yet
    ranks: Int32s  # (MARKS + 1,) their combining classes
    folded: Bytes  # one text, folded
    tail: Bytes  # (BLOCK,) the last bytes of a buffer
    origins: Int32s  # of each folded byte where it came from; empty: nobody asks


def room_for(offsets: np.ndarray, *, origins: bool = False) -> FoldingRoom:
    """FoldingRoom for the longest of n texts. What is not touched takes no memory."""
    most = GROWTH * int(np.diff(offsets).max(initial=0)) + BLOCK
    return FoldingRoom(
        np.empty(MARKS + 1, np.int32),
        np.empty(MARKS + 1, np.int32),
        np.empty(most, np.uint8),
        np.zeros(BLOCK, np.uint8),
        np.empty(most if origins else 0, np.int32),
    )


@helper
def put(point, out, end):
    """Write a code point in UTF-8; where the next one starts."""
    if point < 0x80:
        out[end] = point
        return end + 1
    if point < 0x800:
        out[end] = 0xC0 | (point >> 6)
        out[end + 1] = 0x80 | (point & 0x3F)
        return end + 2
    if point < 0x10000:
        out[end] = 0xE0 | (point >> 12)
        out[end + 1] = 0x80 | ((point >> 6) & 0x3F)
        out[end + 2] = 0x80 | (point & 0x3F)
        return end + 3
    out[end] = 0xF0 | (point >> 18)
    out[end + 1] = 0x80 | ((point >> 12) & 0x3F)
    out[end + 2] = 0x80 | ((point >> 6) & 0x3F)
    out[end + 3] = 0x80 | (point & 0x3F)
    return end + 4


@helper
def _composed(first, second, pair_keys, pair_values):
    """Return what two code points compose to; 0: nothing."""
    if 0 <= first - LEADS < LEAD_COUNT and 0 <= second - VOWELS < VOWEL_COUNT:
        return SYLLABLES + ((first - LEADS) * VOWEL_COUNT + second - VOWELS) * TRAIL_COUNT
    syllable = first - SYLLABLES
    if 0 <= syllable < LEAD_COUNT * VOWEL_COUNT * TRAIL_COUNT and 0 < second - TRAILS < TRAIL_COUNT:
        return first + second - TRAILS if syllable % TRAIL_COUNT == 0 else np.int64(0)
    key = (first << 21) | second
    low, high = np.int64(0), np.int64(len(pair_keys))
    while low < high:
        middle = (low + high) >> 1
        if pair_keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < len(pair_keys) and pair_keys[low] == key:
        return np.int64(pair_values[low])
    return np.int64(0)


@helper
def _arrange(points, ranks, count, pair_keys, pair_values):
    """Put what waits into canonical order and compose it; how many are left."""
    for j in range(1, count):
        point, rank, k = points[j], ranks[j], j
        while k > 0 and ranks[k - 1] > rank:
            points[k], ranks[k] = points[k - 1], ranks[k - 1]
            k -= 1
        points[k], ranks[k] = point, rank
    if count == 0 or ranks[0] > 0:
        return count
    left = np.int64(1)
    last = np.int64(0)
    for j in range(1, count):
        made = np.int64(0)
        if ranks[j] > last:
            made = _composed(np.int64(points[0]), np.int64(points[j]), pair_keys, pair_values)
        if made:
            points[0] = made
        else:
            last = np.int64(ranks[j])
            points[left], ranks[left] = points[j], ranks[j]
            left += 1
    return left


@helper
def _write(points, count, begin, out, end, origins):
    """Write what waits, which came from `begin`; where the next starts."""
    for j in range(count):
        after = put(np.int64(points[j]), out, end)
        if len(origins) > 0:
            for k in range(end, after):
                origins[k] = begin
        end = after
    return end


@helper
def _copy(data, at, out, end, origins):
    """Write the character at an index as it is; where the next starts."""
    for k in range(lead_width(data[at])):
        out[end + k] = data[at + k]
        if len(origins) > 0:
            origins[end + k] = at
    return end + lead_width(data[at])


@helper
def _copy_ascii(data, at, stop, out, end, origins):
    """Write printable ASCII from an index on, but for its last character; where that is."""
    while at + 1 < stop and 0x20 <= data[at + 1] < 0x7F:
        out[end] = data[at]
        if len(origins) > 0:
            origins[end] = at
        at += 1
        end += 1
    return at


@helper
def fold_text(data, bounds, folding, room):
    """Write data[bounds[0]:bounds[1]] folded to `room.folded`; where it ends.

    `room.origins`, if it has any room, gets of each byte where in `data` that starts which it was
    made of.
    """
    points, ranks, out, origins = room.points, room.ranks, room.folded, room.origins
    forms, places, expansions = folding.forms, folding.places, folding.expansions
    classes, pair_keys, pair_values = folding.ranks, folding.pair_keys, folding.pair_values
    at, stop = bounds
    end = np.int64(0)
    begin = at  # of what waits
    count = np.int64(0)
    quiet = np.int64(-1)  # where a character is that may stay as it is, if none joins it
    loud = at  # up to here each character is taken apart
    while at < stop:
        width = lead_width(data[at])
        point = code_point(data, at, width)
        if unicode_bits(point, forms) & (HARD | MARK | SWAP) == 0 and at >= loud:
            if count > 0:
                count = _arrange(points, ranks, count, pair_keys, pair_values)
                end = _write(points, count, begin, out, end, origins)
                count = np.int64(0)
            elif quiet >= 0:
                end = _copy(data, quiet, out, end, origins)
            quiet = at
            if width == 1:
                quiet = _copy_ascii(data, at, stop, out, end, origins)
                end += quiet - at
            at = quiet + width
            continue
        if quiet >= 0:
            loud = at + width
            at = quiet
            quiet = np.int64(-1)
            continue
        place = np.int64(places.pages[(np.int64(places.blocks[point >> 8]) << 8) | (point & 0xFF)])
        made = np.int64(1) if place == 0 else np.int64(expansions[place])
        for k in range(made):
            if place:
                point = np.int64(expansions[place + 1 + k])
            rank = unicode_bits(point, classes)
            if rank > 0 and count < MARKS:
                begin = at if count == 0 else begin
                points[count], ranks[count] = point, rank
                count += 1
                continue
            count = _arrange(points, ranks, count, pair_keys, pair_values)
            if rank == 0 and count == 1 and unicode_bits(point, forms) & HARD:
                joined = np.int64(0)
                if ranks[0] == 0:
                    joined = _composed(np.int64(points[0]), point, pair_keys, pair_values)
                if joined:
                    points[0] = joined
                    continue
            end = _write(points, count, begin, out, end, origins)
            points[0], ranks[0] = point, rank
            count = np.int64(1)
            begin = at
        at += width
    if quiet >= 0:
        return _copy(data, quiet, out, end, origins)
    count = _arrange(points, ranks, count, pair_keys, pair_values)
    return _write(points, count, begin, out, end, origins)
