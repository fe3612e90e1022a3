"""Chooses the merges of byte-pair encoding (Sennrich 2016) from pieces and their counts.

    pieces, counts -> nodes -> the pair with the highest count becomes a token, again and again

Of equal counts the pair whose left token has the smaller number wins, then the smaller right one:
the rule of HF tokenizers' BpeTrainer (models/bpe/trainer.rs, `Ord for Merge`). A pair's count is
the number of places where it stands, those that overlap included ("aaa" has two of "aa").

Every byte of every piece is a node; between pieces is one more. A token stands in the nodes of its
first and of its last byte, so that both neighbours of a place are found without links; what lies
between is never read. A pair's number stands at its left token's first byte; a pair has a list of
its places in order, in which those that merged meanwhile are passed over (the node has another
number by then). A place joins at most one merge and each merge makes at most two new places, so
that all lists together have at most three times as many entries as there are bytes.

Only pairs with a count of at least a threshold are in the heap. When it is empty the threshold is
halved and all pairs are looked through: most pairs never come up, and never cost a place in it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.bpe_training.heap import pop, push, replace_top
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64Rows, Int64s, Uint32Rows
from gristmill.kernels.jit.loads import prefetch

NONE = np.uint32(0xFFFFFFFF)  # no token; no pair
TOKEN, PAIR, LOW, HIGH = 0, 1, 2, 3  # columns of nodes
FIRST_PAIRS = 1 << 16  # pairs of bytes: left << 8 | right
FIRST_TOKENS = 256
COUNT, SIDES, START, PLACES = 0, 1, 2, 3  # columns of pairs
# what `sizes` holds
PAIRS, ENTRIES, HEAP, MERGED, THRESHOLD = 0, 1, 2, 3, 4
DONE, EXHAUSTED, NEEDS_PAIRS, NEEDS_ENTRIES = 0, 1, 2, 3
AHEAD = 12  # places whose nodes are fetched before they are needed
STRIDE = 1 << 10  # merges that one call of the kernel does
FIRST_ROOM = 1 << 22  # pairs besides those of bytes that there is room for at first, at most
MOST_NODES = (1 << 31) - 1  # places are int32


class TrainingState(NamedTuple):
    """Where a training stands."""

    nodes: (
        Uint32Rows  # (bytes + pieces + 1, 4): token, pair, count of the piece (low, high 32 bits)
    )
    pairs: Int64Rows  # (room, 4): count, left << 32 | right, where its list starts, its length
    entries: Int32s  # the lists of all pairs
    heap: Int64Rows  # (room, 3): count, left << 32 | right, number of the pair
    lengths: Int32s  # (tokens,) bytes of each
    first_pairs: Int64s  # (tokens + 1,) the pairs that a token brought are numbered in a row
    merges: Int64s  # (tokens - 256,) left << 32 | right
    sizes: Int64s  # (5,)


class JoinScratch(NamedTuple):
    """What one merge needs."""

    left_pairs: Int32s  # (tokens,) the number of (token, new token), -1
    right_pairs: Int32s  # (tokens,) of (new token, token)
    places: Int32s  # new places in order, and their pairs
    owners: Int32s


@kernel(BYTES, INT64S, INT64S, INT32S, TrainingState)
def _count_first_pairs(blob, offsets, counts, byte_tokens, state):
    """Write the nodes, and count the pairs of bytes. Token of byte b: byte_tokens[b]."""
    nodes, pairs = state.nodes, state.pairs
    for left in range(256):
        for right in range(256):
            pairs[left << 8 | right, COUNT] = 0
            pairs[left << 8 | right, SIDES] = left << 32 | right
            pairs[left << 8 | right, PLACES] = 0
    at = np.int64(0)
    nodes[at, TOKEN] = NONE
    nodes[at, PAIR] = NONE
    at += 1
    for i in range(len(offsets) - 1):
        low = np.uint32(counts[i] & 0xFFFFFFFF)
        high = np.uint32(counts[i] >> 32)
        before = np.int64(-1)
        for j in range(offsets[i], offsets[i + 1]):
            token = np.int64(byte_tokens[blob[j]])
            nodes[at, TOKEN] = np.uint32(token)
            nodes[at, PAIR] = NONE
            nodes[at, LOW] = low
            nodes[at, HIGH] = high
            if before >= 0:
                pair = before << 8 | token
                pairs[pair, COUNT] += counts[i]
                pairs[pair, PLACES] += 1
                nodes[at - 1, PAIR] = np.uint32(pair)
            before = token
            at += 1
        nodes[at, TOKEN] = NONE
        nodes[at, PAIR] = NONE
        at += 1


@kernel(TrainingState)
def _list_first_pairs(state):
    """List the places of the pairs of bytes."""
    nodes, pairs, entries, lengths, sizes = (
        state.nodes,
        state.pairs,
        state.entries,
        state.lengths,
        state.sizes,
    )
    start = np.int64(0)
    for pair in range(FIRST_PAIRS):
        pairs[pair, START] = start
        start += pairs[pair, PLACES]
        pairs[pair, PLACES] = 0
    for at in range(len(nodes)):
        pair = nodes[at, PAIR]
        if pair != NONE:
            entries[pairs[pair, START] + pairs[pair, PLACES]] = at
            pairs[pair, PLACES] += 1
    lengths[:FIRST_TOKENS] = 1
    sizes[PAIRS] = FIRST_PAIRS
    sizes[ENTRIES] = start
    sizes[HEAP] = 0
    sizes[MERGED] = 0
    sizes[THRESHOLD] = np.int64(1) << 62


@helper
def _lower(pairs, heap, sizes):
    """Halve the threshold below the highest count; fill the heap, which is empty. Returns that
    count.
    """
    most = np.int64(0)
    for pair in range(sizes[PAIRS]):
        most = max(most, pairs[pair, COUNT])
    threshold = max(most >> 1, np.int64(1))
    sizes[THRESHOLD] = threshold
    size = np.int64(0)
    if most > 0:
        for pair in range(sizes[PAIRS]):
            if pairs[pair, COUNT] >= threshold:
                push(heap, size, pairs[pair, COUNT], pairs[pair, SIDES], pair)
                size += 1
    sizes[HEAP] = size
    return most


@helper
def _best(pairs, heap, sizes):
    """Return the number of the pair with the highest count, which stays on top of the heap; -1: no
    pair is left.
    """
    while True:
        if sizes[HEAP] == 0 and _lower(pairs, heap, sizes) == 0:
            return np.int64(-1)
        count, sides, pair = heap[0, 0], heap[0, 1], heap[0, 2]
        now = pairs[pair, COUNT]
        if now == count:
            return pair
        if now >= sizes[THRESHOLD]:
            replace_top(heap, sizes[HEAP], now, sides, pair)
        else:
            pop(heap, sizes[HEAP])
            sizes[HEAP] -= 1


@helper
def _find(pairs, first_pairs, left, right, token):
    """Return the number of the pair of two tokens, -1; tokens below `token` exist."""
    if left < FIRST_TOKENS and right < FIRST_TOKENS:
        return left << 8 | right
    newer = max(left, right) - FIRST_TOKENS
    sides = left << 32 | right
    for pair in range(first_pairs[newer], first_pairs[newer + 1]):
        if pairs[pair, SIDES] == sides:
            return pair
    return np.int64(-1)


@helper
def _join(nodes, pairs, entries, lengths, sizes, scratch, pair, token):
    """Merge a pair wherever it stands; returns how many new places there are."""
    left_pairs, right_pairs, places, owners = scratch
    sides = pairs[pair, SIDES]
    left_length = np.int64(lengths[sides >> 32])
    length = left_length + np.int64(lengths[sides & 0xFFFFFFFF])
    wanted = np.uint32(pair)
    start, many = pairs[pair, START], pairs[pair, PLACES]
    new = np.int64(0)
    used = sizes[PAIRS]
    for i in range(start, start + many):
        if i + AHEAD < start + many:
            prefetch(nodes, np.int64(entries[i + AHEAD]) * 4)
        at = np.int64(entries[i])
        if nodes[at, PAIR] != wanted:
            continue
        count = np.int64(nodes[at, HIGH]) << 32 | np.int64(nodes[at, LOW])
        middle = at + left_length
        after = at + length
        before = nodes[at - 1, TOKEN]
        if before != NONE:
            place = at - lengths[before]
            pairs[nodes[place, PAIR], COUNT] -= count
            joined = np.int64(left_pairs[before])
            if joined < 0:
                joined = used
                used += 1
                left_pairs[before] = joined
                pairs[joined, COUNT] = 0
                pairs[joined, SIDES] = np.int64(before) << 32 | token
                pairs[joined, PLACES] = 0
            pairs[joined, COUNT] += count
            pairs[joined, PLACES] += 1
            nodes[place, PAIR] = np.uint32(joined)
            places[new] = place
            owners[new] = joined
            new += 1
        following = nodes[after, TOKEN]
        if following != NONE:
            pairs[nodes[middle, PAIR], COUNT] -= count
            joined = np.int64(right_pairs[following])
            if joined < 0:
                joined = used
                used += 1
                right_pairs[following] = joined
                pairs[joined, COUNT] = 0
                pairs[joined, SIDES] = token << 32 | np.int64(following)
                pairs[joined, PLACES] = 0
            pairs[joined, COUNT] += count
            pairs[joined, PLACES] += 1
            nodes[at, PAIR] = np.uint32(joined)
            places[new] = at
            owners[new] = joined
            new += 1
        else:
            nodes[at, PAIR] = NONE
        nodes[middle, PAIR] = NONE
        nodes[at, TOKEN] = np.uint32(token)
        nodes[after - 1, TOKEN] = np.uint32(token)
    pairs[pair, COUNT] = 0
    sizes[PAIRS] = used
    return new


@helper
def _list_new(pairs, entries, heap, sizes, scratch, first, new, token):
    """List the places of the pairs from `first` on, and put those of high counts into the heap."""
    left_pairs, right_pairs, places, owners = scratch
    at = sizes[ENTRIES]
    for pair in range(first, sizes[PAIRS]):
        sides = pairs[pair, SIDES]
        left, right = sides >> 32, sides & 0xFFFFFFFF
        if right == token:
            left_pairs[left] = -1
        if left == token:
            right_pairs[right] = -1
        pairs[pair, START] = at
        if pairs[pair, COUNT] > 0:
            at += pairs[pair, PLACES]
            if pairs[pair, COUNT] >= sizes[THRESHOLD]:
                push(heap, sizes[HEAP], pairs[pair, COUNT], sides, pair)
                sizes[HEAP] += 1
        pairs[pair, PLACES] = 0
    for i in range(new):
        pair = owners[i]
        if pairs[pair, COUNT] > 0:
            entries[pairs[pair, START] + pairs[pair, PLACES]] = places[i]
            pairs[pair, PLACES] += 1
    sizes[ENTRIES] = at


@kernel(TrainingState, JoinScratch, INT64S, int, int, int, returns=types.int64)
def _merge(state, scratch, given, least, until, most):
    """Merge until there are `until` merges, or until `most` are done by this call.

    The first merges are those of `given` (left << 32 | right), whatever their counts; then the pair
    with the highest count, if that is at least `least`. Returns DONE, EXHAUSTED (no pair has such a
    count), or what it needs to continue.
    """
    nodes, pairs, entries, heap, lengths, first_pairs, merges, sizes = state
    stop = min(until, sizes[MERGED] + most)
    while sizes[MERGED] < stop:
        done = sizes[MERGED]
        token = FIRST_TOKENS + done
        if done < len(given):
            sides = given[done]
            pair = _find(pairs, first_pairs, sides >> 32, sides & 0xFFFFFFFF, token)
        else:
            pair = _best(pairs, heap, sizes)
            if pair < 0 or pairs[pair, COUNT] < least:
                return EXHAUSTED
            sides = pairs[pair, SIDES]
        first_pairs[done] = sizes[PAIRS]
        if pair >= 0:
            more = 2 * pairs[pair, PLACES]
            if sizes[ENTRIES] + more > len(entries):
                return NEEDS_ENTRIES
            if sizes[PAIRS] + min(more, 2 * token + 2) > len(pairs):
                return NEEDS_PAIRS
        lengths[token] = lengths[sides >> 32] + lengths[sides & 0xFFFFFFFF]
        merges[done] = sides
        if pair >= 0:
            if done >= len(given):
                pop(heap, sizes[HEAP])
                sizes[HEAP] -= 1
            first = sizes[PAIRS]
            new = _join(nodes, pairs, entries, lengths, sizes, scratch, pair, token)
            _list_new(pairs, entries, heap, sizes, scratch, first, new, token)
        first_pairs[done + 1] = sizes[PAIRS]
        sizes[MERGED] += 1
    return DONE


def choose_merges(
    blob: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    byte_tokens: np.ndarray,
    merges: int,
    *,
    given: np.ndarray | None = None,
    least: int = 1,
    on_merges: Callable[[int], None] = lambda _: None,
) -> np.ndarray:
    """Return the merges that training chooses, in order: (m,) int64, left << 32 | right.

    Piece i is blob[offsets[i]:offsets[i + 1]] (uint8, int64) and stands counts[i] times (int64).
    The token of byte b is byte_tokens[b] (int32), 0 to 255; merge number i makes token 256 + i.
    `given` (int64) are merges of tokens that exist already: they are applied first and are not part
    of the result. It has at most `merges` merges, fewer if no pair that is left has a count of
    `least`. `on_merges` gets the number of merges so far, now and then. Raises OverflowError if
    bytes and pieces are 2^31 or more.

    Memory: 32 bytes for each byte of the pieces, and what pairs need.
    """
    size = len(blob) + len(counts) + 1
    if size > MOST_NODES:
        raise OverflowError(f"{size:,} bytes of pieces: at most {MOST_NODES:,} can be trained on")
    given = np.empty(0, np.int64) if given is None else given
    total = len(given) + merges
    tokens = FIRST_TOKENS + total
    room = FIRST_PAIRS + min(size // 8 + 1024, FIRST_ROOM)
    state = TrainingState(
        np.empty((size, 4), np.uint32),
        np.empty((room, 4), np.int64),
        np.empty(size + size // 2, np.int32),
        np.empty((room, 3), np.int64),
        np.empty(tokens, np.int32),
        np.empty(total + 1, np.int64),
        np.empty(total, np.int64),
        np.zeros(5, np.int64),
    )
    _count_first_pairs(blob, offsets, counts, byte_tokens, state)
    _list_first_pairs(state)
    longest = 2 * int(state.pairs[:FIRST_PAIRS, PLACES].max())
    scratch = JoinScratch(
        np.full(tokens, -1, np.int32),
        np.full(tokens, -1, np.int32),
        np.empty(longest, np.int32),
        np.empty(longest, np.int32),
    )
    while state.sizes[MERGED] < total:
        status = _merge(state, scratch, given, least, total, STRIDE)
        on_merges(max(int(state.sizes[MERGED]) - len(given), 0))
        if status == EXHAUSTED:
            break
        if status == NEEDS_ENTRIES:
            state = state._replace(entries=_longer(state.entries, int(longest)))
        elif status == NEEDS_PAIRS:
            state = state._replace(
                pairs=_longer(state.pairs, 2 * tokens), heap=_longer(state.heap, 2 * tokens)
            )
    return state.merges[len(given) : state.sizes[MERGED]].copy()


def _longer(array: np.ndarray, least: int) -> np.ndarray:
    """Return an array with more room, at least `least` rows more."""
    new = np.empty((len(array) + max(len(array) // 2, least), *array.shape[1:]), array.dtype)
    new[: len(array)] = array
    return new
