"""What an encoder knows: tokens by their bytes, pairs that merge, and the merging itself.

Merges are done lowest rank first, of equal ranks the leftmost: short pieces by looking at all pairs, long ones with a heap over a
linked list, so that a text of one piece costs n log n.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.compile import BYTES, INT32S, INT64S, UINT64S, helper, kernel
from gristmill.kernels.loads import load_up_to_8

MIX = np.uint64(0x9E3779B97F4A7C15)
NO_PAIR = np.uint64(0xFFFFFFFFFFFFFFFF)
FEW = 48  # parts up to which looking at all pairs beats the heap


@helper
def hash_bytes(data, start, length):
    """64 bits of a run of bytes and its length."""
    value = np.uint64(length) * MIX
    for j in range(0, length, 8):
        value = (value ^ load_up_to_8(data, start + j, length - j)) * MIX
        value ^= value >> np.uint64(32)
    return value


@helper
def equal_bytes(one, start, other, begin, length):
    """Whether two runs of one length are equal."""
    for j in range(0, length, 8):
        if load_up_to_8(one, start + j, length - j) != load_up_to_8(other, begin + j, length - j):
            return False
    return True


@helper
def find_token(data, start, length, blob, token_offsets, token_table):
    """The token that has exactly these bytes, or -1."""
    mask = np.int64(len(token_table) - 1)
    place = np.int64(hash_bytes(data, start, length) & np.uint64(mask))
    while token_table[place] >= 0:
        token = token_table[place]
        begin = token_offsets[token]
        if token_offsets[token + 1] - begin == length:
            if equal_bytes(data, start, blob, begin, length):
                return token
        place = (place + 1) & mask
    return np.int32(-1)


@helper
def _pair_place(pair, mask):
    mixed = pair * MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))


@helper
def _find_pair(left, right, pair_keys, pair_values):
    """What two neighbours become: rank << 32 | token; NO_PAIR where they do not merge."""
    pair = (np.uint64(left) << np.uint64(32)) | np.uint64(right)
    mask = np.int64(len(pair_keys) - 1)
    place = _pair_place(pair, mask)
    while pair_keys[place] != NO_PAIR:
        if pair_keys[place] == pair:
            return pair_values[place]
        place = (place + 1) & mask
    return NO_PAIR


@kernel(BYTES, INT64S, types.int32[::1])
def _index_tokens(blob, token_offsets, token_table):
    mask = np.int64(len(token_table) - 1)
    for token in range(len(token_offsets) - 1):
        length = token_offsets[token + 1] - token_offsets[token]
        if length == 0:
            continue
        place = np.int64(hash_bytes(blob, token_offsets[token], length) & np.uint64(mask))
        while token_table[place] >= 0:
            place = (place + 1) & mask
        token_table[place] = token


@kernel(BYTES, INT64S, INT32S, types.uint64[::1], types.uint64[::1], returns=types.int64)
def _pairs_of_ranks(blob, token_offsets, token_table, lefts_rights, values):
    """Every way to cut a token into two tokens is a pair that merges, with the token's number as rank."""
    count = np.int64(0)
    for token in range(len(token_offsets) - 1):
        begin = token_offsets[token]
        length = token_offsets[token + 1] - begin
        for cut in range(1, length):
            left = find_token(blob, begin, cut, blob, token_offsets, token_table)
            if left >= 0:
                right = find_token(blob, begin + cut, length - cut, blob, token_offsets, token_table)
                if right >= 0:
                    lefts_rights[count] = (np.uint64(left) << np.uint64(32)) | np.uint64(right)
                    values[count] = (np.uint64(token) << np.uint64(32)) | np.uint64(token)
                    count += 1
    return count


@kernel(UINT64S, UINT64S, types.uint64[::1], types.uint64[::1])
def _index_pairs(pairs, values, pair_keys, pair_values):
    mask = np.int64(len(pair_keys) - 1)
    for i in range(len(pairs)):
        place = _pair_place(pairs[i], mask)
        while pair_keys[place] != NO_PAIR and pair_keys[place] != pairs[i]:
            place = (place + 1) & mask
        if pair_keys[place] == NO_PAIR:
            pair_keys[place] = pairs[i]
            pair_values[place] = values[i]


@helper
def merge_few(count, parts, merges, pair_keys, pair_values):
    """Merge parts[:count] in place, looking at all pairs each time; return how many are left."""
    for j in range(count - 1):
        merges[j] = _find_pair(parts[j], parts[j + 1], pair_keys, pair_values)
    while count > 1:
        best = NO_PAIR
        at = np.int64(0)
        for j in range(count - 1):
            # The token's number cannot decide: equal ranks have equal tokens, and the first is kept.
            if merges[j] < best:
                best = merges[j]
                at = j
        if best == NO_PAIR:
            break
        parts[at] = np.int32(best & np.uint64(0xFFFFFFFF))
        for j in range(at + 1, count - 1):
            parts[j] = parts[j + 1]
            merges[j] = merges[j + 1]
        count -= 1
        if at + 1 < count:
            merges[at] = _find_pair(parts[at], parts[at + 1], pair_keys, pair_values)
        if at > 0:
            merges[at - 1] = _find_pair(parts[at - 1], parts[at], pair_keys, pair_values)
    return count


