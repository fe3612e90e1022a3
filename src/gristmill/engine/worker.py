"""A worker's life: one task after another, until the parent ends (local.py gives them). And what
the caller and the fork server send each other (server.py, forking.py).
"""

import os
import pickle
import signal
import struct
import sys
import threading
import time
import traceback
from multiprocessing import connection
from pathlib import Path

from gristmill.engine import allocation
from gristmill.errors import GristmillError
from gristmill.store.parts import machine_errors
from gristmill.system.arrow_setup import without_pandas

FORK, LOAD = b"f", b"l"
SIZE = struct.Struct("<I")  # of the names behind LOAD, in bytes
CODE = struct.Struct("<q")  # a worker's exit code, on its status socket
MOST_HANDLES = 64  # of one worker
# Modules that start no thread and open nothing when they are imported, kernels among them.
SAFE_TO_FORK = ("gristmill.", "duckdb.", "pyarrow.", "dateutil.", "numpy.")
TICK = 0.5  # seconds between two messages of progress: one takes the caller 0.3 ms


def serve_fresh(handles: str) -> None:
    """Serve, in a process that was not forked."""
    serve([int(handle) for handle in handles.split(",")])


def serve(handles: list[int]) -> None:
    """A worker's life: one task after another, until the parent ends.

    Of the handles the first is its pipe, the second says so.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with_parent, args=(handles[1],), daemon=True).start()
    pipe = connection.Connection(handles[0])
    sys.path[:], folder, own_code = pipe.recv()
    os.chdir(folder)
    reporter = _Reporter(pipe)
    if not own_code:
        without_pandas()
    allocation.keep_freed()
    known = _modules()
    while True:
        try:
            function, task = pipe.recv()
        except EOFError:
            return
        try:
            with machine_errors(Path.cwd()):
                answer = ("result", function(task, reporter.add))
        except BaseException as error:  # noqa: BLE001 - the parent reports it with the task's name
            answer = ("error", portable(error))
        allocation.give_back()
        reporter.flush()
        if loaded := _modules() - known:
            known |= loaded
            pipe.send(("modules", sorted(loaded)))
        pipe.send(answer)


def _modules() -> set[str]:
    """Return the modules that are loaded and that a fork does not harm."""
    return {name for name in [*sys.modules] if name.startswith(SAFE_TO_FORK)}


def portable(error: BaseException) -> BaseException:
    """Return an error that can cross a pipe, its traceback as a note unless it is gristmill's."""
    if not isinstance(error, GristmillError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):  # noqa: S301
            return error
    except Exception:  # noqa: BLE001, S110
        pass
    return GristmillError("".join(traceback.format_exception(error)))


def _end_with_parent(handle: int) -> None:
    os.read(handle, 1)  # returns when the parent has closed its end, or died
    os._exit(1)


class _Reporter:
    """Gathers progress, so that the pipe is not flooded."""

    def __init__(self, pipe: connection.Connection) -> None:
        self._pipe = pipe
        self._units = 0
        self._last = 0.0

    def add(self, units: int) -> None:
        self._units += units
        if time.monotonic() - self._last > TICK:
            self.flush()
            self._last = time.monotonic()

    def flush(self) -> None:
        if self._units:
            self._pipe.send(("progress", self._units))
            self._units = 0
