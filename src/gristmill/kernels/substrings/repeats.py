"""Which windows occur again, by their bytes.

Members are runs of windows (runs.py) with the bytes that their windows cover, their context. Runs
whose anchors may be equal are a group; only windows of one group can be equal. Members with equal
contexts count as the first of them; the windows of the others go through a table of hashes, where
equal hashes are compared byte by byte. A group's work is linear in its windows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN, hash_bytes, mix
from gristmill.kernels.jit.compile import BYTES, INT64S, helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64s, ReadInt64s, Uint64s, read_only
from gristmill.kernels.jit.loads import same_bytes

EMPTY = np.int32(-1)
WINDOWS = 1 << 20  # that are compared together: 50 MB


class RunMembers(NamedTuple):
    """Runs of windows in the order of their groups, and within a group in document order."""

    groups: ReadInt64s  # (m,) the number of each one's group
    places: ReadInt64s  # (m,) where its context starts, in bytes of the contexts' buffer
    counts: ReadInt64s  # (m,) its windows
    leads: ReadInt64s  # (m,) bytes from its first window to the anchor
    repeats: ReadInt64s  # (m,) how many runs with the same bytes follow at once in the document
    positions: ReadInt64s  # (m,) where its first window starts, in bytes of the document's text


class GroupShare(NamedTuple):
    """What one call looks at: whole groups, or of one group the windows with some leads."""

    first: int  # members from this one
    end: int  # up to this one
    least_lead: int  # windows that start this many bytes before their anchor
    end_lead: int  # or more, and fewer than this many


class WantedWindows(NamedTuple):
    """Which windows are asked for."""

    size: int  # bytes of a window
    most: int  # places that a window may be at
    keeps_first: bool  # the first place of a window does not count as one that occurs again


class WindowTable(NamedTuple):
    """A table of hashes, with a place for each different window, and each window's place in it."""

    hashes: Uint64s  # (slots,)
    members: Int32s  # (slots,) the first window's member, or EMPTY
    windows: Int32s  # (slots,) and its place in the member
    places: Int64s  # (slots,) how many places there are
    slots: Int32s  # (windows,)
    base: Int64s  # (members,) where a member's windows begin in `slots`


class WindowIntervals(NamedTuple):
    """Windows that follow each other and occur again, as bytes of a document."""

    members: Int32s
    starts: Int64s
    stops: Int64s
    places: Int64s  # the most places that any of the windows is at
    earliest: Int32s  # the member with the first place of the first window


@kernel(INT64S, INT64S, BYTES, Uint64s)
def _hash(places, lengths, data, out):
    for i in range(len(places)):
        out[i] = hash_bytes(data, places[i], places[i] + lengths[i])


@kernel(INT64S, RunMembers, INT64S, BYTES, Uint64s, Int64s)
def _same(order, members, lengths, data, hashes, out):
    head = np.int64(-1)
    for place in range(len(order)):
        i = order[place]
        out[i] = i
        if (
            head >= 0
            and members.groups[i] == members.groups[head]
            and hashes[i] == hashes[head]
            and lengths[i] == lengths[head]
            and same_bytes(data, members.places[i], members.places[head], lengths[i])
        ):
            out[i] = head
        else:
            head = i


def same_contexts(members: RunMembers, data: np.ndarray, *, size: int) -> np.ndarray:
    """Return the first member of each one's group with the same context: (m,) int64; data (bytes,)
    uint8 are the contexts, for windows of `size` bytes.

    Where two different contexts have the same hash, a later member may be the first of its own.
    """
    lengths = members.counts + (size - 1)
    hashes = np.empty(len(lengths), np.uint64)
    _hash(members.places, lengths, data, hashes)
    order = np.lexsort((hashes, members.groups))
    same = np.empty(len(lengths), np.int64)
    _same(order, read_only(members), lengths, data, hashes, same)
    return same


@helper
def _window_range(members, i, share):
    """Return the windows of a member that a share looks at: (first, end)."""
    lead = members.leads[i]
    first = max(np.int64(0), lead - share.end_lead + 1)
    end = min(members.counts[i], lead - share.least_lead + 1)
    return first, max(first, end)


@helper
def _insert(data, i, window, value, members, work, mask, size, known):
    """Return the place of a window in the table, where it is new or has equal bytes.

    `known`: the first window that equals the window before this one, as (member, window).
    """
    slot = np.int64(mix(value)) & mask
    here = members.places[i] + window
    while work.members[slot] != EMPTY:
        if work.hashes[slot] == value:
            head = np.int64(work.members[slot])
            of_head = np.int64(work.windows[slot])
            there = members.places[head] + of_head
            if head == known[0] and of_head == known[1] + 1:
                # All bytes but the last were compared.
                if data[here + size - 1] == data[there + size - 1]:
                    return slot
            elif same_bytes(data, here, there, size):
                return slot
        slot = (slot + 1) & mask
    work.hashes[slot] = value
    work.members[slot] = i
    work.windows[slot] = window
    work.places[slot] = 0
    return slot


