"""Collects rows into batches: the reader of every format adds its rows here."""

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import SourceError
from gristmill.source.ill_formed import MARKED, marks
from gristmill.tables.columns import utf8_buffers, well_formed
from gristmill.tables.schema import MOST_ROWS, RAW, first_document

BATCH_BYTES = 2 << 20  # of text
BATCH_ROWS = 1 << 13
MAX_DOCUMENT_BYTES = 16 << 20
_encode = msgspec.json.Encoder().encode
REPLACED = "replaced"  # the count of documents in which ill-formed parts were replaced


class Fields(NamedTuple):
    """The names of a record's fields of text and URL, and limits in bytes: of a text, and of a
    decoded shard.

    A text of nothing but white space gets the verdict `read.empty`, unless `keep_empty` is true.
    `pages`: web pages are documents, because a later step extracts their text. Otherwise they get
    the verdict `read.not_text`.
    """

    text: str = "text"
    url: str = "url"
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    max_shard_bytes: int = 1 << 40
    pages: bool = False
    keep_empty: bool = True  # a text of nothing but white space is a document
    # Of a text's characters: more that were put in place of ill-formed UTF-8 make it unreadable.
    # Null: they are only counted.
    max_replaced: float | None = None
    keep_truncated: bool = True  # records that the crawler cut off, as their heads say
    # Names and values that the path of the shard has, as lang=en/ of Hive, for the column `extra`.
    columns: tuple[tuple[str, str], ...] = ()


