"""Columnar tables: a row is a document. Parquet is read here, Arrow's own formats in arrow_ipc.py.

Columns other than text and URL are stored in `extra` as JSON.

The size of a batch is limited by bytes, not by rows. A value that a dictionary holds once and a
thousand rows name counts a thousand times.
"""

import os
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import SourceError
from gristmill.source.ill_formed import in_words
from gristmill.source.rows import BATCH_BYTES, Fields, RowCollector, to_extra
from gristmill.source.source_format import Head, SourceFormat
from gristmill.source.tables import parquet_pages
from gristmill.store.codecs import BOMB_BYTES, BOMB_RATIO
from gristmill.tables.columns import utf8_buffers

READ_ROWS = 1024  # rows decoded at a time, at most
READ_BYTES = 16 << 20  # bytes decoded at a time, about


class BombCheck:
    """The bytes of rows, decompressed, against the bytes that were read for them."""

    def __init__(self, read: int = 0) -> None:
        """`read`: bytes that were read so far."""
        self.read = read
        self._given = 0

    def add(self, size: int) -> None:
        """Count the bytes of rows. Raises SourceError if they are a decompression bomb."""
        self._given += size
        if self._given > BOMB_BYTES and self._given > BOMB_RATIO * self.read:
            raise SourceError(
                (
                    f"a decompression bomb: {self._given:,} bytes of rows out of {self.read:,}, "
                    f"more than {BOMB_RATIO} times as many"
                ),
                "too-large",
            )


