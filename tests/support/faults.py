"""A server that does what servers do, and everything that they should not: on a socket, without a
library between.

`Site` keeps files, with or without validators, and answers Range and If-Range as RFC 9110 says.
`faults` are played first, one a request; each is a function from the right answer to what is sent.
"""

import email.utils
import gzip
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

LONG_AGO = email.utils.formatdate(1_600_000_000, usegmt=True)


@dataclass
class File:
    """What a path gives."""

    body: bytes
    etag: str | None = '"1"'
    last_modified: str | None = None
    ranges: bool = True
    chunked: bool = False
    length: bool = True
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Reply:
    """An answer as it will stand on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes
    chunked: bool = False
    cut: int | None = None  # bytes of head and body together after which the connection ends
    reset: bool = False  # with RST instead of FIN
    stall: float = 0.0  # seconds of silence before the connection ends
    close: bool = False
    trickle: float = 0.0  # seconds between each 100 bytes
    reason: str | None = None  # the words behind the number


Fault = Callable[["Site", str, Reply], Reply]


class Site:
    """Files, faults to come, and what was asked."""

    def __init__(self) -> None:
        self.address = ""
        self.files: dict[str, File] = {}
        self.faults: deque[Fault] = deque()
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.connections = 0
        self.pace = 0.0  # seconds for each 64 KiB, as of a slow line
        self.swapped: list[bytes] = []  # what was put in place of a file by `swapped`

    def put(self, path: str, body: bytes, **more: Any) -> str:
        """Have a path give bytes; returns its URL."""
        self.files[path] = File(body, **more)
        return self.address + path

    def ranges(self) -> list[str | None]:
        """The Range headers of all that was asked."""
        return [headers.get("range") for _, _, headers in self.asked]

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Reply:
        """The right answer."""
        file = self.files.get(path)
        if file is None:
            return Reply(404, {}, b"a page that says so")
        head = {"Date": email.utils.formatdate(usegmt=True), **file.headers}
        if file.etag:
            head["ETag"] = file.etag
        if file.last_modified:
            head["Last-Modified"] = file.last_modified
        strong = file.etag and not file.etag.startswith("W/")
        if headers.get("if-none-match") == file.etag and file.etag:
            return Reply(304, head, b"")
        if (
            "if-none-match" not in headers
            and headers.get("if-modified-since") == file.last_modified
            and file.last_modified
        ):
            return Reply(304, head, b"")
        span = headers.get("range")
        condition = headers.get("if-range")
        holds = (
            condition is None
            or (strong and condition == file.etag)
            or condition == file.last_modified
        )
        if span and file.ranges and holds:
            first = int(span.removeprefix("bytes=").partition("-")[0])
            if first >= len(file.body):
                return Reply(416, {"Content-Range": f"bytes */{len(file.body)}"}, b"")
            head["Content-Range"] = f"bytes {first}-{len(file.body) - 1}/{len(file.body)}"
            return Reply(206, head, file.body[first:], file.chunked)
        return Reply(200, head, file.body, file.chunked, close=not file.length)


REASONS = {
    200: "OK",
    206: "Partial Content",
    302: "Found",
    304: "Not Modified",
    404: "Not Found",
    416: "Range",
    503: "Later",
}


def _send(connection: socket.socket, method: str, reply: Reply, pace: float) -> bool:
    """Send a reply; False where the connection is to end."""
    body = reply.body
    head = dict(reply.headers)
    if reply.chunked:
        head["Transfer-Encoding"] = "chunked"
        body = b"".join(
            b"%x\r\n%s\r\n" % (len(body[i : i + 999]), body[i : i + 999])
            for i in range(0, len(body), 999)
        )
        body += b"0\r\n\r\n"
    elif not reply.close:
        head.setdefault("Content-Length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    words = REASONS.get(reply.status, "Whatever") if reply.reason is None else reply.reason
    wire = f"HTTP/1.1 {reply.status} {words}\r\n{lines}\r\n".encode("latin-1")
    if method != "HEAD" and reply.status != 304:
        wire += body
    if reply.cut is not None:
        wire = wire[: reply.cut]
    for start in range(0, len(wire), 100) if reply.trickle else ():
        connection.sendall(wire[start : start + 100])
        time.sleep(reply.trickle)
    for start in range(0, len(wire), 1 << 16) if pace and not reply.trickle else ():
        connection.sendall(wire[start : start + (1 << 16)])
        time.sleep(pace)
    connection.sendall(b"" if reply.trickle or pace else wire)
    if reply.stall:
        time.sleep(reply.stall)
    if reply.reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return reply.cut is None and not reply.close


def _talk(site: Site, connection: socket.socket) -> None:
    with connection, suppress(OSError):
        file = connection.makefile("rb")
        while True:
            line = file.readline()
            if not line:
                return
            method, target, _ = line.decode("latin-1").split(" ", 2)
            headers = {}
            while (entry := file.readline().decode("latin-1").strip()) != "":
                name, _, value = entry.partition(":")
                headers[name.lower()] = value.strip()
            site.asked.append((method, target, headers))
            path = target.partition("?")[0]
            reply = site.answer(method, path, headers)
            if site.faults:
                reply = site.faults.popleft()(site, path, reply)
            if not _send(connection, method, reply, site.pace):
                file.close()
                return


@contextmanager
def site() -> Iterator[Site]:
    """A site on a port of its own, and then gone."""
    here = Site()
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    here.address = f"http://127.0.0.1:{server.getsockname()[1]}"
    open_ones: list[socket.socket] = []

    def listen() -> None:
        while True:
            try:
                connection = server.accept()[0]
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            here.connections += 1
            open_ones.append(connection)
            threading.Thread(target=_talk, args=(here, connection), daemon=True).start()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in open_ones:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()


# -- what goes wrong


def fine(site: Site, path: str, reply: Reply) -> Reply:
    """Nothing."""
    return reply


def cut(at: float, reset: bool = False) -> Fault:
    """The connection ends after a share of what is sent, head included; 0: no answer at all."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        return replace(reply, cut=int(at * (len(reply.body) + 200)), reset=reset)

    return fault


