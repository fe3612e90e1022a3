"""What each phase of a run takes on this machine, with all its processes: CPU time, wall time,
memory and disk.

The run's own events say when a phase starts and ends (phases/running/progress.py). CPU time is that
of this process and of all that it started, exact at both ends of a phase. Memory is the
proportional set size of each process (PSS: a page that three share counts a third), read ten times
a second. Without /proc (macOS) CPU time is the wall time of the one worker, and memory is unknown.
"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

EVERY = 0.1  # seconds between two readings
PROC = Path("/proc")


class Cost(msgspec.Struct, kw_only=True):
    """What one phase took."""

    cpu: float = 0.0  # seconds, of all processes
    wall: float = 0.0  # seconds
    worker: int = 0  # bytes: the most that one process had, this one aside
    driver: int = 0  # bytes: the most that this process had
    tree: int = 0  # bytes: the most of all together
    disk: int = 0  # bytes: the most that the folder held


class Meter:
    """Measures the phases of one run; use as a context, and give `show` to the run."""

    def __init__(self, folder: Path) -> None:
        """`folder` is where the run writes."""
        self.phases: dict[str, Cost] = {}
        self._folder = folder
        self._now: Cost | None = None
        self._begun = (0.0, 0.0)
        self._own = 0.0  # CPU seconds of the reading thread: no cost of the run
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Meter":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def show(self, event: dict[str, Any]) -> None:
        """Take an event of the run."""
        if event["event"] == "phase":
            cost = self.phases.setdefault(event["phase"], Cost())
            self._begun = (self._processors(), time.perf_counter())
            self._now = cost
        elif event["event"] == "done" and self._now is not None:
            cost, self._now = self._now, None
            wall = time.perf_counter() - self._begun[1]
            cost.wall += wall
            cost.cpu += self._processors() - self._begun[0] if PROC.exists() else wall
            cost.disk = max(cost.disk, folder_bytes(self._folder))

    def _processors(self) -> float:
        return sum(_seconds(pid) for pid in tree()) - self._own

    def _look(self) -> None:
        while not self._ended.wait(EVERY):
            if (cost := self._now) is not None:
                sizes = {pid: memory(pid) for pid in tree()}
                driver = sizes.pop(os.getpid(), 0)
                cost.driver = max(cost.driver, driver)
                cost.worker = max(cost.worker, *sizes.values(), 0)
                cost.tree = max(cost.tree, driver + sum(sizes.values()))
                cost.disk = max(cost.disk, folder_bytes(self._folder))
            self._own = time.thread_time()


def tree() -> Iterator[int]:
    """The numbers of this process and of all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in os.scandir(PROC) if PROC.exists() else ():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += parents.get(pid, [])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent ...; none if the process ended."""
    try:
        return (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _seconds(pid: int) -> float:
    """CPU time of a process, and of those that it started and awaited."""
    if pid == os.getpid():
        return sum(os.times()[:4])  # finer than /proc's
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """The proportional set size of a process in bytes; 0 if it ended or there is no /proc."""
    try:
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, as they are at the moment."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue  # it was removed meanwhile
    return total
