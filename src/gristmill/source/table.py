"""Parquet: a row is a document. Columns other than text and URL rest in `extra` as JSON."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import SourceError
from gristmill.source.lines import to_extra
from gristmill.source.rows import BATCH_BYTES, Fields, Rows

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
                if rows.left is not None:
                    batch = batch.slice(0, rows.left)
                for piece in _pieces(batch, fields):
                    rows.extend(*piece)
                    if rows.ready and (ready := rows.take()) is not None:
                        yield ready
                if rows.full:
                    break
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"no readable Parquet file: {error}", "damaged") from error
    if (last := rows.take()) is not None:
        yield last


def _pieces(batch: pa.RecordBatch, fields: Fields) -> Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array]]:
    """A batch in pieces of no more bytes than a batch of documents has: texts (null: none that can be read), urls, extras, reasons."""
    columns = {
        name: _storage(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }  # of equal names the last
    texts = _bytes_of(columns.pop(fields.text))
    if texts is None:
        texts = pa.nulls(len(batch), pa.large_binary())
    urls = pa.nulls(len(batch), pa.string())
    if fields.url in columns and _is_text(_kind(columns[fields.url])):
        urls = _strings(columns.pop(fields.url))
    extras = _extras(columns, len(batch))
    sizes = pc.binary_length(texts).fill_null(0)
    too_large = pc.greater(sizes, fields.max_document_bytes)
    reasons = pc.if_else(too_large, "read.too_large", pc.if_else(pc.is_null(texts), "read.no_text", None)).cast(
        pa.string()
    )
    failed = pc.is_valid(reasons)
    texts, extras = pc.if_else(failed, None, texts), pc.if_else(failed, None, extras)
    ends = np.cumsum(pc.if_else(failed, 0, sizes).to_numpy())
    start = 0
    while start < len(batch):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BATCH_BYTES, "right")))
        size = stop - start
        yield texts.slice(start, size), urls.slice(start, size), extras.slice(start, size), reasons.slice(start, size)
        start = stop


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _kind(column: pa.Array) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_string(kind) or pa.types.is_string_view(kind))


def _bytes_of(column: pa.Array) -> pa.Array | None:
    """A column of strings or bytes as large_binary; None where it is neither."""
    kind = _kind(column)
    column = column.cast(kind)
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    elif not (
        _is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    ):
        return None
    return column.cast(pa.large_binary())


def _strings(column: pa.Array) -> pa.Array:
    """A column of strings, which may be ill-formed, as string."""
    data = column.cast(_kind(column)).cast(pa.large_binary())
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value and value.decode("utf-8", "replace") for value in data.to_pylist()], pa.string())


def _extras(columns: dict[str, pa.Array], rows: int) -> pa.Array:
    """Columns as JSON, (n,) string; null where a row has no value in any."""
    if not columns:
        return pa.nulls(rows, pa.string())
    records = _plain(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))).to_pylist()
    known = [{name: value for name, value in record.items() if value is not None} for record in records]
    return pa.array([to_extra(record) for record in known], pa.string())


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch that Python has values for: ill-formed strings made well, times as strings or numbers."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if _is_text(kind):
            column = _strings(column)
        elif pa.types.is_duration(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_temporal(kind) and not _has_values(column):
            column = _as_text(column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


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
