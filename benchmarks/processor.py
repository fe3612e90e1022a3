"""What the processes of a run take, apart, and how much faster more cores make it: Amdahl's law
(1967), from processor time.

A run's caller, its fork server, and what deduplicates and assembles are one process each: what
their first threads do is done by nobody else, what their other threads do (hashing, comparing) more
cores divide. So do more workers what is done about one raw shard. Standard library only: the
measured process imports it.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

# phases with a task for each raw shard
SHARED = ("fetch", "process", "write_verdicts", "tokenize")
TICKS = os.sysconf("SC_CLK_TCK")  # of a second
# the caller's time before the first raw shard is processed and after the last phase, and all of the
# fork server's
START = "start and end of the caller, fork server, fetch"


class Used(NamedTuple):
    """Seconds of processor time so far."""

    caller: float
    caller_first: float  # of `caller`, what its first thread took
    server: float
    workers: float
    workers_first: dict[str, float]  # what the first threads of those that run took, by number


def _seconds(stat: Path) -> tuple[int, float, float]:
    """A process's parent, its processor time, and that of its children that have ended."""
    fields = stat.read_text().rpartition(")")[2].split()
    own, ended = (sum(map(int, fields[place : place + 2])) for place in (11, 13))
    return int(fields[1]), own / TICKS, ended / TICKS


def _first_thread(process: int) -> float:
    return _seconds(Path(f"/proc/{process}/task/{process}/stat"))[1]


def used() -> Used:
    """What this process, its child and its child's children have taken."""
    found: dict[int, tuple[int, float, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = _seconds(entry / "stat")
            except (OSError, IndexError):
                continue  # it ended meanwhile
    servers = [pid for pid, (parent, _, _) in found.items() if parent == os.getpid()]
    workers = [pid for pid, (parent, _, _) in found.items() if parent in servers]
    return Used(
        found[os.getpid()][1],
        _first_thread(os.getpid()),
        sum(found[pid][1] for pid in servers),
        sum(found[pid][2] for pid in servers) + sum(found[pid][1] for pid in workers),
        {str(pid): _first_thread(pid) for pid in workers},
    )


def by_phase(events: list[Any]) -> dict[str, dict[str, float]]:
    """Of each phase the seconds of one process or thread, and those that cores divide.

    events: (event, phase, Used): where a phase begins, when a job of it has ended (its worker still
    runs), when the phase has ended; and one at the end of the run. What the caller does goes to the
    phase that it is done in; what it does before it processes is START's. So is all that the fork
    server does: its imports take most of it, and last into the second phase where the first is
    short.
    """
    found = {START: {"alone": 0.0, "divided": 0.0}}
    begun = Used(0.0, 0.0, 0.0, 0.0, {})
    for event, phase, seconds in events:
        now = Used(*seconds)
        is_start = phase in ("", "fetch") or (event == "phase" and len(found) == 1)
        took = now.workers - begun.workers
        before = begun.workers_first
        first = sum(now.workers_first[pid] - before.get(pid, 0.0) for pid in now.workers_first)
        alone = 0.0 if phase in ("", *SHARED) or event == "phase" else min(first, took)
        of_phase = found.setdefault(START if is_start else phase, {"alone": 0.0, "divided": 0.0})
        caller_first = now.caller_first - begun.caller_first
        of_phase["alone"] += alone + caller_first
        found[START]["alone"] += now.server - begun.server
        of_phase["divided"] += took - alone + now.caller - begun.caller - caller_first
        begun = now
    return found


class Costs(NamedTuple):
    """Seconds of processor time that a run takes."""

    start: float  # of one process or thread, once
    worker: float  # of each worker, once
    shard: float  # of the caller and the fork server, for each raw shard
    alone: float  # of one process or thread, for each MB
    divided: float  # of workers and threads, for each MB


class Run(NamedTuple):
    """A measured run."""

    shards: int
    megabytes: float
    workers: int
    caller: float  # of START, what one process or thread does
    alone: float  # of all phases, what one process or thread does
    divided: float


def costs(few: Run, many: Run, large: Run, larger: Run) -> Costs:
    """From a run of few small raw shards, one of many that are as small in all, and two long ones,
    the second with more raw shards of one size.

    What the starts of the small runs differ by is what raw shards cost, and what their workers took
    is a worker's start. What the phases of the long runs differ by goes by the MB. The rest of what
    one process did in the longer one is start: of the caller, and of the processes that deduplicate
    and assemble.
    """
    shard = max(many.caller - few.caller, 0.0) / (many.shards - few.shards)
    worker = few.divided / few.workers
    megabytes = larger.megabytes - large.megabytes
    alone = max(larger.alone - large.alone, 0.0) / megabytes
    rest = larger.alone - alone * larger.megabytes
    start = max(larger.caller - shard * larger.shards + rest, 0.0)
    return Costs(start, worker, shard, alone, (larger.divided - large.divided) / megabytes)


def speed_up(found: Costs, shards: int, megabytes: float, cores: int) -> float:
    """How many times faster a run is on `cores` cores than on one; raw shards have `megabytes`."""
    serial = found.start + found.worker + shards * (found.shard + megabytes * found.alone)
    most = -(-shards // cores)  # raw shards of the worker that has most
    each = megabytes * found.divided
    return (serial + shards * each) / (serial + most * each)
