"""MinHash signatures (Broder 1997) of word shingles, and the keys that LSH compares.

    words, or characters, of normalised text -> 64-bit hashes -> 64-bit shingle hashes -> k minima
    of a * x + b mod 2^32

x is the top half of a shingle's hash, a is odd: each function is a permutation of the 32-bit
integers (linear permutations: Broder, Charikar, Frieze, Mitzenmacher 1998, section 4), and one
vector instruction multiplies 16 lanes. A document of fewer words than a shingle has one shingle, of
all it has; one without words has none, and its signature is all ones. Shingles of characters count
the spaces between words, one each.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, GOLDEN, PRIME, mix, splitmix64
from gristmill.kernels.jit.compile import BYTES, INT64S, UINT32S, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int64s, Uint64s
from gristmill.kernels.jit.lanes import (
    LANES,
    fnv_of_8_longer,
    fnv_of_8_words,
    minima_of_16,
    shingle_of_8,
)
from gristmill.kernels.jit.loads import block_of, copy_tail, mask_of_range, valid_in, write_ones

SPACE = 0x20
LONGEST = 64  # bytes of words that are hashed side by side
SLACK = 4 * LANES  # places that are written or read and mean nothing


class ShingleRoom(NamedTuple):
    """What hashing shingles takes."""

    shingles: Uint64s
    stops: Int64s  # where words stop
    listed: Int64s  # words that are longer than 8 bytes
    tail: Bytes  # (64,)


@helper
def _find_words(data, start, stop, tail, stops):
    """Return where words stop: stops[j + 1] is the place behind word j, stops[0] the one before the
    text.

    How many words there are. Eight places more say that there is nothing.
    """
    stops[0] = start - 1
    if start == stop:
        return np.int64(0)
    words = np.int64(0)
    for at in range(start, stop, 64):
        if at + 64 > len(data):
            copy_tail(data, at, stop, tail)
        spaces = mask_of_range(block_of(data, at, tail), 0, SPACE, 0) & valid_in(at, stop)
        words = write_ones(spaces, at, stops, words + 1) - 1
    for j in range(words + 1, words + 2 + LANES):
        stops[j] = stop
    return words + 1


@helper
def _hash_word(data, start, stop):
    value = BASIS
    for at in range(start, stop):
        value = (value ^ np.uint64(data[at])) * PRIME
    return mix(value)


@helper
def _hash_words(data, start, stop, room, out):
    """Return the hashes of a text's words: of eight side by side the first 8 bytes, then, of those
    that are longer, the rest.
    """
    stops, listed = room.stops, room.listed
    words = _find_words(data, start, stop, room.tail, stops)
    longer = np.int64(0)
    for first in range(0, words, LANES):
        if stops[first + LANES - 1] + 1 + 8 > len(data):
            # The end of the buffer is near: no 8 bytes may be loaded.
            for j in range(first, min(first + LANES, words)):
                out[j] = _hash_word(data, stops[j] + 1, stops[j + 1])
        else:
            longer = write_ones(fnv_of_8_words(data, stops, first, out), first, listed, longer)
    beside = np.int64(0)
    for place in range(longer):
        j = listed[place]
        # A very long word is no faster beside others; near the end as above.
        if stops[j + 1] - stops[j] > LONGEST or stops[j + 1] + 8 > len(data):
            out[j] = _hash_word(data, stops[j] + 1, stops[j + 1])
        else:
            listed[beside] = j
            beside += 1
    if beside > 0:
        for j in range(beside, beside + LANES - 1):
            listed[j] = listed[beside - 1]
        for first in range(0, beside, LANES):
            fnv_of_8_longer(data, stops, listed, first, out)
    return words


@helper
def _hash_characters(data, start, stop, out):
    characters = np.int64(0)
    value = BASIS
    for at in range(start, stop):
        value = (value ^ np.uint64(data[at])) * PRIME
        if at + 1 == stop or (data[at + 1] & 0xC0) != 0x80:
            out[characters] = mix(value)
            characters += 1
            value = BASIS
    return characters


@helper
def hash_shingles(data, start, stop, width, characters, room, out):
    """Write the hashes of a normalised text's shingles; return how many. `out` has place for one a
    word or character, and SLACK and `width` more.
    """
    # `out` holds the hashes of words first, each shingle's hash then takes the place of a word no
    # longer needed.
    words = (
        _hash_characters(data, start, stop, out)
        if characters
        else _hash_words(data, start, stop, room, out)
    )
    if words == 0:
        return np.int64(0)
    if words <= width:
        polynomial = np.uint64(0)
        for j in range(words):
            polynomial = polynomial * GOLDEN + out[j]
        out[0] = mix(polynomial + np.uint64(words))
        return np.int64(1)
    shingles = words - width + 1
    for j in range(0, shingles, LANES):
        shingle_of_8(out, j, width, GOLDEN)
    return shingles


@kernel(
    *(INT64S, BYTES, types.int64, types.boolean, UINT32S, UINT32S, ShingleRoom),
    *(types.uint32[::1], types.uint32[:, ::1], types.int64[::1]),
)
def _sign(offsets, data, width, characters, multipliers, addends, room, minima, signatures, counts):
    shingles = room.shingles
    for i in range(len(offsets) - 1):
        count = hash_shingles(data, offsets[i], offsets[i + 1], width, characters, room, shingles)
        counts[i] = count
        # Four shingles a turn: the last one is repeated, which changes no minimum.
        if count > 0:
            for j in range(count, count + 3):
                shingles[j] = shingles[count - 1]
        fours = (count + 3) // 4
        k = np.int64(0)
        while k < len(minima):
            minima_of_16(shingles, fours, multipliers, addends, k, minima)
            k += 16
        of_text = signatures[i]
        for k in range(len(of_text)):
            of_text[k] = minima[k]


@kernel(
    types.Array(types.uint32, 2, "C", readonly=True),
    types.int64,
    types.int64,
    UINT64S,
    types.uint64[:, ::1],
)
def _band(signatures, bands, rows, scopes, keys):
    for i in range(len(signatures)):
        for band in range(bands):
            key = mix(scopes[i] * GOLDEN + np.uint64(band + 1))
            for row in range(rows):
                key = (key ^ np.uint64(signatures[i, band * rows + row])) * PRIME
                key ^= key >> np.uint64(29)
            keys[i, band] = mix(key)


@helper
def keep_distinct(values, count, table, stamps, stamp):
    """Move the distinct values of values[:count] to the front, in order of appearance; return how
    many.
    """
    mask = np.int64(len(table) - 1)
    distinct = np.int64(0)
    for j in range(count):
        value = values[j]
        place = np.int64(value & np.uint64(mask))
        while stamps[place] == stamp and table[place] != value:
            place = (place + 1) & mask
        if stamps[place] != stamp:
            stamps[place] = stamp
            table[place] = value
            values[distinct] = value
            distinct += 1
    return distinct


@kernel(
    *(INT64S, BYTES, types.int64, types.boolean, types.uint64[::1], types.int32[::1], ShingleRoom),
    types.int64[::1],
    returns=types.int64,
)
def _distinct(offsets, data, width, characters, table, stamps, room, out_offsets):
    out = room.shingles
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        count = hash_shingles(data, offsets[i], offsets[i + 1], width, characters, room, out[end:])
        end += keep_distinct(out[end:], count, table, stamps, np.int32(i + 1))
    out_offsets[len(offsets) - 1] = end
    return end


def _make_room(longest: int, hashes: int, width: int) -> ShingleRoom:
    """Room for texts of at most `longest` bytes, and for as many hashes."""
    words = longest // 2 + 1
    return ShingleRoom(
        np.empty(hashes + width + SLACK, np.uint64),
        np.empty(words + SLACK, np.int64),
        np.empty(words + SLACK, np.int64),
        np.empty(64, np.uint8),
    )


def permutations(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the family's parameters: (multipliers, addends), each (count,) uint32, from splitmix64
    (Steele 2014).
    """
    state = seed * 0x9E3779B97F4A7C15 + 0x6A09E667F3BCC909
    values = [word >> 32 for word in splitmix64(state, 2 * count)]
    return np.array(values[:count], np.uint32) | np.uint32(1), np.array(values[count:], np.uint32)


