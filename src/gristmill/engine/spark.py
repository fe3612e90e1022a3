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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gristmill import interpreter
from gristmill.engine import nodes
from gristmill.engine.local import Event, Job, WorkerDied, portable
from gristmill.errors import RecipeError
from gristmill.store.parts import machine_errors

TASKS_A_CORE = 2  # handed to Spark at a time, so that no core waits for the driver


def is_spark(engine: str) -> bool:
    """Whether an engine's name is Spark's: `spark` (inside spark-submit) or `spark://host:port`."""
    return engine == "spark" or engine.startswith("spark://")


def start(engine: str) -> Any:
    """A SparkSession on the cluster, whose nodes are as this machine.

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


class SparkPool:
    """The cluster as workers; use as a context."""

    def __init__(self, session: Any) -> None:
        """`session` is a SparkSession; it is stopped in the end."""
        self.session = session
        self._context = session.sparkContext

    def __enter__(self) -> "SparkPool":
        return self

    def __exit__(self, *error: object) -> None:
        self.session.stop()

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs, as cores come free; yield events as they come."""
        heard: queue.Queue[Event] = queue.Queue()
        threads = ThreadPoolExecutor(TASKS_A_CORE * self._context.defaultParallelism)
        try:
            for job in jobs:
                threads.submit(self._one, job, heard)
            waiting = len(jobs)
            while waiting:
                event = heard.get()
                waiting -= event.result is not None or event.error is not None
                yield event
        finally:
            # An iteration that is left early leaves no task at work.
            threads.shutdown(wait=False, cancel_futures=True)
            self._context.cancelAllJobs()
            threads.shutdown()

    def _one(self, job: Job, heard: "queue.Queue[Event]") -> None:
        try:
            data = pickle.dumps((dict(nodes.here()), job.function, job.task))
            answer = self._context.parallelize([data], 1).map(work).collect()[0]
            kind, value, units = pickle.loads(answer)  # noqa: S301
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this job's)
            heard.put(Event(job, error=WorkerDied(f"its task on Spark failed: {error}")))
            return
        heard.put(Event(job, progress=units))
        heard.put(Event(job, result=value) if kind == "result" else Event(job, error=value))


def work(data: bytes) -> bytes:
    """Run one pickled (what the driver has, function, task) on a node; pickled: (kind, result or
    error, units of progress).
    """
    units = 0

    def tell(more: int) -> None:
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
            return pickle.dumps(("result", function(task, tell), units))
    except BaseException as error:  # noqa: BLE001 (whatever it is, the driver reports it with the task's name)
        return pickle.dumps(("error", portable(error), units))
