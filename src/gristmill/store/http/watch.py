"""Connections whose answer must begin in time, and that go no nearer than they may.

A socket's timeout starts anew with every byte; a head that drips never meets it. The address is
that of the connection itself: what a name server said before, or says next, does not matter.
"""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from gristmill.store.http.hosts import HERE, PRIVATE, PUBLIC, nearness

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


class NearerError(Exception):
    """The address of a host is nearer than a request may go. Nothing was sent."""


class _Watched:
    """What both kinds of connection have in common."""

    nearest = HERE  # how near the address may be
    nearness = PUBLIC  # how near it is; of a proxy nothing is known

    def _new_conn(self) -> Any:
        parent: Any = super()
        sock = parent._new_conn()
        if getattr(self, "proxy", None) is None:
            self.nearness = nearness(sock.getpeername()[0])
        if self.nearness > self.nearest:
            sock.close()
            raise NearerError
        return sock

    def getresponse(self) -> Any:
        own: Any = self
        parent: Any = super()
        seconds = own.timeout if isinstance(own.timeout, int | float) else None
        sock = own.sock
        with cut_after(seconds, lambda: sock and sock.shutdown(socket.SHUT_RDWR)):
            response = parent.getresponse()
        response.nearness = self.nearness
        return response


def _pools(most: int) -> dict[str, Any]:
    """Return the classes of pools, by scheme, whose connections go at most so near."""

    class Connection(_Watched, HTTPConnection):
        response_class = _Bounded
        nearest = most

    class SecureConnection(_Watched, HTTPSConnection):
        response_class = _Bounded
        nearest = most

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = SecureConnection

    return {"http": Pool, "https": SecurePool}


POOLS = {most: _pools(most) for most in (PUBLIC, PRIVATE, HERE)}
