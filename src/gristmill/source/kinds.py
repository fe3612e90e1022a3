"""The kind of a raw shard, detected from its decoded bytes: from several lines or records, not only
from the first.

    WARC/ at the start of a member, or consecutive records    -> warc if pages come first, else wet
    an ARC line in the same places                            -> arc (counted as warc)
    PAR1; ARROW1 or an IPC stream                             -> parquet; arrow
    lines of which at least half are JSON objects             -> jsonl
    [ and then an object                                      -> json: an array of objects
    a page's first tags                                       -> html, for a step that extracts its
                                                                 text
    a header with the text's column, rows of the same length  -> csv, tsv
    UTF-8 with few control characters                         -> text, one document
    anything else                                             -> refused, with what it looks like

The name of a file does not decide. But a page or plain text is refused if its name says another
format.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from gristmill.errors import SourceError
from gristmill.source import magic_numbers
from gristmill.source.archives import arc, warc
from gristmill.source.archives.html_page import looks_like_html
from gristmill.source.rows import Fields
from gristmill.source.tables import csv_tsv, jsonl
from gristmill.store.codecs import Damage

LOOK = 1 << 18  # decoded bytes from which the kind is detected
BEGIN = 1 << 13  # bytes from which a line or value is recognised
MOST_LINES = 100  # lines that are parsed to detect JSONL
FEW_LINES = 2  # as many lines that are no UTF-8 may be damaged ones
ILL_SHARE = 0.1  # of lines that are no UTF-8, from which on a file is in another encoding
_STRING = rb'"[^"\\]{0,1000}(?:\\.[^"\\]{0,1000}){0,100}'
# The beginning of an object, which may be cut off; of an array of objects, or an empty array; of an
# array of other values.
_OBJECT = re.compile(rb"\{\s*(?:" + _STRING + rb'(?:"\s*(?::|$)|$)|\}|$)')
_OBJECTS = re.compile(rb"\[\s*(?:\{|\]\s*$)")
_VALUES = re.compile(
    rb"\[\s*(?:-?[0-9.eE+-]+|" + _STRING + rb'"|null|true|false|\[[^\]]{0,4096}\])\s*,'
)
_PACKED = (".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4")
_TABLES = {
    "jsonl": "JSONL",
    "ndjson": "JSONL",
    "json": "JSON",
    "parquet": "Parquet",
    "warc": "WARC",
    "wet": "WET",
    "arc": "ARC",
    "arrow": "Arrow",
    "feather": "Feather",
    "csv": "CSV",
    "tsv": "TSV",
    "orc": "ORC",
    "avro": "Avro",
}
_ADVICE = {
    "UTF-16 text": "convert it: iconv -f UTF-16 -t UTF-8",
    "UTF-32 text": "convert it: iconv -f UTF-32 -t UTF-8",
    "a tar archive": "unpack it, and name its files",
    "a JSON document over several lines": "write one object a line: jq -c",
    "an HTML page": 'a [[step]] with use = "extract" extracts its text',
}


class Peekable(Protocol):
    """Decoded pieces that can be peeked at before they are read."""

    def peek(self) -> bytes | Damage | None: ...


class Head(NamedTuple):
    """The beginning of a shard."""

    stretches: list[bytes]  # decoded bytes, divided by damage
    ended: bool  # the shard has no more bytes
    damage: Damage | None  # the first

    @property
    def data(self) -> bytes:
        """Return the first stretch that is not empty."""
        return next((stretch for stretch in self.stretches if stretch), b"")


def peek(pieces: Peekable, most: int) -> Head:
    """Peek at LOOK bytes of a shard; at up to 2 * `most` if they do not contain a whole line."""
    stretches: list[list[bytes]] = [[]]
    lines = _FirstLines()
    damage: Damage | None = None
    size = 0
    while True:
        piece = pieces.peek()
        if piece is None or isinstance(piece, Damage):
            if piece is None:
                return Head([b"".join(parts) for parts in stretches], True, damage)
            damage = damage or piece
            stretches.append([])
            lines = _FirstLines()
            continue
        stretches[-1].append(piece)
        lines.add(piece)
        size += len(piece)
        if size >= LOOK and (size >= 2 * most or lines.shown):
            return Head([b"".join(parts) for parts in stretches], False, damage)


class _FirstLines:
    """Whether bytes contain a whole line and a bit of the next; true for binary data. Each byte is
    looked at once: megabytes of white space may follow a line.
    """

    def __init__(self) -> None:
        self._start = b""  # LOOK bytes at most
        self._begun = self._ended = self._followed = False  # the line; by a bit of the next

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        if len(self._start) < LOOK:
            self._start += piece[: LOOK - len(self._start)]
        if not self._begun:
            piece = piece.lstrip()
            self._begun = bool(piece)
        if self._begun and not self._ended:
            _, end, piece = piece.partition(b"\n")
            self._ended = bool(end)
        if self._ended and not self._followed:
            self._followed = bool(piece.strip(b"\r\n \t"))

    @property
    def shown(self) -> bool:
        return self._followed or magic_numbers.is_binary(self._start)


def detect(head: Head, fields: Fields, name: str = "") -> str:
    """Return the kind of a shard, a key of the readers in read.py. `name` is the name of its file.

    Raises SourceError if it is of no kind that can be read.
    """
    data = head.data.removeprefix(jsonl.BYTE_ORDER_MARK)
    if not data:
        if head.damage is not None:
            raise SourceError(
                f"nothing in it can be read: {head.damage.reason} at byte {head.damage.offset}",
                "damaged",
            )
        return "text"  # an empty file has no document, whatever its kind
    # A table's texts may hold an archive's heads, so its magic number comes first.
    kind = _table(data) or _records(head) or _lines(head, fields.text) or _array(data, head.ended)
    if kind is not None:
        _check_encoding(head, kind)
        return kind
    seen = _other_format(data, head.ended)
    if seen == "an HTML page" and fields.pages:
        _check_name(name, seen)
        return "html"
    if seen is not None:
        raise not_text(seen)
    kind = _delimited(data, head.ended, fields.text, name)
    if kind is not None:
        _check_encoding(head, kind)
        return kind
    at = magic_numbers.ill_formed(data, ended=head.ended and head.damage is None)
    if at is not None:
        raise not_text(
            f"text that is not UTF-8 (byte {at:,} is {data[at]:#04x})", "convert it with iconv"
        )
    _check_name(name, "plain text")
    return "text"


def _check_encoding(head: Head, kind: str) -> None:
    """Refuse lines that are in another encoding than UTF-8: at least a tenth are no UTF-8, and
    hardly any of the others is more than ASCII.
    """
    if kind not in ("jsonl", "json", "csv", "tsv") or head.damage is not None:
        return
    lines = [line for line in head.data.split(b"\n")[: None if head.ended else -1] if line.strip()]
    ill = beyond = 0
    first = -1
    for number, line in enumerate(lines):
        if line.isascii():
            continue
        try:
            line.decode()
        except UnicodeDecodeError:
            first, ill = number if first < 0 else first, ill + 1
        else:
            beyond += 1
    if ill >= max(FEW_LINES, len(lines) * ILL_SHARE) and ill > beyond / ILL_SHARE:
        raise not_text(
            f"{kind.upper()} that is not UTF-8 ({ill:,} of its first {len(lines):,} lines are not, "
            f"the first is line {first + 1:,})",
            "convert it with iconv, as from cp1252: iconv -f CP1252 -t UTF-8",
        )


def is_unknown(first: bytes, fields: Fields) -> bool:
    """Return whether the first bytes of a file are of no known format; perhaps it is a compressed
    file with a damaged start.
    """
    if not magic_numbers.is_binary(first) or magic_numbers.format_name(first) is not None:
        return False
    try:
        detect(Head([first], False, None), fields)
    except SourceError:
        return True
    return False


OVERRIDE = (
    'to read it all the same, set kind = "jsonl" (or "text", "warc", "csv" ...) for its source in '
    "the recipe"
)


def not_text(seen: str, advice: str | None = None) -> SourceError:
    """Return the error for a file of no known format; `seen` is what it looks like."""
    advice = advice or _ADVICE.get(seen)
    return SourceError(
        f"not text: looks like {seen}; {advice + '; ' if advice else ''}{OVERRIDE}", "not-text"
    )


def _other_format(data: bytes, ended: bool) -> str | None:
    """Return what a shard that cannot be read looks like; None: nothing known, perhaps plain
    text.
    """
    wide = magic_numbers.wide_encoding(data)
    if looks_like_html(data):
        return "an HTML page"
    if wide is not None:
        return f"{wide} text"
    seen = magic_numbers.format_name(data) or magic_numbers.markup(data)
    if seen is not None:
        return seen
    if magic_numbers.is_binary(data):
        return f"binary data (it begins with {data[:8].hex(' ')})"
    stripped = data.lstrip()
    if stripped.startswith(b"{") and _OBJECT.match(stripped[:BEGIN]):
        return "a JSON document over several lines"
    if stripped.startswith(b"[") and (
        _VALUES.match(stripped[:BEGIN]) or (ended and _is_json(stripped))
    ):
        return "a JSON array without objects"
    return None


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _records(head: Head) -> str | None:
    """Return archives, in any of the first stretches: damage in one member does not hide the
    others.
    """
    for stretch in head.stretches:
        start = stretch.lstrip(b"\r\n")
        if warc.starts(start):
            return warc.detect_kind(start[: warc.PEEK])
        if arc.is_arc(start):
            return "arc"
    for stretch in head.stretches:
        kind = warc.kind_within(stretch, ended=head.ended)
        if kind is not None:
            return kind
        if arc.is_within(stretch):
            return "arc"
    return None


def _table(data: bytes) -> str | None:
    if data.startswith(b"PAR1"):
        return "parquet"
    stream = (
        data.startswith(b"\xff\xff\xff\xff")
        and data[8:9] in (b"\x10", b"\x0c", b"\x14")
        and data[7:8] == b"\0"
    )
    return "arrow" if data.startswith(b"ARROW1\0\0") or stream else None


def _whole_lines(head: Head) -> Iterator[bytes]:
    """Yield the whole lines of a head that are not blank; if there is none, its last line, cut
    off.
    """
    given = False
    for number, stretch in enumerate(head.stretches):
        *whole, rest = stretch.removeprefix(jsonl.BYTE_ORDER_MARK).split(b"\n")
        for line in whole:
            if line.strip():
                given = True
                yield line
        last = number == len(head.stretches) - 1
        if rest.strip() and last and (head.ended or not given):
            yield rest


def _lines(head: Head, text: str) -> str | None:
    """JSONL, if at least half of the lines are objects. A bad first line does not count: it may be
    cut off, or a comment.
    """
    if not any(b"{" in stretch for stretch in head.stretches):
        return None
    good = bad = seen = 0
    begun = False
    for line in _whole_lines(head):
        seen += 1
        stripped = line.strip()
        if stripped.startswith(b"{") and isinstance(jsonl.parse(stripped), dict):
            good += 1
        elif seen > 1:
            bad += 1
        else:
            begun = bool(_OBJECT.match(stripped[:BEGIN])) and stripped != b"{"
        if seen == MOST_LINES:
            break
    if good and good >= bad:
        return "jsonl"
    # One line, cut off, or longer than the bytes that were peeked at.
    return "jsonl" if begun and seen == 1 else None


def _array(data: bytes, ended: bool) -> str | None:
    """Return an array of objects."""
    stripped = data.lstrip()
    if not _OBJECTS.match(stripped):
        return None
    inside = stripped[1:].lstrip()
    return "json" if inside.startswith(b"]") or _OBJECT.match(inside[:BEGIN]) else None


def _delimited(data: bytes, ended: bool, text: str, name: str) -> str | None:
    """CSV or TSV, if the header has the text's column.

    Raises SourceError if it is a table without that column.
    """
    said = extension(name)
    for kind, mark in (("tsv", "\t"), ("csv", ",")):
        rows, _ = csv_tsv.sniff_rows(data, mark, ended=ended)
        if not rows or len(rows[0]) < 2:
            continue
        even = sum(len(row) == len(rows[0]) for row in rows)
        if even < 0.9 * len(rows):
            continue
        if text in rows[0]:
            return kind
        names = len(set(rows[0])) == len(rows[0]) and all(rows[0])
        if (
            said == kind
            or (kind == "tsv" and len(rows) >= 5 and names)
            or (len(rows) >= 10 and len(rows[0]) >= 3 and names)
        ):
            shown = ", ".join(column[:40] for column in rows[0][:12])
            raise not_text(
                f"{kind.upper()} without a column {text!r}",
                (
                    f"its header has {shown}: name the column with the text (text = ...), or add a "
                    "header"
                ),
            )
    return None


def extension(name: str) -> str:
    """Return the last suffix of a file's name that is not a codec's, in lower case."""
    name = name.partition("?")[0].rpartition("/")[2].lower()
    while name.endswith(_PACKED):
        name = name.rpartition(".")[0]
    return name.rpartition(".")[2] if "." in name else ""


def _check_name(name: str, seen: str) -> None:
    """Refuse a page or plain text whose name says another format: it is usually a server's error
    page.
    """
    said = _TABLES.get(extension(name))
    if said is not None:
        raise SourceError(
            f"not {said}, although its name says so: looks like {seen}; {OVERRIDE}", "not-text"
        )
