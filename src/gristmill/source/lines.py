r"""JSONL: one JSON object a line, lines end at \\n only. And plain text: one file, one document.

The text and URL fields are named by the recipe; all other fields rest, as one JSON string, in
`extra`. A blank line takes a row number and no verdict.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from gristmill.columns import well_formed
from gristmill.errors import SourceError
from gristmill.source.looks import ill_formed, is_binary
from gristmill.source.rows import Fields, Rows
from gristmill.store.codecs import Damage

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some tools set before a file's first line
MOST_VALUES = 4_000_000  # of a long line that is no plain JSON: each takes up to 64 bytes

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def read(pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Read the lines of a shard."""
    offset = 0  # of the line's first byte in the decoded shard
    waiting: list[bytes] = []  # the start of a line that has not ended
    size = 0
    most = (
        6 * fields.max_document_bytes
    )  # as \\u0001 a byte takes six; the text itself is measured again
    for piece in pieces:
        if isinstance(piece, Damage):
            # The line that was cut and the damage are one loss: one row.
            rows.fail(piece.reason, piece.offset)
            offset += size
            waiting, size = [], 0
            continue
        *whole, rest = piece.split(b"\n")
        for line in whole:
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
        if rows.full:
            break
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


def _read_line(line: bytes, size: int, offset: int, rows: Rows, fields: Fields, most: int) -> None:
    if size > most:
        rows.fail("too_large", offset)
        return
    if offset == 0:
        line = line.removeprefix(BYTE_ORDER_MARK)
    if not line.strip():
        rows.skip("blank line")
        return
    if len(line) > fields.max_document_bytes and _is_laden(line, fields):
        rows.fail("too_large", offset)
        return
    record = parse(line)
    if record is None:
        rows.fail("not_json", offset)
        return
    give(record, offset, rows, fields)


def _is_laden(line: bytes, fields: Fields) -> bool:
    """Whether a long line holds more than a text: its other fields alone are over the limit, and
    would take many times that as values.
    """
    try:
        return len(line) - len(_decode_raw(line).get(fields.text, b"")) > fields.max_document_bytes
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return line.count(b"[") + line.count(b"{") + line.count(b",") > MOST_VALUES


def give(record: dict[str, Any], value: int, rows: Rows, fields: Fields) -> None:
    """Make a row of an object; `value` is where it stands, for its verdict."""
    text = record.pop(fields.text, None)
    url = record.pop(fields.url, None)
    if url is not None and not isinstance(url, str):
        record[fields.url], url = url, None
    if url is not None:
        url = well_formed(url)
    if not isinstance(text, str):
        rows.fail("no_text", value, url)
        return
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = well_formed(text).encode()
    if len(encoded) > fields.max_document_bytes:
        rows.fail("too_large", value, url)
        return
    try:
        extra = to_extra(record)
    except RecursionError:
        rows.fail("not_json", value, url)
        return
    rows.add(encoded, url, extra=extra)


def parse(line: bytes) -> dict[str, Any] | None:
    """A line as a JSON object; None where it is none."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # Ill-formed UTF-8, lone surrogates, NaN: what Python's own reader takes.
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def to_extra(record: dict[str, Any]) -> str | None:
    """Fields that we do not know, as one JSON string; None where there are none."""
    if not record:
        return None
    try:
        return _encode(record).decode()
    except (UnicodeEncodeError, TypeError, ValueError):
        return _encode(_plain(record)).decode()


def _plain(value: Any) -> Any:
    """A value as JSON can say it: surrogates replaced, what is no JSON as a string."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(str(key)): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return well_formed(str(value))


def read_text(
    pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read a shard that is one document, and UTF-8. Raises SourceError where it is not."""
    return _read_text(pieces, rows, fields, strict=True)


def read_told(
    pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read a shard that is one document because the recipe says so: what is ill-formed in it
    becomes U+FFFD.
    """
    return _read_text(pieces, rows, fields, strict=False)


def whole(pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields) -> bytes:
    """The bytes of a shard that is one document; none where it is damaged or too large, which a row
    says.
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
    pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields, *, strict: bool
) -> Iterator[pa.RecordBatch]:
    text = whole(pieces, rows, fields).removeprefix(BYTE_ORDER_MARK)
    at = ill_formed(text, ended=True) if strict else None
    if at is not None or (strict and is_binary(text)):
        where = (
            f"byte {at:,} of it is no UTF-8" if at is not None else "it holds control characters"
        )
        raise SourceError(
            (
                f'not text: {where}; convert it, or kind = "text" for its source in the recipe '
                "takes it as it is"
            ),
            "not-text",
        )
    if text:
        rows.add(text)
    if (batch := rows.take()) is not None:
        yield batch
