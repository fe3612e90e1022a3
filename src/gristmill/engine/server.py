"""Where worker processes come from: a fork server of our own, or fresh processes where fork is
unsafe (macOS).

Python's own fork server and spawn import the caller's main module again in every worker; the server
is one a process, which the caller may use for itself; and where it listens is a folder that a kill
leaves behind. This one is started with a path of its own (interpreter.py), hears over a socket that
has no name, and knows nothing of the caller's program. The command line, which is no program but
ours, forks it from itself: what both need is loaded once.

caller                                server (forking.py)
names of modules                 ->   loads them: workers of an earlier run have used them
`fork`, with a worker's handles  ->   forks; the child serves (worker.serve)
end of a worker's status socket  ->   kills that worker
its exit code                    <-   when it has ended
end of the control socket        ->   kills all workers, ends
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from gristmill.engine.worker import CODE, FORK, LOAD, SIZE
from gristmill.errors import MachineError
from gristmill.system import interpreter
from gristmill.system.arrow_setup import LIBRARIES

FORKS = sys.platform != "darwin"  # Apple's libraries do not survive a fork


class Child(Protocol):
    """A worker process."""

    def wait(self) -> int | None:
        """Return its exit code when it has ended (-N: killed by signal N); null where it is
        unknown.
        """
        ...

    def kill(self) -> None:
        """End it, and wait until it has ended."""
        ...


class _ServerProcess(Protocol):
    """The process of a fork server, as subprocess.Popen has it."""

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...


class Starter(Protocol):
    """What starts worker processes."""

    def start(self, handles: list[int]) -> Child:
        """Start a process that serves (worker.serve); it has its own copies of these file
        descriptors.
        """
        ...


def start() -> Starter:
    """Return what workers come from: the fork server, which is started where there is none."""
    if not FORKS:
        return FreshStarter()
    with _lock:
        if not _servers or _servers[-1].is_gone():
            _servers.append(ForkServer())
        return _servers[-1]


def fork() -> None:
    """Fork the fork server from this process, with all modules that it has loaded.

    For the command line, before it starts threads and opens files: nothing happens where there are
    threads. (Arrow's memory allocator has one, which a fork does not harm.)
    """
    if FORKS and threading.active_count() == 1 and not _servers:
        _servers.append(ForkServer(forked=True))


def load_used() -> None:
    """Have the fork server load, before it forks workers of another run, what those of earlier ones
    have used. Those of one run do not use the same: what one phase takes is not in the memory of
    the next.
    """
    with _lock:
        if _servers and not _servers[-1].is_gone():
            _servers[-1].load()


def used(modules: Iterable[str]) -> None:
    """Note modules that a worker has loaded, kernels among them, for `load_used`."""
    with _lock:
        if _servers and not _servers[-1].is_gone():
            _servers[-1].note(modules)


class ForkServer:
    """The fork server's process. It ends with this one, however that ends."""

    def __init__(self, *, forked: bool = False) -> None:
        """Start it: a fork of this process, or a fresh one."""
        self._owner = os.getpid()
        self._lock = threading.Lock()  # two messages at once would be none
        self._loaded: set[str] = set()
        self._used: set[str] = set()
        self._control, theirs = socket.socketpair()
        with theirs, _deaf():
            self._process: _ServerProcess = (
                self._fork(theirs)
                if forked
                else subprocess.Popen(
                    interpreter.command("gristmill.engine.forking:main", str(theirs.fileno())),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**LIBRARIES, **os.environ},
                )
            )

    def _fork(self, theirs: socket.socket) -> "_ForkOfThis":
        """Fork this process; the child serves and never returns."""
        from gristmill.engine import forking

        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what is in their buffers is this process' to write
        child = os.fork()
        if child:
            return _ForkOfThis(child)
        try:
            self._control.close()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            forking.main(str(theirs.detach()))
        except BaseException:  # noqa: BLE001 (there is nobody to raise it to)
            traceback.print_exc()
        finally:
            os._exit(1)

    def is_gone(self) -> bool:
        """Return whether it has ended, or is another process' (this one was forked from it)."""
        return self._owner != os.getpid() or self._process.poll() is not None

    def note(self, modules: Iterable[str]) -> None:
        """Note modules that it should load before it forks the next worker."""
        self._used.update(modules)

    def load(self) -> None:
        """Have it load what was noted, for the workers of another run."""
        with self._lock, suppress(OSError):  # that it has ended is noticed at the next fork
            if new := self._used - self._loaded:
                names = "\n".join(sorted(new)).encode()
                self._control.sendall(LOAD + SIZE.pack(len(names)) + names)
                self._loaded |= new

    def start(self, handles: list[int]) -> Child:
        """Fork a worker."""
        status, theirs = socket.socketpair()
        with theirs, self._lock:
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


class _ForkOfThis:
    """A process that was forked from this one."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code; null while it runs."""
        if self._code is None:
            try:
                number, how = os.waitpid(self._number, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(how) if number else None
        return self._code

    def wait(self, timeout: float) -> int:
        """Return its exit code when it has ended. Raises TimeoutExpired."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("the fork server", timeout)
            time.sleep(0.001)
        return code


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
                    interpreter.command("gristmill.engine.worker:serve_fresh", given),
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
