"""Connections whose answer must begin in time.

A socket's timeout starts anew with every byte; a head that drips never meets it.
"""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

TRAILERS = 100  # lines behind a chunked body
LINE = 1 << 16  # bytes


@contextmanager
def cut_after(seconds: float | None, cut: Any) -> Iterator[None]:
    """Call `cut` from another thread if the block takes longer."""

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


class _Bounded(http.client.HTTPResponse):
    """An answer with a limit on its trailers.

    The library limits the headers (100 lines of 64 KiB), but not the trailers.
    """

    def _read_and_discard_trailer(self) -> None:
        for _ in range(TRAILERS):
            if self.fp.readline(LINE + 1) in (b"\r\n", b"\n", b""):
                return
        raise http.client.HTTPException(f"more than {TRAILERS} trailers")


def _getresponse(connection: HTTPConnection, whole: Any) -> Any:
    sock = connection.sock
    seconds = connection.timeout if isinstance(connection.timeout, int | float) else None
    with cut_after(seconds, lambda: sock and sock.shutdown(socket.SHUT_RDWR)):
        return whole()


class _WatchedConnection(HTTPConnection):
    response_class = _Bounded

    def getresponse(self) -> Any:
        return _getresponse(self, super().getresponse)


class _WatchedSecureConnection(HTTPSConnection):
    response_class = _Bounded

    def getresponse(self) -> Any:
        return _getresponse(self, super().getresponse)


class _WatchedConnectionPool(HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedSecureConnectionPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedSecureConnection


POOLS = {"http": _WatchedConnectionPool, "https": _WatchedSecureConnectionPool}
