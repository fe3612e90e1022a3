"""WARC records (ISO 28500, WARC 1.1): Common Crawl's WET files, with text, and WARC files of any
crawler, with web pages.

A `conversion` record is a document. If pages are wanted (Fields.pages), so is a `response` or
`resource` record that holds HTML; its text is the HTML. If not, records with pages get the verdict
`read.not_text`. Records of other types are only counted.

We parse records ourselves, and strictly (docs/adr/0004-warc-framing.md): a record's block must end
where its Content-Length says, and the next record, the next member of the packed file, or the end
of the file must follow. Otherwise the record gets the verdict `read.wrong_length`, and reading
continues at the next first line of a record. Line ends are CRLF, or LF, as some tools rewrite them;
some tools leave the blank lines between records out.

Every head of a record takes a row. One that stands in the block of another record, whose length
proves right, is a part of that one's text: `read.inside_record`. But if a member of the packed file
begins with it, it is a record, and the other one's length is wrong.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from gristmill.source.archives import arc, warc_rows
from gristmill.source.archives.record_window import Framing, Window, read_stretches
from gristmill.source.archives.warc_rows import PAGES, WarcRecord
from gristmill.source.rows import Fields, RowCollector
from gristmill.source.source_format import Head, SourceFormat
from gristmill.store.codecs import Damage

MAX_HEADER_BYTES = 1 << 20
USUAL = 1 << 12  # bytes that most heads fit in
PEEK = 1 << 16  # bytes from which the kind of a file is detected
# Of a record behind another one without a line end between them the first field is looked at too.
_START = re.compile(
    rb"\r?\n(?:WARC|warc)/[0-9]\.[0-9]+[ \t]*\r?\n"
    rb"|(?:WARC|warc)/[0-9]\.[0-9]+[ \t]*\r?\n(?=(?i:WARC-|Content-))"
)
_SURE = re.compile(rb"\r?\n?(?:WARC|warc)/[0-9]\.[0-9]+[ \t]*\r?\n(?i:WARC-|Content-)")
INNER = re.compile(rb"WARC/[0-9]\.[0-9]+[ \t]*\r?\n(?=(?i:WARC-|Content-))")
_LINES = re.compile(rb"WARC/[^\n]*\n(?:[A-Za-z0-9-]+[ \t]*:[^\n]*\n|[ \t][^\n]*\n)*")
_VERSION = re.compile(rb"(?:WARC|warc)/[0-9]\.[0-9]+[ \t]*\r?\n")
_BREAK = re.compile(rb"\r?\n")
_HEADER_STOP = re.compile(rb"\r?\n\r?\n")
_NAMES = (
    b"WARC-Type",
    b"WARC-Record-ID",
    b"WARC-Date",
    b"Content-Length",
    b"Content-Type",
    b"WARC-Target-URI",
    b"WARC-Payload-Digest",
    b"WARC-Block-Digest",
    b"WARC-IP-Address",
    b"WARC-Refers-To",
    b"WARC-Warcinfo-ID",
    b"WARC-Concurrent-To",
    b"WARC-Truncated",
    b"WARC-Identified-Payload-Type",
    b"WARC-Identified-Content-Language",
)
_LOWER = {name: name.lower() for name in _NAMES}  # by their usual spelling
_TYPE = re.compile(rb"\nwarc-type[ \t]*:(?:[ \t]|\r?\n[ \t])*([^\s]+)", re.IGNORECASE)


class _WarcHeader(NamedTuple):
    type: str
    length: int  # -1: missing, or not a number
    fields: dict[bytes, bytes]

    def get(self, name: bytes) -> str | None:
        value = self.fields.get(name)
        return value.decode("utf-8", "replace") if value else None

    @property
    def url(self) -> str | None:
        return (self.get(b"warc-target-uri") or "").strip("<>") or None

    def record(self) -> WarcRecord:
        return WarcRecord(
            self.type,
            self.url,
            self.get(b"warc-date"),
            (self.get(b"warc-record-id") or "").strip("<>") or None,
            self.get(b"warc-identified-content-language"),
            self.get(b"content-type"),
            self.get(b"warc-truncated"),
        )


def _parse(block: bytes) -> _WarcHeader:
    folded = b"\n " in block or b"\n\t" in block
    fields = _folded(block) if folded else _plain(block)
    length = fields.get(b"content-length", b"")
    kind = fields.get(b"warc-type", b"").decode("latin-1").lower()
    return _WarcHeader(kind, int(length) if length.isdigit() and len(length) < 16 else -1, fields)


def _plain(block: bytes) -> dict[bytes, bytes]:
    """Return the fields, one on a line; of repeated fields the first."""
    fields: dict[bytes, bytes] = {}
    for line in block.split(b"\n")[1:]:
        name, _, value = line.partition(b":")
        name = _LOWER.get(name) or name.strip().lower()
        if name not in fields:
            fields[name] = value.strip()
    return fields


def _folded(block: bytes) -> dict[bytes, bytes]:
    """Return the fields, where a line may continue on the next; of repeated fields the first."""
    parts: dict[bytes, list[bytes]] = {}
    last: list[bytes] | None = None
    for line in block.split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t") and last is not None:  # a folded line
            last += (b" ", line.strip())
            continue
        name, _, value = line.partition(b":")
        last = [value.strip()]
        parts.setdefault(name.strip().lower(), last)
    return {name: b"".join(value).strip() for name, value in parts.items()}


def _head(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the places of the end of a record's head and the start of its block; None: not in
    `data`.
    """
    # Plain searches in the size of most heads: they take a tenth of the time of the pattern.
    crlf = data.find(b"\r\n\r\n", at, at + USUAL)
    if crlf >= 0 and data.find(b"\n\n", at, crlf) < 0 and data.find(b"\n\r\n", at, crlf + 1) < 0:
        return crlf, crlf + 4
    match = _HEADER_STOP.search(data, at)
    return (match.start(), match.end()) if match else None


