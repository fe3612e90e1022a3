r"""JSONL: one JSON object a line; only \\n ends a line. And plain text: one file is one document.

The recipe names the fields of text and URL; all other fields are stored, as one JSON string, in
`extra`. A blank line takes a row number and has no verdict.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from gristmill.errors import NO_JSON, SourceError
from gristmill.source.ill_formed import MARKED, finite, marks
from gristmill.source.magic_numbers import ill_formed, is_binary
from gristmill.source.rows import Fields, RowCollector, to_extra
from gristmill.source.source_format import BEGIN, BYTE_ORDER_MARK, OBJECT, Head, SourceFormat
from gristmill.store.codecs import Damage
from gristmill.tables.columns import well_formed

MOST_LINES = 100  # lines that are parsed to detect JSONL
MOST_VALUES = 4_000_000  # of a long line with unusual JSON: each takes up to 64 bytes

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read the lines of a shard.

    Lines without flaw are read many at a time (flawless_lines.py), all others one by one.
    """
    from gristmill.source.tables.flawless_lines import FlawlessLines

    flawless = FlawlessLines(rows, fields)
    offset = 0  # of the line's first byte in the decoded shard
    waiting: list[bytes] = []  # the start of a line that has not ended
    size = 0
    # A byte takes six as \\u0001. The limit is applied again to the text itself.
    most = 6 * fields.max_document_bytes
    for piece in pieces:
        if isinstance(piece, Damage):
            # A line that damage cuts off and the damage itself are one loss, and take one row.
            rows.fail(piece.reason, piece.offset)
            offset += size
            waiting, size = [], 0
            continue
        at = 0
        while not rows.full:
            if not size:
                offset -= at
                at = flawless.read(piece, at)
                offset += at
            end = -1 if rows.full else piece.find(b"\n", at)
            if end < 0:
                break
            line = piece[at:end]
            at = end + 1
            size += len(line)
            if waiting:
                waiting.append(line)
                line = b"".join(waiting)
                waiting = []
            _read_line(line, size, offset, rows, fields, most)
            offset += size + 1
            size = 0
        if rows.full:
            break
        rest = piece[at:]
        size += len(rest)
        if size <= most:
            waiting.append(rest)
        else:
            waiting = [b""]  # too large: only its size is kept
        if rows.ready and (batch := rows.take()) is not None:
            yield batch
    if size and not rows.full:
        _read_line(b"".join(waiting), size, offset, rows, fields, most)
    if (batch := rows.take()) is not None:
        yield batch


def _read_line(
    line: bytes, size: int, offset: int, rows: RowCollector, fields: Fields, most: int
) -> None:
    if size > most:
        rows.fail("too_large", offset)
        return
    line = line.removeprefix(BYTE_ORDER_MARK)  # also where files were joined
    if not line.strip():
        rows.skip("blank line")
        return
    if len(line) > fields.max_document_bytes and _has_large_fields(line, fields):
        rows.fail("too_large", offset)
        return
    record = parse(line)
    if isinstance(record, str):
        rows.fail(record, offset)
        return
    add_record(record, offset, rows, fields)


def _has_large_fields(line: bytes, fields: Fields) -> bool:
    """Return whether the fields of a long line without its text are over the limit: as Python
    values they would take many times as much memory.
    """
    try:
        return len(line) - len(_decode_raw(line).get(fields.text, b"")) > fields.max_document_bytes
    except NO_JSON:
        return line.count(b"[") + line.count(b"{") + line.count(b",") > MOST_VALUES


def add_record(record: dict[str, Any], value: int, rows: RowCollector, fields: Fields) -> None:
    """Add an object as a row; `value` is its place in the shard, for its verdict."""
    text = _take(record, fields.text)
    url = _take(record, fields.url)
    if url is not None and not isinstance(url, str):
        record[fields.url], url = url, None
    if url is not None:
        url = well_formed(url)
    if not isinstance(text, str):
        rows.fail("no_text", value, url)
        return
    replaced = 0
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded, replaced = well_formed(text).encode(), marks(text)
    if len(encoded) > fields.max_document_bytes:
        rows.fail("too_large", value, url)
        return
    try:
        extra = to_extra(record)
    except RecursionError:
        rows.fail("too_deep", value, url)
        return
    rows.add(encoded, url, extra=extra, replaced=replaced)