@helper
def _count(data, first, end, members, same, weights, share, size, work):
    """Count the places of each window of a group."""
    windows = np.int64(0)
    for i in range(first, end):
        if same[i] == i:
            low, high = _window_range(members, i, share)
            windows += high - low
    slots = np.int64(2)
    while slots < 2 * windows:
        slots *= 2
    for slot in range(slots):
        work.members[slot] = EMPTY
    power = np.uint64(1)
    for _ in range(size - 1):
        power *= GOLDEN
    written = np.int64(0)
    for i in range(first, end):
        if same[i] != i:
            continue
        low, high = _window_range(members, i, share)
        work.base[i - share.first] = written
        if low == high:
            continue
        place = members.places[i]
        value = np.uint64(0)
        for at in range(place + low, place + low + size):
            value = value * GOLDEN + np.uint64(data[at])
        known = (np.int64(-1), np.int64(-1))
        for window in range(low, high):
            if window > low:
                value -= np.uint64(data[place + window - 1]) * power
                value = value * GOLDEN + np.uint64(data[place + window + size - 1])
            slot = _insert(data, i, window, value, members, work, slots - 1, size, known)
            work.places[slot] += weights[i]
            known = (np.int64(work.members[slot]), np.int64(work.windows[slot]))
            work.slots[written] = slot
            written += 1


@helper
def _list(first, end, members, same, share, asked, work, out, count):
    """Write the intervals of a group's windows that are asked for; how many there are."""
    for i in range(first, end):
        low, high = _window_range(members, i, share)
        own = work.base[same[i] - share.first]
        for copy in range(members.repeats[i] + 1):
            behind = np.int64(-1)  # the window behind the last that is listed
            for window in range(low, high):
                slot = work.slots[own + window - low]
                places = work.places[slot]
                is_first = copy == 0 and work.members[slot] == i and work.windows[slot] == window
                if places <= asked.most or (is_first and asked.keeps_first):
                    continue
                start = members.positions[i] + copy * members.counts[i] + window
                if window == behind:
                    out.stops[count - 1] = start + asked.size
                    out.places[count - 1] = max(out.places[count - 1], places)
                else:
                    out.members[count] = i
                    out.starts[count] = start
                    out.stops[count] = start + asked.size
                    out.places[count] = places
                    out.earliest[count] = work.members[slot]
                    count += 1
                behind = window + 1
    return count


@kernel(
    BYTES,
    RunMembers,
    INT64S,
    INT64S,
    GroupShare,
    WantedWindows,
    WindowTable,
    WindowIntervals,
    returns=types.int64,
)
def _repeated(data, members, same, weights, share, asked, work, out):
    """Write the intervals of a share's windows; how many there are."""
    count = np.int64(0)
    first = share.first
    while first < share.end:
        end = first + 1
        while end < share.end and members.groups[end] == members.groups[first]:
            end += 1
        _count(data, first, end, members, same, weights, share, asked.size, work)
        count = _list(first, end, members, same, share, asked, work, out, count)
        first = end
    return count


def _shares(
    members: RunMembers, same: np.ndarray, asked: WantedWindows, most: int
) -> Iterator[GroupShare]:
    """Whole groups of at most `most` windows in all; a group of more by the windows' leads."""
    bounds = np.append(np.flatnonzero(np.diff(members.groups, prepend=-1)), len(same))
    own = np.where(same == np.arange(len(same)), members.counts, 0)
    ends = np.cumsum(np.add.reduceat(own, bounds[:-1]))
    leads = asked.size  # no window starts as far before its anchor
    at, behind = 0, 0
    while at < len(ends):
        end = int(np.searchsorted(ends, behind + most, "right"))
        if end > at:
            yield GroupShare(int(bounds[at]), int(bounds[end]), 0, leads)
        else:
            end = at + 1
            pieces = min(leads, -(-int(ends[at] - behind) // most))
            for piece in range(pieces):
                low, high = leads * piece // pieces, leads * (piece + 1) // pieces
                yield GroupShare(int(bounds[at]), int(bounds[end]), low, high)
        at, behind = end, int(ends[end - 1])


def _work(windows: int, members: int) -> WindowTable:
    slots = 2
    while slots < 2 * windows:
        slots *= 2
    return WindowTable(
        np.empty(slots, np.uint64),
        np.empty(slots, np.int32),
        np.empty(slots, np.int32),
        np.empty(slots, np.int64),
        np.empty(windows, np.int32),
        np.empty(members, np.int64),
    )


def repeated(
    members: RunMembers, data: np.ndarray, asked: WantedWindows, *, most: int = WINDOWS
) -> Iterator[WindowIntervals]:
    """Yield the windows that are at more than `asked.most` places, joined where they follow each
    other: WindowIntervals, of at most about `most` windows a piece.

    data (bytes,) uint8 are the members' contexts. The groups are ascending, from 0. A member's
    intervals may come in several pieces.
    """
    if not len(members.groups):
        return
    same = same_contexts(members, data, size=asked.size)
    weights = np.bincount(same, members.repeats + 1, len(same)).astype(np.int64)
    given = read_only(members)
    for share in _shares(members, same, asked, most):
        one = slice(share.first, share.end)
        lows = np.maximum(0, members.leads[one] - share.end_lead + 1)
        highs = np.minimum(members.counts[one], members.leads[one] - share.least_lead + 1)
        windows = np.maximum(highs - lows, 0)
        own = int(windows[same[one] == np.arange(share.first, share.end)].sum())
        # Between two intervals of a run there is a window; what is not written takes no memory.
        size = int(((windows + 1) // 2 * (members.repeats[one] + 1)).sum())
        out = WindowIntervals(
            np.empty(size, np.int32),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.int32),
        )
        work = _work(own, share.end - share.first)
        count = _repeated(data, given, same, weights, share, asked, work, out)
        yield WindowIntervals(*(column[:count] for column in out))
