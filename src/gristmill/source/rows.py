"""Rows gathered to batches: what every format's reader writes into."""

from typing import NamedTuple

import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.schema import MOST_ROWS, RAW, first_document

BATCH_BYTES = 4 << 20  # of text
BATCH_ROWS = 1 << 13
MAX_DOCUMENT_BYTES = 16 << 20


class Fields(NamedTuple):
    """Which fields of a record hold the text and the URL; how long a text and a decoded shard may be, in bytes.

    `pages`: a later step takes the text out of HTML, so that web pages are documents; else they get the verdict `read.not_text`.
    """

    text: str = "text"
    url: str = "url"
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    max_shard_bytes: int = 1 << 40
    pages: bool = False


class Rows:
    """Numbers the rows of one shard and gathers them to batches of RAW.

    Every row that a format counts takes a number: `add` (a document), `fail` (no readable document: it gets a verdict) or
    `skip` (a record that is none: counted only).
    """

    def __init__(self, shard: int, limit: int | None = None) -> None:
        """Start with row 0 of a shard; `full` after `limit` documents."""
        self._first = first_document(shard)
        self._limit = limit
        self.row = 0
        self.documents = 0  # rows with a verdict
        self.skipped: dict[str, int] = {}
        self._columns: tuple[list[object], ...] = tuple([] for _ in RAW.names)
        self._bytes = 0

    def _next(self) -> int:
        if self.row >= MOST_ROWS:
            raise SourceError(f"more than {MOST_ROWS:,} rows in one raw shard: split it")
        self.row += 1
        return self._first + self.row - 1

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self._limit is not None and self.documents >= self._limit

    def add(
        self,
        text: bytes,
        url: str | None = None,
        date: str | None = None,
        record_id: str | None = None,
        declared_language: str | None = None,
        extra: str | None = None,
        content_type: str | None = None,
    ) -> None:
        """A document; its text may be ill-formed UTF-8. A text of type text/html is a page's source."""
        number = self._next()
        self._append((number, text, url, date, record_id, declared_language, content_type, None, extra, None, None))
        self.documents += 1
        self._bytes += len(text)

    def fail(self, reason: str, value: int, url: str | None = None) -> None:
        """A row that is no readable document; `value` is its offset, or what else the format has for the reason."""
        number = self._next()
        self._append((number, b"", url, None, None, None, None, None, None, f"read.{reason}", float(value)))
        self.documents += 1

    def _append(self, values: tuple[object, ...]) -> None:
        """A row's values, in the order of RAW."""
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def skip(self, what: str) -> None:
        """A record that is no document."""
        self._next()
        self.skipped[what] = self.skipped.get(what, 0) + 1

    @property
    def ready(self) -> bool:
        """Whether a batch is due."""
        return self._bytes >= BATCH_BYTES or len(self._columns[0]) >= BATCH_ROWS

    def take(self) -> pa.RecordBatch | None:
        """The rows gathered so far as a batch; None where there are none."""
        if not self._columns[0]:
            return None
        columns = []
        for field, values in zip(RAW, self._columns, strict=True):
            columns.append(_texts(values) if field.name == "text" else pa.array(values, field.type))
            values.clear()
        self._bytes = 0
        return pa.RecordBatch.from_arrays(columns, schema=RAW)


def _texts(values: list[object]) -> pa.Array:
    """Bytes as strings: what is ill-formed becomes U+FFFD, one for each maximal ill-formed part."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in values], pa.string())  # type: ignore[attr-defined]