def stall(at: float, seconds: float) -> Fault:
    """The server falls silent after a share of the body."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        return replace(reply, cut=200 + int(at * len(reply.body)), stall=seconds)

    return fault


def status(number: int, **headers: str) -> Fault:
    """Another answer, with a page that explains it."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        return Reply(
            number,
            {name.replace("_", "-"): value for name, value in headers.items()},
            b"<p>a page about it</p>",
        )

    return fault


def whole(site: Site, path: str, reply: Reply) -> Reply:
    """200 to a Range request."""
    return replace(site.answer("GET", path, {}), chunked=reply.chunked)


def shifted(by: int) -> Fault:
    """206 for another range than was asked for, truthfully told."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        body = site.files[path].body
        first = max(0, len(body) - len(reply.body) + by) if reply.status == 206 else max(0, by)
        told = f"bytes {first}-{len(body) - 1}/{len(body)}"
        return replace(
            reply, status=206, headers={**reply.headers, "Content-Range": told}, body=body[first:]
        )

    return fault


def told_range(text: str) -> Fault:
    """A Content-Range that says something else than what comes."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        return (
            replace(reply, headers={**reply.headers, "Content-Range": text})
            if reply.status == 206
            else reply
        )

    return fault


def without(*names: str) -> Fault:
    """Headers are missing."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        return replace(
            reply,
            headers={name: value for name, value in reply.headers.items() if name not in names},
        )

    return fault


def trailing(extra: bytes) -> Fault:
    """More bytes than Content-Length promises: the next answer on this connection is spoiled."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        head = {**reply.headers, "Content-Length": str(len(reply.body))}
        return replace(reply, headers=head, body=reply.body + extra) if not reply.chunked else reply

    return fault


def longer_chunks(extra: bytes) -> Fault:
    """A chunked body that goes on behind the end that Content-Range, or an earlier answer,
    tells.
    """

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        return (
            replace(reply, body=reply.body + extra, chunked=True) if reply.status == 206 else reply
        )

    return fault


def packed(site: Site, path: str, reply: Reply) -> Reply:
    """A Content-Encoding that nobody asked for."""
    return replace(
        reply, headers={**reply.headers, "Content-Encoding": "gzip"}, body=gzip.compress(reply.body)
    )


def multipart(site: Site, path: str, reply: Reply) -> Reply:
    """206 with several parts, as is right only where several ranges are asked for."""
    if reply.status != 206:
        return reply
    told = reply.headers["Content-Range"]
    body = b"--x\r\nContent-Range: " + told.encode() + b"\r\n\r\n" + reply.body + b"\r\n--x--\r\n"
    head = {name: value for name, value in reply.headers.items() if name != "Content-Range"}
    return replace(
        reply, headers={**head, "Content-Type": "multipart/byteranges; boundary=x"}, body=body
    )


def swapped(body: bytes, at: float, **more: Any) -> Fault:
    """The file is replaced while it is sent, and the connection is cut."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        site.files[path] = replace(site.files[path], body=body, **more)
        site.swapped.append(body)
        return replace(reply, cut=200 + int(at * len(reply.body)))

    return fault


def lying(at: int) -> Fault:
    """The right head, and a byte of the body changed: only a digest tells."""

    def fault(site: Site, path: str, reply: Reply) -> Reply:
        place = at % max(1, len(reply.body))
        return replace(
            reply,
            body=reply.body[:place] + bytes([reply.body[place] ^ 1]) + reply.body[place + 1 :]
            if reply.body
            else b"",
        )

    return fault


def bad_chunk(site: Site, path: str, reply: Reply) -> Reply:
    """A chunk whose length is no number, behind one that is right."""
    head = {name: value for name, value in reply.headers.items() if name != "Content-Length"} | {
        "Transfer-Encoding": "chunked"
    }
    body = b"%x\r\n%s\r\nzz\r\n" % (len(reply.body[:300]), reply.body[:300]) + reply.body
    return replace(reply, headers=head, body=body, chunked=False, close=True)


def trickling(site: Site, path: str, reply: Reply) -> Reply:
    """A few bytes now and then, which keeps a socket awake for ever."""
    return replace(reply, trickle=0.02)
