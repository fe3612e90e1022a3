"""A JSON array of objects, element by element: an object is a document, as a line of JSONL is.

Memory is the element under way. An array has no lines to go on at: what is no JSON in its middle
ends it, with an error, and not with a row. `value` of a row that fails is its number.
"""

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.source.lines import BYTE_ORDER_MARK, MOST_VALUES, give
from gristmill.source.rows import Fields, Rows
from gristmill.store.codecs import Damage

_SPACE = " \t\r\n"
_decode = json.JSONDecoder().raw_decode


class _Text:
    """The characters that are not read yet."""

    def __init__(self, pieces: Iterable[bytes | Damage]) -> None:
        self._pieces = iter(pieces)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        self.at = 0
        self.ended = False
        self.damage: Damage | None = None

    def more(self) -> bool:
        """Read as much as is held, at least a piece; False at the end, or at damage."""
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
        """Step over characters; the next one, empty at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in characters:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def goes_on(self) -> bool:
        """Whether bytes follow the damage."""
        return any(isinstance(piece, bytes) and piece.strip() for piece in self._pieces)


def read(pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Read the elements of a shard. Raises SourceError where one is no JSON."""
    source = _Text(pieces)
    source.skip(_SPACE + BYTE_ORDER_MARK.decode())
    source.at += 1  # the bracket
    while not rows.full:
        mark = source.skip(_SPACE + ",")
        if mark == "]":
            source.at += 1
            if source.skip(_SPACE):
                raise SourceError(
                    f"behind the array, of {rows.row:,} elements, stands something else: "
                    "write an object a line (JSONL)"
                )
            break
        value = _element(source, rows, fields) if mark else None
        if value is None:
            break
        if isinstance(value[0], dict):
            give(value[0], rows.row, rows, fields)
        else:
            rows.fail("not_json", rows.row)
        if rows.ready and (batch := rows.take()) is not None:
            yield batch
    if not rows.full and source.damage is not None:
        rows.fail(source.damage.reason, source.damage.offset)
        if source.goes_on():
            raise SourceError(
                (
                    f"{source.damage.reason} at byte {source.damage.offset}: an array cannot be "
                    "read behind that"
                ),
                "damaged",
            )
    elif not rows.full and mark != "]":
        rows.fail("truncated", rows.row)
    if (batch := rows.take()) is not None:
        yield batch


def _element(source: _Text, rows: Rows, fields: Fields) -> tuple[Any] | None:
    """The next element; None where the end cuts it."""
    most = 2 * fields.max_document_bytes
    while True:
        held = len(source.text) - source.at
        if (
            held > most // 8
            and source.text.count("[", source.at) + source.text.count("{", source.at)
            > MOST_VALUES // 2
        ):
            raise SourceError(
                f"element {rows.row:,} of the array holds too many values: write an object a "
                "line (JSONL)"
            )
        try:
            value, end = _decode(source.text, source.at)
            if end < len(source.text) or source.ended:  # a number may go on
                source.at = end
                return (value,)
        except RecursionError:
            raise SourceError(f"element {rows.row:,} of the array is nested too deep") from None
        except ValueError:
            if held > most:
                raise SourceError(
                    f"element {rows.row:,} of the array is no JSON, or longer than {most:,} "
                    "characters"
                ) from None
        if source.ended:
            if source.damage is None and source.text.rstrip().endswith("]"):
                raise SourceError(f"element {rows.row:,} of the array is no JSON")
            return None
        source.more()
