"""CSV and TSV: a header that names the columns, and one document a row.

Columns other than text and URL are stored in `extra`, as strings.

Quoting is that of RFC 4180. Many TSV files do not quote, and have quotation marks in their texts;
the first rows decide which it is. A row with more or fewer columns than the header gets the verdict
`read.not_csv`; `value` of a failed row is its number, counted from 0 for the header.
"""

import codecs
import csv
from collections.abc import Iterable, Iterator
from typing import Literal

import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.source.ill_formed import MARKED
from gristmill.source.rows import Fields, RowCollector
from gristmill.source.source_format import BYTE_ORDER_MARK, Head, SourceFormat, extension, not_text
from gristmill.source.tables.jsonl import add_record
from gristmill.store.codecs import Damage

LOOK = 1 << 18  # bytes from which the quoting is detected
MOST_ROWS = 100  # rows from which the quoting is detected
Quoting = Literal[0, 3]  # csv.QUOTE_MINIMAL, csv.QUOTE_NONE


class _LostLine(Exception):
    """A line that cannot be read: the reason and the value of its verdict."""


class _LineReader:
    """Lines of text with their ends, up to a length. Iteration can continue after _LostLine."""

    def __init__(self, pieces: Iterable[bytes | Damage], most: int) -> None:
        self._pieces = iter(pieces)
        self._decoder = codecs.getincrementaldecoder("utf-8")(MARKED)
        self._most = most
        self._held: list[
            str | None
        ] = []  # lines, the last one first; None: a line that is too long
        self._rest: list[str] = []  # the start of an unfinished line, up to the limit
        self._size = 0  # characters of the unfinished line
        self._ended = False
        self._damage: Damage | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self._held:
            if self._damage is not None:
                lost, self._damage = self._damage, None
                raise _LostLine(lost.reason, lost.offset)
            if self._ended:
                raise StopIteration
            self._more()
        line = self._held.pop()
        if line is None:
            raise _LostLine("too_large", None)
        return line

    def _more(self) -> None:
        piece = next(self._pieces, None)
        if isinstance(piece, Damage):
            # A line that damage cuts off and the damage itself are one loss.
            self._damage, self._rest, self._size = piece, [], 0
            self._decoder.reset()
            return
        self._ended = piece is None
        *whole, rest = self._decoder.decode(piece or b"", self._ended).split("\n")
        lines = []
        for part in whole:
            lines.append(self._line(part + "\n"))
        self._rest.append(rest)
        self._size += len(rest)
        if self._size > self._most:
            self._rest.clear()
        if self._ended and self._size:
            lines.append(self._line(""))
        self._held = lines[::-1]

    def _line(self, end: str) -> str | None:
        """Return the line with this end; None: it is too long."""
        size, line = self._size + len(end), "".join([*self._rest, end])
        self._rest, self._size = [], 0
        return None if size > self._most else line


def sniff_rows(data: bytes, mark: str, *, ended: bool) -> tuple[list[list[str]], Quoting]:
    """Return the first rows of a table whose columns are separated by `mark`, and their quoting."""
    start = data[:LOOK].removeprefix(BYTE_ORDER_MARK)
    whole = ended and len(data) <= LOOK
    text = (start if whole else start[: start.rfind(b"\n") + 1]).decode("utf-8", "replace")
    if mark not in text:
        return [], csv.QUOTE_MINIMAL
    quoted = _rows(text, mark, csv.QUOTE_MINIMAL, whole=whole)
    if mark == "\t" and '"' in text:
        bare = _rows(text, mark, csv.QUOTE_NONE, whole=whole)
        if _uneven(bare) < _uneven(quoted):
            return bare, csv.QUOTE_NONE
    return quoted, csv.QUOTE_MINIMAL


