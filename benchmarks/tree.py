"""Run a command and measure its whole process tree: `python tree.py ANSWER.json [--core N] [--limit
SECONDS] -- COMMAND...`.

Processor time is of the command and of every process that it started, those that outlived it
included (this process adopts and awaits them). Memory is the peak of the sum of their proportional
set sizes (PSS, /proc/PID/smaps_rollup), sampled 5 times a second: a page that three processes share
counts once. Linux only.
"""

import argparse
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
INTERVAL = 0.2


def session_pss(session: int) -> int:
    """Bytes of memory of all processes in a session, shared pages counted once."""
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            after_name = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) != session:
                continue
            for line in Path(entry.path, "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
    return total


def main() -> None:
    """Measure one command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("answer", type=Path)
    parser.add_argument("--core", type=int)
    parser.add_argument("--limit", type=float, help="seconds after which the command is stopped")
    place = sys.argv.index("--")
    command = sys.argv[place + 1 :]
    asked = parser.parse_args(sys.argv[1:place])
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit("this system cannot adopt orphaned processes: their time would be lost")

    def pin() -> None:
        if asked.core is not None:
            os.sched_setaffinity(0, {asked.core})

    start = time.perf_counter()
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=pin)  # noqa: PLW1509
    peak, samples, ended = 0, 0, threading.Event()

    def sample() -> None:
        nonlocal peak, samples
        while not ended.wait(INTERVAL):
            peak = max(peak, session_pss(process.pid))
            samples += 1

    sampler = threading.Thread(target=sample)
    sampler.start()
    stopped = False
    try:
        code = process.wait(asked.limit)
    except subprocess.TimeoutExpired:
        stopped = True
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    wall = time.perf_counter() - start
    ended.set()
    sampler.join()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    asked.answer.write_text(
        json.dumps(
            {
                "code": code,
                "stopped": stopped,
                "wall": wall,
                "cpu": used.ru_utime + used.ru_stime,
                "system": used.ru_stime,
                "peak_pss": peak,
                "samples": samples,
                "largest_rss": used.ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
