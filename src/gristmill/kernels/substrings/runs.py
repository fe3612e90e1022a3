"""Runs of windows: the windows of n bytes of each text, in groups that equal windows share.

A window's anchor is the one of its grams (substrings of k bytes) whose hash is least, the last of
several: it depends on the window's bytes alone, so that equal windows have equal anchors at equal
places (winnowing: Schleimer 2003). Windows of a text that follow each other and have the same
anchor are a run. So windows are equal only in runs whose anchors are equal, and of all windows only
those in runs with an anchor that occurs again need to be compared. In texts that are not periodic
there are about 2 / (n - k + 2) runs a byte.

A run that is followed at once by runs with the same bytes, as in texts that are periodic, is
written once, with their number.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN, mix
from gristmill.kernels.jit.compile import BYTES, INT64S, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint64s


class WindowRuns(NamedTuple):
    """Runs of windows of n texts, in the order of the texts."""

    texts: Int32s  # (runs,) the text that each is of
    starts: Int64s  # (runs,) where its first window starts, in bytes of the texts' buffer
    counts: Int32s  # (runs,) its windows
    leads: Int32s  # (runs,) bytes from its first window's start to the anchor
    repeats: Int32s  # (runs,) how many runs with the same bytes follow at once
    hashes: Int64s  # (runs,) of the anchor's bytes


@helper
def _is_periodic(data, start, stop, period):
    """Return whether each byte equals the one a period before it."""
    for at in range(start, stop):
        if data[at] != data[at - period]:
            return False
    return True


@helper
def _close(data, out, count, first, run, size):
    """Write the run (text, start, stop, anchor, hash), or count it with the one before; how many
    there are.
    """
    text, start, stop, anchor, value = run
    windows = stop - start
    last = count - 1
    hashed = np.int64(mix(value))
    if (
        count > first
        and out.hashes[last] == hashed
        and out.counts[last] == windows
        and out.leads[last] == anchor - start
    ):
        # Of runs that repeat already, all bytes but the last are known to.
        unknown = start if out.repeats[last] == 0 else start + size - 1
        if _is_periodic(data, unknown, start + windows - 1 + size, windows):
            out.repeats[last] += 1
            return count
    out.texts[count] = text
    out.starts[count] = start
    out.counts[count] = windows
    out.leads[count] = anchor - start
    out.repeats[count] = 0
    out.hashes[count] = hashed
    return count + 1


@kernel(OFFSETS, BYTES, types.int64, types.int64, Uint64s, WindowRuns, returns=types.int64)
def _find(offsets, data, size, gram, ring, out):
    """Write the runs; how many there are. `ring` has a place for each gram of a window."""
    count = np.int64(0)
    grams = size - gram + 1
    power = np.uint64(1)
    for _ in range(gram - 1):
        power *= GOLDEN
    for text in range(len(offsets) - 1):
        start = np.int64(offsets[text])
        stop = np.int64(offsets[text + 1])
        if stop - start < size:
            continue
        first = count
        value = np.uint64(0)
        for at in range(start, start + gram):
            value = value * GOLDEN + np.uint64(data[at])
        best = start
        least = value
        ring[0] = value
        slot = np.int64(0)
        run_start = start
        run_anchor = np.int64(-1)
        run_value = value
        for at in range(start, stop - gram + 1):
            if at > start:
                value -= np.uint64(data[at - 1]) * power
                value = value * GOLDEN + np.uint64(data[at + gram - 1])
                slot += 1
                if slot == grams:
                    slot = 0
                ring[slot] = value
                if value <= least:
                    least = value
                    best = at
                elif best <= at - grams:
                    # The anchor is behind the window: look for the next, from the oldest gram on.
                    place = slot + 1
                    if place == grams:
                        place = 0
                    least = ring[place]
                    best = at - grams + 1
                    for step in range(1, grams):
                        place += 1
                        if place == grams:
                            place = 0
                        if ring[place] <= least:
                            least = ring[place]
                            best = at - grams + 1 + step
            window = at - grams + 1
            if window >= start and best != run_anchor:
                if run_anchor >= 0:
                    run = (text, run_start, window, run_anchor, run_value)
                    count = _close(data, out, count, first, run, size)
                run_start = window
                run_anchor = best
                run_value = least
        run = (text, run_start, stop - size + 1, run_anchor, run_value)
        count = _close(data, out, count, first, run, size)
    return count


def _anchor_size(size: int) -> int:
    """Return the bytes of an anchor for windows of `size` bytes: a quarter of them, at least 8."""
    return max(8, size // 4)


def find_runs(offsets: np.ndarray, data: np.ndarray, *, size: int) -> WindowRuns:
    """Find the runs of windows of `size` bytes of n texts: offsets (n + 1,) int32 into data
    (bytes,) uint8. `size` is at least 8.
    """
    # A run has a window at least, and a window takes a byte; what is not written takes no memory.
    most = int(np.maximum(np.diff(offsets).astype(np.int64) - (size - 1), 0).sum())
    gram = _anchor_size(size)
    found = WindowRuns(
        np.empty(most, np.int32),
        np.empty(most, np.int64),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int64),
    )
    count = _find(offsets, data, size, gram, np.empty(size - gram + 1, np.uint64), found)
    return WindowRuns(*(column[:count] for column in found))


@kernel(BYTES, INT64S, INT64S, INT64S, Bytes)
def _gather(data, starts, lengths, places, out):
    for i in range(len(starts)):
        for j in range(lengths[i]):
            out[places[i] + j] = data[starts[i] + j]


def gather(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Copy n stretches of bytes, which may overlap, one behind the other: data (bytes,) uint8,
    starts and lengths (n,) int64.
    """
    places = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    _gather(data, starts, lengths, places, out)
    return out
