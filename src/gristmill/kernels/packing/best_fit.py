"""Best-fit decreasing on the histogram of lengths (Ding et al. 2024, arXiv 2404.10830).

Best-fit decreasing takes pieces from the longest to the shortest, and puts each into the bin with
the least space left that still holds it; into a new bin where there is none. Among bins with equal
space left it takes the one that has had this space for the longest time.

What it does depends on lengths alone, and it treats equal bins alike. So pieces of one length are
one step here, whatever their number, and bins that were filled alike are one group. A bin with
space r gets r // n pieces of length n, which leaves less than r / 2: a group is filled at most
log2(L) + 1 times, and a length makes at most two new groups. The time is that of L log L steps.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64s, Uint64s
from gristmill.kernels.jit.loads import count_trailing_zeros


class Queues(NamedTuple):
    """Groups of bins in queues by the space they have left, 0 to L."""

    head: Int32s  # (L + 1,) the first group of each queue, -1: none
    tail: Int32s  # (L + 1,) the last one
    behind: Int32s  # (groups,) the next one in its queue, -1: none
    bins: Int64s  # (groups,) how many bins it has
    filling: Int32s  # (groups,) what was put into them last: a row of Fillings
    filled: Uint64s  # bit s % 64 of word s // 64: queue s has groups


class Fillings(NamedTuple):
    """What was put into the bins of a group in one step."""

    before: Int32s  # the step before it, -1: none
    lengths: Int32s  # the length of the pieces
    times: Int32s  # how many of them each bin got


class Bins(NamedTuple):
    """Bins of the same pieces, `bins[g]` of each; its pieces are rows offsets[g] to offsets[g + 1]
    of `lengths` and `times`, the longest first.
    """

    bins: np.ndarray  # (g,) int64
    offsets: np.ndarray  # (g + 1,) int64
    lengths: np.ndarray  # (rows,) int32
    times: np.ndarray  # (rows,) int32: how many pieces of this length one bin has


@helper
def _next_filled(filled, space, limit):
    """Return the first queue from `space` to `limit` that has groups; limit + 1: none."""
    word = space >> 6
    bits = filled[word] & (np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(space & 63))
    while bits == 0:
        word += 1
        if word == len(filled):
            return limit + 1
        bits = filled[word]
    return (word << 6) + count_trailing_zeros(bits)


@helper
def _append(queues, space, group):
    queues.behind[group] = -1
    if queues.head[space] < 0:
        queues.head[space] = group
        queues.filled[space >> 6] |= np.uint64(1) << np.uint64(space & 63)
    else:
        queues.behind[queues.tail[space]] = group
    queues.tail[space] = group


@helper
def _remove_first(queues, space):
    queues.head[space] = queues.behind[queues.head[space]]
    if queues.head[space] < 0:
        queues.filled[space >> 6] &= ~(np.uint64(1) << np.uint64(space & 63))


@helper
def _fill(fillings, row, before, length, times):
    fillings.before[row] = before
    fillings.lengths[row] = length
    fillings.times[row] = times


@kernel(INT64S, Queues, Fillings, types.int64[::1])
def _pack(counts, queues, fillings, out):
    """out: groups and rows of fillings that there are."""
    limit = len(counts) - 1
    groups = rows = np.int64(0)
    for length in range(limit, 0, -1):
        left = counts[length]
        space = np.int64(length)
        while left > 0:
            space = _next_filled(queues.filled, space, limit)
            new = space > limit
            if new:
                space = np.int64(limit)
            times = space // length
            group = np.int64(-1) if new else np.int64(queues.head[space])
            before = np.int32(-1) if new else queues.filling[group]
            full = left // times
            rest = left - full * times
            if not new and queues.bins[group] <= full:
                # Every bin of the group gets as many as it holds: the group moves as a whole.
                _fill(fillings, rows, before, length, times)
                queues.filling[group] = rows
                rows += 1
                _remove_first(queues, space)
                _append(queues, space - times * length, group)
                left -= queues.bins[group] * times
                continue
            # The pieces end here: `full` bins get as many as they hold, one gets the rest.
            if not new:
                queues.bins[group] -= full + (rest > 0)
                if queues.bins[group] == 0:
                    _remove_first(queues, space)
            if full > 0:
                _fill(fillings, rows, before, length, times)
                queues.filling[groups], queues.bins[groups] = rows, full
                _append(queues, space - times * length, groups)
                groups, rows = groups + 1, rows + 1
            if rest > 0:
                _fill(fillings, rows, before, length, rest)
                queues.filling[groups], queues.bins[groups] = rows, 1
                _append(queues, space - rest * length, groups)
                groups, rows = groups + 1, rows + 1
            left = np.int64(0)
    out[0], out[1] = groups, rows


@kernel(Queues, Fillings, types.int64[::1], types.int64[::1], types.int32[::1], types.int32[::1])
def _list(queues, fillings, bins, offsets, lengths, times):
    """The groups, the fullest bins first. Where `lengths` is empty, only bins and offsets."""
    group_rows = np.int64(0)
    at = np.int64(0)
    for space in range(len(queues.head)):
        group = queues.head[space]
        while group >= 0:
            bins[at] = queues.bins[group]
            size = np.int64(0)
            row = queues.filling[group]
            while row >= 0:
                size += 1
                row = fillings.before[row]
            row = queues.filling[group]
            if len(lengths):
                for j in range(size - 1, -1, -1):
                    lengths[group_rows + j] = fillings.lengths[row]
                    times[group_rows + j] = fillings.times[row]
                    row = fillings.before[row]
            group_rows += size
            at += 1
            offsets[at] = group_rows
            group = queues.behind[group]


def pack(counts: np.ndarray) -> Bins:
    """Pack counts[n] pieces of each length n from 1 to L into bins of L: counts is (L + 1,) int64,
    counts[0] is 0. Groups come with the fullest bins first.
    """
    limit = len(counts) - 1
    classes = int(np.count_nonzero(counts))
    groups = 2 * classes
    rows = groups * (limit.bit_length() + 1)
    ints = np.int32
    queues = Queues(
        np.full(limit + 1, -1, ints),
        np.full(limit + 1, -1, ints),
        np.empty(groups, ints),
        np.empty(groups, np.int64),
        np.empty(groups, ints),
        np.zeros(limit // 64 + 1, np.uint64),
    )
    fillings = Fillings(np.empty(rows, ints), np.empty(rows, ints), np.empty(rows, ints))
    out = np.empty(2, np.int64)
    _pack(counts, queues, fillings, out)
    found = int(out[0])
    # A group whose bins all went to others is in no queue.
    bins, offsets = np.zeros(found, np.int64), np.zeros(found + 1, np.int64)
    none = np.empty(0, ints)
    _list(queues, fillings, bins, offsets, none, none.copy())
    kept = int(np.count_nonzero(bins))
    total = int(offsets[kept])
    lengths, times = np.empty(total, ints), np.empty(total, ints)
    _list(queues, fillings, bins, offsets, lengths, times)
    return Bins(bins[:kept], offsets[: kept + 1], lengths, times)
