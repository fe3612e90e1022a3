"""Which engine does a run's work: worker processes on this machine with DuckDB, or the nodes of a
Spark cluster with its SQL.

each shard's tasks               workers               nodes
relations                        DuckDB, a worker      Spark's SQL
the tasks between near's         threads of it         nodes
deciding what is a duplicate     that worker           the driver
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

from gristmill.engine import spark
from gristmill.engine.executor import Answer, Executor, Task
from gristmill.engine.local import Event, Here, Job, Pool
from gristmill.engine.relations import Opener
from gristmill.errors import RecipeError


class Runs(Protocol):
    """What runs jobs."""

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs; yield events as they come."""
        ...


class Engaged(NamedTuple):
    """An engine at work."""

    pool: Runs  # for the tasks of shards
    deduplicating: Runs  # for what looks at the whole corpus
    opener: Opener | None  # of its relations; null: as the task says
    executor: Executor | None  # what does the tasks between them; null: as the task says

    def deduplicated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs relations, on this engine's."""
        return function if self.opener is None else partial(function, opener=self.opener)

    def with_executor(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that has tasks to executor, over this engine."""
        return function if self.executor is None else partial(function, executor=self.executor)


def check(engine: str) -> None:
    """Raise RecipeError for an engine that there is not."""
    if engine != "local" and not spark.is_spark(engine):
        raise RecipeError(
            f"--engine {engine}: no such engine; there are local, spark://host:port, and "
            "spark inside spark-submit"
        )


@contextmanager
def engage(engine: str, workers: int, handle: int) -> Iterator[Engaged]:
    """Start an engine; it ends with the block.

    `handle` is the corpus' lock, which workers hold as long as they live.
    """
    if engine == "local":
        with Pool(workers, inherited=[handle]) as pool:
            yield Engaged(pool, pool, None, None)
        return
    from gristmill.engine.spark_sql import SparkRelations

    session = spark.start(engine)
    with spark.SparkPool(session) as nodes:
        yield Engaged(nodes, Here(), partial(SparkRelations, session), partial(_on_nodes, nodes))


def _on_nodes(
    nodes: Runs, function: Callable[[Task], Answer], tasks: Iterable[Task]
) -> Iterator[Answer]:
    """Each task on a node; all are drawn at once."""
    jobs = [Job(str(place), partial(_answer, function), task) for place, task in enumerate(tasks)]
    answers: dict[str, Answer] = {}
    following = 0
    for event in nodes.run(jobs):
        if event.error is not None:
            raise event.error
        if event.result is not None:
            (answers[event.job.name],) = event.result
        while str(following) in answers:
            yield answers.pop(str(following))
            following += 1


def _answer(
    function: Callable[[Task], Answer], task: Task, tell: Callable[[int], None]
) -> tuple[Answer]:
    """Run a task as a job: a result is never null."""
    return (function(task),)
