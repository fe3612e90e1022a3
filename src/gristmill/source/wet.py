"""WARC records (ISO 28500, WARC 1.1) with text in them: Common Crawl's WET files.

A `conversion` record is a document; its date, record id and language header become columns. Records of other types are counted;
response records hold HTML, not text, and get the verdict `read.not_text`.

The framing is our own, and strict about what it gives (docs/adr/0004-warc-framing.md): each record's block must end where its
Content-Length says, with the next record or the end behind it. Where it does not, the search goes on for the next record's first
line, and the record gets the verdict `read.wrong_length`. Line ends may be CRLF, or LF as some tools rewrite them.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from gristmill.source.codecs import Damage, Pieces
from gristmill.source.rows import Fields, Rows, well_formed

MAX_HEADER_BYTES = 1 << 20
NO_TEXT = ("response", "resource", "revisit")  # types of records that hold pages, but not as text
_START = re.compile(rb"\r?\nWARC/[01]\.[0-9]+\r?\n")
_VERSION = re.compile(rb"WARC/[01]\.[0-9]+\r?\n")
_HEADER_STOP = re.compile(rb"\r?\n\r?\n")


class _Header(NamedTuple):
    type: str
    length: int  # -1: none, or no number
    fields: dict[bytes, bytes]

    def get(self, name: bytes) -> str | None:
        value = self.fields.get(name)
        return value.decode("utf-8", "replace") if value else None


def _parse(block: bytes) -> _Header:
    fields: dict[bytes, bytes] = {}
    name = b""
    for line in block.split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t") and name:  # a folded line
            fields[name] += b" " + line.strip()
            continue
        name, _, value = line.partition(b":")
        name = name.strip().lower()
        if name not in fields:
            fields[name] = value.strip()
    length = fields.get(b"content-length", b"")
    kind = fields.get(b"warc-type", b"").decode("latin-1").lower()
    return _Header(kind, int(length) if length.isdigit() and len(length) < 16 else -1, fields)


class _Window:
    """The decoded bytes not yet consumed, one stretch without damage."""

    def __init__(self, pieces: Iterator[bytes | Damage]) -> None:
        self._pieces = pieces
        self.data = b""
        self.at = 0  # the next byte to consume
        self.offset = 0  # of data[0] in the decoded shard
        self.damage: Damage | None = None  # what follows the data; None: the end, or unknown yet
        self.ended = False  # no more bytes follow the data, because of damage or the end

    def more(self) -> bool:
        """Read another piece behind the data; False where the stretch ends."""
        if self.ended:
            return False
        piece = next(self._pieces, None)
        if piece is None or isinstance(piece, Damage):
            self.damage = piece
            self.ended = True
            return False
        self.data = self.data[self.at :] + piece
        self.offset += self.at
        self.at = 0
        return True

    def have(self, count: int) -> bool:
        """Whether so many bytes follow; reads what it takes."""
        size = len(self.data) - self.at
        if size >= count:
            return True
        parts = [self.data[self.at :]]
        while size < count and not self.ended:
            piece = next(self._pieces, None)
            if piece is None or isinstance(piece, Damage):
                self.damage = piece
                self.ended = True
            else:
                parts.append(piece)
                size += len(piece)
        self.offset += self.at
        self.at = 0
        self.data = b"".join(parts)
        return size >= count

    def skip_blank_lines(self) -> bool:
        """Step over empty lines; False at the end of the stretch."""
        while True:
            while self.at < len(self.data) and self.data[self.at] in b"\r\n":
                self.at += 1
            if self.at < len(self.data):
                return True
            if not self.more():
                return False

    def seek_record(self, *, here: bool = False) -> None:
        """Step to the next record's first line, or to the end of the stretch; it may start right `here`."""
        if here and _VERSION.match(self.data, self.at):
            return
        while True:
            found = _START.search(self.data, self.at)
            if found:
                self.at = found.start()
                return
            self.at = max(self.at, len(self.data) - 16)
            if not self.more():
                self.at = len(self.data)
                return


