"""What each phase of a run takes, of all processes together: processor time, wall time and memory.

The run's events say when a phase starts and ends (phases/running/progress.py). Memory is the
proportional set size (PSS: a page that three processes share counts a third), read ten times a
second. Without /proc (macOS) processor time is the wall time, and memory is 0: unknown.
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

SECONDS_BETWEEN_READINGS = 0.1
PROC = Path("/proc")


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


def processes() -> dict[int, float]:
    """Processor seconds of this process and of all that descend from it, by process number; those
    of a process that ended count for the process that awaited it. Without /proc this one only.
    """
    parents, seconds = {}, {}
    for stat in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            # Behind the name: state, parent ... 11: utime, stime, cutime and cstime in ticks.
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found = {os.getpid(): sum(os.times()[:4])}  # finer than ticks
    while new := {pid for pid, parent in parents.items() if parent in found} - found.keys():
        found |= {pid: seconds[pid] for pid in new}
    return found


def memory(pid: int) -> int:
    """The proportional set size of a process in bytes; 0 if it ended or there is no /proc."""
    with suppress(OSError):
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
