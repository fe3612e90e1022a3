"""Parquet: a row is a document. Columns other than text and URL rest in `extra` as JSON."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.columns import well_formed
from gristmill.errors import SourceError
from gristmill.source.lines import to_extra
from gristmill.source.rows import Fields, Rows

READ_ROWS = 1024  # rows decoded at a time


def read(path: str, rows: Rows, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Read the rows of a Parquet file. `value` of a row that fails is its row number: Parquet has no offset for it."""
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            if fields.text not in file.schema_arrow.names:
                raise SourceError(
                    f"no column {fields.text!r}; there are {', '.join(file.schema_arrow.names)}. "
                    "Name the one with the text in the recipe: text = ..."
                )
            for batch in file.iter_batches(READ_ROWS):
                texts = {field.name for field in batch.schema if _is_text(field.type)}
                for record in _plain(batch).to_pylist():
                    for name in texts:
                        if name != fields.text and record[name] is not None:
                            record[name] = record[name].decode("utf-8", "replace")
                    _read_row(record, rows, fields)
                    if rows.full:
                        break
                if rows.ready and (ready := rows.take()) is not None:
                    yield ready
                if rows.full:
                    break
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"no readable Parquet file: {error}") from error
    if (last := rows.take()) is not None:
        yield last


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_string(kind))


def _has_values(column: pa.Array) -> bool:
    """Whether Python has a value for each: it has none for nanoseconds and for far years."""
    try:
        column.to_pylist()
    except (ValueError, OverflowError):
        return False
    return True


def _as_text(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # a year that has no name either
        return column.cast(pa.int64())


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch that Python has values for: strings as bytes, which may be ill-formed; times as strings or numbers."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if _is_text(kind):
            column = column.cast(pa.large_binary())
        elif pa.types.is_duration(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_temporal(kind) and not _has_values(column):
            column = _as_text(column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _read_row(record: dict[str, Any], rows: Rows, fields: Fields) -> None:
    text = record.pop(fields.text)
    url = record.pop(fields.url, None)
    if url is not None and not isinstance(url, str):
        record[fields.url], url = url, None
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if not isinstance(data, bytes):
        rows.fail("no_text", rows.row, url)
    elif len(data) > fields.max_document_bytes:
        rows.fail("too_large", rows.row, url)
    else:
        known = {name: value for name, value in record.items() if value is not None}
        rows.add(data, None if url is None else well_formed(url), extra=to_extra(known))
