"""Windows of a step dealt to ranks, so that attention costs each rank about the same.

Attention within documents costs the sum of the squares of their lengths. A window of one long
document costs up to L times one of short documents, and the step takes as long as its slowest rank.

The method is balanced largest differencing (Michiels, Korst, Aarts, van Leeuwen 2003): windows
sorted by cost are divided into groups of one window a rank; the two groups that differ most inside
are joined, the dearest of one with the cheapest of the other, until one group is left. Each rank
has equally many windows. Joining never makes a difference larger than it was in either group, so
that no two ranks differ by more than `bound`: the largest difference among `ranks` windows that
follow one another in the sorted order.

Then the dearest rank and a cheap one exchange the two windows that bring them nearest to each
other, again and again while the dearest gets cheaper, at most ROUNDS times the number of ranks. Two
values between the two that they replace make no difference larger. `least` is what no dealing can
go below. Only integers are added, and ties go by number: every rank computes the same.
"""

import heapq
from typing import Any

import numpy as np

from gristmill.errors import RecipeError

Costs = np.ndarray
ROUNDS = 8  # exchanges for each rank; 2 to 3 are made until no one helps
CHEAP = 4  # ranks with which the dearest may exchange: with most, the cheapest of all


def deal(costs: Costs, ranks: int) -> np.ndarray:
    """Return the rank of each of B windows, (B,) int64, from their costs (B,) int64, of 0 or more.

    Every rank gets B / ranks windows. Takes B log B steps, and ROUNDS * ranks * B at most to
    exchange. Raises RecipeError if B cannot be
    divided.
    """
    groups = _groups(costs, ranks)
    out = np.zeros(len(costs), np.int64)
    if ranks == 1 or not len(costs):
        return out
    # A set of windows is a window, or a pair of sets; a group is its sums, dearest first, and sets.
    values = np.asarray(costs)[groups].tolist()
    heap: list[tuple[int, int, list[int], list[Any]]] = [
        (sums[-1] - sums[0], number, sums, sets)
        for number, (sums, sets) in enumerate(zip(values, groups.tolist(), strict=True))
    ]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        _, _, sums, sets = heapq.heappop(heap)
        _, _, others, other_sets = heapq.heappop(heap)
        joined = [cost + other for cost, other in zip(sums, reversed(others), strict=True)]
        order = sorted(range(ranks), key=joined.__getitem__, reverse=True)
        other_sets = other_sets[::-1]
        sums = [joined[at] for at in order]
        sets = [(sets[at], other_sets[at]) for at in order]
        heapq.heappush(heap, (sums[-1] - sums[0], number, sums, sets))
        number += 1
    for rank, left in enumerate(heap[0][3]):
        waiting = [left]
        while waiting:
            some = waiting.pop()
            if isinstance(some, tuple):
                waiting += some
            else:
                out[some] = rank
    _exchange(np.asarray(costs, np.int64), out, ranks)
    return out


def _exchange(costs: Costs, dealt: np.ndarray, ranks: int) -> None:
    """Exchange windows between ranks in place, while the dearest gets cheaper."""
    sums = np.zeros(ranks, np.int64)
    np.add.at(sums, dealt, costs)
    for _ in range(ROUNDS * ranks):
        dearest = int(np.argmax(sums))
        cheap = np.argsort(sums, kind="stable")[:CHEAP].tolist()
        pairs = (_best_pair(costs, dealt, sums, dearest, other) for other in cheap)
        swap = next((pair for pair in pairs if pair is not None), None)
        if swap is None:
            return
        given, taken = swap
        other, less = int(dealt[taken]), int(costs[given] - costs[taken])
        dealt[given], dealt[taken] = other, dearest
        sums[dearest] -= less
        sums[other] += less


def _best_pair(
    costs: Costs, dealt: np.ndarray, sums: np.ndarray, dearest: int, other: int
) -> tuple[int, int] | None:
    """Return the windows that two ranks exchange, so that the larger of their sums is least; None:
    no exchange makes it smaller.
    """
    mine, theirs = np.flatnonzero(dealt == dearest), np.flatnonzero(dealt == other)
    theirs = theirs[np.argsort(costs[theirs], kind="stable")]
    gap = int(sums[dearest] - sums[other])
    # The one of theirs that is nearest to mine less half the gap: above it, or below.
    at = np.searchsorted(costs[theirs], costs[mine] - gap // 2)
    best, most = None, int(sums[dearest])
    for places in (np.maximum(at - 1, 0), np.minimum(at, len(theirs) - 1)):
        less = costs[mine] - costs[theirs[places]]
        larger = np.maximum(sums[dearest] - less, sums[other] + less)
        pick = int(np.argmin(larger))
        if int(larger[pick]) < most:
            most, best = int(larger[pick]), (int(mine[pick]), int(theirs[places[pick]]))
    return best


def _groups(costs: Costs, ranks: int) -> np.ndarray:
    """Return (B / ranks, ranks): the windows, dearest first."""
    if ranks < 1 or len(costs) % ranks:
        raise RecipeError(
            f"{len(costs):,} windows for {ranks:,} ranks: each rank needs as many as the others"
        )
    return np.argsort(-np.asarray(costs, np.int64), kind="stable").reshape(-1, ranks)
