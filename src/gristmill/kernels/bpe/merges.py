"""What an encoder knows, from a list of ranks or of merges: pairs that merge, and whole tokens."""

import numpy as np
from numba import types

from gristmill.kernels.bpe.cutting import WORDS, add_joints
from gristmill.kernels.bpe.merging import Scratch, merge_piece, scratch_addresses
from gristmill.kernels.bpe.pairs import (
    LINE_OF_PAIRS,
    NO_ENTRY,
    NO_STEP,
    UNRANKED,
    Merges,
    join_pair,
    merge_addresses,
    next_line,
    place_of_pair,
    rank_of_pair,
)
from gristmill.kernels.jit import memory
from gristmill.kernels.jit.compile import INT32S, INT64S, UINT64S, helper, kernel

MOST_TOKENS = (1 << 20) - 1  # a pair and its rank share one 64-bit word


@helper
def _insert(pair, rank, table, pairs):
    """Write a pair that has no entry yet. A line stays in the order of ranks: in a full one the
    highest goes on to the next line.
    """
    size = np.int64(len(table))
    place, mark = place_of_pair(pair, size)
    pairs[rank] = pair
    entry = (np.uint32(rank) << np.uint32(12)) | mark
    while entry != NO_ENTRY:
        for j in range(place, place + LINE_OF_PAIRS):
            if entry < table[j]:
                other = table[j]
                table[j] = entry
                entry = other
        place = next_line(place, size)


@kernel(Merges, UINT64S)
def _index_pairs(merges, pairs):
    for rank in range(len(pairs)):
        _insert(pairs[rank], rank, merges.pair_table, merges.pairs)


@kernel(Merges)
def _index_bytes(merges):
    rules = merge_addresses(merges)
    for left in range(256):
        for right in range(256):
            merges.byte_pairs[left * 256 + right] = rank_of_pair(
                merges.byte_tokens[left], merges.byte_tokens[right], rules
            )


@kernel(Merges, INT64S, Scratch)
def _index_ranks(merges, order, scratch):
    """For each token, shorter ones first, the pair that its own merging ends with."""
    for token in order:
        begin = merges.token_offsets[token]
        length = merges.token_offsets[token + 1] - begin
        if length < 2:
            continue
        count = merge_piece(
            merges.blob, begin, length, merge_addresses(merges), scratch_addresses(scratch)
        )
        if count == 2:
            pair = join_pair(scratch.parts[0], scratch.parts[1])
            _insert(pair, token, merges.pair_table, merges.pairs)
            if length == 2:
                place = (np.int64(merges.blob[begin]) << 8) | np.int64(merges.blob[begin + 1])
                merges.byte_pairs[place] = np.uint32(token) << np.uint32(6)


@kernel(Merges, INT32S, Scratch, types.boolean[::1])
def _reach(merges, tokens, scratch, reached):
    """Which tokens' bytes merge to just that token."""
    for j in range(len(tokens)):
        begin = merges.token_offsets[tokens[j]]
        length = merges.token_offsets[tokens[j] + 1] - begin
        count = merge_piece(
            merges.blob, begin, length, merge_addresses(merges), scratch_addresses(scratch)
        )
        reached[j] = count == 1 and scratch.parts[0] == tokens[j]


@kernel(Merges)
def _index_joints(merges):
    for token in range(len(merges.token_offsets) - 1):
        start, stop = merges.token_offsets[token], merges.token_offsets[token + 1]
        if stop - start > 1:
            add_joints(merges.blob, start, stop, merges.joints)


def _empty(tokens: list[bytes], pairs: int, merged: np.ndarray) -> tuple[Merges, np.ndarray]:
    """Return what knows tokens and no pair, with room for `pairs`; the tokens' lengths."""
    numbers = {token: number for number, token in enumerate(tokens) if len(token) == 1}
    lengths = np.array([len(token) for token in tokens], np.int64)
    token_offsets = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum(lengths, out=token_offsets[1:])
    byte_tokens, byte_pairs, pair_table, ranked, given = memory.together(
        (256, np.int32),
        (1 << 16, np.uint32),
        # Of 16 places of a line 9 are used, so that few lines are full.
        ((pairs // 9 + 1) * LINE_OF_PAIRS, np.uint32),
        (len(merged), np.uint64),
        (len(merged), np.int32),
    )
    byte_tokens[:] = [numbers[bytes([byte])] for byte in range(256)]
    byte_pairs[:] = UNRANKED
    pair_table[:] = NO_ENTRY
    given[:] = merged
    steps = np.unique(merged - np.arange(len(merged)))
    merges = Merges(
        byte_tokens,
        byte_pairs,
        pair_table,
        ranked,
        given,
        np.array([steps[0] if len(steps) == 1 and steps[0] >= 0 else NO_STEP], np.int64),
        np.frombuffer(bytearray(b"".join(tokens)), np.uint8),
        token_offsets,
        np.flatnonzero(lengths).astype(np.int32),
        np.zeros(WORDS, np.uint64),
    )
    _index_joints(merges)
    return merges, lengths


def merges_of_ranks(tokens: list[bytes]) -> Merges:
    """From tiktoken's ranks: tokens in the order of their rank, all 256 single bytes among them; at
    most MOST_TOKENS. A rank that no token has is empty.

    Two neighbours merge where their bytes together are a token, with its number as rank. Of the
    ways to cut a token in two, only one can occur: where two parts merge to a token, no merge
    crossed its ends before, so that its bytes merged as they do alone, and alone they end in one
    pair. So each token, shorter ones first, is merged by the pairs of shorter ones; what is left is
    its pair, if it is a pair: others cannot be reached by merging.
    """
    merges, lengths = _empty(tokens, len(tokens), np.arange(len(tokens), dtype=np.int32))
    order = np.argsort(lengths, kind="stable")[np.count_nonzero(lengths == 0) :]
    _index_ranks(merges, order, Scratch.of(int(lengths.max())))
    return merges


def merges_of_list(
    tokens: list[bytes], merges: list[tuple[int, int, int]], *, whole: bool
) -> Merges:
    """From a list of merges (left, right, merged token), first merge first, no pair twice; a token
    that is no bytes is empty. `whole`: a piece that is a token becomes that token, before any merge
    (`ignore_merges`).

    At most MOST_TOKENS tokens and merges.
    """
    triples = np.array(merges, np.uint64).reshape(-1, 3)
    made, lengths = _empty(tokens, len(triples), triples[:, 2].astype(np.int32))
    _index_pairs(made, (triples[:, 0] << np.uint64(20)) | triples[:, 1])
    _index_bytes(made)
    if whole:
        return made
    reached = np.empty(len(made.whole_tokens), np.bool_)
    _reach(made, made.whole_tokens, Scratch.of(int(lengths.max())), reached)
    return made._replace(whole_tokens=made.whole_tokens[reached])
