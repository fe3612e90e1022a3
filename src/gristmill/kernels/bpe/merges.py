"""What an encoder knows: tokens by their bytes, pairs that merge, and the merging itself.

Merges are done lowest rank first, of equal ranks the leftmost: short pieces by looking at all
pairs, long ones with a heap over a linked list, so that a text of one piece costs n log n.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint32s, Uint64s
from gristmill.kernels.jit.loads import load_up_to_8

NO_PAIR = np.uint64(0xFFFFFFFFFFFFFFFF)
NO_RANK = np.uint32(0xFFFFFFFF)
LOW_20 = np.uint64((1 << 20) - 1)
MOST_TOKENS = (1 << 20) - 1  # a pair and its rank share one 64-bit word
FEW = 48  # parts up to which looking at all pairs beats the heap


class Merges(NamedTuple):
    """What an encoder knows; make it with `merges_of_ranks` or `merges_of_list`."""

    byte_tokens: Int32s  # (256,) the token of each byte
    whole: bool  # a piece that is a token becomes that token, before any merge (tiktoken's rule)
    blob: Bytes  # the bytes of all tokens
    token_offsets: Int64s  # (tokens + 1,)
    token_table: Int32s  # open addressing: token numbers by their bytes
    byte_pairs: Uint32s  # (65536,) the rank of each pair of bytes
    # open addressing: left << 40 | right << 20 | rank, in one word and so in one cache line
    pair_table: Uint64s
    pair_filter: Bytes  # a bitmap of the pairs' hashes
    merged: Int32s  # (ranks,) the token that a merge gives


class Scratch(NamedTuple):
    """What merging one piece takes; each has room for its bytes, `heap` for three times as many."""

    parts: Int32s  # tokens
    ranks: Uint32s  # of each token and the next one
    heap: Uint64s
    following: Int32s  # a linked list of parts
    preceding: Int32s


@helper
def hash_piece(data, start, length):
    """64 bits of a run of bytes and its length."""
    value = np.uint64(length) * GOLDEN
    for j in range(0, length, 8):
        value = (value ^ load_up_to_8(data, start + j, length - j)) * GOLDEN
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
    place = np.int64(hash_piece(data, start, length) & np.uint64(mask))
    while token_table[place] >= 0:
        token = token_table[place]
        begin = token_offsets[token]
        if token_offsets[token + 1] - begin == length:
            if equal_bytes(data, start, blob, begin, length):
                return token
        place = (place + 1) & mask
    return np.int32(-1)


@helper
def _mix(pair):
    mixed = pair * GOLDEN
    return mixed ^ (mixed >> np.uint64(32))


@helper
def _find_pair(left, right, pair_table, pair_filter):
    """The rank at which two neighbours merge; NO_RANK where they do not.

    Most neighbours do not: a filter of 16 bits a pair, small enough for the second-level cache,
    answers for them.
    """
    pair = (np.uint64(left) << np.uint64(20)) | np.uint64(right)
    mixed = _mix(pair)
    bit = (mixed >> np.uint64(24)) & np.uint64(8 * len(pair_filter) - 1)
    if (pair_filter[np.int64(bit >> np.uint64(3))] >> np.uint8(bit & np.uint64(7))) & 1 == 0:
        return NO_RANK
    mask = np.int64(len(pair_table) - 1)
    place = np.int64(mixed & np.uint64(mask))
    while True:
        entry = pair_table[place]
        if entry >> np.uint64(20) == pair:
            return np.uint32(entry & LOW_20)
        if entry == NO_PAIR:
            return NO_RANK
        place = (place + 1) & mask


@kernel(BYTES, INT64S, types.int32[::1])
def _index_tokens(blob, token_offsets, token_table):
    mask = np.int64(len(token_table) - 1)
    for token in range(len(token_offsets) - 1):
        length = token_offsets[token + 1] - token_offsets[token]
        if length == 0:
            continue
        place = np.int64(hash_piece(blob, token_offsets[token], length) & np.uint64(mask))
        while token_table[place] >= 0:
            place = (place + 1) & mask
        token_table[place] = token


@kernel(BYTES, INT64S, INT32S, types.uint64[::1], returns=types.int64)
def _pairs_of_ranks(blob, token_offsets, token_table, entries):
    """Every way to cut a token into two tokens is a pair that merges, with the token's number as
    rank.
    """
    count = np.int64(0)
    for token in range(len(token_offsets) - 1):
        begin = token_offsets[token]
        length = token_offsets[token + 1] - begin
        for cut in range(1, length):
            left = find_token(blob, begin, cut, blob, token_offsets, token_table)
            if left >= 0:
                right = find_token(
                    blob, begin + cut, length - cut, blob, token_offsets, token_table
                )
                if right >= 0:
                    entries[count] = (
                        (np.uint64(left) << np.uint64(40))
                        | (np.uint64(right) << np.uint64(20))
                        | np.uint64(token)
                    )
                    count += 1
    return count


@kernel(UINT64S, types.uint64[::1], types.uint8[::1])
def _index_pairs(entries, pair_table, pair_filter):
    mask = np.int64(len(pair_table) - 1)
    for entry in entries:
        mixed = _mix(entry >> np.uint64(20))
        bit = (mixed >> np.uint64(24)) & np.uint64(8 * len(pair_filter) - 1)
        pair_filter[np.int64(bit >> np.uint64(3))] |= np.uint8(1) << np.uint8(bit & np.uint64(7))
        place = np.int64(mixed & np.uint64(mask))
        while pair_table[place] != NO_PAIR and pair_table[place] >> np.uint64(
            20
        ) != entry >> np.uint64(20):
            place = (place + 1) & mask
        if pair_table[place] == NO_PAIR:
            pair_table[place] = entry


@kernel(INT32S, UINT64S, BYTES, types.uint32[::1])
def _index_bytes(byte_tokens, pair_table, pair_filter, byte_pairs):
    for left in range(256):
        for right in range(256):
            rank = _find_pair(byte_tokens[left], byte_tokens[right], pair_table, pair_filter)
            byte_pairs[left * 256 + right] = rank


@helper
def merge_few(count, parts, ranks, pair_table, pair_filter, merged):
    """Merge parts[:count] in place, ranks[:count - 1] being those of neighbours, looking at all
    each time; return how many are left.
    """
    while count > 1:
        best = NO_RANK
        at = np.int64(0)
        for j in range(count - 1):
            if ranks[j] < best:
                best = ranks[j]
                at = j
        if best == NO_RANK:
            break
        parts[at] = merged[best]
        for j in range(at + 1, count - 1):
            parts[j] = parts[j + 1]
            ranks[j] = ranks[j + 1]
        count -= 1
        if at + 1 < count:
            ranks[at] = _find_pair(parts[at], parts[at + 1], pair_table, pair_filter)
        if at > 0:
            ranks[at - 1] = _find_pair(parts[at - 1], parts[at], pair_table, pair_filter)
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
def merge_many(count, parts, ranks, heap, following, preceding, pair_table, pair_filter, merged):
    """Merge parts[:count] in place; return how many are left.

    By a heap of rank << 32 | position over a linked list.
    """
    size = np.int64(0)
    ranks[count - 1] = NO_RANK
    for j in range(count):
        following[j] = j + 1
        preceding[j] = j - 1
        if ranks[j] != NO_RANK:
            size = _push(heap, size, (np.uint64(ranks[j]) << np.uint64(32)) | np.uint64(j))
    while size > 0:
        least = heap[0]
        size = _pop(heap, size)
        at = np.int64(least & np.uint64(0xFFFFFFFF))
        # A pair that changed since it was pushed has another rank, or none; it was pushed again
        # when it changed.
        if parts[at] < 0 or ranks[at] == NO_RANK or np.uint64(ranks[at]) != least >> np.uint64(32):
            continue
        absorbed = np.int64(following[at])
        parts[at] = merged[ranks[at]]
        parts[absorbed] = -1
        after = np.int64(following[absorbed])
        following[at] = after
        ranks[at] = NO_RANK
        if after < count:
            preceding[after] = at
            ranks[at] = _find_pair(parts[at], parts[after], pair_table, pair_filter)
            if ranks[at] != NO_RANK:
                size = _push(heap, size, (np.uint64(ranks[at]) << np.uint64(32)) | np.uint64(at))
        before = np.int64(preceding[at])
        if before >= 0:
            ranks[before] = _find_pair(parts[before], parts[at], pair_table, pair_filter)
            if ranks[before] != NO_RANK:
                size = _push(
                    heap, size, (np.uint64(ranks[before]) << np.uint64(32)) | np.uint64(before)
                )
    left = np.int64(0)
    at = np.int64(0)
    while at < count:
        parts[left] = parts[at]
        left += 1
        at = np.int64(following[at])
    return left


def _index(tokens: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    blob = np.frombuffer(bytearray(b"".join(tokens)), np.uint8)
    token_offsets = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum([len(token) for token in tokens], out=token_offsets[1:])
    table = np.full(1 << (2 * len(tokens)).bit_length(), -1, np.int32)
    _index_tokens(blob, token_offsets, table)
    return blob, token_offsets, table


def _of_pairs(
    tokens: list[bytes],
    indexed: tuple[np.ndarray, np.ndarray, np.ndarray],
    entries: np.ndarray,
    merged: np.ndarray,
    *,
    whole: bool,
) -> Merges:
    numbers = {token: number for number, token in enumerate(tokens) if len(token) == 1}
    byte_tokens = np.array([numbers[bytes([byte])] for byte in range(256)], np.int32)
    pair_table = np.full(1 << max(4, (2 * len(entries)).bit_length()), NO_PAIR, np.uint64)
    pair_filter = np.zeros(len(pair_table), np.uint8)
    _index_pairs(entries, pair_table, pair_filter)
    byte_pairs = np.empty(1 << 16, np.uint32)
    _index_bytes(byte_tokens, pair_table, pair_filter, byte_pairs)
    return Merges(byte_tokens, whole, *indexed, byte_pairs, pair_table, pair_filter, merged)


def merges_of_ranks(tokens: list[bytes]) -> Merges:
    """From tiktoken's ranks: tokens in the order of their rank, all 256 single bytes among them; at
    most MOST_TOKENS.
    """
    indexed = _index(tokens)
    entries = np.empty(len(indexed[0]), np.uint64)
    count = _pairs_of_ranks(*indexed, entries)
    return _of_pairs(
        tokens, indexed, entries[:count], np.arange(len(tokens), dtype=np.int32), whole=True
    )


def merges_of_list(
    tokens: list[bytes], merges: list[tuple[int, int, int]], *, whole: bool
) -> Merges:
    """From a list of merges (left, right, merged token), first merge first, no pair twice; a token
    that is no bytes is empty.

    At most MOST_TOKENS tokens and merges.
    """
    triples = np.array(merges, np.uint64).reshape(-1, 3)
    ranks = np.arange(len(triples), dtype=np.uint64)
    entries = (triples[:, 0] << np.uint64(40)) | (triples[:, 1] << np.uint64(20)) | ranks
    return _of_pairs(tokens, _index(tokens), entries, triples[:, 2].astype(np.int32), whole=whole)
