"""A group of pieces: where they start, their keys, and where the tables of pieces have them.

bitmap of starts -> 256 starts -> their keys and places; each place's line is asked for
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.bpe.batches import PieceBatch, batch_addresses
from gristmill.kernels.bpe.cutting import Cuts, addresses_of_cuts, find_cuts
from gristmill.kernels.bpe.tables import (
    LENGTH_SHIFT,
    LONG,
    MIDDLE,
    PART,
    SHORT,
    hash_long,
    hash_middle,
    hash_short,
    is_long,
    is_middle,
    line_start,
    load_up_to_8_before,
)
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Int32s, Int64s, Uint64s
from gristmill.kernels.jit.loads import ONE, count_ones, count_trailing_zeros, load_u64
from gristmill.kernels.jit.vectors import address_of, equal_entries, prefetch

GROUP = 256  # pieces whose entries are asked for together


class Spans(NamedTuple):
    """A group of pieces; a mask of 64 bytes may add 63 to it, and writes 8 at a time."""

    starts: Int32s  # (GROUP + 80,)
    keys: Uint64s  # the first two words of short entries, or the hash of a long piece
    places: Int64s  # the word at which an entry's table is searched first
    masks: Uint64s  # (32,) of each length the bytes that it leaves of the two words
    batch: PieceBatch  # those of up to SHORT bytes that have no entry
    cuts: Cuts  # parts of one that is longer

    @classmethod
    def empty(cls) -> "Spans":
        """Room for a group."""
        room = GROUP + 80
        return cls(
            np.zeros(room, np.int32),
            np.zeros(2 * room, np.uint64),
            np.zeros(room, np.int64),
            _masks(),
            PieceBatch.empty(),
            Cuts.empty(),
        )


def _masks() -> np.ndarray:
    """Of each length up to SHORT, the bits of its bytes in two words, (32,) uint64."""
    bits = [(1 << 8 * length) - 1 for length in range(SHORT + 1)]
    words = [word for mask in bits for word in (mask & (1 << 64) - 1, mask >> 64)]
    return np.array(words, np.uint64)


@helper
def span_addresses(spans):
    """Return the addresses of a group's arrays."""
    return (
        address_of(spans.starts),
        address_of(spans.keys),
        address_of(spans.places),
        address_of(spans.masks),
        batch_addresses(spans.batch),
        addresses_of_cuts(spans.cuts),
    )


@helper
def _write_ones(mask, base, out, count):
    """Write the positions of a mask's set bits; up to 8 places more are written and mean nothing.
    (As kernels/text/words.py does.)
    """
    ones = count_ones(mask)
    written = np.int64(0)
    while written < ones:
        for k in range(8):
            out[count + written + k] = base + count_trailing_zeros(mask)
            mask &= mask - ONE
        written += 8
    return count + ones


@helper
def collect(marks, word, last, starts):
    """Write the starts of a group of pieces, and where the last of them stops; (pieces, next word).

    The last mark of all is no start.
    """
    count = np.int64(0)
    while count < GROUP and word <= last:
        count = _write_ones(marks[word], word << 6, starts, count)
        word += 1
    ahead = word
    while ahead <= last and marks[ahead] == 0:
        ahead += 1
    if ahead > last:
        return count - 1, word
    starts[count] = (ahead << 6) + count_trailing_zeros(marks[ahead])
    return count, word


@helper
def _short_key(data, start, length, readable, masks_of_length):
    """Return the first two words of a short piece's entry."""
    if start <= readable - 16:
        head = load_u64(data, start) & masks_of_length[2 * length]
        tail = load_u64(data, start + 8) & masks_of_length[2 * length + 1]
    else:
        head = load_up_to_8_before(data, start, length, readable)
        tail = np.uint64(0)
        if length > 8:
            tail = load_up_to_8_before(data, start + 8, length - 8, readable)
    return head, tail | (np.uint64(length) << LENGTH_SHIFT)


@helper
def find_keys(data, readable, count, spans, tables):
    """Compute where each piece's entry is searched, and ask for its line."""
    starts, keys, places, masks_of_length = spans[:4]
    short, middle, long, masks = tables[0], tables[1], tables[2], tables[7]
    for j in range(count):
        start = np.int64(starts[j])
        length = np.int64(starts[j + 1]) - start
        if length <= SHORT:
            head, tail = _short_key(data, start, length, readable, masks_of_length)
            place = line_start(hash_short(head, tail), masks[0])
            prefetch(short, place)
            keys[2 * j] = head
            keys[2 * j + 1] = tail
            places[j] = place
        elif length <= MIDDLE:
            place = line_start(hash_middle(data, start, length), masks[1])
            prefetch(middle, place)
            places[j] = place
        elif length <= LONG:
            hashed = hash_long(data, start, length)
            place = line_start(hashed, masks[2])
            prefetch(long, place)
            keys[2 * j] = hashed
            places[j] = place


@helper
def find_parts(piece, joints, spans, tables):
    """Find where a long piece is cut, compute the keys of its short parts, and ask for their lines;
    how many parts there are.

    What merging makes of a part is not what a piece becomes that is a whole token: parts have
    entries of their own.
    """
    data, start, length, readable = piece
    starts, keys, places = spans[5]
    count = find_cuts(data, start, start + length, joints, starts)
    for j in range(count):
        size = starts[j + 1] - starts[j]
        if size <= SHORT:
            head, tail = _short_key(data, starts[j], size, readable, spans[3])
            tail |= PART
            place = line_start(hash_short(head, tail), tables[7][0])
            prefetch(tables[0], place)
            keys[2 * j] = head
            keys[2 * j + 1] = tail
            places[j] = place
    return count


@helper
def find_short(keys, j, place, tables):
    """Return the two words of tokens of a short piece; 0 where it has no entry."""
    short, mask = tables[0], tables[7][0]
    while True:
        equal = equal_entries(short, place, keys, 2 * j)
        if equal != 0:
            at = place + ((equal >> 2) & 4)
            return short[at + 2], short[at + 3]
        if short[place + 5] == 0:
            return np.uint64(0), np.uint64(0)
        place = np.int64(np.uint64(place + 8) & mask)


@helper
def find_wide(data, start, length, readable, head, place, tables):
    """Return the two words of tokens of a piece of more than SHORT bytes; 0 where it has no
    entry.
    """
    middle, long, spelling, masks = tables[1], tables[2], tables[4], tables[7]
    if length <= MIDDLE:
        while middle[place + 5] != 0:
            if is_middle(data, start, length, readable, place, middle):
                return middle[place + 6], middle[place + 7]
            place = np.int64(np.uint64(place + 8) & masks[1])
    elif length <= LONG:
        while long[place] != 0:
            if long[place] == head and long[place + 1] >> np.uint64(32) == np.uint64(length):
                begin = np.int64(long[place + 1] & np.uint64(0xFFFFFFFF))
                if is_long(data, start, length, begin, spelling):
                    return long[place + 2], long[place + 3]
            place = np.int64(np.uint64(place + 4) & masks[2])
    return np.uint64(0), np.uint64(0)


@helper
def search_start(offsets, text, starts, first, count):
    """Return the piece from first + 1 on at which a text starts; `count` if that is in a later
    group.
    """
    boundary = offsets[text]
    if boundary >= starts[count]:
        return count
    low = first + 1
    high = count
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] < boundary:
            low = middle + 1
        else:
            high = middle
    return low
