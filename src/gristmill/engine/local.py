"""The local engine: worker processes on one machine, DuckDB and threads for the whole corpus.

Workers come from a fork server that has the heavy modules loaded, or are fresh processes where fork
is unsafe (server.py). Each takes one task at a time and sends its progress over a pipe. A worker
that dies ends its own task and no other: the task fails, with the signal's name, and a new worker
takes its place. Workers end with their parent, however it ends: each watches a pipe that only the
parent holds open, and all hold the corpus' lock until they end. They know nothing of the caller's
main module.
"""

import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gristmill.engine import server
from gristmill.engine.engine import EngineKind, Event, Job, WorkerDied
from gristmill.engine.executor import threads_with
from gristmill.engine.relations import RELATIONS_MEMORY_MB, Relations, duckdb_with
from gristmill.store.parts import machine_errors
from gristmill.system import interpreter

Task = TypeVar("Task")
Answer = TypeVar("Answer")

# What the caller has loaded of these every worker needs: the fork server loads it for all.
PHASES = "gristmill.phases."
# seconds of a run from which on new workers cost it little: 0.2 s each, for imports and kernels;
# what old ones hold is 140 MB of 570 at the peak of two
LONG = 5.0


def start(name: str, workers: int, lock: int, *, own_code: bool) -> "LocalEngine":
    """Worker processes on this machine; they hold the descriptor `lock` as long as they live."""
    return LocalEngine(workers, inherited=[lock], own_code=own_code)


class LocalSession(NamedTuple):
    """DuckDB and threads of the process that a task about the whole corpus runs in."""

    threads: int
    memory_mb: int = RELATIONS_MEMORY_MB
    in_one_process: bool = True

    def open(self, temporary: Path, folders: list[Path]) -> Relations:
        """DuckDB, out of core."""
        return duckdb_with(self.threads, self.memory_mb)(temporary, folders)

    def map(self, function: Callable[[Task], Answer], tasks: Iterable[Task], /) -> Iterator[Answer]:
        """Run tasks on threads; the contract is executor.Executor's."""
        return threads_with(self.threads)(function, tasks)


class _LocalWorker:
    def __init__(self, inherited: list[int], *, own_code: bool) -> None:
        self.pipe, theirs = connection.Pipe()
        alive, self._alive = os.pipe()
        self.process = server.start().start([theirs.fileno(), alive, *inherited])
        theirs.close()
        os.close(alive)
        self.give((interpreter.path(), interpreter.current_folder(), own_code))
        self.job: Job | None = None

    def give(self, what: Any) -> None:
        """Send it something; that it ended is noticed where its answers are read."""
        with suppress(OSError):
            self.pipe.send(what)

    def close(self) -> None:
        self.pipe.close()
        os.close(self._alive)
        self.process.kill()


