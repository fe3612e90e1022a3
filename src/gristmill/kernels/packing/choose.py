"""Which pieces are in a bin of an epoch, and in which order.

The plan (best_fit.py) says for each bin how long its pieces are. It is the same in every epoch.
Pieces of one length are interchangeable: which of them a bin gets is a keyed permutation of all
pieces of that length, and so is the order of the pieces within the bin.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import GOLDEN, mix
from gristmill.kernels.jit.compile import INT64S, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64s
from gristmill.kernels.loading.runs import Runs, last_at_or_before
from gristmill.kernels.packing import best_fit


class BinPlan(NamedTuple):
    """The plan of all bins, as best_fit.Bins, with places for their pieces.

    All pieces have a place, sorted by length. Bin j of a group has the places
    `places[r] + j * times[r]` to `places[r] + (j + 1) * times[r]` for each row r of its group.
    """

    first: Int64s  # (groups + 1,) the first bin of each group, and the number of bins
    offsets: Int64s  # (groups + 1,) the first row of each group
    lengths: Int32s  # (rows,)
    times: Int32s  # (rows,)
    places: Int64s  # (rows,)
    # (L + 2,) where the places of each length begin, and the number of pieces
    starts: Int64s


class Pieces(NamedTuple):
    """What bins have: n pieces, ordered by bin and column."""

    runs: Runs
    items: Int64s  # (n,) the place of each piece in the index sorted by length


@helper
def _salt(length):
    """Return what makes an epoch's keys those of a length."""
    return mix(np.uint64(length) * GOLDEN)


@helper
def _feistel(value, half, keys, salt):
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = value >> half, value & mask
    for key in keys:
        left, right = right, left ^ (mix(right ^ key ^ salt) & mask)
    return left << half | right


@helper
def _permuted(index, count, keys, salt):
    """loading/feistel.py's permutation of 0..count - 1, its keys changed by a salt."""
    half = np.uint64(0)
    while np.uint64(1) << (np.uint64(2) * half) < np.uint64(count):
        half += np.uint64(1)
    value = _feistel(np.uint64(index), half, keys, salt)
    while value >= np.uint64(count):
        value = _feistel(value, half, keys, salt)
    return np.int64(value)


@kernel(INT64S, BinPlan, INT64S, UINT64S, Pieces)
def _choose(bins, plan, index, keys, out):
    at = np.int64(0)
    for row in range(len(bins)):
        group = last_at_or_before(plan.first, bins[row])
        j = bins[row] - plan.first[group]
        begin = at
        for r in range(plan.offsets[group], plan.offsets[group + 1]):
            length, times = np.int64(plan.lengths[r]), np.int64(plan.times[r])
            start = plan.starts[length]
            count = plan.starts[length + 1] - start
            salt = _salt(length)
            place = plan.places[r] + j * times - start
            for t in range(times):
                item = start + _permuted(place + t, count, keys, salt)
                out.items[at] = item
                out.runs.lengths[at] = length
                at += 1
        # Fisher and Yates: else the longest piece would always come first.
        state = mix(keys[0] + np.uint64(bins[row]) * GOLDEN)
        for left in range(at - begin, 1, -1):
            state += GOLDEN
            one, other = begin + left - 1, begin + np.int64(mix(state) % np.uint64(left))
            item, length = out.items[one], out.runs.lengths[one]
            out.items[one], out.runs.lengths[one] = out.items[other], out.runs.lengths[other]
            out.items[other], out.runs.lengths[other] = item, length
        column = np.int64(0)
        for i in range(begin, at):
            out.runs.rows[i], out.runs.columns[i] = row, column
            out.runs.positions[i] = index[out.items[i]]
            column += out.runs.lengths[i]


def plan_pieces(counts: np.ndarray) -> BinPlan:
    """Pack counts[n] pieces of each length n, (L + 1,) int64, by best_fit.pack."""
    packed = best_fit.pack(counts)
    # Pieces of a row: those of all its group's bins. Sorted by length, ties in order of the rows,
    # they are what the histogram counts.
    sizes = np.repeat(packed.bins, np.diff(packed.offsets)) * packed.times
    order = np.argsort(packed.lengths, kind="stable")
    places = np.empty(len(sizes), np.int64)
    places[order] = np.cumsum(sizes[order]) - sizes[order]
    first = np.concatenate([[0], np.cumsum(packed.bins)]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return BinPlan(first, packed.offsets, packed.lengths, packed.times, places, starts)


def choose(bins: np.ndarray, plan: BinPlan, index: np.ndarray, keys: np.ndarray) -> Pieces:
    """Return the pieces of bins (k,) int64, bin i in row i.

    index: (pieces,) int64, the positions of all pieces sorted by length; keys: (n,) uint64, of the
    epoch. Raises IndexError for a bin that is not of the plan.
    """
    if len(bins) and not 0 <= int(bins.min()) <= int(bins.max()) < int(plan.first[-1]):
        raise IndexError(f"bins {bins.min()} to {bins.max()} of {plan.first[-1]}")
    bins = np.ascontiguousarray(bins)
    groups = np.searchsorted(plan.first, bins, "right") - 1
    sizes = np.concatenate([[0], np.cumsum(plan.times, dtype=np.int64)])[plan.offsets]
    found = int((sizes[groups + 1] - sizes[groups]).sum())
    out = Pieces(
        Runs(*(np.empty(found, np.int64) for _ in Runs._fields)), np.empty(found, np.int64)
    )
    _choose(bins, plan, index, keys, out)
    return out


def salted(keys: np.ndarray, length: int) -> np.ndarray:
    """Return the keys by which loading.feistel.permute gives the order of the pieces of a
    length.
    """
    value = length * int(GOLDEN) % (1 << 64)
    for shift, multiplier in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1)):
        value = (value ^ (value >> shift)) * multiplier % (1 << 64)
    return keys ^ np.uint64(value)
