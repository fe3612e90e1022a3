"""How a phase runs over its tasks: what is done is not done again, the engine runs the rest, and
the others finish when one fails.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from gristmill.corpus.corpus import Corpus, Record
from gristmill.engine.engine import Engine, Event, Job, OpenJobs
from gristmill.errors import Damaged, GristmillError, MachineError, RecipeError
from gristmill.phases.phase import Phase, State
from gristmill.phases.running.progress import Progress
from gristmill.phases.running.repair import shortened
from gristmill.phases.task_storage import InFolder, TaskStorage


class Ran(NamedTuple):
    """A phase's records by number, and why some tasks have none."""

    records: dict[int, Record[Any]]
    failed: dict[int, GristmillError]


def raise_at_once(error: BaseException) -> None:
    """Raise an error of a task that ends the run: the machine's and the recipe's would be every
    task's.
    """
    if isinstance(error, MachineError | RecipeError | Damaged) or not isinstance(
        error, GristmillError
    ):
        raise error


class _EarlyJobs:
    """Jobs of a phase that were begun before it."""

    def __init__(self, phase: Phase[Any], jobs: OpenJobs) -> None:
        self.phase = phase
        self.keys: dict[int, str] = {}  # by task, the content key that it was begun with
        self._jobs = jobs
        self._events: list[Event] = []  # for the phase

    def add(self, number: int, key: str, job: Job) -> None:
        self.keys[number] = key
        self._jobs.add(job)

    def go_on(self) -> bool:
        if self._jobs.count:
            events = self._jobs.events(0.0)
            self._events += events
            for event in events:
                # What is damaged is mended between phases.
                if event.error is not None and not isinstance(event.error, Damaged):
                    raise_at_once(event.error)
        return self._jobs.count > 0

    def rest(self, jobs: list[Job]) -> Iterator[Event]:
        """Yield the events so far; then those of the jobs that are left, and of these."""
        for job in jobs:
            self._jobs.add(job)
        try:
            yield from self._events
            while self._jobs.count:
                yield from self._jobs.events(None)
        finally:
            self.stop()

    def stop(self) -> None:
        self._jobs.stop()


class PhaseRunner:
    """Runs the tasks of a phase that are not done."""

    def __init__(
        self, corpus: Corpus, engine: Engine, progress: Progress, storage: TaskStorage | None = None
    ) -> None:
        """`engine` is open for as long as phases run; `storage` is where their tasks read and
        write (null: in the corpus' folder).
        """
        self._corpus, self._engine, self._progress = corpus, engine, progress
        self._storage = storage if storage is not None else InFolder(engine)
        self._early: _EarlyJobs | None = None

    def begin(self, phase: Phase[Any], number: int, task: Any, state: State) -> None:
        """Begin a task before its phase, unless it is done or the engine cannot: `each` takes it
        over. All such tasks are of one phase.
        """
        name, key = phase.record_name(number, state.recipe), phase.key(task)
        if self._early is None:
            jobs = self._engine.begin()
            if jobs is None:
                return
            self._early = _EarlyJobs(phase, jobs)
        if self._corpus.done(phase.name, name, key, phase.counts) is None:
            (job,) = self._storage.jobs(phase, {number: task}, {number: name}, state)
            self._early.add(number, key, job)

    def go_on(self) -> bool:
        """Go on with what was begun early, without waiting; whether any of it is under way. Raises
        what `each` raises at once.
        """
        return self._early is not None and self._early.go_on()

    def each(self, phase: Phase[Any], tasks: dict[int, Any], state: State) -> Ran:
        """Run those tasks of a phase that are not done.

        Raises MachineError, RecipeError, Damaged, and errors that are not gristmill's, at once.
        """
        names = {number: phase.record_name(number, state.recipe) for number in tasks}
        begun = self._take_over(phase, tasks)
        early = begun.keys if begun is not None else {}
        others = {number: task for number, task in tasks.items() if number not in early}
        records = self._stored(phase, others, names)
        left = {number: task for number, task in others.items() if number not in records}
        jobs = self._storage.jobs(phase, left, names, state)
        numbers = {name: number for number, name in names.items()}
        failed: dict[int, GristmillError] = {}
        sizes = _sizes(phase, tasks, names, records)
        with self._progress.phase(phase.name, len(jobs) + len(early), sizes) as progress:
            for event in self._storage.run(phase, jobs) if begun is None else begun.rest(jobs):
                number = numbers[event.job.name]
                if event.error is not None:
                    raise_at_once(event.error)
                    assert isinstance(event.error, GristmillError)
                    failed[number] = event.error
                    progress.failed(event.job.name, phase.label(number, state))
                elif event.result is not None:
                    records[number] = event.result
                    self._storage.keep(phase, event.job.name, event.result)
                    progress.done(event.job.name)
                else:
                    progress.bytes(event.progress, event.job.name)
            self._storage.wait()
        return Ran(dict(sorted(records.items())), failed)

    def _take_over(self, phase: Phase[Any], tasks: dict[int, Any]) -> "_EarlyJobs | None":
        """Return what was begun early of a phase, if it is what the phase would do now."""
        begun, self._early = self._early, None
        if begun is None:
            return None
        same = begun.phase is phase and all(
            number in tasks and phase.key(tasks[number]) == key
            for number, key in begun.keys.items()
        )
        if not same:
            begun.stop()
            return None
        return begun

    def _stored(
        self, phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str]
    ) -> dict[int, Record[Any]]:
        """Return the records of tasks that are done, their files checked byte by byte."""
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


def _sizes(
    phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str], done: dict[int, Record[Any]]
) -> dict[str, int]:
    """About how many bytes each task that is not done will count, by the names of the tasks; empty
    where the phase does not know.
    """
    if phase.size is None:
        return {}
    return {names[number]: phase.size(task) for number, task in tasks.items() if number not in done}
