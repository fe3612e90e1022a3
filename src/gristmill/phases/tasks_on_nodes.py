"""Tasks about one raw shard on the nodes of a cluster, for a corpus in an object store: no folder
is shared.

    driver   uploads what nodes cannot have otherwise: models, lists, local raw shards
    node     fetches what its task reads into a folder of the task, and compares every byte; works;
             uploads what it wrote; removes the folder
    driver   gets the record, and writes it to the store when the files are there

What many tasks read (models, tables about the whole corpus) a node fetches once. Phases about the
whole corpus run on the driver, in its scratch folder, from which per-shard files are removed again.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gristmill.corpus.corpus import Corpus, Record
from gristmill.corpus.stored_corpus import OBJECTS, StoredCorpus
from gristmill.engine.engine import Engine, Event, Job
from gristmill.engine.local import LocalSession, run_here
from gristmill.engine.nodes import scratch
from gristmill.errors import Damaged, MachineError, SourceError
from gristmill.filters.api.step import Input
from gristmill.phases.phase import Phase, State
from gristmill.phases.task_storage import InFolder, InStore, TaskFiles, TaskStorage, find_record
from gristmill.store.bucket.bucket import Bucket
from gristmill.store.bucket.objects import THREADS, ObjectFile, Objects, bring, download, link
from gristmill.store.parts import Part, hash_file
from gristmill.store.proof import proven

KEPT = "gristmill-kept"  # of a node's folder: what several tasks read, by sha256


class NodeTask(NamedTuple):
    """A task for a node, and where it finds what it reads."""

    url: str  # of the corpus
    key: str  # the content key
    task: Any
    own: list[ObjectFile]  # for the folder of the task
    shared: list[ObjectFile]  # for the node
    moved: dict[str, ObjectFile]  # of paths of the driver: what lies there, for the node


class OnNodes:
    """Tasks about one raw shard read and write the store; others the driver's scratch folder."""

    def __init__(self, engine: Engine, corpus: StoredCorpus, threads: int) -> None:
        """`threads` are the driver's."""
        self._engine, self._corpus = engine, corpus
        self._here = InStore(engine, corpus)
        self._driver = LocalSession(threads)
        self._brought: list[Path] = []  # what a phase about the whole corpus read of raw shards

    def jobs(
        self, phase: Phase[Any], tasks: dict[int, Any], names: dict[int, str], state: State
    ) -> list[Job]:
        files = TaskFiles(phase, state)
        if phase.scope != "shard":
            for number, task in tasks.items():
                own = files.own(number, task)
                self._brought += [self._corpus.root / path for path, _ in own]
            return self._here.jobs(phase, tasks, names, state)
        with ThreadPoolExecutor(THREADS) as threads:
            given = threads.map(
                lambda number: self._for_a_node(phase, number, tasks[number], files), tasks
            )
            return [
                Job(names[number], partial(execute_on_node, phase), node_task)
                for number, node_task in zip(tasks, given, strict=True)
            ]

    def run(self, phase: Phase[Any], jobs: list[Job]) -> Iterator[Event]:
        if phase.scope == "shard":
            return self._engine.run(jobs)
        return run_here(
            [job._replace(function=partial(job.function, session=self._driver)) for job in jobs]
        )

    def keep(self, phase: Phase[Any], name: str, record: Record[Any]) -> None:
        if phase.scope == "shard":
            self._here.later(partial(self._corpus.keep, phase.name, name, record, written=True))
            return
        self._here.keep(phase, name, record)
        self._brought += [
            self._corpus.stage / part.path
            for part in record.parts
            if part.path.startswith("tokens/")
        ]

    def wait(self) -> None:
        self._here.wait()
        brought, self._brought = self._brought, []
        for path in brought:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        self._here.close()

    def _for_a_node(self, phase: Phase[Any], number: int, task: Any, files: TaskFiles) -> NodeTask:
        moved = {path: self._shared(Path(path), sha256) for path, sha256 in _task_paths(task)}
        shared = [self._corpus.wanted(*file) for file in files.shared(task)]
        if getattr(task, "tokenizer", None) is not None:
            path, sha256 = f"work/stage/{task.tokenizer}", task.tokenizer_sha256
            shared.append(self._shared(self._corpus.root / path, sha256)._replace(path=path))
        return NodeTask(
            self._corpus.bucket.url,
            phase.key(task),
            task,
            [self._corpus.wanted(*file) for file in files.own(number, task)],
            shared,
            moved,
        )

    def _shared(self, path: Path, sha256: str) -> ObjectFile:
        """Return a file that is in the store already, or is brought there from this machine."""
        objects = self._corpus.objects
        if objects.size(sha256) is None:
            if not path.is_file():
                raise MachineError(
                    f"{self._corpus.name}: sha256 {sha256} ({path.name}) is neither in the store "
                    "nor on this machine: run the same command again to fetch it"
                )
            size, digest = hash_file(path)
            if digest != sha256:
                raise SourceError(
                    f"{path}: changed since the plan pinned it: expected sha256 {sha256}, got "
                    f"{digest}. Bring the old file back, or start a new corpus for the new one",
                    "changed",
                )
            objects.put(path, sha256, size)
        return ObjectFile(objects.key(sha256), sha256, sha256, objects.size(sha256))


