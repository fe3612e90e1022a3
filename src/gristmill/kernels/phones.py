"""Where a phone number may be: a `+` and digits, or any digits that a region's people would dial. Which it is, a library says.

A candidate is at most 40 bytes and 15 digits (ITU-T E.164) in groups, between them one or two of space, `.`, `-`, `/`, `(` and `)`; it has at
least 7 digits. An extension, `x123`, belongs to it.
"""

import numpy as np
from numba import types

from gristmill.kernels.compile import BYTES, INT32S, INT64S, OFFSETS, helper, kernel
from gristmill.kernels.loads import block_of, copy_tail, count_trailing_zeros, mask_of_range, valid_in
from gristmill.kernels.numbers import is_digit, is_letter, joined_before
from gristmill.kernels.private import Spans

ONE = np.uint64(1)
FEWEST, MOST = 7, 15
WIDEST = 40
EXTENSION = 7  # digits


@helper
def _is_between(byte):
    return byte == 0x20 or byte == 0x28 or byte == 0x29 or (byte >= 0x2D and byte <= 0x2F)


@helper
def _candidate_stop(data, at, stop):
    """Where the digits that start at `at` and those in groups behind them stop; 0: they are too few."""
    digits = 0
    end = at
    first = at
    gap = 0
    while at < stop and at - first < WIDEST:
        if is_digit(data[at]):
            if digits == MOST:
                break
            digits += 1
            gap = 0
            at += 1
            end = at
        elif _is_between(data[at]) and gap < 2:
            gap += 1
            at += 1
        else:
            break
    if digits < FEWEST:
        return np.int64(0)
    if end < stop and data[end] | 0x20 == 0x78:
        more = end + 1
        while more < stop and more - end <= EXTENSION and is_digit(data[more]):
            more += 1
        if more > end + 1:
            return more
    return end


@kernel(
    OFFSETS, BYTES, INT64S, INT32S, INT32S, types.boolean, types.uint8[::1], types.int64[::1], types.int32[::1],
    types.int32[::1], types.int32[::1],
)  # fmt: skip
def _candidates(offsets, data, span_offsets, starts, stops, regional, tail, out_offsets, firsts, lasts, limits):
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = count
        wall = np.int64(offsets[i])
        for j in range(span_offsets[i], span_offsets[i + 1] + 1):
            end = np.int64(starts[j]) if j < span_offsets[i + 1] else np.int64(offsets[i + 1])
            at = wall
            before = np.uint64(0)
            while at < end:
                if at + 64 > len(data):
                    copy_tail(data, at, end, tail)
                block = block_of(data, at, tail)
                if regional:
                    digits = mask_of_range(block, 0, 0x30, 9) & valid_in(at, end)
                    places = digits & ~((digits << ONE) | before)
                    before = digits >> np.uint64(63)
                else:
                    places = mask_of_range(block, 0, 0x2B, 0) & valid_in(at, end)
                while places:
                    first = at + count_trailing_zeros(places)
                    places &= places - ONE
                    digit = first
                    if regional:
                        if first > wall and data[first - 1] == 0x28:
                            first -= 1
                        if first > wall and data[first - 1] == 0x2B:
                            first -= 1
                    else:
                        digit += 1
                        if digit < end and (data[digit] == 0x28 or data[digit] == 0x20):
                            digit += 1
                    if digit >= end or not is_digit(data[digit]):
                        continue
                    # A `+` begins a number even behind another's last digit.
                    if data[first] == 0x2B:
                        if first > wall and (
                            is_letter(data[first - 1]) or data[first - 1] == 0x2B or data[first - 1] == 0x5F
                        ):
                            continue
                    elif joined_before(data, wall, first):
                        continue
                    last = _candidate_stop(data, digit, end)
                    if last > 0:
                        firsts[count] = first
                        lasts[count] = last
                        limits[count] = end
                        count += 1
                at += 64
            if j < span_offsets[i + 1]:
                wall = np.int64(stops[j])
    out_offsets[len(offsets) - 1] = count


def candidates(
    offsets: np.ndarray, data: np.ndarray, spans: Spans, *, regional: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Where a phone number may be in what `spans` leave of n texts: offsets (n + 1,) int64; starts, stops and where what is left
    there stops, each (candidates,) int32.

    They may overlap; of each text in order. Without `regional`, only those with a `+`.
    """
    room = (int(offsets[-1]) - int(offsets[0])) // 2 + 1  # a digit and what parts it from the next
    found = (
        np.empty(len(offsets), np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
    )
    _candidates(offsets, data, spans.offsets, spans.starts, spans.stops, regional, np.zeros(64, np.uint8), *found)
    count = int(found[0][-1])
    return found[0], found[1][:count], found[2][:count], found[3][:count]
