"""Slow twins of kernels/reading: members by zlib, records by regular expressions."""

import json
import re
import zlib
from typing import Any

TYPES = (b"conversion", b"warcinfo", b"request", b"metadata", b"response", b"resource", b"revisit")
_HEAD = re.compile(rb"WARC/[0-9]\.[0-9]\r?\n(?:[!-.0-9;-~]*: *[ -~]*\r?\n)*\r?\n")
_FIELDS = (
    b"warc-target-uri",
    b"warc-date",
    b"warc-record-id",
    b"warc-identified-content-language",
    b"content-type",
)


def inflate(
    data: bytes, room: int, size: int, *, ended: bool, most: int = 1 << 20
) -> tuple[bytes, int, list[int]]:
    """The members of `data` as MemberInflater takes them; the place behind the last, and where each
    ends.

    As much is decoded as leaves `room` of `size` bytes, and at most `most` members.
    """
    out, at, ends = b"", 0, list[int]()
    while len(ends) < most and len(out) + room <= size and data[at : at + 3] == b"\x1f\x8b\x08":
        if len(data) < at + 18 or data[at + 3] & 0xE2:
            break
        decoder = zlib.decompressobj(31)
        try:
            piece = decoder.decompress(data[at:])
        except zlib.error:
            break
        behind = decoder.unused_data
        if not decoder.eof or len(out) + len(piece) > size:
            break
        if not (behind.startswith(b"\x1f\x8b") or (ended and not behind)):
            break
        out += piece
        ends.append(len(out))
        at = len(data) - len(behind)
    return out, at, ends


def is_well_formed(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def gather(data: bytes, starts: list[int], stops: list[int]) -> list[bytes]:
    """The spans."""
    return [data[start:stop] for start, stop in zip(starts, stops, strict=True)]


def frame(
    data: bytes, at: int, *, count: int, most: int, documents: int, pages: bool, followed: bool
) -> tuple[list[tuple[object, ...]], int]:
    """The records as warc_records.frame finds them: type, beginning, whether the block is UTF-8 (of
    conversions), block, and the values of its fields; and where the next one begins.
    """
    found: list[tuple[object, ...]] = []
    media: list[bytes] = []
    while len(found) < count and sum(_is_document(record[0]) for record in found) < documents:
        begin = at
        while data[begin : begin + 1] in (b"\r", b"\n"):
            begin += 1
        head = _HEAD.match(data, begin)
        if head is None or head.end() - begin > 1 << 16:
            break
        values: dict[bytes, bytes] = {}
        for line in head[0].split(b"\n")[1:]:
            name, _, value = line.partition(b":")
            values.setdefault(name.lower(), value.strip())
        kind, digits = values.get(b"warc-type", b"").lower(), values.get(b"content-length", b"")
        if kind not in TYPES or not re.fullmatch(rb"[0-9]{1,15}", digits) or int(digits) > most:
            break
        if TYPES.index(kind) >= (6 if pages else 4):
            break
        stop = head.end() + int(digits)
        ending = re.compile(rb"\r\n\r\n|\n\n").match(data, stop)
        if ending is None:
            break
        if not data.startswith(b"WARC/", ending.end()) and not (
            followed and ending.end() == len(data)
        ):
            break
        fields = [values.get(name, b"") for name in _FIELDS]
        fields[0], fields[2] = fields[0].strip(b"<>"), fields[2].strip(b"<>")
        if kind == b"conversion":
            if media and media[0] != fields[4]:
                break
            media.append(fields[4])
        block = data[head.end() : stop]
        found.append((kind, begin, kind == b"conversion" and is_well_formed(block), block, *fields))
        at = ending.end()
    return found, at


def _is_document(kind: object) -> bool:
    return kind in (b"conversion", b"response", b"resource", b"revisit")


class Unusual(Exception):
    """A line that json_lines.read leaves alone."""


def read_lines(
    data: bytes, text: str, url: str, most: int, count: int
) -> list[tuple[str, str | None, list[Any], int]]:
    """The lines that json_lines.read takes: text, URL (None: there is none), the other members, and
    where the next line begins.
    """
    found: list[tuple[str, str | None, list[Any], int]] = []
    at = 0
    for line in data.split(b"\n")[:-1]:
        at += len(line) + 1
        try:
            pairs = _members(line)
        except (ValueError, Unusual):
            break
        names = [name for name, _ in pairs]
        values = dict(pairs)
        strings = values.get(text), values.get(url, "")
        if names.count(text) != 1 or names.count(url) > 1 or len(line) >= most:
            break
        if len(found) == count or not all(isinstance(value, str) for value in strings):
            break
        if any("\ud800" <= sign <= "\udfff" for sign in "".join(map(str, strings))):
            break
        others = [pair for pair in pairs if pair[0] not in (text, url)]
        found.append((values[text], values.get(url), others, at))
    return found


def _members(line: bytes) -> list[tuple[str, Any]]:
    """The members of an object whose names have no escapes."""

    def members(pairs: list[tuple[str, Any]]) -> Any:
        return pairs

    if not line.strip(b" \t\r").startswith(b"{"):
        raise Unusual
    pairs: list[tuple[str, Any]] = json.loads(line, object_pairs_hook=members)
    if line != line.decode().encode() or any(
        json.dumps(name, ensure_ascii=False).encode() not in line for name, _ in pairs
    ):
        raise Unusual
    return pairs
