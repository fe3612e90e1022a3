"""Merging several short pieces by turns.

A merge waits for memory: only when the ranks of the new pairs were read is the next merge known. So
pieces that have no entry are gathered, and each round makes one merge of each: first it finds all
merges and asks for the lines of memory that they take, then it reads these.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.bpe.merging import NO_TOKEN
from gristmill.kernels.bpe.pairs import (
    UNRANKED,
    is_pair,
    join_pair,
    merged_token,
    place_of_pair,
    rank_in_line,
    rank_of_pair,
)
from gristmill.kernels.bpe.tables import LENGTH_SHIFT, PART
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Int32s, Int64s, Uint32s, Uint64s
from gristmill.kernels.jit.loads import ALL, ONE, count_trailing_zeros
from gristmill.kernels.jit.vectors import NOTHING, address_of, highest_bit, least_of_16, prefetch

MOST = 16  # pieces that are gathered
PARTS = 16  # parts of a piece, and one more
END = 16  # the place of a part that is not there
ROOM = 24  # places of a piece in `parts`


class PieceBatch(NamedTuple):
    """Pieces of up to 15 bytes that have no entry."""

    keys: Uint64s  # (MOST * 2,) their entries' first two words
    ends: Int64s  # (MOST,) where their tokens belong
    parts: Int32s  # (MOST * ROOM,) tokens
    ranks: Uint32s  # (MOST * PARTS,) of each part and the next one, times 64, and its place
    living: Uint64s  # (MOST,) which parts there are
    merges: Int64s  # (MOST * 8,) of the next merge: three places, its rank; two searches
    found: Uint32s  # (MOST * 2,) the ranks that these found
    order: Int64s  # (MOST,) the pieces that are not merged yet

    @classmethod
    def empty(cls) -> "PieceBatch":
        """Room for MOST pieces."""
        return cls(
            np.zeros(MOST * 2, np.uint64),
            np.zeros(MOST, np.int64),
            np.full(MOST * ROOM, NO_TOKEN, np.int32),
            np.zeros(MOST * PARTS, np.uint32),
            np.zeros(MOST, np.uint64),
            np.zeros(MOST * 8, np.int64),
            np.zeros(MOST * 2, np.uint32),
            np.zeros(MOST, np.int64),
        )


@helper
def batch_addresses(batch):
    """Return the addresses of a batch's arrays."""
    return (
        address_of(batch.keys),
        address_of(batch.ends),
        address_of(batch.parts),
        address_of(batch.ranks),
        address_of(batch.living),
        address_of(batch.merges),
        address_of(batch.found),
        address_of(batch.order),
    )


@helper
def _open_piece(slot, batch, rules):
    """Write the parts of a piece, its bytes, and their ranks."""
    keys, parts, ranks, living, merges = batch[0], batch[2], batch[3], batch[4], batch[5]
    byte_tokens, byte_pairs = rules[0], rules[1]
    head = keys[2 * slot]
    tail = keys[2 * slot + 1]
    length = np.int64((tail & ~PART) >> LENGTH_SHIFT)
    byte = np.int64(head & np.uint64(255))
    for j in range(PARTS - 1):
        parts[slot * ROOM + j] = byte_tokens[byte]
        head = (head >> np.uint64(8)) | (tail << np.uint64(56))
        tail >>= np.uint64(8)
        following = np.int64(head & np.uint64(255))
        rank = np.uint32(byte_pairs[(byte << 8) | following] | np.uint32(j))
        ranks[slot * PARTS + j] = rank if j + 1 < length else NOTHING
        byte = following
    ranks[slot * PARTS + PARTS - 1] = NOTHING
    living[slot] = (ONE << np.uint64(length)) - ONE
    for j in range(3):
        merges[8 * slot + j] = END


@helper
def _find_merges(count, batch, rules):
    """Find the next merge of each piece in `order`, and ask for what it reads; how many have one.
    These are the first of `order` then.
    """
    parts, ranks, all_living, merges, found, order = batch[2:]
    table, pairs, size = rules[2], rules[3], rules[5]
    left = np.int64(0)
    for j in range(count):
        slot = order[j]
        merge = slot * 8
        least = least_of_16(
            *(ranks, slot * PARTS, merges[merge], found[2 * slot]),
            *(merges[merge + 1], NOTHING, merges[merge + 2], found[2 * slot + 1]),
        )
        if least >= UNRANKED:
            continue
        order[left] = slot
        left += 1
        first = slot * ROOM
        living = all_living[slot]
        at = np.int64(least & np.uint32(63))
        rank = np.int64(least >> np.uint32(6))
        prefetch(pairs, rank)
        token = merged_token(rank, rules)
        above = (living | (ONE << np.uint64(END))) & ((ALL << np.uint64(at)) << ONE)
        absorbed = count_trailing_zeros(above)
        above = (above & (above - ONE)) | (ONE << np.uint64(END))
        after = join_pair(token, parts[first + count_trailing_zeros(above)])
        place, mark = place_of_pair(after, size)
        prefetch(table, place)
        merges[merge] = at
        merges[merge + 1] = absorbed
        merges[merge + 3] = rank
        merges[merge + 4] = place
        merges[merge + 5] = mark
        before = highest_bit(living & ((ONE << np.uint64(at)) - ONE))
        before = before if before >= 0 else np.int64(END)
        place, mark = place_of_pair(join_pair(parts[first + before], token), size)
        prefetch(table, place)
        merges[merge + 2] = before
        merges[merge + 6] = place
        merges[merge + 7] = mark
    return left


@helper
def _make_merges(count, batch, rules):
    """Make the merges that were found."""
    parts, _, living, merges, found, order = batch[2:]
    for j in range(count):
        slot = order[j]
        merge = slot * 8
        first = slot * ROOM
        at = merges[merge]
        absorbed = merges[merge + 1]
        rank = merges[merge + 3]
        left, right = parts[first + at], parts[first + absorbed]
        if is_pair(rank, left, right, rules):
            parts[first + at] = merged_token(rank, rules)
            living[slot] ^= ONE << np.uint64(absorbed)
            ranked = rank_in_line(merges[merge + 4], np.uint32(merges[merge + 5]), rules)
            found[2 * slot] = ranked | np.uint32(at)
            ranked = rank_in_line(merges[merge + 6], np.uint32(merges[merge + 7]), rules)
            found[2 * slot + 1] = ranked | np.uint32(merges[merge + 2])
        else:
            found[2 * slot] = rank_of_pair(left, right, rules) | np.uint32(at)
            merges[merge + 1] = END
            merges[merge + 2] = END


@helper
def merge_batch(count, batch, rules):
    """Merge the pieces that were gathered."""
    order = batch[7]
    for slot in range(count):
        _open_piece(slot, batch, rules)
        order[slot] = slot
    left = _find_merges(count, batch, rules)
    while left > 0:
        _make_merges(left, batch, rules)
        left = _find_merges(left, batch, rules)


@helper
def write_piece(slot, batch, out):
    """Write the tokens of a merged piece; how many there are."""
    parts, living = batch[2], batch[4][slot]
    count = np.int64(0)
    while living:
        out[count] = parts[slot * ROOM + count_trailing_zeros(living)]
        living &= living - ONE
        count += 1
    return count
