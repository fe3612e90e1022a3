"""A JSON array of objects, element by element: each object is a document, like a line of JSONL.

One element is in memory. An array has no lines at which reading could continue, so invalid JSON in
its middle is an error for the whole file, not a failed row. `value` of a failed row is its number.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.source.ill_formed import MARKED, finite
from gristmill.source.rows import Fields, RowCollector
from gristmill.source.source_format import BEGIN, BYTE_ORDER_MARK, OBJECT, Head, SourceFormat
from gristmill.source.tables.jsonl import MOST_VALUES, add_record
from gristmill.store.codecs import Damage

_SPACE = " \t\r\n"
# The beginning of an array of objects, or an empty array.
_OBJECTS = re.compile(rb"\[\s*(?:\{|\]\s*$)")
_decode = json.JSONDecoder(parse_constant=str, parse_float=finite).raw_decode


class _TextBuffer:
    """The characters that were not consumed yet."""

    def __init__(self, pieces: Iterable[bytes | Damage]) -> None:
        self._pieces = iter(pieces)
        self._decoder = codecs.getincrementaldecoder("utf-8")(MARKED)
        self.text = ""
        self.at = 0
        self.ended = False
        self.damage: Damage | None = None

    def more(self) -> bool:
        """Double what is held, by at least one piece; False at the end, or at damage."""
        parts, size, wanted = [self.text[self.at :]], 0, len(self.text) - self.at
        while not self.ended and size <= wanted:
            piece = next(self._pieces, None)
            if piece is None or isinstance(piece, Damage):
                self.ended, self.damage = True, piece
                piece = b""
            parts.append(self._decoder.decode(piece, self.ended))
            size += len(parts[-1])
        self.text, self.at = "".join(parts), 0
        return size > 0

    def skip(self, characters: str) -> str:
        """Skip these characters; returns the next one, or an empty string at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in characters:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def continues(self) -> bool:
        """Return whether bytes follow after the damage."""
        return any(isinstance(piece, bytes) and piece.strip() for piece in self._pieces)


def read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read the elements of a shard. Raises SourceError if one is not JSON."""
    source = _TextBuffer(pieces)
    source.skip(_SPACE + BYTE_ORDER_MARK.decode())
    source.at += 1  # the bracket
    while not rows.full:
        mark = source.skip(_SPACE + ",")
        if mark == "]":
            source.at += 1
            if source.skip(_SPACE):
                raise SourceError(
                    f"the file continues after the end of its array of {rows.row:,} elements: "
                    "write one object a line (JSONL)"
                )
            break
        value = _element(source, rows, fields) if mark else None
        if value is None:
            break
        if isinstance(value[0], dict):
            add_record(value[0], rows.row, rows, fields)
        else:
            rows.fail("not_json", rows.row)
        if rows.ready and (batch := rows.take()) is not None:
            yield batch
    if not rows.full and source.damage is not None:
        rows.fail(source.damage.reason, source.damage.offset)
        if source.continues():
            raise SourceError(
                (
                    f"{source.damage.reason} at byte {source.damage.offset}: an array cannot be "
                    "read beyond that"
                ),
                "damaged",
            )
    elif not rows.full and mark != "]":
        rows.fail("truncated", rows.row)
    if (batch := rows.take()) is not None:
        yield batch


def _element(source: _TextBuffer, rows: RowCollector, fields: Fields) -> tuple[Any] | None:
    """Return the next element, in a tuple; None: the file ends inside it. Raises SourceError."""
    most = 2 * fields.max_document_bytes
    while True:
        held = len(source.text) - source.at
        if (
            held > most // 8
            and source.text.count("[", source.at) + source.text.count("{", source.at)
            > MOST_VALUES // 2
        ):
            raise SourceError(
                f"element {rows.row:,} of the array has too many values: write one object a "
                "line (JSONL)"
            )
        try:
            value, end = _decode(source.text, source.at)
            if end < len(source.text) or source.ended:  # a number may continue in the next piece
                source.at = end
                return (value,)
        except RecursionError:
            raise SourceError(f"element {rows.row:,} of the array is nested too deeply") from None
        except ValueError:
            if held > most:
                raise SourceError(
                    f"element {rows.row:,} of the array is not JSON, or is longer than {most:,} "
                    "characters"
                ) from None
        if source.ended:
            if source.damage is None and source.text.rstrip().endswith("]"):
                raise SourceError(f"element {rows.row:,} of the array is not JSON")
            return None
        source.more()


def detect(head: Head, fields: Fields) -> bool:
    """Return whether a shard is an array of objects."""
    stripped = head.start.lstrip()
    if not _OBJECTS.match(stripped):
        return False
    inside = stripped[1:].lstrip()
    return inside.startswith(b"]") or bool(OBJECT.match(inside[:BEGIN]))


JSON = SourceFormat(
    name="json",
    recognised="`[` and an object",
    row="an element",
    read=read,
    detect=detect,
    order=50,
    suffixes={"json": "JSON"},
    lines=True,
)
