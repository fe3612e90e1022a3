"""Tries a file from outside in a process that may die, before a library in this one reads it.

A native library may loop, take all memory or abort where a file is not what it expects; no
exception tells of it. The process that tries has bounds of memory and time (RLIMIT_AS and
RLIMIT_CPU), and gets nothing but the bytes of the file. What ends it would have ended this process.

    try_in_process("package.module:function", data, TrialLimits(memory=2 << 30, seconds=60))

The function takes the bytes and returns a string; it raises ValueError to refuse them.
"""

import os
import resource
import signal
import subprocess
import sys
from importlib import import_module
from typing import NamedTuple

from gristmill.system import interpreter

ANSWER, REFUSAL = b"+", b"-"
WAIT = 10  # seconds of the clock for one of the processor, where other programs run as well
MOST_SHOWN = 500  # characters of a library's message


class TrialLimits(NamedTuple):
    """What a process may take."""

    memory: int  # bytes of address space
    seconds: int  # of processor time


class TrialError(ValueError):
    """A file that was refused, or that ended the process that tried it."""


def try_in_process(call: str, data: bytes, limits: TrialLimits) -> str:
    """Return what `package.module:function` returns for these bytes, in a process of its own.

    Raises TrialError where the function raises ValueError, and where the process ends in another
    way: killed by a signal, out of memory or of time.
    """
    bounds = [str(limits.memory), str(limits.seconds)]
    try:
        ended = subprocess.run(
            interpreter.command("gristmill.system.try_in_process:_begin", call, *bounds),
            input=data,
            capture_output=True,
            timeout=limits.seconds * WAIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrialError(f"it is not ready after {limits.seconds * WAIT} seconds") from error
    answer, said = ended.stdout[:1], ended.stdout[1:].decode("utf-8", "replace")
    if ended.returncode == 0 and answer == ANSWER:
        return said
    if ended.returncode == 0 and answer == REFUSAL:
        raise TrialError(said)
    raise TrialError(_end(ended.returncode, ended.stderr.decode("utf-8", "replace"), limits))


def _end(code: int, said: str, limits: TrialLimits) -> str:
    """Return how a process ended that gave no answer."""
    last = (said.strip().splitlines() or [""])[-1][:MOST_SHOWN]
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and not last):
        return f"it took more than {limits.seconds} seconds of processor time"
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    within = f"{limits.memory / (1 << 30):.1f} GB of memory"
    return f"it ended the process that tried it, which may take {within} ({how}): {last}"


def _begin(call: str, memory: str, seconds: str) -> None:
    """Call a function with the bytes of the standard input, within bounds."""
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, int(memory)),
        (resource.RLIMIT_CPU, int(seconds)),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (bound, hard))
        except (OSError, ValueError):  # a system without this bound (macOS: RLIMIT_AS)
            continue
    # A library may print: the answer has a descriptor of its own.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    data = sys.stdin.buffer.read()
    module, _, function = call.partition(":")
    try:
        said = ANSWER + getattr(import_module(module), function)(data).encode()
    except ValueError as error:
        said = REFUSAL + str(error)[:MOST_SHOWN].encode("utf-8", "replace")
    except MemoryError:
        sys.stderr.write("out of memory\n")
        sys.stderr.flush()
        os._exit(1)
    answers.write(said)
    answers.flush()
    os._exit(0)  # what the library would do at its end is not asked for
