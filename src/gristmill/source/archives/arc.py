"""ARC records, the format before WARC: of the Internet Archive and, until 2012, of Common Crawl.

    URL IP-address Archive-date Content-type Archive-length
        version 1
    URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename
        Archive-length      version 2

and then Archive-length bytes: the HTTP response. The first record, `filedesc://`, says of what
version the file is, which we take from each line itself. (M. Burner, B. Kahle: Arc File Format,
Internet Archive, 1996.)

URLs may hold spaces. The framing is as strict as it is for WARC: behind a block must come the next
record's line, or the end; where it does not, the record gets the verdict `read.wrong_length`, and
the search goes on for the next line that can be a record's.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from gristmill.source.archives import html_page
from gristmill.source.archives.record_window import Framing, Window, read_stretches
from gristmill.source.rows import Fields, RowCollector
from gristmill.source.source_format import SourceFormat
from gristmill.store.codecs import Damage

MAGIC = b"filedesc://"
MAX_LINE = 1 << 14
# A line that begins as a URL does and has a number as long as a date in it.
_CANDIDATE = re.compile(rb"\n[A-Za-z][A-Za-z0-9+.-]{0,30}:[^\n]{0,16384} (?:19|20)[0-9]{10,16} ")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{0,30}:")
_ADDRESS = re.compile(rb"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*|-|unknown")
_DATE = re.compile(
    rb"(?:19|20)[0-9]{10,16}"
)  # 14 digits; some writers leave seconds out or have parts of them
_CUT = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{0,30}(?::[^\n]*)?")  # a record's line that the end cuts


class _ArcHeader(NamedTuple):
    url: str
    date: str
    type: str
    length: int  # -1: no number


def _parse(line: bytes) -> _ArcHeader | None:
    """Return a record's line; None where it is none."""
    if len(line) > MAX_LINE or not _SCHEME.match(line):
        return None
    words = line.rstrip(b"\r").split(b" ")
    for place in range(2, len(words) - 2):
        if _DATE.fullmatch(words[place]) and _ADDRESS.fullmatch(words[place - 1]):
            break
    else:
        return None
    date, length = words[place].decode(), words[-1]
    if len(date) == 14:  # as WARC writes it
        date = f"{date[:4]}-{date[4:6]}-{date[6:8]}T{date[8:10]}:{date[10:12]}:{date[12:]}Z"
    return _ArcHeader(
        b" ".join(words[: place - 1]).decode("utf-8", "replace"),
        date,
        words[place + 1].decode("utf-8", "replace"),
        int(length) if length.isdigit() and len(length) < 16 else -1,
    )


def _line(data: bytes, at: int) -> bytes | None:
    """Return the line that starts here, without its end; None where it is longer than any record's
    or has no end.
    """
    end = data.find(b"\n", at, at + MAX_LINE)
    return None if end < 0 else data[at:end]


def _starts(data: bytes, at: int) -> bool:
    line = _line(data, at)
    return line is not None and _parse(line) is not None


def _find(data: bytes, begin: int, end: int) -> int:
    at = begin
    while match := _CANDIDATE.search(data, at, end):
        if _starts(data, match.start() + 1):
            return match.start()
        at = match.end() - 1
    return -1


def _surely(data: bytes, at: int) -> bool:
    return True  # `_find` parses whole lines


FRAMING = Framing(_find, _starts, _surely, MAX_LINE)


def is_arc(head: bytes) -> bool:
    """Return whether the first bytes of a file are those of an ARC file."""
    start = head[: 2 * MAX_LINE].lstrip(b"\r\n")
    return start.startswith(MAGIC) or _starts(start, 0)


