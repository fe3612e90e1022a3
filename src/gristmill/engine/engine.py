"""What an engine is, and which one does the work of a run.

                                         local                       spark
    Engine.run        tasks of shards    worker processes            nodes of the cluster
    Engine.run_whole  tasks about a      one worker process          the driver
                      source or the
                      whole corpus
    Session.open      SQL                DuckDB in that process      Spark SQL
    Session.map       tasks that such a  threads of that process     nodes of the cluster
                      task is divided
                      into

The pipeline knows these two protocols only. A further engine is an EngineKind of a module of this
folder, or of another package; `--engine module:VALUE` names one of your own.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from gristmill.engine.relations import Relations
from gristmill.errors import GristmillError, RecipeError
from gristmill.system.plugins import Plugins

Task = TypeVar("Task")
Answer = TypeVar("Answer")

MOST_WORKERS = 64  # on a machine of up to 16 processors


class Job(NamedTuple):
    """A call for a worker: a function of a module, and its task."""

    name: str
    # (task, on_progress) -> result; of `run_whole` (task, on_progress, session)
    function: Callable[..., Any]
    task: Any


class Event(NamedTuple):
    """What became of a job: progress (units), a result, or an error."""

    job: Job
    progress: int = 0
    result: Any = None
    error: BaseException | None = None


class WorkerDied(GristmillError):
    """A worker process ended without an answer."""

    reason = "worker"  # of errors.REASONS


class Session(Protocol):
    """What a task about the whole corpus works with."""

    @property
    def threads(self) -> int:
        """Return how many threads the task may use in its own process."""
        ...

    @property
    def in_one_process(self) -> bool:
        """Return whether tasks of `map` run in the task's own process: they may share what it
        holds.
        """
        ...

    def open(self, temporary: Path, folders: list[Path]) -> Relations:
        """Open SQL that spills to `temporary` and reads and writes in `folders`."""
        ...

    def map(self, function: Callable[[Task], Answer], tasks: Iterable[Task], /) -> Iterator[Answer]:
        """Return answers in the order of the tasks; the contract is executor.Executor's."""
        ...


class OpenJobs(Protocol):
    """Jobs under way, to which more may be added."""

    @property
    def count(self) -> int:
        """Return how many jobs are not done."""
        ...

    def add(self, job: Job) -> None:
        """Run one more."""
        ...

    def events(self, seconds: float | None) -> list[Event]:
        """Hand jobs to idle workers, wait for an event so long (null: until there is one), and
        return what came.
        """
        ...

    def stop(self) -> None:
        """Leave no worker at a job of these."""
        ...


class OtherMachines(Protocol):
    """Machines beside this one. Safe for threads."""

    def run(self, job: Job) -> Any:
        """Run a job on one of them, and wait for its result. Raises its error."""
        ...

    def stop(self) -> None:
        """Leave none at work."""
        ...


class Engine(Protocol):
    """What does the work of a run; use as a context."""

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *error: object) -> None: ...

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs side by side; yield events as they come."""
        ...

    def begin(self) -> OpenJobs | None:
        """Run jobs that are not all known yet; null: this engine cannot."""
        ...

    def other_machines(self) -> OtherMachines | None:
        """Return what runs jobs elsewhere, one by one; null: all work is on this machine."""
        ...

    def run_whole(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs about a source or the whole corpus one after another: each function gets a
        Session as its third argument.
        """
        ...


def check(name: str) -> None:
    """Raise RecipeError where no engine has this name."""
    _find(name)


def worker_count(workers: int | None) -> int:
    """Return the number of local processes or threads: `workers`, or one for each processor.

    Raises RecipeError for more than MOST_WORKERS and than four for each processor.
    """
    processors = os.cpu_count() or 1
    most = max(MOST_WORKERS, 4 * processors)
    if workers is not None and workers > most:
        raise RecipeError(
            f"--workers {workers:,}: this machine has {processors} processors; expected at most "
            f"{most}. More workers than processors are not faster, and each takes memory"
        )
    return workers or processors


def start(name: str, workers: int, lock: int, *, own_code: bool) -> Engine:
    """Start an engine; it ends with its context.

    `workers` is the largest number of local processes or threads. `lock` is the descriptor of the
    corpus' lock, which local workers hold as long as they live. `own_code`: whether jobs may
    run a user's own code.
    """
    return _find(name).start(name, workers, lock, own_code=own_code)


class EngineKind(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that there is."""

    name: str  # for `--engine NAME`, and `--engine NAME:...` where it takes an address
    shown: str  # how it is written, for messages
    pattern: str  # a regular expression of what `--engine` takes
    start: Callable[..., Engine]  # takes what `start` takes


ENGINES: Plugins[EngineKind] = Plugins(
    "gristmill.engine", ("EngineKind",), "--engine {}: no such engine", "gristmill.engines"
)


def _find(name: str) -> EngineKind:
    place = name.partition(":")[0]
    if place not in ENGINES:
        return ENGINES.find(name, ENGINES.file(name, Path.cwd()))
    kind = ENGINES.find(place)
    if not re.fullmatch(kind.pattern, name):
        raise RecipeError(f"--engine {name}: no such engine; write {kind.shown}")
    return kind