def read(pieces: Pieces, rows: Rows, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Read the records of a shard."""
    stream = iter(pieces)
    while True:
        window = _Window(stream)
        complete = True
        while window.skip_blank_lines() and not rows.full:
            complete = _read_record(window, rows, fields)
            if rows.ready and (batch := rows.take()) is not None:
                yield batch
        if rows.full:
            break
        # A record cut by damage and the damage itself are one loss: one row.
        if window.damage is not None:
            rows.fail(window.damage.reason, window.damage.offset)
        elif not complete:
            rows.fail("truncated", window.offset + len(window.data))
        if window.damage is None:
            break
    if (batch := rows.take()) is not None:
        yield batch


def _read_record(window: _Window, rows: Rows, fields: Fields) -> bool:
    """Read one record; False where the stretch ended inside it."""
    begin = window.offset + window.at
    while not (stop := _HEADER_STOP.search(window.data, window.at)):
        if len(window.data) - window.at > MAX_HEADER_BYTES or not window.more():
            break
    if stop is None or not _VERSION.match(window.data, window.at):
        if stop is None and window.ended:
            window.at = len(window.data)
            return False
        rows.fail("no_record", begin)
        window.seek_record()
        return True
    inner = _START.search(window.data, window.at, stop.end())
    if inner:
        # A head without its end has run into the next record's.
        rows.fail("no_record", begin)
        window.at = inner.start()
        return True
    header = _parse(window.data[window.at : stop.start()])
    window.at = stop.end()
    url = (header.get(b"warc-target-uri") or "").strip("<>") or None
    if header.length < 0:
        rows.fail("wrong_length", begin, url)
        window.have(16)
        window.seek_record(here=True)
        return True
    if header.length > fields.max_document_bytes:
        return _skip_large(window, rows, header, begin, url)
    if not window.have(header.length):
        # Too few bytes: the file is cut, or the length lies and swallows what follows.
        if _VERSION.match(window.data, window.at) or _START.search(window.data, window.at):
            rows.fail("wrong_length", begin, url)
            window.seek_record(here=True)
            return True
        window.at = len(window.data)
        return False
    if not _ends_well(window, header.length):
        rows.fail("wrong_length", begin, url)
        window.seek_record(here=True)
        return True
    body = window.data[window.at : window.at + header.length]
    window.at += header.length
    if header.type == "conversion":
        get = header.get
        rows.add(
            body, url, get(b"warc-date"), (get(b"warc-record-id") or "").strip("<>") or None,
            get(b"warc-identified-content-language"),
        )  # fmt: skip
    elif header.type in NO_TEXT:
        rows.fail("not_text", begin, url)
    else:
        rows.skip(well_formed(header.type)[:40] or "no type")
    return True


def _ends_well(window: _Window, length: int) -> bool:
    """Whether a block of this length is followed by a line's end and then by a record, or by the end of the stretch."""
    window.have(length + 16)
    after = window.data[window.at + length : window.at + length + 16]
    if not after:
        return True
    rest = after.lstrip(b"\r\n")
    return len(rest) < len(after) and (not rest or b"WARC/".startswith(rest[:5]))


def _skip_large(window: _Window, rows: Rows, header: _Header, begin: int, url: str | None) -> bool:
    """Step over a block that is over the limit without holding it; it may as well be that its length lies."""
    left = header.length
    while left > 0:
        found = _START.search(window.data, window.at, window.at + left)
        if found:
            rows.fail("wrong_length", begin, url)
            window.at = found.start()
            return True
        # The start of a record may lie across two pieces.
        step = min(left, max(len(window.data) - window.at - 16, 0))
        window.at += step
        left -= step
        if left <= len(window.data) - window.at:
            window.at += left
            break
        if not window.more():
            window.at = len(window.data)
            return False
    if header.type == "conversion":
        rows.fail("too_large", begin, url)
    elif header.type in NO_TEXT:
        rows.fail("not_text", begin, url)
    else:
        rows.skip(well_formed(header.type)[:40] or "no type")
    return True