def _rows(text: str, mark: str, quoting: Quoting, *, whole: bool) -> list[list[str]]:
    """Return the rows of a text, at most MOST_ROWS, without the last one if the text is cut off. No
    rows if its quotation marks are not quoting.
    """
    rows: list[list[str]] = []
    quotes = quoting != csv.QUOTE_NONE
    try:
        for row in csv.reader(_ended(text), delimiter=mark, quoting=quoting, strict=mark == "\t"):
            if row:
                rows.append(row)
            if len(rows) == MOST_ROWS:
                return rows
    except csv.Error as error:
        # In strict mode a quotation that is open at the end is an error; the row that it begins is
        # not among `rows`.
        return rows if "unexpected end" in str(error) and not whole else []
    return rows[:-1] if quotes and not whole and len(rows) > 1 else rows


def _ended(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")]


def _uneven(rows: list[list[str]]) -> float:
    """Return the share of rows whose number of columns differs from the first row's."""
    return sum(len(row) != len(rows[0]) for row in rows) / len(rows) if rows else 1.0


def read_csv(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a CSV file."""
    return _read(pieces, rows, fields, ",")


def read_tsv(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a TSV file."""
    return _read(pieces, rows, fields, "\t")


def _read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields, mark: str
) -> Iterator[pa.RecordBatch]:
    stream = iter(pieces)
    first: list[bytes | Damage] = []
    size = 0
    while size < LOOK and (piece := next(stream, None)) is not None:
        first.append(piece)
        size += 0 if isinstance(piece, Damage) else len(piece)
    head = b"".join(piece for piece in first if isinstance(piece, bytes))
    quoting = sniff_rows(head, mark, ended=size < LOOK)[1]
    # This limit holds for the whole process, so it is only raised.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * fields.max_document_bytes))
    lines = _LineReader(_chained(first, stream), 2 * fields.max_document_bytes)
    names: list[str] | None = None
    while not rows.full:
        reader = csv.reader(lines, delimiter=mark, quoting=quoting)
        try:
            for row in reader:
                if row:
                    row[0] = row[0].removeprefix("\ufeff")  # also where files were joined
                if not row:
                    rows.skip("blank line")
                elif row == names:
                    rows.skip("header")
                elif names is None:
                    names = [name.removeprefix("\ufeff") for name in row]
                    rows.skip("header")
                    _check(names, fields)
                elif len(row) != len(names):
                    rows.fail("not_csv", rows.row)
                else:
                    add_record(dict(zip(names, row, strict=True)), rows.row, rows, fields)
                if rows.full:
                    break
                if rows.ready and (batch := rows.take()) is not None:
                    yield batch
            break
        except _LostLine as lost:
            reason, value = lost.args
            rows.fail(reason, rows.row if value is None else value)
        except csv.Error as error:
            # Over the limit: a quotation mark that is never closed.
            rows.fail("too_large" if "larger" in str(error) else "not_csv", rows.row)
    if (batch := rows.take()) is not None:
        yield batch


def _chained(
    first: list[bytes | Damage], rest: Iterator[bytes | Damage]
) -> Iterator[bytes | Damage]:
    while first:
        yield first.pop(0)
    yield from rest


def _check(names: list[str], fields: Fields) -> None:
    if fields.text not in names:
        raise SourceError(
            f"no column {fields.text!r}; there are {', '.join(names)[:400]}. Name the column "
            "with the text in the recipe: text = ..."
        )


def detect(head: Head, fields: Fields) -> str | None:
    """Return whether a shard is CSV or TSV: the header has the text's column.

    Raises SourceError if it is a table without that column.
    """
    said, text = extension(head.name), fields.text
    for kind, mark in (("tsv", "\t"), ("csv", ",")):
        rows, _ = sniff_rows(head.start, mark, ended=head.ended)
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


CSV = SourceFormat(
    name="csv",
    recognised="a header that names the text column (`text`), and the same number of columns in "
    "nine of ten rows",
    row="a row after the header",
    read=read_csv,
    detect=detect,
    suffixes={"csv": "CSV"},
    lines=True,
)
TSV = SourceFormat(
    name="tsv",
    recognised="as CSV, with tabs",
    row="a row after the header",
    read=read_tsv,
    order=101,
    suffixes={"tsv": "TSV"},
    lines=True,
)
