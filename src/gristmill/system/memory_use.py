"""Processor time and memory of this process and of all that descend from it, and what memory is
free, read from /proc.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
# The most that a container may use, page cache included: control groups 2 and 1.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_of_all() -> int:
    """Return the memory of this process and of all that descend from it, in bytes; 0: not known
    here.
    """
    return sum(map(memory, processes())) if PROC.exists() else 0


def processes() -> dict[int, float]:
    """Return processor seconds of this process and of all that descend from it, by process number;
    those of a process that ended count for the process that awaited it. Without /proc this one
    only.
    """
    parents, seconds = {}, {}
    for stat in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            # Behind the name: state, parent ... 11: utime, stime, cutime and cstime in ticks.
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    usage = {os.getpid(): sum(os.times()[:4])}  # finer than ticks
    while new := {pid for pid, parent in parents.items() if parent in usage} - usage.keys():
        usage |= {pid: seconds[pid] for pid in new}
    return usage


def memory(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 if it ended or there is no
    /proc.
    """
    with suppress(OSError):
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def free_memory() -> int | None:
    """Return the bytes of memory that are free on this machine, at most what its container may use;
    None: it does not say.
    """
    try:
        match = re.search(r"^MemAvailable: *(\d+) kB", (PROC / "meminfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    if match is None:
        return None
    free = int(match[1]) << 10
    for limit in LIMITS:
        with suppress(OSError, ValueError):  # there is none: no file, or the word max
            free = min(free, int(limit.read_text()))
    return free
