"""Who does the tasks between two relations: threads of this process, or the nodes of a cluster
(engine/engine.py).

A task is a tuple that can be pickled, of a function of a module; what it reads and writes are files
in the folder that all share, and its answer says which. A node that was given up for lost may go on
beside its successor, so each run of a task writes files of its own.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gristmill.engine import allocation

Task = TypeVar("Task")
Answer = TypeVar("Answer")

AHEAD = 2  # tasks a thread that are drawn before the first of them is answered


class Executor(Protocol):
    """What runs tasks."""

    def __call__(
        self, function: Callable[[Task], Answer], tasks: Iterable[Task], /
    ) -> Iterator[Answer]:
        """Return the answers, in the order of the tasks.

        A task's error is raised as it is, and no later task is begun.
        """
        ...


def in_turn(function: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
    """Return one after another, here."""
    return map(function, tasks)


def threads_with(threads: int) -> Executor:
    """On `threads` threads of this process: kernels, pyarrow and files let go of the interpreter's
    lock.
    """
    return partial(_on_threads, threads)


def _on_threads(
    threads: int, function: Callable[[Task], Answer], tasks: Iterable[Task]
) -> Iterator[Answer]:
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[Any]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) == AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Who leaves early, or meets an error, leaves no task at work.
        pool.shutdown(cancel_futures=True)
        allocation.give_back()  # the next stage takes memory of other sizes


def fresh(work: Path, name: str) -> Path:
    """Return a path in `work` that no other run of a task has."""
    return work / f"{name}.{secrets.token_hex(4)}"
