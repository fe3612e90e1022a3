"""The fork server's own process: it loads the heavy modules, then forks a worker whenever it is
asked (server.py has the protocol).

It has one thread and takes no part in the work, so that a fork copies nothing that is half done.
"""

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from gristmill.engine import allocation
from gristmill.engine.worker import CODE, LOAD, MOST_HANDLES, SIZE, serve

# seconds between two looks whether the caller is still there: a process that it forked may hold the
# socket open
LOOK = 2.0


def main(handle: str) -> None:
    """Serve forks over the control socket of this number, until the caller ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to answer
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    caller = os.getppid()
    _load()
    allocation.let_go_of_code()
    with socket.socket(fileno=int(handle)) as control:
        control.setblocking(False)
        server = _Server(control)
        while os.getppid() == caller and server.turn():
            pass
        server.kill_all()
    os._exit(0)  # there is nothing to clean up, and the caller need not wait for it


def _load() -> None:
    """Load what workers need. One that fails is left to the worker, which says so."""
    with suppress(Exception), allocation.without_collections():
        import gristmill.engine.preload  # noqa: F401


def _forked() -> int | None:
    """Fork: the child's number, in the child 0; null where the machine has no room for one."""
    try:
        return os.fork()
    except OSError:
        traceback.print_exc()
        return None


class _Server:
    """Children by number, and the sockets that get their exit codes."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, socket.socket] = {}
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._answer)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)

    def turn(self) -> bool:
        """Do what has come, or nothing for a while; false when the caller has ended."""
        for key, _ in self._selector.select(LOOK):
            what: Callable[[], bool] = key.data
            if not what():
                return False
        return True

    def kill_all(self) -> None:
        """End every worker."""
        for child in self._children:
            os.kill(child, signal.SIGKILL)

    def _answer(self) -> bool:
        """Do what the caller asks: fork a worker, or load modules."""
        try:
            asked, handles, _, _ = socket.recv_fds(self._control, 1, MOST_HANDLES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not asked:
            return False
        return self._load() if asked == LOAD else self._fork(handles)

    def _load(self) -> bool:
        """Load modules. One that fails is left to the worker, which says so."""
        self._control.setblocking(True)
        size = self._control.recv(SIZE.size, socket.MSG_WAITALL)
        if len(size) < SIZE.size:
            return False
        names = self._control.recv(SIZE.unpack(size)[0], socket.MSG_WAITALL)
        self._control.setblocking(False)
        for name in names.decode().split("\n"):
            with suppress(Exception):
                importlib.import_module(name)
        allocation.let_go_of_code()
        return True

    def _fork(self, handles: list[int]) -> bool:
        """Return one worker, as asked."""
        status = socket.socket(fileno=handles[0])
        # A collection writes to every object that it looks at: what is here now is left out of all
        # of them, so that it stays in pages that workers share.
        gc.freeze()
        child = _forked()
        if child == 0:
            self._become_worker(handles[1:], status)
        for handle in handles[1:]:
            os.close(handle)
        if child is None:
            status.close()
            return True
        self._children[child] = status
        # Anything to read there means that the caller ends this worker.
        self._selector.register(status, selectors.EVENT_READ, lambda: self._kill(child, status))
        return True

    def _become_worker(self, handles: list[int], status: socket.socket) -> None:
        """What the child does; it never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Only the server may hold these: otherwise the end of a pipe is never seen.
            self._selector.close()
            for socket_ in (self._control, status, *self._children.values()):
                socket_.close()
            os.close(self._woken)
            os.close(self._wake)
            serve(handles)
            code = 0
        except BaseException:  # noqa: BLE001 (there is nobody to raise it to)
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _kill(self, child: int, status: socket.socket) -> bool:
        with suppress(KeyError, ValueError):  # it has ended at the same moment
            self._selector.unregister(status)
        if child in self._children:
            os.kill(child, signal.SIGKILL)
        return True

    def _reap(self) -> bool:
        """Report the children that have ended."""
        with suppress(BlockingIOError):
            os.read(self._woken, 1 << 16)
        while True:
            try:
                child, how = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if child == 0:
                return True
            if (status := self._children.pop(child, None)) is not None:
                with suppress(KeyError):
                    self._selector.unregister(status)
                with status, suppress(OSError):
                    status.send(CODE.pack(os.waitstatus_to_exitcode(how)))
