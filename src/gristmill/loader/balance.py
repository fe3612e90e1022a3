"""Windows of a step dealt to ranks, so that attention costs each rank about the same.

Attention within documents costs the sum of the squares of their lengths. A window of one long
document costs up to L times one of short documents, and the step takes as long as its slowest rank.

The method is balanced largest differencing (Michiels, Korst, Aarts, van Leeuwen 2003): windows
sorted by cost are divided into groups of one window a rank; the two groups that differ most inside
are joined, the dearest of one with the cheapest of the other, until one group is left. Each rank
has equally many windows. Joining never makes a difference larger than it was in either group, so
that no two ranks differ by more than `bound`: the largest difference among `ranks` windows that
follow one another in the sorted order. Only integers are added, and ties go by number: every rank
computes the same.
"""

import heapq
from typing import Any

import numpy as np

from gristmill.errors import RecipeError

Costs = np.ndarray


def deal(costs: Costs, ranks: int) -> np.ndarray:
    """The rank of each of B windows, (B,) int64, from their costs (B,) int64, of 0 or more.

    Every rank gets B / ranks windows. Takes B log B steps. Raises RecipeError if B cannot be
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
        joined = [one + other for one, other in zip(sums, reversed(others), strict=True)]
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
    return out


def bound(costs: Costs, ranks: int) -> int:
    """No two ranks of `deal` differ by more than this."""
    groups = _groups(costs, ranks)
    if not len(groups):
        return 0
    values = np.asarray(costs)[groups]
    return int((values[:, 0] - values[:, -1]).max())


def imbalance(costs: Costs, dealt: np.ndarray, ranks: int) -> float:
    """How much more than the mean the dearest rank has: 0.05 is 5 %."""
    sums = np.zeros(ranks, np.int64)
    np.add.at(sums, dealt, costs)
    return float(sums.max() * ranks / max(int(sums.sum()), 1) - 1)


def _groups(costs: Costs, ranks: int) -> np.ndarray:
    """(B / ranks, ranks): the windows, dearest first."""
    if ranks < 1 or len(costs) % ranks:
        raise RecipeError(
            f"{len(costs):,} windows for {ranks:,} ranks: each rank needs as many as the others"
        )
    return np.argsort(-np.asarray(costs, np.int64), kind="stable").reshape(-1, ranks)
