"""When a node goes on to its next shards: when it has read its shards, or when its loss no longer
falls.

Both are decided by values that the node's log has: windows of the plan, and losses that the
trainer reported. So a run can be replayed from its log.
"""

import math
from collections.abc import Sequence

import msgspec

from gristmill.errors import RecipeError
from gristmill.loader.plan_segments import PlanSegment


class PlateauRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Genesis' rule: the last `window` losses have a variance below `variance` and a mean below
    `mean`. Losses are in nats a token, as the trainer reports them.
    """

    window: int = 20
    variance: float = 0.02
    mean: float = 0.05

    def check(self) -> "PlateauRule":
        """Return the rule itself. Raises RecipeError if it could never be asked."""
        if isinstance(self.window, bool) or self.window < 1:
            raise RecipeError(f"plateau: window = {self.window!r}: it is a number of 1 or more")
        for name, value in (("variance", self.variance), ("mean", self.mean)):
            if math.isnan(value):
                raise RecipeError(f"plateau: {name} is not a number")
        return self

    def reached(self, losses: Sequence[float]) -> bool:
        """Return whether the last losses are a plateau; the variance is that of the population."""
        if len(losses) < self.window:
            return False
        recent = losses[-self.window :]
        mean = sum(recent) / len(recent)
        variance = sum((loss - mean) ** 2 for loss in recent) / len(recent)
        return variance < self.variance and mean < self.mean


def exhausted_at(segment: PlanSegment, epochs: int = 1) -> int:
    """Return the window of the stream, the first of a step, before which every window of every
    source of a segment was read `epochs` times.

    Sources that the mix reads faster than others have begun further epochs by then.
    """
    mixture, last = segment.mixture, 0
    for number, source in enumerate(segment.sources):
        if source.slots:
            rank = epochs * source.windows - source.rank - 1
            last = max(last, mixture.window_of(number, max(rank, 0)) + 1)
    steps = -(-last // segment.batch_size)
    return segment.from_window + steps * segment.batch_size
