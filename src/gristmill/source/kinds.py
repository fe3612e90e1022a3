"""What a raw shard holds, told by its decoded bytes: by several lines or records of them, not by
the first alone.

    WARC/ at the start of a member, or records one behind the other -> warc where pages come first,
    else wet
    a line of ARC there                                              -> arc (counted as warc)
    PAR1; ARROW1 or an IPC stream                                    -> parquet; arrow
    lines of which most are JSON objects                             -> jsonl
    [ and then an object                                             -> json: an array, element by
                                                                     element
    a page's first tags                                              -> html, for a step that takes
                                                                     its text out
    a header that names the text's column, rows as long as it        -> csv, tsv
    UTF-8 with few control characters                                -> text, one document
    else                                                             -> refused, and what it looks
                                                                     like

A file's name makes nothing of it: it can only refuse, where it says one format and the bytes are a
page or plain text.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from gristmill.errors import SourceError
from gristmill.source import arc, delimited, lines, looks, warc
from gristmill.source.page import looks_like_html
from gristmill.source.rows import Fields
from gristmill.store.codecs import Damage

KINDS = ("wet", "warc", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "html", "text")
LOOK = 1 << 18  # decoded bytes in which a shard shows what it holds
BEGIN = 1 << 13  # bytes by which a line or value is told
MOST_LINES = 100  # of JSONL that are parsed to tell
_STRING = rb'"[^"\\]{0,1000}(?:\\.[^"\\]{0,1000}){0,100}'
_OBJECT = re.compile(
    rb"\{\s*(?:" + _STRING + rb'(?:"\s*(?::|$)|$)|\}|$)'
)  # as an object begins, cut or not
_OBJECTS = re.compile(rb"\[\s*(?:\{|\]\s*$)")  # as an array of objects begins, and an empty one
_VALUES = re.compile(
    rb"\[\s*(?:-?[0-9.eE+-]+|" + _STRING + rb'"|null|true|false|\[[^\]]{0,4096}\])\s*,'
)  # one of other values
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
    "a tar archive": "unpack it, and give its files",
    "a JSON document over several lines": "write an object a line: jq -c",
    "an HTML page": 'a [[step]] with use = "extract" takes its text out',
}


class Replay(Protocol):
    """Decoded pieces that can be looked at before they are read."""

    def peek(self) -> bytes | Damage | None: ...


class Head(NamedTuple):
    """What a shard begins with."""

    stretches: list[bytes]  # decoded bytes, one stretch between damage and the next
    ended: bool  # this is all of it
    damage: Damage | None  # the first

    @property
    def data(self) -> bytes:
        """The first stretch that there is."""
        return next((stretch for stretch in self.stretches if stretch), b"")


def look(replay: Replay, most: int) -> Head:
    """Look at a shard's first bytes; further, to `most`, for a line that has not ended or is
    blank.
    """
    stretches: list[list[bytes]] = [[]]
    damage: Damage | None = None
    size = 0
    while True:
        piece = replay.peek()
        if piece is None:
            return Head([b"".join(parts) for parts in stretches], True, damage)
        if isinstance(piece, Damage):
            damage = damage or piece
            stretches.append([])
            continue
        stretches[-1].append(piece)
        size += len(piece)
        if size >= LOOK:
            head = b"".join(stretches[-1])
            if size >= 2 * most or _shows_lines(head):
                return Head([*(b"".join(parts) for parts in stretches[:-1]), head], False, damage)
            stretches[-1] = [head]


def _shows_lines(head: bytes) -> bool:
    """Whether a line stands whole in these bytes behind the first; bytes that are no text need
    none.
    """
    if looks.is_binary(head[:LOOK]):
        return True
    first = head.lstrip().find(b"\n")
    return first >= 0 and len(head) - len(head.lstrip()) + first < len(head.rstrip(b"\r\n \t"))


def tell(head: Head, fields: Fields, name: str = "") -> str:
    """The kind of a shard, one of KINDS or `arc`; `name` is its file's. Raises SourceError where it
    is none that is read.
    """
    data = head.data.removeprefix(lines.BYTE_ORDER_MARK)
    if not data:
        if head.damage is not None:
            raise SourceError(
                f"nothing in it can be read: {head.damage.reason} at byte {head.damage.offset}",
                "damaged",
            )
        return "text"  # a file without a byte is no document of any kind
    kind = _records(head) or _table(data) or _lines(head, fields.text) or _array(data, head.ended)
    if kind is not None:
        return kind
    seen = _seen(data, head.ended)
    if seen == "an HTML page" and fields.pages:
        _check_name(name, seen)
        return "html"
    if seen is not None:
        raise not_text(seen)
    kind = _delimited(data, head.ended, fields.text, name)
    if kind is not None:
        return kind
    at = looks.ill_formed(data, ended=head.ended and head.damage is None)
    if at is not None:
        raise not_text(
            f"text that is no UTF-8 (byte {at:,} is {data[at]:#04x})", "convert it, with iconv"
        )
    _check_name(name, "plain text")
    return "text"


def is_lost(first: bytes, fields: Fields) -> bool:
    """Whether the first bytes of a file are of no format at all: those of a packed one, perhaps,
    whose start is damaged.
    """
    if not looks.is_binary(first) or looks.named(first) is not None:
        return False
    try:
        tell(Head([first], False, None), fields)
    except SourceError:
        return True
    return False


SAY = 'kind = "jsonl" (or "text", "warc", "csv" ...) for its source in the recipe says otherwise'


def not_text(seen: str, advice: str | None = None) -> SourceError:
    """The refusal of what is no known format."""
    advice = advice or _ADVICE.get(seen)
    return SourceError(
        f"not text: looks like {seen}; {advice + '; ' if advice else ''}{SAY}", "not-text"
    )


def _seen(data: bytes, ended: bool) -> str | None:
    """What a shard looks like that is not read; None: plain text, perhaps."""
    wide = looks.wide(data)
    if looks_like_html(data):
        return "an HTML page"
    if wide is not None:
        return f"{wide} text"
    seen = looks.named(data) or looks.markup(data)
    if seen is not None:
        return seen
    if looks.is_binary(data):
        return f"binary data (it begins with {data[:8].hex(' ')})"
    stripped = data.lstrip()
    if stripped.startswith(b"{") and _OBJECT.match(stripped[:BEGIN]):
        return "a JSON document over several lines"
    if stripped.startswith(b"[") and (
        _VALUES.match(stripped[:BEGIN]) or (ended and _is_json(stripped))
    ):
        return "a JSON array of what are no objects"
    return None


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _records(head: Head) -> str | None:
    """Archives, in any of the first stretches: a damaged member hides no other."""
    for stretch in head.stretches:
        start = stretch.lstrip(b"\r\n")
        if warc.starts(start):
            return warc.kind_of(start[: warc.PEEK])
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
    """The lines that stand whole in a head, none of them blank; the last, cut, only where there is
    no other.
    """
    given = False
    for number, stretch in enumerate(head.stretches):
        *whole, rest = stretch.removeprefix(lines.BYTE_ORDER_MARK).split(b"\n")
        for line in whole:
            if line.strip():
                given = True
                yield line
        last = number == len(head.stretches) - 1
        if rest.strip() and last and (head.ended or not given):
            yield rest


def _lines(head: Head, text: str) -> str | None:
    """JSONL, where no more lines are bad than good; the first, which may be cut or a comment,
    counts for neither.
    """
    if not any(b"{" in stretch for stretch in head.stretches):
        return None
    good = bad = seen = 0
    begun = False
    for line in _whole_lines(head):
        seen += 1
        stripped = line.strip()
        if stripped.startswith(b"{") and lines.parse(stripped) is not None:
            good += 1
        elif seen > 1:
            bad += 1
        else:
            begun = bool(_OBJECT.match(stripped[:BEGIN])) and stripped != b"{"
        if seen == MOST_LINES:
            break
    if good and good >= bad:
        return "jsonl"
    return (
        "jsonl" if begun and seen == 1 else None
    )  # one line, cut, or longer than what was looked at


def _array(data: bytes, ended: bool) -> str | None:
    """An array of objects."""
    stripped = data.lstrip()
    if not _OBJECTS.match(stripped):
        return None
    inside = stripped[1:].lstrip()
    return "json" if inside.startswith(b"]") or _OBJECT.match(inside[:BEGIN]) else None


def _delimited(data: bytes, ended: bool, text: str, name: str) -> str | None:
    """A table of lines, where its header names the column with the text.

    Raises SourceError where it is one and does not.
    """
    said = extension(name)
    for kind, mark in (("tsv", "\t"), ("csv", ",")):
        rows, _ = delimited.rows_of(data, mark, ended=ended)
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
                    f"its header has {shown}: name the one with the text (text = ...), or give "
                    "it a header"
                ),
            )
    return None


def extension(name: str) -> str:
    """What a name says of its file: the last suffix that is no codec's."""
    name = name.partition("?")[0].rpartition("/")[2].lower()
    while name.endswith(_PACKED):
        name = name.rpartition(".")[0]
    return name.rpartition(".")[2] if "." in name else ""


def _check_name(name: str, seen: str) -> None:
    """Refuse a page or plain text whose name says that it is something else: it is an error's page,
    more often than not.
    """
    said = _TABLES.get(extension(name))
    if said is not None:
        raise SourceError(f"not {said}, which its name says: looks like {seen}; {SAY}", "not-text")