def read(path: str, rows: RowCollector, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Read the rows of a Parquet file. `value` of a failed row is its row number.

    Raises SourceError if the file is damaged, has no column for the text, or a page or dictionary
    over the limits.
    """
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            check_column(file.schema_arrow, fields)
            metadata = file.metadata
        bound = BombCheck(os.path.getsize(path))
        for batch in _batches(path, metadata):
            yield from add_batch(batch, rows, fields, bound)
            if rows.full:
                break
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"not a readable Parquet file: {error}", "damaged") from error
    if (last := rows.take()) is not None:
        yield last


def _batches(path: str, metadata: pq.FileMetaData) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches of limited memory."""
    counts = parquet_pages.count_rows(path, metadata, READ_ROWS, READ_BYTES)
    with pq.ParquetFile(
        path,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=1 << 20,
        page_checksum_verification=True,  # where the writer has put them
    ) as file:
        for group, most in enumerate(counts):
            rows = metadata.row_group(group).num_rows
            most = max(1, -(-rows // max(1, -(-rows // most))))  # as many rows in each batch
            batches = file.iter_batches(most, row_groups=[group], use_threads=False)
            yield from _join_small(batches)


def _join_small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of up to READ_ROWS rows or about READ_BYTES: each costs some milliseconds."""
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if small and (rows + len(batch) > READ_ROWS or size >= READ_BYTES):
            yield pa.concat_batches(small)
            small, rows, size = [], 0, 0
        small.append(batch)
        rows += len(batch)
        size += batch.nbytes
    if small:
        yield pa.concat_batches(small)


def check_column(schema: pa.Schema, fields: Fields) -> None:
    """Check the columns of a table.

    Raises SourceError if there is no column for the text, or one of a type whose rows have no limit
    in size.
    """
    if not _has_field(schema, fields.text):
        raise SourceError(
            f"no column {fields.text!r}; there are {', '.join(schema.names)}. "
            "Name the column with the text in the recipe: text = ..."
        )
    for field in schema:
        if pa.types.is_run_end_encoded(field.type) or pa.types.is_union(field.type):
            raise SourceError(
                f"column {field.name!r} has the type {field.type}: write it as plain values"
            )


def _has_field(fields: pa.Schema | pa.StructType, name: str) -> bool:
    """Return whether there is a field of this name, or at this path, as `doc.text`."""
    names = [field.name for field in fields]
    first, dot, rest = name.partition(".")
    if name in names or not dot or first not in names:
        return name in names
    kind = fields.field(first).type
    return bool(pa.types.is_struct(kind)) and _has_field(kind, rest)


def _take(columns: dict[str, pa.Array], name: str) -> pa.Array | None:
    """Take a column out of those of a table: of this name, or at this path; None: there is none."""
    first, _, rest = name.partition(".")
    if name in columns or not rest or first not in columns:
        return columns.pop(name, None)
    outer = columns[first]
    if not pa.types.is_struct(outer.type):
        return None
    names = [field.name for field in outer.type]
    inner = dict(zip(names, map(_storage, outer.flatten()), strict=True))
    column = _take(inner, rest)
    if inner:
        columns[first] = pa.StructArray.from_arrays(
            list(inner.values()), list(inner), mask=outer.is_null()
        )
    else:
        del columns[first]
    return column


def add_batch(
    batch: pa.RecordBatch, rows: RowCollector, fields: Fields, bound: BombCheck
) -> Iterator[pa.RecordBatch]:
    """Add the rows of a batch, a few megabytes at a time."""
    for start in range(0, len(batch), READ_ROWS):
        for part, weight in _parts(batch.slice(start, READ_ROWS)):
            if rows.left is not None:
                part = part.slice(0, rows.left)
            bound.add(weight)
            if weight > 4 * READ_BYTES + 2 * fields.max_document_bytes:
                rows.fail("too_large", rows.row)  # one row
                continue
            for piece in _pieces(part, fields):
                rows.extend(*piece)
                if rows.ready and (ready := rows.take()) is not None:
                    yield ready
            if rows.full:
                return


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield a batch, halved until each part is small or one row; with the size of each part in
    bytes.
    """
    weight = sum(_weight(column) for column in batch.columns)
    if weight <= READ_BYTES or len(batch) <= 1:
        yield batch, weight
        return
    middle = len(batch) // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))


def _weight(column: pa.Array) -> int:
    """Return the bytes of a column's values. A value of a dictionary or a view counts as often as
    it is used.
    """
    column = _storage(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = column.dictionary
        each = pc.binary_length(values) if _is_binary(values.type) else None
        if each is None:
            return len(column) * (_weight(values) // max(len(values), 1) + 1)
        return int(pc.sum(pc.take(each.cast(pa.int64()), column.indices)).as_py() or 0)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)[
            column.offset : column.offset + len(column), 0
        ]
        return int(np.maximum(views, 0).sum(dtype=np.int64))
    if pa.types.is_map(kind):
        first, stop = column.offsets[0].as_py() or 0, column.offsets[-1].as_py() or 0
        return _weight(column.keys.slice(first, stop - first)) + _weight(
            column.items.slice(first, stop - first)
        )
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        named = int(pc.sum(pc.list_value_length(column).cast(pa.int64())).as_py() or 0)
        return named * (_weight(column.values) // max(len(column.values), 1) + 1)
    if pa.types.is_nested(kind):
        inner = column.flatten()
        return sum(map(_weight, inner)) if pa.types.is_struct(kind) else _weight(inner)
    return int(column.nbytes)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
    )


def _pieces(
    batch: pa.RecordBatch, fields: Fields
) -> Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array]]:
    """Yield a batch in pieces of BATCH_BYTES of text or more, less than twice that and a row: texts
    (null: not readable), urls, extras, reasons.

    A piece is a batch of documents by itself, so that no text is copied to be put beside others.
    """
    # Of columns with the same name the last one.
    columns = {
        name: _storage(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    column = _take(columns, fields.text)
    texts = None if column is None else _as_large_binary(column)
    if texts is None:
        texts = pa.nulls(len(batch), pa.large_binary())
    urls = pa.nulls(len(batch), pa.string())
    kept = dict(columns)
    column = _take(columns, fields.url)
    if column is not None and _is_text(_kind(column)):
        urls = _strings(column)
    else:
        columns = kept
    extras = _extras(columns, len(batch))
    sizes = pc.binary_length(texts).fill_null(0)
    if texts.null_count or (pc.max(sizes).as_py() or 0) > fields.max_document_bytes:
        too_large = pc.greater(sizes, fields.max_document_bytes)
        reasons = pc.if_else(
            too_large, "read.too_large", pc.if_else(pc.is_null(texts), "read.no_text", None)
        ).cast(pa.string())
        failed = pc.is_valid(reasons)
        texts, extras = pc.if_else(failed, None, texts), pc.if_else(failed, None, extras)
        sizes = pc.if_else(failed, 0, sizes)
    else:  # without copies of the texts
        reasons = pa.nulls(len(batch), pa.string())
    ends = np.cumsum(sizes.to_numpy())
    total = int(ends[-1]) if len(ends) else 0
    each = total // max(1, total // BATCH_BYTES)
    start = 0
    while start < len(batch):
        before = int(ends[start - 1]) if start else 0
        last = before + each >= total or not each
        stop = len(batch) if last else int(np.searchsorted(ends, before + each)) + 1
        size = stop - start
        yield (
            texts.slice(start, size),
            urls.slice(start, size),
            extras.slice(start, size),
            reasons.slice(start, size),
        )
        start = stop


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _kind(column: pa.Array) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _plain_values(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary. One that names all its values in their order, as where
    each row has its own, is a stretch of the dictionary, which is not copied.
    """
    if not pa.types.is_dictionary(column.type):
        return column
    if len(column) and not column.null_count:
        indices = column.indices.to_numpy()
        if (indices[1:] - indices[:-1] == 1).all() and 0 <= indices[0] <= indices[-1] < len(
            column.dictionary
        ):
            return column.dictionary.slice(int(indices[0]), len(column))
    return column.cast(column.type.value_type)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_large_string(kind) or pa.types.is_string(kind) or pa.types.is_string_view(kind)
    )


def _as_large_binary(column: pa.Array) -> pa.Array | None:
    """Return a column of strings or bytes as large_binary; None: it has another type."""
    kind = _kind(column)
    column = _plain_values(column)
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    elif not (
        _is_text(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        return None
    return column.cast(pa.large_binary())


def _strings(column: pa.Array) -> pa.Array:
    """Return a column of strings, which may be ill-formed, as string."""
    data = _plain_values(column).cast(pa.large_binary())
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [value and value.decode("utf-8", "replace") for value in data.to_pylist()], pa.string()
        )


def _extras(columns: dict[str, pa.Array], rows: int) -> pa.Array:
    """Return columns as JSON, (n,) string; null: the row has no value in any of them."""
    if not columns:
        return pa.nulls(rows, pa.string())
    if (joined := _joined(columns, rows)) is not None:
        return joined
    names = list(columns)
    plain = _plain(pa.RecordBatch.from_arrays(list(columns.values()), names=names))
    values = zip(*map(_values, plain.columns), strict=True)
    known = [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in values
    ]
    return pa.array([to_extra(record) for record in known], pa.string())


def _values(column: pa.Array) -> list[object]:
    """Return a column's values; numbers that JSON does not have as words."""
    values = column.to_pylist()
    return values if _is_finite(column) else [in_words(value) for value in values]


def _is_finite(column: pa.Array) -> bool:
    """Return whether JSON has all numbers of a column: it has no NaN and no infinity."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.all(pc.is_finite(column.cast(pa.float64()))).as_py() is not False
    if pa.types.is_dictionary(kind):
        return _is_finite(column.dictionary)
    if pa.types.is_map(kind):
        return _is_finite(column.keys) and _is_finite(column.items)
    if pa.types.is_struct(kind):
        return all(map(_is_finite, column.flatten()))
    return not pa.types.is_nested(kind) or _is_finite(column.flatten())


def _joined(columns: dict[str, pa.Array], rows: int) -> pa.Array | None:
    """Return the same, of strings without a sign that JSON escapes, whole numbers and booleans;
    None: there are others.
    """
    members: list[tuple[str, pa.Array, str]] = []  # what stands before a value, and behind it
    for name, column in columns.items():
        if column.null_count == rows:
            continue
        kind, quote = _kind(column), ""
        if _is_text(kind):
            values, quote = _strings(column), '"'
            data = utf8_buffers(values.fill_null("") if values.null_count else values)[1]
            if ((data < 0x20) | (data == ord('"')) | (data == ord("\\"))).any():
                return None
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            values = column.cast(kind).cast(pa.string())
        else:
            return None
        start = f"{to_extra({name: 0})[1:-2]}{quote}"  # type: ignore[index]
        members.append((start, values, quote))
    if not members:
        return pa.nulls(rows, pa.string())
    if not any(values.null_count for _, values, _ in members):
        parts: list[pa.Array | str] = ["{"]
        for start, values, quote in members:
            parts += [start, values, f"{quote},"]
        parts[-1] = f"{members[-1][2]}}}"
        return pc.binary_join_element_wise(*parts, "")
    joined = [pc.binary_join_element_wise(*member, "") for member in members]
    empty = reduce(pc.and_, (member.is_null() for member in joined))
    # pyarrow 26 leaves out rows in which there is nothing to join.
    joined[0] = pc.if_else(empty, "", joined[0])
    inner = pc.binary_join_element_wise(*joined, ",", null_handling="skip")
    return pc.if_else(empty, None, pc.binary_join_element_wise("{", inner, "}", ""))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose values Python can represent: ill-formed strings are repaired, and times
    become strings or numbers where necessary.
    """
    columns = []
    for column in batch.columns:
        kind = column.type
        if _is_text(kind):
            column = _strings(column)
        elif pa.types.is_duration(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_temporal(kind) and not _is_representable(column):
            column = _as_text(column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_representable(column: pa.Array) -> bool:
    """Return whether Python can represent each value: it cannot for nanoseconds and for distant
    years.
    """
    try:
        column.to_pylist()
    except (ValueError, OverflowError):
        return False
    return True


def _as_text(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # a year that has no string either
        return column.cast(pa.int64())


def detect(head: Head, fields: Fields) -> bool:
    """Return whether a shard is Parquet."""
    return head.start.startswith(b"PAR1")


PARQUET = SourceFormat(
    name="parquet",
    recognised="`PAR1`",
    row="a row of the table",
    detect=detect,
    order=10,
    read_file=read,
    suffixes={"parquet": "Parquet"},
)
