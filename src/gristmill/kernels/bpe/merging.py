"""Merging one piece: the pair of least rank first, of equal ranks the leftmost (Sennrich 2016).

A rank is kept as `rank << 6`, at most UNRANKED. Pieces of up to 64 bytes put the place of a part
into the low bits, so that the least of all is the next pair, found by vectors; those of up to 1,008
bytes do so in two levels, of each 16 and of these. Longer pieces take a heap over a linked list, so
that a text of one piece costs n log n.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.bpe.pairs import UNRANKED, is_pair, likely_rank, merged_token, rank_of_pair
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Int32s, Uint32s, Uint64s
from gristmill.kernels.jit.loads import ALL, ONE, count_trailing_zeros
from gristmill.kernels.jit.vectors import (
    NOTHING,
    address_of,
    highest_bit,
    least_of_16,
    least_of_32,
    least_of_64,
)

PLACES = 64  # bytes of a piece whose parts are bits of a mask
BLOCKS = 63  # of 16 bytes: of a piece whose ranks are in two levels
NO_TOKEN = (1 << 20) - 1


class Scratch(NamedTuple):
    """What merging one piece takes: room for its bytes and no less than PLACES, `heap` three times
    as many.
    """

    parts: Int32s  # tokens; the result as well
    ranks: Uint32s  # of each part and the next one
    heap: Uint64s
    following: Int32s  # a linked list of parts
    preceding: Int32s
    tops: Uint32s  # (64,) the least of each block

    @classmethod
    def of(cls, longest: int) -> "Scratch":
        """Room for pieces of `longest` bytes."""
        room = max(longest + 1, PLACES) + 16
        return cls(
            np.empty(room, np.int32),
            np.empty(room, np.uint32),
            # A pair is pushed at first, and twice for each merge.
            np.empty(3 * room, np.uint64),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.full(64, NOTHING, np.uint32),
        )


@helper
def scratch_addresses(scratch):
    """Return the addresses that merging writes to."""
    return (
        address_of(scratch.parts),
        address_of(scratch.ranks),
        address_of(scratch.heap),
        address_of(scratch.following),
        address_of(scratch.preceding),
        address_of(scratch.tops),
    )


@helper
def merge_piece(data, start, length, rules, room):
    """Merge data[start:start + length], 1 byte at least, into parts; how many there are."""
    byte_tokens, byte_pairs = rules[0], rules[1]
    parts, ranks = room[0], room[1]
    byte = np.int64(data[start])
    parts[0] = byte_tokens[byte]
    for j in range(1, length):
        following = np.int64(data[start + j])
        parts[j] = byte_tokens[following]
        ranks[j - 1] = byte_pairs[(byte << 8) | following]
        byte = following
    if length > BLOCKS * 16:
        return _merge_many(length, rules, room)
    if length > PLACES:
        return _merge_blocks(length, rules, room)
    return _merge_few(length, rules, room)


@helper
def _merge_few(length, rules, room):
    """Merge the parts in place; living ones are the bits of a mask. Ranks have the place of their
    part in their low bits.
    """
    parts, ranks = room[0], room[1]
    for j in range(length - 1):
        ranks[j] |= np.uint32(j)
    for j in range(length - 1, (length + 15) & ~15 if length <= 32 else 64):
        ranks[j] = NOTHING
    parts[PLACES] = NO_TOKEN  # beyond the ends; it merges with nothing
    living = ALL >> np.uint64(64 - length)
    at = np.int64(PLACES)
    absorbed = np.int64(PLACES)
    before = np.int64(PLACES)
    rank = NOTHING
    rank_before = NOTHING
    while True:
        if length <= 16:
            least = least_of_16(ranks, 0, at, rank, absorbed, NOTHING, before, rank_before)
        elif length <= 32:
            least = least_of_32(ranks, 0, at, rank, absorbed, NOTHING, before, rank_before)
        else:
            least = least_of_64(ranks, 0, at, rank, absorbed, NOTHING, before, rank_before)
        if least >= UNRANKED:
            break
        at = np.int64(least & np.uint32(63))
        merge = np.int64(least >> np.uint32(6))
        above = living & ((ALL << np.uint64(at)) << ONE)
        absorbed = count_trailing_zeros(above)
        if not is_pair(merge, parts[at], parts[absorbed], rules):
            rank = np.uint32(rank_of_pair(parts[at], parts[absorbed], rules) | np.uint32(at))
            absorbed = np.int64(PLACES)
            before = np.int64(PLACES)
            continue
        token = merged_token(merge, rules)
        parts[at] = token
        above &= above - ONE
        living ^= ONE << np.uint64(absorbed)
        after = count_trailing_zeros(above)
        rank = np.uint32(likely_rank(token, parts[after], rules) | np.uint32(at))
        below = living & ((ONE << np.uint64(at)) - ONE)
        before = highest_bit(below)
        before = before if before >= 0 else np.int64(PLACES)
        rank_before = np.uint32(likely_rank(parts[before], token, rules) | np.uint32(before & 63))
    count = np.int64(0)
    while living:
        parts[count] = parts[count_trailing_zeros(living)]
        living &= living - ONE
        count += 1
    return count


@helper
def _placed(rank, at):
    """Return a rank with a place of up to 10 bits; NOTHING for UNRANKED."""
    placed = np.uint32((rank << np.uint32(4)) | np.uint32(at))
    return placed if rank < UNRANKED else NOTHING


@helper
def _merge_blocks(length, rules, room):
    """Merge the parts in place. Ranks have their places in the low bits; of each 16 the least is in
    `tops`. The living parts are a list.
    """
    parts, ranks, following, preceding, tops = room[0], room[1], room[3], room[4], room[5]
    blocks = (length + 15) >> 4
    for j in range(length - 1):
        ranks[j] = _placed(ranks[j], j)
    for j in range(length - 1, blocks << 4):
        ranks[j] = NOTHING
    for j in range(BLOCKS):
        tops[j] = NOTHING
    for j in range(blocks):
        tops[j] = least_of_16(ranks, j << 4, -1, NOTHING, -1, NOTHING, -1, NOTHING)
    for j in range(length + 1):
        following[j] = j + 1
        preceding[j] = j - 1
    preceding[0] = length
    parts[length] = NO_TOKEN
    block = np.int64(0)
    top = tops[0]
    block_absorbed = np.int64(0)
    top_absorbed = top
    block_before = np.int64(0)
    top_before = top
    while True:
        if blocks <= 16:
            least = least_of_16(
                *(tops, 0, block, top, block_absorbed, top_absorbed, block_before, top_before)
            )
        else:
            least = least_of_64(
                *(tops, 0, block, top, block_absorbed, top_absorbed, block_before, top_before)
            )
        if least == NOTHING:
            break
        at = np.int64(least & np.uint32(1023))
        merge = np.int64(least >> np.uint32(10))
        absorbed = np.int64(following[at])
        if not is_pair(merge, parts[at], parts[absorbed], rules):
            ranks[at] = _placed(rank_of_pair(parts[at], parts[absorbed], rules), at)
            block = at >> 4
            top = least_of_16(ranks, block << 4, -1, NOTHING, -1, NOTHING, -1, NOTHING)
            block_absorbed = block
            top_absorbed = top
            block_before = block
            top_before = top
            continue
        token = merged_token(merge, rules)
        parts[at] = token
        after = np.int64(following[absorbed])
        before = np.int64(preceding[at])
        following[at] = after
        preceding[after] = at
        rank = _placed(likely_rank(token, parts[after], rules), at)
        rank_before = _placed(likely_rank(parts[before], token, rules), before)
        # Up to three blocks change. Each of them takes all the writes that are in it, so that its
        # least is right whether they are three or one.
        block = at >> 4
        block_absorbed = absorbed >> 4
        block_before = before >> 4 if before < length else block
        first = block << 4
        top = least_of_16(
            *(ranks, first, at - first, rank, absorbed - first, NOTHING),
            *(before - first, rank_before),
        )
        first = block_absorbed << 4
        top_absorbed = least_of_16(
            *(ranks, first, at - first, rank, absorbed - first, NOTHING),
            *(before - first, rank_before),
        )
        first = block_before << 4
        top_before = least_of_16(
            *(ranks, first, at - first, rank, absorbed - first, NOTHING),
            *(before - first, rank_before),
        )
    count = np.int64(0)
    at = np.int64(0)
    while at < length:
        parts[count] = parts[at]
        count += 1
        at = np.int64(following[at])
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
def _merge_many(length, rules, room):
    """Merge the parts in place, by a heap of rank << 32 | position over a linked list."""
    parts, ranks, heap, following, preceding = room[:5]
    size = np.int64(0)
    ranks[length - 1] = UNRANKED
    for j in range(length):
        following[j] = j + 1
        preceding[j] = j - 1
        if ranks[j] < UNRANKED:
            size = _push(heap, size, (np.uint64(ranks[j]) << np.uint64(32)) | np.uint64(j))
    while size > 0:
        least = heap[0]
        size = _pop(heap, size)
        at = np.int64(least & np.uint64(0xFFFFFFFF))
        # A pair that changed since it was pushed has another rank, or none; it was pushed again
        # when it changed.
        if parts[at] < 0 or ranks[at] == UNRANKED or np.uint64(ranks[at]) != least >> np.uint64(32):
            continue
        absorbed = np.int64(following[at])
        parts[at] = merged_token(np.int64(ranks[at] >> np.uint32(6)), rules)
        parts[absorbed] = -1
        after = np.int64(following[absorbed])
        following[at] = after
        ranks[at] = UNRANKED
        if after < length:
            preceding[after] = at
            rank = rank_of_pair(parts[at], parts[after], rules)
            ranks[at] = rank
            if rank < UNRANKED:
                size = _push(heap, size, (np.uint64(rank) << np.uint64(32)) | np.uint64(at))
        before = np.int64(preceding[at])
        if before >= 0:
            rank = rank_of_pair(parts[before], parts[at], rules)
            ranks[before] = rank
            if rank < UNRANKED:
                size = _push(heap, size, (np.uint64(rank) << np.uint64(32)) | np.uint64(before))
    count = np.int64(0)
    at = np.int64(0)
    while at < length:
        parts[count] = parts[at]
        count += 1
        at = np.int64(following[at])
    return count
