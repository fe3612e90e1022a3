"""Spark as the engine: the same tasks over the same folder, on the nodes of a cluster.

Each task is a Spark job of one partition, so that its end is heard of when it ends, and a task
whose node died is run again elsewhere (`spark.task.maxFailures`): tasks write under other names,
and rename or answer with them, so that a task that was cut off leaves nothing behind that counts.
Nodes need the corpus' folder, the recipe's files and the cache under the paths that the driver has,
and the driver's gristmill and libraries, which is checked (nodes.py).
"""

import os
import pickle
import queue
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gristmill.engine import nodes
from gristmill.engine.engine import EngineKind, Event, Job, WorkerDied
from gristmill.engine.local import run_here
from gristmill.engine.relations import Relations
from gristmill.engine.worker import portable
from gristmill.errors import RecipeError
from gristmill.store.parts import machine_errors
from gristmill.system import interpreter

Task = TypeVar("Task")
Answer = TypeVar("Answer")

TASKS_A_CORE = 2  # handed to Spark at a time, so that no core waits for the driver


def start(name: str, workers: int, lock: int, *, own_code: bool) -> "SparkEngine":
    """Return the cluster as an engine; on the driver a task uses up to `workers` threads.

    Nodes cannot hold the corpus' `lock`: the driver does.
    """
    return SparkEngine(connect(name), workers)


def connect(engine: str) -> Any:
    """Return a SparkSession on the cluster, whose nodes are as this machine.

    Raises RecipeError where they are not, or the extra is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise RecipeError(
            f"--engine {engine}: pyspark is not installed: pip install 'gristmill[spark]'"
        ) from error
    builder = SparkSession.builder.appName("gristmill").config(
        "spark.ui.showConsoleProgress", "false"
    )
    if engine != "spark":
        builder = builder.master(engine)
    for name, value in {
        # a file of a library's name in a worker's folder is not run
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
    }.items():
        builder = builder.config(name, value)
    if path := os.environ.get("PYTHONPATH"):
        builder = builder.config("spark.executorEnv.PYTHONPATH", path)
    session = builder.getOrCreate()
    context = session.sparkContext
    context.setLogLevel("ERROR")
    # Outside spark-submit Spark would take whatever `python3` is on a node.
    context.pythonExec = (
        os.environ.get("PYSPARK_PYTHON")
        or context.getConf().get("spark.pyspark.python")
        or interpreter.python()
    )
    try:
        nodes.check(context, engine)
    except BaseException:
        session.stop()
        raise
    return session


class SparkEngine:
    """The cluster as workers; use as a context."""

    def __init__(self, spark: Any, threads: int) -> None:
        """`spark` is a SparkSession; it is stopped in the end."""
        self._spark = spark
        self._context = spark.sparkContext
        self._session = SparkSqlSession(self, spark, threads)

    def __enter__(self) -> "SparkEngine":
        return self

    def __exit__(self, *error: object) -> None:
        self._spark.stop()

    def run_whole(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs about the whole corpus on the driver, one after another."""
        return run_here(
            [job._replace(function=partial(job.function, session=self._session)) for job in jobs]
        )

    def begin(self) -> None:
        """Jobs are run when all are known."""

    def other_machines(self) -> "SparkNodes":
        """Return the nodes."""
        return SparkNodes(self._context)

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs, as cores come free; yield events as they come."""
        events: queue.Queue[Event] = queue.Queue()
        threads = ThreadPoolExecutor(TASKS_A_CORE * self._context.defaultParallelism)
        try:
            for job in jobs:
                threads.submit(self._one, job, events)
            waiting = len(jobs)
            while waiting:
                event = events.get()
                waiting -= event.result is not None or event.error is not None
                yield event
        finally:
            # An iteration that is left early leaves no task at work.
            threads.shutdown(wait=False, cancel_futures=True)
            self._context.cancelAllJobs()
            threads.shutdown()

    def _one(self, job: Job, events: "queue.Queue[Event]") -> None:
        try:
            value, units = _on_a_node(self._context, job)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this job's)
            events.put(Event(job, error=error))
            return
        events.put(Event(job, progress=units))
        events.put(Event(job, result=value))


class SparkNodes(NamedTuple):
    """The nodes of the cluster, for jobs that come one by one."""

    context: Any

    def run(self, job: Job) -> Any:
        """Run a job on a node, and wait for its result. Raises its error, or WorkerDied."""
        return _on_a_node(self.context, job)[0]

    def stop(self) -> None:
        """Leave no node at work."""
        self.context.cancelAllJobs()


def _on_a_node(context: Any, job: Job) -> tuple[Any, int]:
    """Return (a job's result, its units of progress). Raises its error, or WorkerDied."""
    try:
        data = pickle.dumps((dict(nodes.here()), job.function, job.task))
        answer = context.parallelize([data], 1).map(work).collect()[0]
        kind, value, units = pickle.loads(answer)  # noqa: S301
    except Exception as error:
        raise WorkerDied(f"its task on Spark failed: {error}") from error
    if kind != "result":
        raise value
    return value, units


class SparkSqlSession(NamedTuple):
    """Spark SQL, and the nodes for the tasks between two queries."""

    engine: SparkEngine
    spark: Any
    threads: int
    in_one_process: bool = False

    def open(self, temporary: Path, folders: list[Path]) -> Relations:
        """Spark SQL."""
        from gristmill.engine.spark_sql import SparkRelations

        return SparkRelations(self.spark, temporary, folders)

    def map(self, function: Callable[[Task], Answer], tasks: Iterable[Task], /) -> Iterator[Answer]:
        """Run each task on a node; all are drawn from `tasks` at once."""
        return in_order(self.engine.run, function, tasks)


def in_order(
    run: Callable[[list[Job]], Iterator[Event]],
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
) -> Iterator[Answer]:
    """Run tasks as jobs; yield their answers in the order of the tasks. Raises a task's error."""
    jobs = [Job(str(place), partial(_answer, function), task) for place, task in enumerate(tasks)]
    answers: dict[str, Answer] = {}
    following = 0
    for event in run(jobs):
        if event.error is not None:
            raise event.error
        if event.result is not None:
            (answers[event.job.name],) = event.result
        while str(following) in answers:
            yield answers.pop(str(following))
            following += 1


def _answer(
    function: Callable[[Task], Answer], task: Task, on_progress: Callable[[int], None]
) -> tuple[Answer]:
    """Run a task as a job: a result is never null."""
    return (function(task),)


def work(data: bytes) -> bytes:
    """Run one pickled (what the driver has, function, task) on a node; pickled: (kind, result or
    error, units of progress).
    """
    units = 0

    def add(more: int) -> None:
        nonlocal units
        units += more

    wanted, function, task = pickle.loads(data)  # noqa: S301 (the driver's own)
    try:
        # A node that came when the work had begun was not asked before.
        if said := nodes.differences(wanted, nodes.here()):
            raise RecipeError(
                f"{socket.gethostname()} is not as the driver: {', '.join(said)}. docs/scale.md"
            )
        with machine_errors(Path.cwd()):
            return pickle.dumps(("result", function(task, add), units))
    except BaseException as error:  # noqa: BLE001 - the driver reports it with the task's name
        return pickle.dumps(("error", portable(error), units))


SPARK = EngineKind(
    name="spark",
    shown="spark://host:port, or spark inside spark-submit",
    pattern=r"spark(://.*)?",
    start=start,
)
