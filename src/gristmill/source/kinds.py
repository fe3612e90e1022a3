"""The kind of a raw shard, detected from its decoded bytes: from several lines or records, not only
from the first.

Formats (source_format.py) are asked in their order: by magic numbers, by heads of records, by
lines. What is of none of these is a page by its first tags, is refused if it is of another known
format, or is a table of text or one text of UTF-8.

The name of a file does not decide. But a page or plain text is refused if its name says another
format.
"""

import json
import re
from functools import cache
from typing import Protocol

from gristmill.errors import SourceError
from gristmill.source import magic_numbers
from gristmill.source.archives.html_page import looks_like_html
from gristmill.source.rows import Fields
from gristmill.source.source_format import (
    BEGIN,
    FORMATS,
    OBJECT,
    OVERRIDE,
    STRING,
    TEXT,
    Head,
    SourceFormat,
    extension,
    not_text,
)
from gristmill.store.codecs import Damage

LOOK = 1 << 18  # decoded bytes from which the kind is detected
FEW_LINES = 2  # as many lines that are no UTF-8 may be damaged ones
ILL_SHARE = 0.1  # of lines that are no UTF-8, from which on a file is in another encoding
# The beginning of an array of other values than objects.
_VALUES = re.compile(
    rb"\[\s*(?:-?[0-9.eE+-]+|" + STRING + rb'"|null|true|false|\[[^\]]{0,4096}\])\s*,'
)
_UNREAD = {"orc": "ORC", "avro": "Avro"}  # suffixes of formats that are not read
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


@cache
def _detectors() -> list[SourceFormat]:
    """Return the built-in formats that are recognised, in the order in which they are asked; those
    of other packages are read where a recipe names them.
    """
    candidates = [candidate for candidate in FORMATS.built_in() if candidate.detect is not None]
    return sorted(candidates, key=lambda candidate: (candidate.order, candidate.name))


def detect(head: Head, fields: Fields) -> str:
    """Return the name of the format of a shard.

    Raises SourceError if it is of none that can be read.
    """
    if not head.start:
        if head.damage is not None:
            raise SourceError(
                f"nothing in it can be read: {head.damage.reason} at byte {head.damage.offset}",
                "damaged",
            )
        return "text"  # an empty file has no document, whatever its kind
    kind = _ask(head, fields, [candidate for candidate in _detectors() if candidate.order < TEXT])
    if kind is not None:
        return kind
    seen = _other_format(head.start, head.ended)
    if seen == "an HTML page" and fields.pages:
        _check_name(head.name, seen)
        return "html"
    if seen is not None:
        raise not_text(seen, _ADVICE.get(seen))
    kind = _ask(head, fields, [candidate for candidate in _detectors() if candidate.order >= TEXT])
    if kind is not None:
        return kind
    at = magic_numbers.ill_formed(head.start, ended=head.ended and head.damage is None)
    if at is not None:
        raise not_text(
            f"text that is not UTF-8 (byte {at:,} is {head.start[at]:#04x})",
            "convert it with iconv",
        )
    _check_name(head.name, "plain text")
    return "text"


def _ask(head: Head, fields: Fields, formats: list[SourceFormat]) -> str | None:
    """Return the name of the first format that recognises a shard."""
    for candidate in formats:
        if candidate.detect is not None and (said := candidate.detect(head, fields)):
            kind = candidate.name if said is True else said
            if FORMATS.find(kind).lines:
                _check_encoding(head, kind)
            return kind
    return None


def _check_encoding(head: Head, kind: str) -> None:
    """Refuse lines that are in another encoding than UTF-8: at least a tenth are no UTF-8, and
    hardly any of the others is more than ASCII.
    """
    if head.damage is not None:
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
    if stripped.startswith(b"{") and OBJECT.match(stripped[:BEGIN]):
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


@cache
def _suffixes() -> dict[str, str]:
    """Return what files of several documents are called, by the suffix of their names."""
    formats = (candidate.suffixes for candidate in FORMATS.built_in())
    return _UNREAD | {suffix: name for suffixes in formats for suffix, name in suffixes.items()}


def _check_name(name: str, seen: str) -> None:
    """Refuse a page or plain text whose name says another format: it is usually a server's error
    page.
    """
    said = _suffixes().get(extension(name))
    if said is not None:
        raise SourceError(
            f"not {said}, although its name says so: looks like {seen}; {OVERRIDE}", "not-text"
        )
