"""All phases behind fetch, in order.

`--until`, `status`, progress and the run go over this list.
"""

from typing import Any

from gristmill.phases.output.assemble import ASSEMBLE
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.phase import Phase
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.corpus_filters import CORPUS_FILTERS
from gristmill.phases.relations.deduplicate import DEDUPLICATE
from gristmill.phases.relations.frequent_lines import COUNT_LINES, FREQUENT_LINES
from gristmill.phases.relations.repeated_substrings import REPEATED_SUBSTRINGS
from gristmill.phases.relations.write_verdicts import WRITE_VERDICTS

PHASES: tuple[Phase[Any], ...] = (
    PROCESS,
    CORPUS_FILTERS,
    DEDUPLICATE,
    WRITE_VERDICTS,
    COUNT_LINES,
    FREQUENT_LINES,
    REPEATED_SUBSTRINGS,
    TOKENIZE,
    ASSEMBLE,
)
NAMES = ("fetch", *(phase.name for phase in PHASES))  # as progress and run.json name them
# What --until takes: a run stops behind the last phase of a name.
STOPS = ("plan", "fetch", *dict.fromkeys(phase.stops_by for phase in PHASES))


def is_last(phase: Phase[Any]) -> bool:
    """Return whether no later phase stops by the same name."""
    later = PHASES[PHASES.index(phase) + 1 :]
    return phase.stops_by not in [one.stops_by for one in later]