@helper
def _push(heap, size, value):
    at = size
    while at > 0 and heap[(at - 1) >> 1] > value:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = value
    return size + 1


@helper
def _pop(heap, size):
    """Take the least value from a heap; the caller reads heap[0] before."""
    size -= 1
    value = heap[size]
    at = np.int64(0)
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
    return size


@helper
def merge_many(count, parts, merges, heap, following, preceding, pair_keys, pair_values):
    """Merge parts[:count] in place with a heap of rank << 32 | position over a linked list; return how many are left."""
    size = np.int64(0)
    for j in range(count):
        following[j] = j + 1
        preceding[j] = j - 1
        merges[j] = NO_PAIR
        if j + 1 < count:
            merges[j] = _find_pair(parts[j], parts[j + 1], pair_keys, pair_values)
            if merges[j] != NO_PAIR:
                size = _push(heap, size, (merges[j] & np.uint64(0xFFFFFFFF00000000)) | np.uint64(j))
    while size > 0:
        least = heap[0]
        size = _pop(heap, size)
        at = np.int64(least & np.uint64(0xFFFFFFFF))
        # A pair that changed since it was pushed has another rank, or none; it was pushed again when it changed.
        if parts[at] < 0 or merges[at] == NO_PAIR or merges[at] >> np.uint64(32) != least >> np.uint64(32):
            continue
        gone = np.int64(following[at])
        parts[at] = np.int32(merges[at] & np.uint64(0xFFFFFFFF))
        parts[gone] = -1
        after = np.int64(following[gone])
        following[at] = after
        merges[at] = NO_PAIR
        if after < count:
            preceding[after] = at
            merges[at] = _find_pair(parts[at], parts[after], pair_keys, pair_values)
            if merges[at] != NO_PAIR:
                size = _push(heap, size, (merges[at] & np.uint64(0xFFFFFFFF00000000)) | np.uint64(at))
        before = np.int64(preceding[at])
        if before >= 0:
            merges[before] = _find_pair(parts[before], parts[at], pair_keys, pair_values)
            if merges[before] != NO_PAIR:
                size = _push(heap, size, (merges[before] & np.uint64(0xFFFFFFFF00000000)) | np.uint64(before))
    left = np.int64(0)
    at = np.int64(0)
    while at < count:
        parts[left] = parts[at]
        left += 1
        at = np.int64(following[at])
    return left


class Merges(NamedTuple):
    """What an encoder knows; make it with `merges_of_ranks` or `merges_of_list`."""

    byte_tokens: np.ndarray  # (256,) int32: the token of each byte
    whole: bool  # a piece that is a token becomes that token, before any merge (tiktoken's rule)
    blob: np.ndarray  # the bytes of all tokens
    token_offsets: np.ndarray  # (tokens + 1,) int64
    token_table: np.ndarray  # open addressing: token numbers by their bytes
    pair_keys: np.ndarray  # open addressing: left << 32 | right
    pair_values: np.ndarray  # rank << 32 | token


def _index(tokens: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    blob = np.frombuffer(b"".join(tokens), np.uint8)
    token_offsets = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum([len(token) for token in tokens], out=token_offsets[1:])
    table = np.full(1 << (2 * len(tokens)).bit_length(), -1, np.int32)
    _index_tokens(blob, token_offsets, table)
    return blob, token_offsets, table


def _pair_table(pairs: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keys = np.full(1 << max(4, (2 * len(pairs)).bit_length()), NO_PAIR, np.uint64)
    table = np.empty_like(keys)
    _index_pairs(pairs, values, keys, table)
    return keys, table


def merges_of_ranks(tokens: list[bytes]) -> Merges:
    """From tiktoken's ranks: tokens in the order of their rank, all 256 single bytes among them."""
    blob, token_offsets, table = _index(tokens)
    pairs, values = np.empty(len(blob), np.uint64), np.empty(len(blob), np.uint64)
    count = _pairs_of_ranks(blob, token_offsets, table, pairs, values)
    numbers = {token: number for number, token in enumerate(tokens) if len(token) == 1}
    byte_tokens = np.array([numbers[bytes([byte])] for byte in range(256)], np.int32)
    return Merges(byte_tokens, True, blob, token_offsets, table, *_pair_table(pairs[:count], values[:count]))


def merges_of_list(tokens: list[bytes], merges: list[tuple[int, int, int]], *, whole: bool) -> Merges:
    """From a list of merges (left, right, merged token), first merge first; a token that is no bytes is empty."""
    blob, token_offsets, table = _index(tokens)
    numbers = {token: number for number, token in enumerate(tokens) if len(token) == 1}
    byte_tokens = np.array([numbers[bytes([byte])] for byte in range(256)], np.int32)
    triples = np.array(merges, np.uint64).reshape(-1, 3)
    pairs = (triples[:, 0] << np.uint64(32)) | triples[:, 1]
    values = (np.arange(len(triples), dtype=np.uint64) << np.uint64(32)) | triples[:, 2]
    return Merges(byte_tokens, whole, blob, token_offsets, table, *_pair_table(pairs, values))
