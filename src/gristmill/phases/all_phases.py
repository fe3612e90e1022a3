"""All phases behind fetch, in order: found in the modules of this room, none is listed.

`--until`, `status`, progress and the run go over these.
"""

from typing import Any

from gristmill.phases.phase import Phase
from gristmill.recipe import PHASES as FOUND


def _in_order(phases: list[Phase[Any]]) -> tuple[Phase[Any], ...]:
    """Return phases in the order of what they read and write; of two that may come next, first the
    one that others wait for, then by name.
    """
    order: list[Phase[Any]] = []
    while left := [phase for phase in phases if phase not in order]:

        def is_free(phase: Phase[Any], left: list[Phase[Any]] = left) -> bool:
            return not any(other != phase and _feeds(other, phase) for other in left)

        def place(phase: Phase[Any], left: list[Phase[Any]] = left) -> tuple[bool, str]:
            return not any(_feeds(phase, other) for other in left), phase.name

        order.append(min(filter(is_free, left), key=place))
    return tuple(order)


def _feeds(first: Phase[Any], then: Phase[Any]) -> bool:
    return bool(set(first.writes) & set(then.reads))


PHASES = _in_order(FOUND.built_in())
NAMES = ("fetch", *(phase.name for phase in PHASES))  # as progress and run.json name them
# What --until takes: a run stops behind the last phase of a name.
STOPS = ("plan", "fetch", *dict.fromkeys(phase.stops_by for phase in PHASES))


def is_last(phase: Phase[Any]) -> bool:
    """Return whether no later phase stops by the same name."""
    later = PHASES[PHASES.index(phase) + 1 :]
    return phase.stops_by not in [other.stops_by for other in later]
