"""What is asked of a server and what it answers; what the headers of an answer say of a file."""

import base64
import binascii
import email.utils
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from gristmill.store.http.causes import cause
from gristmill.store.http.hosts import Place
from gristmill.store.http.settings import Settings

BLOCK = 1 << 18  # bytes, the most that is taken from the network at a time
# Seconds between Last-Modified and Date from which a date is a strong validator: RFC 9110, 8.8.2.2.
OLD_ENOUGH = 60
# An ETag made of time in seconds and size (nginx, Apache) is the same for two versions of one
# second and one length: that of a file which changed so few seconds ago is not believed.
SETTLED = 2


class Request(NamedTuple):
    """What is asked of a server, with the credentials that go to its origin only."""

    name: str  # what messages call it
    url: str
    headers: dict[str, str]
    authorization: str | None = None
    method: str = "GET"
    begun: bool = False  # some of it is here: its host was there before
    public: bool = False  # it goes to no address of this machine or its network


class Stopped(Exception):
    """The run is ending."""


class Again(Exception):
    """Another try may succeed.

    `after`: seconds that the server asked for; `host`: one that has never answered.
    """

    def __init__(self, reason: str, after: float | None = None, host: Place | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.host = host


class Answer(NamedTuple):
    """A server's answer; the body has not been read."""

    status: int
    headers: Any  # case-insensitive mapping
    linked: dict[str, str]  # X-Linked-* of the first origin's own answers, in lower case
    response: Any
    settings: Settings

    def blocks(self) -> Iterator[bytes]:
        """Yield the body as the server sends it, without decoding.

        Raises Again if it ends early, stalls, or is chunked wrongly.
        """
        import urllib3

        from gristmill.store.http.watch import cut_after

        waited, came = 0.0, 0  # for the network only: a slow disk is not the server's
        try:
            while True:
                begun = time.monotonic()
                # Within one read a chunk's length may drip; a plain body's bytes are seen as they
                # come.
                with cut_after(
                    2 * self.settings.timeout if self.response.chunked else None,
                    self.response.shutdown,
                ):
                    block = self.response.read1(BLOCK, decode_content=False)
                waited += time.monotonic() - begun
                if not block:
                    return
                came += len(block)
                if waited > self.settings.timeout:
                    if came < self.settings.slowest * waited:
                        least = f"{self.settings.slowest:,.0f} bytes a second are the least"
                        raise Again(f"stalled: {came:,} bytes in {waited:.0f} s ({least})")
                    waited, came = 0.0, 0
                yield block
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Again(cause(error)) from error


def body_length(answer: Answer) -> int | None:
    """Return the bytes of the body by Content-Length; None if they are unknown."""
    given = answer.headers.get("Content-Length", "")
    known = re.fullmatch(r"\d{1,18}", given) and not answer.response.chunked
    return int(given) if known else None


def strong_validators(headers: Any) -> tuple[str | None, str | None]:
    """Return (ETag, Last-Modified), each None unless it is strong enough for If-Range."""
    etag = headers.get("ETag", "").strip()
    if not re.fullmatch(r'"[^"]*"', etag):
        etag = None  # weak (W/"..."), or no entity tag at all
    modified = headers.get("Last-Modified")
    try:
        age = _seconds(headers["Date"]) - _seconds(modified)
    except (KeyError, TypeError, ValueError, OverflowError):
        return etag, None
    return etag if age >= SETTLED else None, modified if age >= OLD_ENOUGH else None


def _seconds(date: str) -> float:
    return email.utils.parsedate_to_datetime(date).timestamp()


def header_digest(answer: Answer) -> str | None:
    """Return the sha256 of the whole file by the headers of an answer, in hex; None if they have
    none.

    X-Linked-ETag of the Hugging Face hub (for files in its large-file store), x-amz-checksum-sha256
    of S3, Repr-Digest (RFC 9530). Checksums of parts (composite, `-N` at the end) and other hashes
    are no digest of the file.
    """
    linked = answer.linked.get("x-linked-etag", "").removeprefix("W/").strip('"')
    if re.fullmatch(r"[0-9a-f]{64}", linked):
        return linked
    checksum = answer.headers.get("x-amz-checksum-sha256", "")
    if (
        answer.status == 200
        and checksum
        and answer.headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT"
    ):
        return _hex(checksum)
    match = re.search(
        r"(?:^|[,\s])sha-256=:([A-Za-z0-9+/=]+):", answer.headers.get("Repr-Digest", "")
    )
    return _hex(match[1]) if match else None


def _hex(text: str) -> str | None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data.hex() if len(data) == 32 else None
