"""Where tasks find what they read, and what becomes of what they wrote: a folder, or an object
store.

    InFolder    a folder that all workers reach: files are where the tasks look for them
    InStore     an object store, and work on this machine: the driver fetches into its scratch what
                a task reads, and uploads what it wrote, while others run
    OnNodes     an object store, and the nodes of a cluster for the tasks about one raw shard
                (tasks_on_nodes.py)
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gristmill.corpus.corpus import Corpus, Record
from gristmill.corpus.stored_corpus import StoredCorpus
from gristmill.engine.engine import Engine, Event, Job, Session
from gristmill.phases.phase import Output, Phase, State
from gristmill.store.bucket.objects import THREADS
from gristmill.store.parts import Part
from gristmill.tables.schema import shard_name

File = tuple[str, Part]  # its path from the corpus' root while it runs, and the part


def execute(
    phase: Phase[Any],
    name: str,
    task: Any,
    on_progress: Callable[[int], None],
    session: Session | None = None,
) -> Record[Any]:
    """Do one task, in a worker, and record that it is done under `name`."""
    output = phase.function(task, on_progress, *([] if session is None else [session]))
    record = find_record(phase, phase.key(task), output)
    return Corpus(Path(task.root)).record(phase.name, name, record)


def find_record(phase: Phase[Any], key: str, output: Output) -> Record[Any]:
    """Return the record of a task that has this content key."""
    phase.check_folders(output)
    parts, work = list(output.parts), list(output.work)
    return Record(key=key, parts=parts, work=work, counts=output.counts)


class TaskStorage(Protocol):
    """Jobs for the tasks of a phase."""

    def jobs(
        self, phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str], state: State
    ) -> list[Job]:
        """Return a job for each task, whose result is its record. Raises Damaged."""
        ...

    def run(self, phase: Phase[Any], jobs: list[Job]) -> Iterator[Event]:
        """Run jobs of a phase; yield events as they come."""
        ...

    def keep(self, phase: Phase[Any], name: str, record: Record[Any]) -> None:
        """Keep what a task wrote."""
        ...

    def wait(self) -> None:
        """Wait until everything is kept. Raises what keeping it raised."""
        ...

    def close(self) -> None:
        """Begin no further upload, and wait for those under way."""
        ...


def folder_jobs(phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str]) -> list[Job]:
    """Return jobs for workers that reach the tasks' own paths."""
    return [
        Job(names[number], partial(execute, phase, names[number]), task)
        for number, task in tasks.items()
    ]


def run_jobs(engine: Engine, phase: Phase[Any], jobs: list[Job]) -> Iterator[Event]:
    """Run jobs of a phase on an engine."""
    return (engine.run if phase.scope == "shard" else engine.run_whole)(jobs)


class InFolder:
    """Tasks read and write the corpus' folder."""

    def __init__(self, engine: Engine) -> None:
        """`engine` runs the jobs."""
        self._engine = engine

    def jobs(
        self, phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str], state: State
    ) -> list[Job]:
        return folder_jobs(phase, tasks, names)

    def run(self, phase: Phase[Any], jobs: list[Job]) -> Iterator[Event]:
        return run_jobs(self._engine, phase, jobs)

    def keep(self, phase: Phase[Any], name: str, record: Record[Any]) -> None:
        """Nothing: it is where it belongs."""

    def wait(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class InStore:
    """Tasks read and write the driver's scratch folder of a stored corpus."""

    def __init__(self, engine: Engine, corpus: StoredCorpus) -> None:
        """The corpus is held."""
        self._engine, self._corpus = engine, corpus
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="gristmill-upload")
        self._uploads: list[Future[None]] = []

    def jobs(
        self, phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str], state: State
    ) -> list[Job]:
        files = TaskFiles(phase, state)
        wanted = {path: part for number in tasks for path, part in files.of(number, tasks[number])}
        self._corpus.bring(wanted.items())
        return folder_jobs(phase, tasks, names)

    def run(self, phase: Phase[Any], jobs: list[Job]) -> Iterator[Event]:
        return run_jobs(self._engine, phase, jobs)

    def keep(self, phase: Phase[Any], name: str, record: Record[Any]) -> None:
        self.later(partial(self._corpus.keep, phase.name, name, record, written=False))

    def later(self, upload: Callable[[], None]) -> None:
        """Do an upload beside other work."""
        self._uploads.append(self._threads.submit(upload))

    def wait(self) -> None:
        uploads, self._uploads = self._uploads, []
        for upload in uploads:
            upload.result()

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


class TaskFiles:
    """Which files of earlier records the tasks of a phase read."""

    def __init__(self, phase: Phase[Any], state: State) -> None:
        """`state` has the records of the phases before it."""
        self._phase = phase
        self._own: dict[str, list[File]] = {}  # by the name of the raw shard that they are of
        self._shared: list[File] = []
        reads = tuple(f"{folder}/" for folder in phase.reads)
        if not reads:
            return
        names = {shard_name(shard.number) for shard in state.plan.shards}
        for records in state.records.values():
            for record in records.values():
                for path, shown, part in _files(record):
                    if shown.startswith(reads):
                        stem = part.path.rpartition("/")[2].partition(".")[0]
                        to = self._own.setdefault(stem, []) if stem in names else self._shared
                        to.append((path, part))

    def of(self, number: int, task: Any) -> list[File]:
        """Return the files that a task reads: of its raw shards those in the folders that it
        opens.
        """
        return self.own(number, task) + self.shared(task)

    def own(self, number: int, task: Any) -> list[File]:
        """Return those that are of its raw shards alone."""
        if self._phase.scope == "shard":
            shard_files = self._own.get(shard_name(number), [])
        else:
            names = map(shard_name, getattr(task, "numbers", ()))
            named = [self._own.get(name, []) for name in names] or self._own.values()
            shard_files = [file for files in named for file in files]
        return self._open_files(task, shard_files)

    def shared(self, task: Any) -> list[File]:
        """Return those that other tasks read as well."""
        return self._open_files(task, self._shared)

    def _open_files(self, task: Any, files: Iterable[File]) -> list[File]:
        if self._phase.opens is None:
            return list(files)
        opened = tuple(f"{folder}/" for folder in self._phase.opens(task))
        return [file for file in files if file[0].removeprefix("work/stage/").startswith(opened)]


def _files(record: Record[Any]) -> Iterator[tuple[str, str, Part]]:
    """Yield (its path from the root in a run, the path that phases declare, the part)."""
    for part in record.parts:
        yield f"work/stage/{part.path}", part.path, part
    for part in record.work:
        yield f"work/{part.path}", f"work/{part.path}", part