def _take(record: dict[str, Any], name: str) -> Any:
    """Take a field out of an object: of this name, or else at this path, as `doc.text`."""
    if name in record:
        return record.pop(name)
    first, dot, rest = name.partition(".")
    inner = record.get(first)
    if not dot or not isinstance(inner, dict):
        return None
    value = _take(inner, rest)
    if not inner:
        del record[first]
    return value


def parse(line: bytes) -> dict[str, Any] | str:
    """Return a line as a JSON object, or the reason why it is none: not_json, too_deep."""
    try:
        return _decode(line)
    except NO_JSON:
        pass
    # Python's own reader accepts ill-formed UTF-8, lone surrogates, NaN and 1e999. The last two are
    # kept as strings, for no JSON has them.
    try:
        record = json.loads(line.decode("utf-8", MARKED), parse_constant=str, parse_float=finite)
    except RecursionError:
        return "too_deep"
    except ValueError:
        return "not_json"
    return record if isinstance(record, dict) else "not_json"


def read_text(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read a shard as one document. Raises SourceError if it is binary or not UTF-8."""
    return _read_text(pieces, rows, fields, strict=True)


def read_forced_text(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read a shard as one document because the recipe says `kind = "text"`: ill-formed UTF-8
    becomes U+FFFD.
    """
    return _read_text(pieces, rows, fields, strict=False)


def read_whole(pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields) -> bytes:
    """Return the bytes of a shard that is one document. If it is damaged or too large, a failed row
    is added and the result is empty.
    """
    parts: list[bytes] = []
    size = 0
    damage: Damage | None = None
    for piece in pieces:
        if isinstance(piece, Damage):
            damage = damage or piece
            continue
        size += len(piece)
        if size <= fields.max_document_bytes:
            parts.append(piece)
    if damage is not None:
        rows.fail(damage.reason, damage.offset)
    elif size > fields.max_document_bytes:
        rows.fail("too_large", 0)
    else:
        return b"".join(parts)
    return b""


def _read_text(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields, *, strict: bool
) -> Iterator[pa.RecordBatch]:
    text = read_whole(pieces, rows, fields).removeprefix(BYTE_ORDER_MARK)
    at = ill_formed(text, ended=True) if strict else None
    if at is not None or (strict and is_binary(text)):
        where = f"its byte {at:,} is not UTF-8" if at is not None else "it has control characters"
        raise SourceError(
            (
                f'not text: {where}; convert it, or set kind = "text" for its source in the recipe '
                "to read it as it is"
            ),
            "not-text",
        )
    if text:
        rows.add(text, as_it_is=not strict)
    if (batch := rows.take()) is not None:
        yield batch


def detect(head: Head, fields: Fields) -> bool:
    """Return whether at least half of the lines are objects. A bad first line does not count: it
    may be cut off, or a comment.
    """
    if not any(b"{" in stretch for stretch in head.stretches):
        return False
    good = bad = seen = 0
    begun = False
    for line in _whole_lines(head):
        seen += 1
        stripped = line.strip()
        if stripped.startswith(b"{") and isinstance(parse(stripped), dict):
            good += 1
        elif seen > 1:
            bad += 1
        else:
            begun = bool(OBJECT.match(stripped[:BEGIN])) and stripped != b"{"
        if seen == MOST_LINES:
            break
    if good and good >= bad:
        return True
    # One line, cut off, or longer than the bytes that were peeked at.
    return begun and seen == 1


def _whole_lines(head: Head) -> Iterator[bytes]:
    """Yield the whole lines of a head that are not blank; if there is none, its last line, cut
    off.
    """
    given = False
    for number, stretch in enumerate(head.stretches):
        *whole, rest = stretch.removeprefix(BYTE_ORDER_MARK).split(b"\n")
        for line in whole:
            if line.strip():
                given = True
                yield line
        last = number == len(head.stretches) - 1
        if rest.strip() and last and (head.ended or not given):
            yield rest


JSONL = SourceFormat(
    name="jsonl",
    recognised="of the first 100 lines, at least as many are JSON objects as are not; the first "
    "line is not counted",
    row="a line",
    read=read,
    detect=detect,
    order=40,
    suffixes={"jsonl": "JSONL", "ndjson": "JSONL"},
    after_damage=True,
    lines=True,
)
TEXT = SourceFormat(
    name="text",
    recognised="UTF-8 with few control characters that is none of these, and not XML",
    row="the file, without a byte order mark",
    read=read_text,
    order=1000,
    alone=("txt", "text", "md", "rst", "tex"),
    read_named=read_forced_text,
)