class RowCollector:
    """Numbers the rows of one shard and collects them into batches of RAW.

    Every row takes a number: `add` (a document), `fail` (not a readable document: it gets a
    verdict), `skip` (not a document at all: only counted), and `extend` (many rows).
    """

    def __init__(
        self,
        shard: int,
        limit: int | None = None,
        max_replaced: float | None = None,
        first_row: int = 0,
    ) -> None:
        """Begin at a row of a shard. After `limit` documents `full` is true; None: no limit.
        `max_replaced`: as of Fields.
        """
        self._max_replaced = max_replaced
        self._first = first_document(shard)
        self._limit = limit
        self.row = first_row
        self.documents = 0  # rows with a verdict
        self.skipped: dict[str, int] = {}
        self.decoding: dict[str, int] = {}  # documents by what was unusual in decoding them
        self._columns: tuple[list[object], ...] = tuple([] for _ in RAW.names)
        self._pieces: list[pa.RecordBatch] = []  # the rows before those in _columns
        self._rows = self._bytes = 0

    def _next(self, count: int = 1) -> int:
        """Take `count` numbers; returns the first of them."""
        if self.row + count > MOST_ROWS:
            raise SourceError(
                f"more than {MOST_ROWS:,} rows in one raw shard: split the file", "too-large"
            )
        self.row += count
        return self._first + self.row - count

    @property
    def left(self) -> int | None:
        """Return how many documents there may be before the limit; None: there is no limit."""
        return None if self._limit is None else self._limit - self.documents

    @property
    def full(self) -> bool:
        """Return whether the limit is reached."""
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
        *,
        replaced: int = 0,
        as_it_is: bool = False,
    ) -> None:
        """Add a document. Its text may be ill-formed UTF-8; a text of type text/html is the source
        of a page. `replaced`: U+FFFD in it that stand for ill-formed parts; `as_it_is`: however
        many there are.
        """
        if not text.isascii():
            text, parts = _repaired(text)
            replaced += parts
        if replaced:
            self.note(REPLACED)
            share = replaced / len(text.decode())
            if not as_it_is and self._max_replaced is not None and share > self._max_replaced:
                self.fail("not_utf8", share, url)
                return
        number = self._next()
        self._append(
            (
                number,
                text,
                url,
                date,
                record_id,
                declared_language,
                content_type,
                None,
                extra,
                None,
                None,
            )
        )
        self.documents += 1
        self._bytes += len(text) + len(extra or "")

    def fail(self, reason: str, value: float, url: str | None = None) -> None:
        """Add a row that is not a readable document; `value` is its offset, or another number that
        belongs to the reason.
        """
        number = self._next()
        self._append(
            (number, b"", url, None, None, None, None, None, None, f"read.{reason}", float(value))
        )
        self.documents += 1

    def extend(self, texts: pa.Array, urls: pa.Array, extras: pa.Array, reasons: pa.Array) -> None:
        """Add n rows: texts (large_binary, may be ill-formed), urls, extras, and reasons (`read.*`
        for a row that is not a readable document).

        `value` of such a row is its number: columnar formats have no offset for it.
        """
        self._pack()
        texts, reasons = self._without_ill_formed(texts, reasons)
        count = len(texts)
        first = self._next(count)
        document = pa.array(np.arange(first, first + count))
        value = pa.nulls(count, pa.float64())
        if reasons.null_count < count:
            numbers = pc.subtract(document, self._first).cast(pa.float64())
            value = pc.if_else(pc.is_null(reasons), None, numbers)
        given = {
            "document": document,
            "text": texts.fill_null(b"").cast(pa.string()),
            "url": urls,
            "extra": extras,
            "reason": reasons,
            "value": value,
        }
        columns = [given.get(field.name, pa.nulls(count, field.type)) for field in RAW]
        self._pieces.append(pa.RecordBatch.from_arrays(columns, schema=RAW))
        self.documents += count
        self._rows += count
        self._bytes += sum(
            pc.sum(pc.binary_length(column)).as_py() or 0 for column in (texts, extras)
        )

    def _without_ill_formed(self, texts: pa.Array, reasons: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return texts with ill-formed parts replaced, and reasons; null for one with too many."""
        try:
            texts.cast(pa.large_string()).validate(full=True)
            return texts, reasons
        except pa.ArrowInvalid:
            pass
        values, said = texts.to_pylist(), reasons.to_pylist()
        for place, value in enumerate(values):
            if value is None or value.isascii():
                continue
            values[place], parts = _repaired(value)
            if parts:
                self.note(REPLACED)
            if self._max_replaced is not None and parts > self._max_replaced * len(
                values[place].decode()
            ):
                values[place], said[place] = None, "read.not_utf8"
        return pa.array(values, pa.large_binary()), pa.array(said, pa.string())

    def extend_records(
        self, places: np.ndarray, count: int, columns: dict[str, pa.Array], skipped: list[str]
    ) -> None:
        """Add `count` records of an archive, of which those at `places` (n,) int64 are documents:
        their columns of RAW, (n,) each. The others are counted as `skipped`, by their types.
        """
        self._pack()
        first = self._next(count)
        for what in skipped:
            self.skipped[what] = self.skipped.get(what, 0) + 1
        if not len(places):
            return
        given = {"document": pa.array(places + first), **columns}
        self._pieces.append(
            pa.RecordBatch.from_arrays(
                [given.get(field.name, pa.nulls(len(places), field.type)) for field in RAW],
                schema=RAW,
            )
        )
        self.documents += len(places)
        self._rows += len(places)
        self._bytes += columns["text"].nbytes

    def _append(self, values: tuple[object, ...]) -> None:
        """Add the values of a row, in the order of RAW."""
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        self._rows += 1

    def skip(self, what: str) -> None:
        """Count a record that is not a document."""
        self._next()
        self.skipped[what] = self.skipped.get(what, 0) + 1

    def note(self, what: str) -> None:
        """Count what was unusual in decoding a document."""
        self.decoding[what] = self.decoding.get(what, 0) + 1

    @property
    def ready(self) -> bool:
        """Return whether there is enough for a batch."""
        return self._bytes >= BATCH_BYTES or self._rows >= BATCH_ROWS

    def take(self) -> pa.RecordBatch | None:
        """Return the rows that were added since the last call, as a batch; None: there are none."""
        self._pack()
        pieces, self._pieces = self._pieces, []
        self._rows = self._bytes = 0
        if len(pieces) > 1:
            return pa.Table.from_batches(pieces, RAW).combine_chunks().to_batches()[0]
        return pieces[0] if pieces else None

    def _pack(self) -> None:
        """Make a record batch of the rows that were added one by one."""
        if self._columns[0]:
            columns = []
            for field, values in zip(RAW, self._columns, strict=True):
                is_text = field.name == "text"  # well-formed by now
                column = pa.array(values, pa.binary() if is_text else field.type)
                columns.append(column.cast(pa.string()) if is_text else column)
                values.clear()
            self._pieces.append(pa.RecordBatch.from_arrays(columns, schema=RAW))


def without_empty(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of RAW whose texts of nothing but white space, as Unicode has it, are no
    documents: `read.empty`, with the row's number as value.
    """
    offsets, data = utf8_buffers(batch["text"])
    may = np.diff(offsets) == 0
    if len(data):
        may |= _SPACE[data[np.minimum(offsets[:-1], len(data) - 1)]]
    rows = np.flatnonzero(may)
    if not len(rows):
        return batch
    texts = batch["text"].take(pa.array(rows)).to_pylist()
    blank = np.zeros(len(batch), bool)
    blank[rows] = [text is not None and not text.strip() for text in texts]
    hit = pc.and_(pa.array(blank), pc.is_null(batch["reason"]))
    if not pc.any(hit).as_py():
        return batch
    number = pc.bit_wise_and(batch["document"], MOST_ROWS - 1).cast(pa.float64())
    new = {"text": pa.scalar(""), "reason": pa.scalar("read.empty"), "value": number}
    columns = [
        pc.if_else(hit, new[name], batch[name]) if name in new else batch[name]
        for name in batch.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


# Whether a text that begins with this byte may be white space alone.
_SPACE = np.zeros(256, bool)
_SPACE[[*range(9, 14), *range(28, 33), 0xC2, 0xE1, 0xE2, 0xE3]] = True


def _repaired(text: bytes) -> tuple[bytes, int]:
    """UTF-8 with U+FFFD in place of each maximal ill-formed part, and how many there are."""
    try:
        text.decode()
    except UnicodeDecodeError:
        marked = text.decode("utf-8", MARKED)
        return well_formed(marked).encode(), marks(marked)
    return text, 0


def to_extra(record: dict[str, Any]) -> str | None:
    """Return the other fields of a record as one JSON string; None: there are none."""
    if not record:
        return None
    try:
        return _encode(record).decode()
    except (UnicodeEncodeError, TypeError, ValueError):
        return _encode(_plain(record)).decode()


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: surrogates are replaced, other types become strings."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(str(key)): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return well_formed(str(value))
