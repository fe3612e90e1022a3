"""Which two tokens merge, and when: a table of pairs that is read twice for each merge.

An entry has the pair's rank and 12 bits of its hash, not the pair, so that the table is small (four
bytes a pair) and stays near the processor. So a search may give the rank of another pair, which
`is_pair` finds out when that rank's turn has come.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint32s, Uint64s
from gristmill.kernels.jit.loads import count_trailing_zeros
from gristmill.kernels.jit.vectors import address_of, equal_marks

NO_ENTRY = np.uint32(0xFFFFFFFF)
LINE_OF_PAIRS = 16  # entries of a line
MARK = np.uint32(0xFFF)  # the bits of a pair's hash that its entry has
UNRANKED = np.uint32(0xFFFFFFC0)  # the rank of two neighbours that do not merge
NO_STEP = -1  # tokens do not follow their ranks


class Merges(NamedTuple):
    """What an encoder knows; make it with `merges_of_ranks` or `merges_of_list`."""

    byte_tokens: Int32s  # (256,) the token of each byte
    byte_pairs: Uint32s  # (65536,) rank << 6 of each pair of bytes, or UNRANKED
    # rank << 12 | 12 bits of the pair's hash, in lines of 16, each in the order of ranks
    pair_table: Uint32s
    pairs: Uint64s  # (ranks,) left << 20 | right of each rank; 0 where there is none
    merged: Int32s  # (ranks,) the token that a merge gives
    step: Int64s  # (1,) every merged token less its rank; NO_STEP where they differ
    blob: Bytes  # the bytes of all tokens
    token_offsets: Int64s  # (tokens + 1,)
    # the tokens that a piece of exactly their bytes becomes; by tiktoken's rule that is every
    # token, also one that merging cannot reach
    whole_tokens: Int32s
    joints: Uint64s  # where tokens cross from one character to the next (cutting.py)


@helper
def merge_addresses(merges):
    """Return the addresses that merging reads, the number of lines of pairs, and the step."""
    return (
        address_of(merges.byte_tokens),
        address_of(merges.byte_pairs),
        address_of(merges.pair_table),
        address_of(merges.pairs),
        address_of(merges.merged),
        np.int64(len(merges.pair_table)),
        np.int64(merges.step[0]),
        address_of(merges.joints),
    )


@helper
def join_pair(left, right):
    """Return two tokens as one word, as `pairs` has them."""
    return (np.uint64(left) << np.uint64(20)) | np.uint64(right)


@helper
def place_of_pair(pair, size):
    """Return the first place of a pair's line in a table of `size` places, and its mark: any but
    that of NO_ENTRY.
    """
    hashed = pair * GOLDEN
    lines = np.uint64(size) >> np.uint64(4)
    line = ((hashed >> np.uint64(32)) * lines) >> np.uint64(32)
    mark = min(np.uint32(hashed >> np.uint64(20)) & MARK, MARK - np.uint32(1))
    return np.int64(line << np.uint64(4)), np.uint32(mark)


@helper
def next_line(place, size):
    """Return the first place of the line after that of a place."""
    return np.int64(0) if place + LINE_OF_PAIRS == size else place + LINE_OF_PAIRS


@helper
def likely_rank(left, right, rules):
    """Return the rank at which two neighbours merge, as `rank_in_line` finds it."""
    place, mark = place_of_pair(join_pair(left, right), rules[5])
    return rank_in_line(place, mark, rules)


@helper
def rank_in_line(place, mark, rules):
    """Return the rank at which the pair of a place and a mark merges, times 64, or that of a lower
    one whose pair has the same mark; UNRANKED where no entry of their line has it.

    Nearly every search ends in the first line, and no branch asks whether it has the pair. Lines
    are in the order of ranks, and what found its line full has a higher rank than all in there: so
    another pair's rank that is taken for this one's is lower. Before a merge `is_pair` asks.
    """
    table, size = rules[2], rules[5]
    while True:
        equal = equal_marks(table, place, mark)
        entry = table[place + count_trailing_zeros(equal | np.uint64(1 << 15))]
        if (equal != 0) | (table[place + LINE_OF_PAIRS - 1] == NO_ENTRY):
            rank = np.uint32((entry >> np.uint32(6)) & UNRANKED)
            return rank if equal != 0 else UNRANKED
        place = next_line(place, size)


@helper
def rank_of_pair(left, right, rules):
    """Return the rank at which two neighbours merge, times 64; UNRANKED where they do not."""
    table, pairs, size = rules[2], rules[3], rules[5]
    pair = join_pair(left, right)
    place, mark = place_of_pair(pair, size)
    while True:
        for j in range(place, place + LINE_OF_PAIRS):
            entry = table[j]
            if entry == NO_ENTRY:
                return UNRANKED
            if entry & MARK == mark and pairs[np.int64(entry >> np.uint32(12))] == pair:
                return np.uint32((entry >> np.uint32(6)) & UNRANKED)
        place = next_line(place, size)


@helper
def is_pair(rank, left, right, rules):
    """Return whether two neighbours are the pair of a rank that `likely_rank` gave."""
    return rules[3][rank] == join_pair(left, right)


@helper
def merged_token(rank, rules):
    """Return the token that a merge gives. Mostly tokens follow their ranks, and no table is
    read.
    """
    return np.int32(rules[4][rank]) if rules[6] == NO_STEP else np.int32(rank + rules[6])