def _find(data: bytes, begin: int, end: int) -> int:
    match = _START.search(data, begin, end)
    return match.start() if match else -1


def _starts(data: bytes, at: int) -> bool:
    return _VERSION.match(data, at) is not None


def _surely(data: bytes, at: int) -> bool:
    return _SURE.match(data, at) is not None


FRAMING = Framing(_find, _starts, _surely, 32, INNER)


def detect_kind(head: bytes) -> str:
    """Return the kind of a WARC file by its first bytes: `warc` if pages come first, else `wet`."""
    at = 0
    while at >= 0:
        following = _find(head, at + 1, len(head))
        match = _TYPE.search(head, at, len(head) if following < 0 else following)
        if match and match[1].lower() not in (b"warcinfo", b"request", b"metadata"):
            return "warc" if match[1].decode("latin-1").lower() in PAGES else "wet"
        at = following
    return "wet"


def starts(data: bytes) -> bool:
    """Return whether bytes begin like a record."""
    return data[:5].upper() == b"WARC/"


def kind_within(data: bytes, *, ended: bool) -> str | None:
    """Return the kind of bytes that begin inside a record.

    None: there is no record in them that ends where its length says, followed by another record or
    the end.
    """
    at, most = _find(data, 0, len(data)), 16
    while at >= 0 and most:
        before = _BREAK.match(data, at)
        start, most = at + (len(before[0]) if before else 0), most - 1
        if (stop := _head(data, start)) is not None:
            header = _parse(data[start : stop[0]])
            rest = data[stop[1] + header.length :][:16]
            over = not rest and not ended and b"warc-record-id" in header.fields
            if (
                header.length >= 0
                and header.type
                and (over or (rest and starts(rest.lstrip(b"\r\n"))))
            ):
                return detect_kind(data[start : start + PEEK])
        at = _find(data, at + 1, len(data))
    return None


