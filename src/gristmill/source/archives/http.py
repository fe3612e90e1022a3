"""The HTTP response in a record's block: status line, headers, and the body without its transfer
coding (RFC 9112).

Archives store what a server sent, with its irregularities: LF line ends, folded and repeated
headers, interim responses before the final one. Some archives decode bodies and keep the headers,
so a body is treated as chunked only if it begins with a chunk.
"""

import re
from typing import NamedTuple

# Its fields stay apart, a line each: what an agent is named for goes to the end of one field.
ROBOTS = b"x-robots-tag"
_STATUS = re.compile(rb"HTTP/[0-9](?:\.[0-9])?[ \t]+([0-9]{3})(?![0-9])")
_STOP = re.compile(rb"\r?\n\r?\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]{0,4096})?\r?\n")
_SPACE = re.compile(rb"[ \t\r\n]{0,256}")  # that some servers send before the first chunk
_MEDIA = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_CHARSET = re.compile(r"charset\s*=\s*(?:[\"']\s*)?([^\s\"';,]+)", re.IGNORECASE)


class HttpResponse(NamedTuple):
    """A response."""

    status: int
    # Names are in lower case; repeated headers are joined by commas (RFC 9110, 5.3), those of
    # ROBOTS by line feeds.
    headers: dict[bytes, bytes]
    body: bytes  # without transfer coding, with its content codings

    def get(self, name: bytes) -> str | None:
        """Return a header; None: it is missing or empty."""
        value = self.headers.get(name)
        return value.decode("utf-8", "replace") if value else None

    def codings(self) -> list[str]:
        """Return the codings of the body by its headers, in the order of their application;
        `chunked` is one of them.
        """
        both = b",".join(
            self.headers.get(name, b"") for name in (b"content-encoding", b"transfer-encoding")
        )
        return [name.strip().lower() for name in both.decode("latin-1").split(",")]


def parse(block: bytes) -> HttpResponse | None:
    """Return the response in a block; None: there is none."""
    at = 0
    while True:
        status = _STATUS.match(block, at)
        if status is None:
            return None
        stop = _STOP.search(block, status.end())
        end, body = (stop.start(), stop.end()) if stop else (len(block), len(block))
        # A block without header lines ends with the status line.
        code = int(status[1])
        if 100 <= code < 200 and _STATUS.match(block, body):
            at = body  # an interim response; the final one follows
            continue
        headers = _headers(block[status.end() : end])
        message = HttpResponse(code, headers, block[body:])
        return (
            message._replace(body=unchunked(message.body))
            if "chunked" in message.codings()
            else message
        )


def _headers(lines: bytes) -> dict[bytes, bytes]:
    headers: dict[bytes, list[bytes]] = {}
    last: list[bytes] | None = None
    for line in lines.split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t"):  # folded
            if last is not None:
                last += (b" ", line.strip())
            continue
        name, colon, value = line.partition(b":")
        if colon:
            name = name.strip().lower()
            last = headers.setdefault(name, [])
            if last:
                last.append(b"\n" if name == ROBOTS else b", ")
            last.append(value.strip())
    return {
        name: values[0] if len(values) == 1 else b"".join(values)
        for name, values in headers.items()
    }


def unchunked(body: bytes) -> bytes:
    """Return a body without chunked transfer coding (RFC 9112, 7.1); unchanged if it does not begin
    with a chunk.

    Of a chunk that is cut off, its available bytes are returned. If the chunks stop before a last
    chunk, the bytes after them are returned as they are.
    """
    out: list[bytes] = []
    at = _SPACE.match(body).end()  # type: ignore[union-attr]
    while head := _CHUNK.match(body, at):
        size = int(head[1], 16)
        start, end = head.end(), head.end() + size
        if size == 0:
            return b"".join(out)
        ends_well = body.startswith((b"\r\n", b"\n"), end)
        if not ends_well and (end < len(body) or (not out and b"\r" not in head[0])):
            break  # not a chunk, but text that looks like the start of one
        out.append(body[start:end])
        if end >= len(body):
            return b"".join(out)
        at = end + (2 if body.startswith(b"\r", end) else 1)
    return b"".join([*out, body[at:]]) if out else body


def media_type(value: str | None) -> str | None:
    """Return the media type of a Content-Type, in lower case, without parameters; None: there is
    none.
    """
    if value is None:
        return None
    match = _MEDIA.match(value.strip().lower())
    return match[0] if match else None


def read_charset(value: str | None) -> str | None:
    """Return the charset parameter of a Content-Type; None: there is none."""
    match = _CHARSET.search(value) if value else None
    return match[1] if match else None
