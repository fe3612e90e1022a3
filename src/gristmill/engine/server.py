"""Where worker processes come from: a fork server of our own, started early, or fresh processes
where fork is unsafe (macOS).

Python's own fork server and spawn import the caller's main module again in every worker; the server
is one a process, which the caller may use for itself; and where it listens is a folder that a kill
leaves behind. This one is started with a path of its own (interpreter.py), hears over a socket that
has no name, and knows nothing of the caller's program.

caller                                server (forking.py)
`fork`, with a worker's handles  ->   forks; the child serves (local.serve)
end of a worker's status socket  ->   kills that worker
its exit code                    <-   when it has ended
end of the control socket        ->   kills all workers, ends
"""

import atexit
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from gristmill import interpreter
from gristmill.errors import MachineError

FORK = b"f"
CODE = struct.Struct("<q")  # a worker's exit code, on its status socket
MOST_HANDLES = 64  # of one worker
FORKS = sys.platform != "darwin"  # Apple's libraries do not survive a fork


class Child(Protocol):
    """A worker process."""

    def wait(self) -> int | None:
        """Its exit code when it has ended (-N: killed by signal N); null where it is unknown."""
        ...

    def kill(self) -> None:
        """End it, and wait until it has ended."""
        ...


class Starter(Protocol):
    """What starts worker processes."""

    def start(self, handles: list[int]) -> Child:
        """Start a process that serves (local.serve); it has its own copies of these file
        descriptors.
        """
        ...


def start() -> Starter:
    """What workers come from.

    A fork server loads the heavy modules while the caller is still loading its own.
    """
    if not FORKS:
        return FreshStarter()
    with _lock:
        if not _servers or _servers[-1].is_gone():
            _servers.append(ForkServer())
        return _servers[-1]


class ForkServer:
    """The fork server's process. It ends with this one, however that ends."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._control, theirs = socket.socketpair()
        with theirs, _deaf():
            self._process = subprocess.Popen(
                interpreter.command("gristmill.engine.forking:main", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def is_gone(self) -> bool:
        """Whether it has ended, or is another process' (this one was forked from it)."""
        return self._owner != os.getpid() or self._process.poll() is not None

    def start(self, handles: list[int]) -> Child:
        """Fork a worker."""
        status, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [FORK], [theirs.fileno(), *handles])
            except OSError as error:
                status.close()
                raise MachineError(
                    "the process that workers come from has ended: run again"
                ) from error
        return _Forked(status)

    def end(self) -> None:
        """End it with all its workers, and wait until it has ended."""
        self._control.close()
        if self._owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)


class _Forked:
    """A worker of the fork server's."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self._code: int | None = None

    def wait(self) -> int | None:
        if self._status.fileno() < 0:
            return self._code
        data = b""
        with self._status, suppress(OSError):
            while len(data) < CODE.size and (more := self._status.recv(CODE.size - len(data))):
                data += more
        if len(data) == CODE.size:
            (self._code,) = CODE.unpack(data)
        return self._code

    def kill(self) -> None:
        with suppress(OSError):
            self._status.shutdown(socket.SHUT_WR)
        self.wait()


class FreshStarter:
    """Workers that are fresh processes: slower to start, safe everywhere."""

    def start(self, handles: list[int]) -> Child:
        """Start a worker."""
        given = ",".join(map(str, handles))
        with _deaf():
            return _FreshWorker(
                subprocess.Popen(
                    interpreter.command("gristmill.engine.local:serve_fresh", given),
                    stdin=subprocess.DEVNULL,
                    pass_fds=handles,
                )
            )


class _FreshWorker:
    """A worker that is a fresh process."""

    def __init__(self, started: "subprocess.Popen[bytes]") -> None:
        self._process = started

    def wait(self) -> int | None:
        return self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def _deaf() -> Iterator[None]:
    """What is started meanwhile is deaf to Ctrl-C, which the terminal sends to it as well: what is
    blocked stays so across exec.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end() -> None:
    for server in _servers:
        server.end()
    _servers.clear()


def _unlock() -> None:
    """A process that was forked while another thread held the lock."""
    global _lock
    _lock = threading.Lock()


_lock = threading.Lock()
_servers: list[ForkServer] = []  # the last one runs, unless it has ended
atexit.register(_end)
os.register_at_fork(after_in_child=_unlock)