def read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read the records of a shard.

    Records without flaw are found many at a time (flawless.py), all others one by one.
    """
    from gristmill.source.archives.flawless import FlawlessRecords

    flawless = FlawlessRecords(rows, fields, heads_within)

    def read_records(window: Window) -> bool:
        return flawless.read(window) or _read_record(window, rows, fields)

    return read_stretches(pieces, rows, FRAMING, read_records)


def _read_record(window: Window, rows: RowCollector, fields: Fields) -> bool:
    """Read one record; False: the stretch ended inside it."""
    begin = window.offset + window.at
    while not (stop := _head(window.data, window.at)):
        if len(window.data) - window.at > MAX_HEADER_BYTES or not window.more():
            break
    # The same for a head that a large piece holds whole.
    size = (stop[0] if stop else len(window.data)) - window.at
    if stop is None or size > MAX_HEADER_BYTES or not _VERSION.match(window.data, window.at):
        if stop is None and size <= MAX_HEADER_BYTES:
            window.at = len(window.data)
            return False
        rows.fail("no_record", begin)
        window.at += 1
        window.seek_record()
        return True
    cut = any(
        window.data.find(mark, window.at, stop[1]) >= 0 for mark in (b"\nWARC/", b"\nwarc/")
    ) and _START.search(window.data, window.at + 1, stop[1])
    if cut:
        # A head without an end: the next record's head begins inside it.
        rows.fail("no_record", begin)
        window.at = cut.start()
        return True
    header = _parse(window.data[window.at : stop[0]])
    window.at = stop[1]
    if header.length < 0:
        rows.fail("wrong_length", begin, header.url)
        window.have(16)
        window.seek_record(here=True)
        return True
    if header.length > fields.max_document_bytes:
        return _skip_block(window, rows, fields, header, begin)
    if not window.have(header.length):
        # Too few bytes: the file is cut off, or the length is wrong and covers later records.
        if window.holds_record():
            rows.fail("wrong_length", begin, header.url)
            window.seek_record(here=True)
            return True
        window.at = len(window.data)
        return False
    if not _ends_well(window, header.length):
        rows.fail("wrong_length", begin, header.url)
        window.seek_record(here=True)
        return True
    end = window.at + header.length
    inner = list(heads_within(window.data, window.at, end))
    records = window.member_records(window.at, end) if inner else []
    if records:
        rows.fail("wrong_length", begin, header.url)
        window.at = records[0]
        return True
    place = window.offset
    body = window.data[window.at : end]
    window.at = end
    warc_rows.add(header.record(), body, begin, rows, fields)
    for at in inner:
        if not rows.full:
            rows.fail("inside_record", place + at)
    return True


def heads_within(data: bytes, begin: int, end: int) -> Iterator[int]:
    """Yield the places of whole heads of records in a block."""
    at = begin
    while start := INNER.search(data, at, end):
        lines = _LINES.match(data, start.start(), end)
        at = lines.end() if lines else start.end()
        if lines and (blank := _BREAK.match(data, at, end)):
            header = _parse(lines[0])
            if header.length >= 0 and header.type:
                yield start.start()
            at = blank.end()


def _ends_well(window: Window, length: int) -> bool:
    """Return whether a block of this length is followed by a record, by a line end and a member of
    the packed file, or by the end of the stretch.
    """
    window.have(length + FRAMING.overlap)
    end = window.at + length
    after = window.data[end : end + FRAMING.overlap]
    if not after:
        return True
    rest = after.lstrip(b"\r\n")
    blank = len(after) - len(rest)
    if blank and (not rest or b"WARC/".startswith(rest[:5].upper())):
        return True
    # Without a line end between them the next record has to begin as one does.
    return _surely(rest, 0) or end + blank in window.members(end, end + blank + 1)


def _skip_block(
    window: Window, rows: RowCollector, fields: Fields, header: _WarcHeader, begin: int
) -> bool:
    """Skip a block that is over the limit, or whose length is wrong.

    False: the stretch ended inside it.
    """
    passed = window.skip(header.length)
    if passed == "cut":
        return False
    if passed == "wrong":
        rows.fail("wrong_length", begin, header.url)
    elif warc_rows.is_document(header.type, fields):
        rows.fail("too_large", begin, header.url)
    elif header.type in PAGES:
        rows.fail("revisit" if fields.pages else "not_text", begin, header.url)
    else:
        warc_rows.skip(header.type, rows)
    return True


def detect(head: Head, fields: Fields) -> str | None:
    """Return archives, in any of the first stretches: damage in one member does not hide the
    others.
    """
    for stretch in head.stretches:
        start = stretch.lstrip(b"\r\n")
        if starts(start):
            return detect_kind(start[:PEEK])
        if arc.is_arc(start):
            return "arc"
    for stretch in head.stretches:
        kind = kind_within(stretch, ended=head.ended)
        if kind is not None:
            return kind
        if arc.is_within(stretch):
            return "arc"
    return None


def _named(kind: str, head: Head) -> str:
    """Return `arc` for a shard of ARC that a recipe calls WARC or WET."""
    return "arc" if any(arc.is_arc(stretch) for stretch in head.stretches) else kind


WARC = SourceFormat(
    name="warc",
    recognised="`WARC/` or `warc/` at the start of one of the first members; records that end "
    "where they say. Pages come first",
    row="a record",
    read=read,
    detect=detect,
    order=30,
    named=partial(_named, "warc"),
    suffixes={"warc": "WARC"},
    after_damage=True,
    members=True,
    pages=True,
)
WET = SourceFormat(
    name="wet",
    recognised="as WARC, where other records than pages come first",
    row="a record",
    read=read,
    order=31,
    named=partial(_named, "wet"),
    suffixes={"wet": "WET"},
    after_damage=True,
    members=True,
)
