"""What each phase of a run takes, of all processes together: processor time, wall time and memory.

The run's events say when a phase starts and ends (phases/running/progress.py). Memory is the
proportional set size (PSS: a page that three processes share counts a third), read ten times a
second. Without /proc (macOS) processor time is the wall time, and memory is 0: unknown.
"""

import os
import threading
import time
from typing import Any

import msgspec

from gristmill.progress.memory_use import PROC, memory, processes

SECONDS_BETWEEN_READINGS = 0.1


class PhaseCost(msgspec.Struct):
    """What one phase took: seconds, and bytes of memory at the peak."""

    cpu: float = 0.0
    wall: float = 0.0
    worker: int = 0  # the largest process but this one
    driver: int = 0  # this process
    memory: int = 0  # all processes


class Meter:
    """Measures the phases of one run: a context manager whose `show` the run gets."""

    def __init__(self) -> None:
        self.phases: dict[str, PhaseCost] = {}
        self._current = PhaseCost()
        self._reading = 0.0  # processor seconds of the thread that reads, no cost of the run
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Meter":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def show(self, event: dict[str, Any]) -> None:
        """Take an event of the run."""
        if event["event"] == "phase":
            self._current = self.phases.setdefault(event["phase"], PhaseCost())
            self._current.cpu -= self._seconds()
        elif event["event"] == "done":
            self._current.cpu += self._seconds()
            self._current.wall += event["seconds"]

    def _seconds(self) -> float:
        return sum(processes().values()) - self._reading if PROC.exists() else time.perf_counter()

    def _read(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_READINGS):
            cost, sizes = self._current, {pid: memory(pid) for pid in processes()}
            cost.memory = max(cost.memory, sum(sizes.values()))
            cost.driver = max(cost.driver, sizes.pop(os.getpid(), 0))
            cost.worker = max(cost.worker, *sizes.values(), 0)
            self._reading = time.thread_time()
