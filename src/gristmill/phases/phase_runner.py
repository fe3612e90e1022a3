"""How a phase runs over its tasks: what is done is not done again, the engine runs the rest, and
the others finish when one fails.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.corpus.corpus import Corpus, Record
from gristmill.engine.engine import Engine, Job, Session
from gristmill.errors import Damaged, GristmillError, MachineError, RecipeError
from gristmill.phases.phase import Phase, State
from gristmill.phases.running.progress import Progress
from gristmill.phases.running.repair import shortened


class Ran(NamedTuple):
    """A phase's records by number, and why some tasks have none."""

    records: dict[int, Record[Any]]
    failed: dict[int, GristmillError]


def execute(
    phase: Phase[Any],
    name: str,
    task: Any,
    on_progress: Callable[[int], None],
    session: Session | None = None,
) -> Record[Any]:
    """Do one task, in a worker, and record that it is done under `name`."""
    output = phase.function(task, on_progress, *([] if session is None else [session]))
    phase.check_folders(output)
    parts, work = list(output.parts), list(output.work)
    record = Record(key=phase.key(task), parts=parts, work=work, counts=output.counts)
    return Corpus(Path(task.root)).record(phase.name, name, record)


class PhaseRunner:
    """Runs the tasks of a phase that are not done."""

    def __init__(self, corpus: Corpus, engine: Engine, progress: Progress) -> None:
        """`engine` is open for as long as phases run."""
        self._corpus, self._engine, self._progress = corpus, engine, progress

    def each(self, phase: Phase[Any], tasks: dict[int, Any], state: State) -> Ran:
        """Run those tasks of a phase that are not done.

        Raises MachineError, RecipeError, Damaged, and errors that are not gristmill's, at once.
        """
        names = {number: phase.record_name(number, state.recipe) for number in tasks}
        records = self._stored(phase, tasks, names)
        jobs = [
            Job(names[number], partial(execute, phase, names[number]), task)
            for number, task in tasks.items()
            if number not in records
        ]
        run = self._engine.run_whole if phase.scope == "corpus" else self._engine.run
        numbers = {name: number for number, name in names.items()}
        failed: dict[int, GristmillError] = {}
        with self._progress.phase(phase.name, len(jobs)) as progress:
            for event in run(jobs):
                number = numbers[event.job.name]
                if event.error is not None:
                    # The recipe's error would be every shard's.
                    if isinstance(
                        event.error, MachineError | RecipeError | Damaged
                    ) or not isinstance(event.error, GristmillError):
                        raise event.error
                    failed[number] = event.error
                    progress.done(phase.label(number, state))
                elif event.result is not None:
                    records[number] = event.result
                    progress.done(event.job.name)
                else:
                    progress.bytes(event.progress)
        return Ran(dict(sorted(records.items())), failed)

    def _stored(
        self, phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str]
    ) -> dict[int, Record[Any]]:
        """The records of tasks that are done, their files checked byte by byte."""
        damaged: list[str] = []

        def look(given: tuple[int, Any]) -> Record[Any] | None:
            number, task = given
            return self._corpus.done(
                phase.name, names[number], phase.key(task), phase.counts, damaged.append
            )

        # hashlib releases the interpreter's lock, so threads hash on all cores.
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            stored = list(threads.map(look, tasks.items()))
        for line in shortened(damaged):
            self._progress.line(f"{line}: {phase.name} makes it anew")
        return {
            number: record
            for number, record in zip(tasks, stored, strict=True)
            if record is not None
        }
