"""The mix of sources: one period of slots, each of one source, repeated for ever.

At every prefix of the stream a source has had its share of windows to within one. The slots are
those of a schedule in which each window of a source is a task of one slot: of a source with c of P
slots, task j may run from slot floor(j P / c) on and must run before slot ceil((j + 1) P / c). On
one processor, earliest deadline first meets all deadlines (Baruah and others 1996, proportionate
progress).

A slot knows how many slots of its source come before it in the period, so that window g of the
stream is found in constant time, and the place of a source's window likewise.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from gristmill.errors import RecipeError

MOST_SLOTS = 1 << 16
MOST_WEIGHT = 1e300  # what is near the end of float64 has no sums


def assign_slots(weights: Sequence[Fraction]) -> list[int]:
    """Return the slots of each source in the period: exact where the shares have a common
    denominator of at most MOST_SLOTS, else MOST_SLOTS of them by the largest remainder (the first
    of equals).
    """
    total = sum(weights, Fraction(0))
    shares = [weight / total for weight in weights]
    period = math.lcm(*(share.denominator for share in shares))
    if period <= MOST_SLOTS:
        return [int(share * period) for share in shares]
    slots = [math.floor(share * MOST_SLOTS) for share in shares]
    left = sorted(range(len(shares)), key=lambda i: (slots[i] - shares[i] * MOST_SLOTS, i))
    for i in left[: MOST_SLOTS - sum(slots)]:
        slots[i] += 1
    common = math.gcd(*slots)
    return [count // common for count in slots]


def fill_weights(
    sources: Mapping[str, int], asked: Mapping[str, float | int] | None
) -> dict[str, Fraction]:
    """Return the weight of every source: as asked, 0 for those that are not named. Without `asked`,
    and where it only has zeros, those that it does not name are in proportion to their tokens.

    `sources` is the tokens of each. Raises RecipeError.
    """
    if asked is not None and not isinstance(asked, Mapping):
        raise RecipeError(f"weights = {asked!r}: they are a table of numbers by source")
    given = {str(name): _weight(str(name), value) for name, value in (asked or {}).items()}
    if unknown := sorted(given.keys() - sources.keys()):
        raise RecipeError(
            f"weights: the corpus has no source {unknown[0]!r}; it has {', '.join(sources)}"
        )
    if any(given.values()):
        weights = {name: given.get(name, Fraction(0)) for name in sources}
    else:
        weights = {
            name: Fraction(0 if name in given else tokens) for name, tokens in sources.items()
        }
    if not any(weights.values()):
        raise RecipeError("weights: no source has a weight above 0")
    for name, count in zip(weights, assign_slots(list(weights.values())), strict=True):
        if weights[name] and not count:
            share = weights[name] / sum(weights.values())
            raise RecipeError(
                f"weights: source {name!r} has a share of {float(share):.2g}, less than half a "
                f"slot of {MOST_SLOTS:,}, and would never be read: give it weight 0, or a share "
                f"of at least {1 / MOST_SLOTS:.1g}"
            )
    return weights


def _weight(name: str, value: float) -> Fraction:
    """Return a weight as the decimal number that it is written as."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MOST_WEIGHT
    ):
        raise RecipeError(f"weights: {name} = {value!r} is not a number of 0 or more")
    return Fraction(str(value))


class Mixture:
    """The period of a mix."""

    def __init__(self, slots: Sequence[int]) -> None:
        """`slots` of each source (`assign_slots`), at least one of them above 0."""
        self.slots = np.array(slots, np.int64)
        self.period = int(self.slots.sum())
        # (period,) int64: the source of each slot
        self.sources = np.array(_schedule(slots), np.int64)
        # The slots of each source one behind another, and where each source's begin.
        self._places = np.argsort(self.sources, kind="stable")
        self._first = np.concatenate([[0], np.cumsum(self.slots)])[:-1]
        # (period,) int64: how many slots of its source are before it
        self.ranks = np.empty(self.period, np.int64)
        self.ranks[self._places] = np.arange(self.period) - self._first[self.sources[self._places]]

    def place(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of windows (k,) int64, counted from the beginning of the mix: the source of each, and
        how many windows of that source come before it. Both (k,) int64.
        """
        periods, slot = np.divmod(windows, self.period)
        sources = self.sources[slot]
        return sources, periods * self.slots[sources] + self.ranks[slot]

    def window_of(self, source: int, rank: int) -> int:
        """Return the inverse of `place`: where the window number `rank` of a source comes."""
        periods, rest = divmod(rank, int(self.slots[source]))
        return periods * self.period + int(self._places[self._first[source] + rest])

    def before(self, window: int) -> np.ndarray:
        """Return how many windows of each source come before a window, (sources,) int64."""
        periods, rest = divmod(window, self.period)
        return periods * self.slots + np.bincount(self.sources[:rest], minlength=len(self.slots))


def _schedule(slots: Sequence[int]) -> list[int]:
    """Return the source of each slot of the period."""
    period = sum(slots)
    released: list[list[int]] = [[] for _ in range(period)]
    for source, count in enumerate(slots):
        if count:
            released[0].append(source)
    ready: list[tuple[int, int]] = []  # (deadline, source) of each source's next window
    done = [0] * len(slots)
    order = []
    for slot in range(period):
        for source in released[slot]:
            deadline = -(-(done[source] + 1) * period // slots[source])
            heapq.heappush(ready, (deadline, source))
        _, source = heapq.heappop(ready)
        order.append(source)
        done[source] += 1
        if done[source] < slots[source]:
            # The next one comes into the heap when it may come into the order.
            at = max(done[source] * period // slots[source], slot + 1)
            released[at].append(source)
    return order
