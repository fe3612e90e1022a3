"""MinHash signatures (Broder 1997) of word shingles, and the keys that LSH compares.

    words, or characters, of normalised text -> 64-bit hashes -> 64-bit shingle hashes -> k minima
    of a * x + b mod 2^32

x is the top half of a shingle's hash, a is odd: each function is a permutation of the 32-bit
integers (linear permutations: Broder, Charikar, Frieze, Mitzenmacher 1998, section 4), and one
vector instruction multiplies 16 lanes. A document of fewer words than a shingle has one shingle, of
all it has; one without words has none, and its signature is all ones. Shingles of characters count
the spaces between words, one each.
"""

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, GOLDEN, PRIME, mix, splitmix64
from gristmill.kernels.jit.compile import BYTES, INT64S, UINT32S, UINT64S, helper, kernel

SPACE = 0x20
EMPTY = np.uint32(0xFFFFFFFF)


@helper
def _hash_words(data, start, stop, out):
    words = np.int64(0)
    word = BASIS
    for at in range(start, stop):
        byte = data[at]
        if byte == SPACE:
            out[words] = mix(word)
            words += 1
            word = BASIS
        else:
            word = (word ^ np.uint64(byte)) * PRIME
    if stop > start:
        out[words] = mix(word)
        words += 1
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
def hash_shingles(data, start, stop, width, characters, out):
    """Write the hashes of a normalised text's shingles; return how many. `out` has place for one a
    word or character, and `width`.
    """
    top = np.uint64(1)
    for _ in range(width):
        top *= GOLDEN
    # `out` holds the hashes of words first, each shingle's hash then takes the place of a word no
    # longer needed.
    words = (
        _hash_characters(data, start, stop, out)
        if characters
        else _hash_words(data, start, stop, out)
    )
    if words == 0:
        return np.int64(0)
    polynomial = np.uint64(0)
    for j in range(min(words, width)):
        polynomial = polynomial * GOLDEN + out[j]
    if words <= width:
        out[0] = mix(polynomial + np.uint64(words))
        return np.int64(1)
    shingles = words - width + 1
    for j in range(shingles - 1):
        leaving = out[j]
        out[j] = mix(polynomial + np.uint64(width))
        polynomial = polynomial * GOLDEN + out[j + width] - leaving * top
    out[shingles - 1] = mix(polynomial + np.uint64(width))
    return shingles


@kernel(
    INT64S,
    BYTES,
    types.int64,
    types.boolean,
    UINT32S,
    UINT32S,
    types.uint64[::1],
    types.uint32[:, ::1],
    types.int64[::1],
)
def _sign(offsets, data, width, characters, multipliers, addends, shingles, signatures, counts):
    permutations = len(multipliers)
    for i in range(len(offsets) - 1):
        count = hash_shingles(data, offsets[i], offsets[i + 1], width, characters, shingles)
        counts[i] = count
        minima = signatures[i]
        for k in range(permutations):
            minima[k] = EMPTY
        # Four shingles a turn: a minimum is loaded and stored once for four.
        whole = count - count % 4
        for j in range(0, whole, 4):
            one = np.uint32(shingles[j] >> np.uint64(32))
            two = np.uint32(shingles[j + 1] >> np.uint64(32))
            three = np.uint32(shingles[j + 2] >> np.uint64(32))
            four = np.uint32(shingles[j + 3] >> np.uint64(32))
            for k in range(permutations):
                a = multipliers[k]
                b = addends[k]
                first = min(np.uint32(a * one + b), np.uint32(a * two + b))
                second = min(np.uint32(a * three + b), np.uint32(a * four + b))
                minima[k] = min(minima[k], min(first, second))
        for j in range(whole, count):
            one = np.uint32(shingles[j] >> np.uint64(32))
            for k in range(permutations):
                minima[k] = min(minima[k], np.uint32(multipliers[k] * one + addends[k]))


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
    INT64S,
    BYTES,
    types.int64,
    types.boolean,
    types.uint64[::1],
    types.int32[::1],
    types.uint64[::1],
    types.int64[::1],
    returns=types.int64,
)
def _distinct(offsets, data, width, characters, table, stamps, out, out_offsets):
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        count = hash_shingles(data, offsets[i], offsets[i + 1], width, characters, out[end:])
        end += keep_distinct(out[end:], count, table, stamps, np.int32(i + 1))
    out_offsets[len(offsets) - 1] = end
    return end


def permutations(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The family's parameters: (multipliers, addends), each (count,) uint32, from splitmix64
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
    signatures = np.empty((len(offsets) - 1, len(multipliers)), np.uint32)
    counts = np.empty(len(offsets) - 1, np.int64)
    shingles = np.empty((longest if characters else longest // 2) + width + 2, np.uint64)
    _sign(offsets, data, width, characters, multipliers, addends, shingles, signatures, counts)
    return signatures, counts


def band_keys(signatures: np.ndarray, scopes: np.ndarray, *, bands: int, rows: int) -> np.ndarray:
    """The keys of n signatures (n, bands * rows) uint32, one a band, as (n, bands) int64.

    Equal keys mean equal rows of one band in one scope (scopes: (n,) uint64), but for one chance in
    2^64.
    """
    keys = np.empty((len(signatures), bands), np.uint64)
    _band(signatures, bands, rows, scopes, keys)
    return keys.view(np.int64)


def distinct_shingles(
    offsets: np.ndarray, data: np.ndarray, *, width: int, characters: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct shingle hashes of n normalised texts: (offsets (n + 1,) int64, hashes (m,)
    uint64).
    """
    longest = int(np.diff(offsets).max(initial=0))
    size = 64
    while size < longest + 2:
        size *= 2
    out = np.empty(
        (len(data) if characters else (len(data) + len(offsets)) // 2) + width + len(offsets),
        np.uint64,
    )
    out_offsets = np.empty(len(offsets), np.int64)
    end = _distinct(
        offsets,
        data,
        width,
        characters,
        np.empty(size, np.uint64),
        np.zeros(size, np.int32),
        out,
        out_offsets,
    )
    return out_offsets, out[:end]
