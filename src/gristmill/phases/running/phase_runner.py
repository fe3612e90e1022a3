"""How a phase runs over its shards: what is done is not done again, the rest goes to the workers,
the others finish when one fails.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from gristmill.corpus.corpus import Corpus, Record
from gristmill.engine.engine import Event, Job
from gristmill.errors import Damaged, GristmillError, MachineError, RecipeError
from gristmill.phases.running.progress import Progress
from gristmill.phases.running.repair import shortened


class Ran(NamedTuple):
    """A phase's records by number, and why some tasks have none."""

    records: dict[int, Record]
    failed: dict[int, GristmillError]


class PhaseRunner:
    """Runs the tasks of a phase that are not done."""

    def __init__(
        self, corpus: Corpus, run: Callable[[list[Job]], Iterator[Event]], progress: Progress
    ) -> None:
        """`run` is an open engine's `run` or `run_whole`."""
        self._corpus, self._run, self._progress = corpus, run, progress

    def each(
        self,
        phase: str,
        function: Callable[..., Record],
        tasks: dict[int, Any],
        name: Callable[[int], str],
        label: Callable[[int], str],
    ) -> Ran:
        """Run a phase over its tasks, those that are not done.

        Raises MachineError, RecipeError, Damaged, and errors that are not gristmill's, at once.
        """
        records: dict[int, Record] = {}
        jobs = []
        # What is stored is looked at byte by byte; hashlib lets go of the interpreter, so threads
        # hash on all cores.
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            damaged: list[str] = []
            stored = threads.map(
                lambda given: self._corpus.done(
                    phase, name(given[0]), given[1].key(), damaged.append
                ),
                tasks.items(),
            )
            for (number, task), record in zip(tasks.items(), stored, strict=True):
                if record is not None:
                    records[number] = record
                else:
                    jobs.append(Job(name(number), function, task))
        for line in shortened(damaged):
            self._progress.line(f"{line}: {phase} makes it anew")
        numbers = {name(number): number for number in tasks}
        failed: dict[int, GristmillError] = {}
        with self._progress.phase(phase, len(jobs)) as progress:
            for event in self._run(jobs):
                number = numbers[event.job.name]
                if event.error is not None:
                    # The recipe's error would be every shard's.
                    if isinstance(
                        event.error, MachineError | RecipeError | Damaged
                    ) or not isinstance(event.error, GristmillError):
                        raise event.error
                    failed[number] = event.error
                    progress.done(label(number))
                elif event.result is not None:
                    records[number] = event.result
                    progress.done(event.job.name)
                else:
                    progress.bytes(event.progress)
        return Ran(dict(sorted(records.items())), failed)