def is_within(data: bytes) -> bool:
    """Return whether bytes that begin inside a record hold two, one directly behind the other."""
    at, most = _find(data, 0, len(data)), 16
    while at >= 0 and most:
        line = _line(data, at + 1)
        header = None if line is None else _parse(line)
        if line is not None and header is not None and header.length >= 0:
            rest = data[at + 1 + len(line) + 1 + header.length :][: 2 * MAX_LINE].lstrip(b"\r\n")
            if _starts(rest, 0):
                return True
        at, most = _find(data, at + 1, len(data)), most - 1
    return False


def read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read the records of a shard."""
    return read_stretches(pieces, rows, FRAMING, partial(_read_record, rows=rows, fields=fields))


def _read_record(window: Window, rows: RowCollector, fields: Fields) -> bool:
    """Read one record; False where the stretch ended inside it."""
    begin = window.offset + window.at
    window.have(MAX_LINE)
    line = _line(window.data, window.at)
    header = None if line is None else _parse(line)
    if line is None or header is None:
        if line is None and window.ended and b"\n" not in window.data[window.at :]:
            window.at = len(window.data)
            return False
        rows.fail("no_record", begin)
        window.seek_record()
        return True
    window.at += len(line)  # at the line's end, where a search finds the next line too
    if header.length < 0:
        rows.fail("wrong_length", begin, header.url)
        window.seek_record()
        return True
    if header.length > fields.max_document_bytes:
        return _pass_over(window, rows, fields, header, begin)
    if not window.have(header.length + 1):
        # Too few bytes: the file is cut, or the length lies and swallows what follows.
        if window.holds_record():
            rows.fail("wrong_length", begin, header.url)
            window.seek_record()
            return True
        window.at = len(window.data)
        return False
    if not _ends_well(window, header.length + 1):
        rows.fail("wrong_length", begin, header.url)
        window.seek_record()
        return True
    body = window.data[window.at + 1 : window.at + 1 + header.length]
    window.at += 1 + header.length
    _give(header, body, begin, rows, fields)
    return True


def _give(header: _ArcHeader, body: bytes, begin: int, rows: RowCollector, fields: Fields) -> None:
    """Say what became of a sound record."""
    if header.url.startswith(MAGIC.decode()):
        rows.skip("filedesc")
        return
    if not fields.pages:
        rows.fail("not_text", begin, header.url)
        return
    got = html_page.read(body, header.type, fields.max_document_bytes)
    if isinstance(got, html_page.HtmlPage):
        rows.add(got.text, header.url, header.date, None, got.language, got.extra, got.content_type)
        if got.against_label:
            rows.note(html_page.AGAINST_LABEL)
    else:
        rows.fail(got.reason, begin if got.value is None else got.value, header.url)


def _ends_well(window: Window, length: int) -> bool:
    """Return whether a block of this length is followed by a record's line, blank lines between, or
    by the end of the stretch.
    """
    window.have(length + MAX_LINE)
    at = window.at + length
    rest = window.data[at : at + MAX_LINE].lstrip(b"\r\n")
    start = at + len(window.data[at : at + MAX_LINE]) - len(rest)
    return (
        not rest
        or _starts(rest, 0)
        or (window.ended and _CUT.fullmatch(rest) is not None)
        or start in window.members(at, start + 1)
    )


def _pass_over(
    window: Window, rows: RowCollector, fields: Fields, header: _ArcHeader, begin: int
) -> bool:
    """Step over a block that is over the limit; it may as well be that its length lies. False where
    the stretch ended inside it.
    """
    passed = window.skip(header.length + 1)
    if passed == "cut":
        return False
    if passed == "wrong":
        rows.fail("wrong_length", begin, header.url)
    elif header.url.startswith(MAGIC.decode()):
        rows.skip("filedesc")
    else:
        rows.fail("too_large" if fields.pages else "not_text", begin, header.url)
    return True


ARC = SourceFormat(
    name="arc",
    recognised="a line of ARC in the same places; the manifest says `warc`",
    row="a record",
    read=read,
    suffixes={"arc": "ARC"},
    after_damage=True,
    members=True,
    counted="warc",
)