def make_storage(corpus: Corpus, engine: Engine, threads: int) -> TaskStorage:
    """Return where the tasks of a run read and write; `threads` are the driver's."""
    if not isinstance(corpus, StoredCorpus):
        return InFolder(engine)
    if engine.other_machines() is None:
        return InStore(engine, corpus)
    return OnNodes(engine, corpus, threads)


def _task_paths(task: Any) -> list[tuple[str, str]]:
    """Return the paths of the driver in a task, and the digests of what lies there."""
    paths = []
    if hasattr(task, "path"):
        paths.append((task.path, task.sha256))
    for holder in (getattr(task, "steps", None), getattr(task, "post_dedup", None)):
        inputs = {} if holder is None else holder.inputs
        paths += [(entry.path, entry.sha256) for entry in inputs.values() if entry.path]
    return paths


def with_paths(task: Any, root: Path, places: dict[str, Path]) -> Any:
    """Return a task with the paths of another machine."""
    changes: dict[str, Any] = {"root": str(root)}
    if hasattr(task, "path"):
        changes["path"] = str(places[task.path])
    for name in ("steps", "post_dedup"):
        holder = getattr(task, name, None)
        if holder is not None:
            inputs: dict[str, Input] = {
                location: entry._replace(path=str(places[entry.path])) if entry.path else entry
                for location, entry in holder.inputs.items()
            }
            changes[name] = msgspec.structs.replace(holder, inputs=inputs)
    return msgspec.structs.replace(task, **changes)


def execute_on_node(
    phase: Phase[Any], given: NodeTask, on_progress: Callable[[int], None]
) -> Record[Any]:
    """Do one task on this machine; its files are in the store when this returns."""
    bucket = Bucket(given.url)
    objects, here = Objects(bucket, OBJECTS), scratch()
    root = Path(tempfile.mkdtemp(prefix="gristmill-task-", dir=here))
    try:
        places = {}
        for path, wanted in given.moved.items():
            if path == getattr(given.task, "path", None):
                bring(bucket, [wanted._replace(path=f"raw/{wanted.sha256}")], root)
                places[path] = root / f"raw/{wanted.sha256}"
            else:
                places[path] = _kept(bucket, wanted, here)
        for wanted in given.shared:
            link(_kept(bucket, wanted, here), root / wanted.path)
        bring(bucket, given.own, root)
        output = phase.function(with_paths(given.task, root, places), on_progress)
        record = find_record(phase, given.key, output)
        _upload(objects, [(root / "work/stage", part) for part in record.parts])
        _upload(objects, [(root / "work", part) for part in record.work])
        return record
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _kept(bucket: Bucket, wanted: ObjectFile, here: Path) -> Path:
    """Return a file that other tasks on this node read as well."""
    path = here / KEPT / wanted.sha256
    try:
        return proven(path, wanted.sha256)
    except Damaged:
        download(bucket, wanted._replace(path=f"{KEPT}/{wanted.sha256}"), here)
    return path


def _upload(objects: Objects, files: list[tuple[Path, Part]]) -> None:
    for folder, part in files:
        objects.put(folder / part.path, part.sha256, part.size)
