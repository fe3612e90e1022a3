"""Connections whose answer must begin in time. A socket's timeout starts anew with every byte; a head that drips never meets it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


@contextmanager
def cut_after(seconds: float | None, cut: Any) -> Iterator[None]:
    """Call `cut` from another thread when the block takes longer."""

    def end() -> None:
        with suppress(Exception):  # it has just ended by itself
            cut()

    timer = threading.Timer(seconds or 0, end)
    timer.daemon = True
    if seconds:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _getresponse(connection: HTTPConnection, whole: Any) -> Any:
    sock = connection.sock
    seconds = connection.timeout if isinstance(connection.timeout, int | float) else None
    with cut_after(seconds, lambda: sock and sock.shutdown(socket.SHUT_RDWR)):
        return whole()


class _WatchedConnection(HTTPConnection):
    def getresponse(self) -> Any:
        return _getresponse(self, super().getresponse)


class _WatchedSecureConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        return _getresponse(self, super().getresponse)


class _WatchedConnectionPool(HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedSecureConnectionPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedSecureConnection


POOLS = {"http": _WatchedConnectionPool, "https": _WatchedSecureConnectionPool}