def sign(
    offsets: np.ndarray,
    data: np.ndarray,
    *,
    width: int,
    multipliers: np.ndarray,
    addends: np.ndarray,
    characters: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Sign n normalised texts: offsets (n + 1,) int64 into data (bytes,) uint8. Shingles are of
    `width` words, or characters.

    Returns (signatures (n, k) uint32, number of shingles (n,) int64).
    """
    longest = int(np.diff(offsets).max(initial=0))
    count = len(multipliers)
    signatures = np.empty((len(offsets) - 1, count), np.uint32)
    counts = np.empty(len(offsets) - 1, np.int64)
    factors, terms = (np.pad(array, (0, -count % 16)) for array in (multipliers, addends))
    minima = np.empty(len(factors), np.uint32)
    room = _make_room(longest, longest if characters else longest // 2, width)
    _sign(offsets, data, width, characters, factors, terms, room, minima, signatures, counts)
    return signatures, counts


def band_keys(signatures: np.ndarray, scopes: np.ndarray, *, bands: int, rows: int) -> np.ndarray:
    """Return the keys of n signatures (n, bands * rows) uint32, one a band, as (n, bands) int64.

    Equal keys mean equal rows of one band in one scope (scopes: (n,) uint64), but for one chance in
    2^64.
    """
    keys = np.empty((len(signatures), bands), np.uint64)
    _band(signatures, bands, rows, scopes, keys)
    return keys.view(np.int64)


def distinct_shingles(
    offsets: np.ndarray, data: np.ndarray, *, width: int, characters: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct shingle hashes of n normalised texts: (offsets (n + 1,) int64, hashes
    (m,) uint64).
    """
    longest = int(np.diff(offsets).max(initial=0))
    size = 64
    while size < longest + 2:
        size *= 2
    hashes = len(data) if characters else (len(data) + len(offsets)) // 2
    room = _make_room(longest, hashes + len(offsets), width)
    out_offsets = np.empty(len(offsets), np.int64)
    end = _distinct(
        offsets,
        data,
        width,
        characters,
        np.empty(size, np.uint64),
        np.zeros(size, np.int32),
        room,
        out_offsets,
    )
    return out_offsets, room.shingles[:end]