class LocalEngine:
    """Worker processes; use as a context."""

    def __init__(
        self, workers: int, *, inherited: list[int] | None = None, own_code: bool = True
    ) -> None:
        """Keep up to `workers` processes; they hold the descriptors `inherited` as long as they
        live. `own_code`: whether jobs may run a user's own code.
        """
        server.start()
        server.used(name for name in [*sys.modules] if name.startswith(PHASES))
        server.load_used()
        self._workers: list[_LocalWorker] = []
        # of the workers that are at a job
        self._selector = selectors.DefaultSelector()
        self._most, self._begun = workers, time.monotonic()
        self._inherited, self._own_code = inherited or [], own_code

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *error: object) -> None:
        self._selector.close()
        for worker in self._workers:
            worker.close()
        self._workers.clear()

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs, in order as workers come free; yield events as they come."""
        begun = self.begin()
        for job in jobs:
            begun.add(job)
        try:
            while begun.count:
                yield from begun.events(None)
        finally:
            begun.stop()  # also where the iteration is left early

    def begin(self) -> "LocalJobs":
        """Run jobs that are not all known yet; one such at a time."""
        return LocalJobs(self)

    def other_machines(self) -> None:
        """All work is on this machine."""

    def run_whole(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs about a source or the whole corpus one after another, each in a worker with
        DuckDB and all threads.

        Of a long run, workers without a job end before, and this one after: what they would go on
        holding (models, DuckDB's memory) are hundreds of MB at the peak of a later task.
        """
        if not jobs:
            return
        session = LocalSession(self._most)
        self._end_idle()
        for job in jobs:
            yield from self.run([job._replace(function=partial(job.function, session=session))])
        self._end_idle()

    def _end_idle(self) -> None:
        if time.monotonic() - self._begun < LONG:
            return
        for worker in [worker for worker in self._workers if worker.job is None]:
            self.stop(worker)

    def idle(self, wanted: int) -> list[_LocalWorker]:
        """Return workers without a job, new ones among them, at most as many as wanted."""
        idle = [worker for worker in self._workers if worker.job is None]
        while len(idle) < wanted and len(self._workers) < self._most:
            self._workers.append(_LocalWorker(self._inherited, own_code=self._own_code))
            idle.append(self._workers[-1])
        return idle[:wanted]

    def busy(self) -> list[_LocalWorker]:
        """Return the workers that are at a job."""
        return [worker for worker in self._workers if worker.job is not None]

    def give(self, worker: _LocalWorker, job: Job) -> None:
        """Have a worker do a job."""
        worker.job = job
        self._selector.register(worker.pipe, selectors.EVENT_READ, worker)
        worker.give((job.function, job.task))

    def ready(self, seconds: float | None) -> list[_LocalWorker]:
        """Return the workers at a job that have said something, once one has; none after
        `seconds`.
        """
        return [key.data for key, _ in self._selector.select(seconds)]

    def stop(self, worker: _LocalWorker) -> None:
        """End a worker."""
        self._end_job(worker)
        self._workers.remove(worker)
        worker.close()

    def next_event(self, worker: _LocalWorker) -> Event:
        """Return what a worker says next; it has a job."""
        job = worker.job
        assert job is not None
        try:
            kind, value = worker.pipe.recv()
            if kind == "modules":  # the answer follows
                server.used(value)
                kind, value = worker.pipe.recv()
        except (EOFError, OSError):
            code = worker.process.wait()
            self.stop(worker)
            return Event(job, error=WorkerDied(f"its worker {_describe_end(code)}"))
        if kind == "progress":
            return Event(job, progress=value)
        self._end_job(worker)
        if kind == "error":
            return Event(job, error=value)
        return Event(job, result=value)

    def _end_job(self, worker: _LocalWorker) -> None:
        if worker.job is not None:
            worker.job = None
            with suppress(KeyError):  # Ctrl-C came before it was registered
                self._selector.unregister(worker.pipe)


class LocalJobs:
    """Jobs under way (engine.OpenJobs)."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._waiting: deque[Job] = deque()
        self.count = 0

    def add(self, job: Job) -> None:
        self._waiting.append(job)
        self.count += 1

    def events(self, seconds: float | None) -> list[Event]:
        for worker in self._engine.idle(len(self._waiting)):
            self._engine.give(worker, self._waiting.popleft())
        events = [self._engine.next_event(worker) for worker in self._engine.ready(seconds)]
        self.count -= sum(event.result is not None or event.error is not None for event in events)
        return events

    def stop(self) -> None:
        self._waiting.clear()
        for worker in self._engine.busy():
            self._engine.stop(worker)


def _describe_end(code: int | None) -> str:
    """Return how a worker ended, in words."""
    if code is None:
        return "could not be started, or ended with the process that starts workers"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def run_here(jobs: list[Job]) -> Iterator[Event]:
    """Run jobs in this process, one after another; yield an event when each ends."""
    for job in jobs:
        try:
            with machine_errors(Path.cwd()):
                event = Event(job, result=job.function(job.task, lambda _: None))
        except Exception as error:  # noqa: BLE001 (whoever asked for the job decides)
            event = Event(job, error=error)
        yield event


LOCAL = EngineKind(name="local", shown="local", pattern="local", start=start)
