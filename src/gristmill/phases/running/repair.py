"""A run continues where a file that it reads back is damaged: the task that wrote it runs again.

    a stored record     its files are held against it before it is used (Corpus.done): where one is
                        not as it was, the phase runs
    a file at its use   each phase holds what it reads against its digest and raises Damaged; then
                        all records are looked at again

What is written again has the bytes that it had, so that the phases behind it are done.
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from gristmill.corpus.corpus import Corpus
from gristmill.errors import Damaged, MachineError
from gristmill.phases.running.progress import Progress

MOST = 3  # times that one file is found damaged in a run
SHOWN = 10  # lines

Result = TypeVar("Result")


def mended(corpus: Corpus, progress: Progress, phases: Callable[[], Result]) -> Result:
    """Run phases that skip what is done; again where one finds damage. Raises MachineError where a
    file is damaged again and again.
    """
    counts: Counter[str] = Counter()
    while True:
        try:
            return phases()
        except Damaged as error:
            counts[str(error)] += 1
            if counts[str(error)] == MOST or counts.total() > 100:
                raise MachineError(
                    f"{error}. It was made anew, and is damaged again: the disk does not "
                    "give back what was written to it. "
                    "Choose a folder on another disk"
                ) from error
            progress.line(f"{error}: what was done is looked at again")
            corpus.distrust()


def shortened(lines: list[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    more = [f"... and {len(lines) - SHOWN:,} more files"] if len(lines) > SHOWN else []
    return lines[:SHOWN] + more
