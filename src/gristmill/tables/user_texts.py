"""Texts that a user gives in Python, as Arrow columns; and what is kept of them, in the form in
which they were given.

    str                                      one text
    list, tuple, generator, numpy array      a text or None in each place
    pyarrow Array, ChunkedArray              of string, large_string, string_view, dictionary
    pandas Series, Polars Series
    pyarrow Table, RecordBatch, DataFrames   a column of texts and others (`TABLE_COLUMNS`)
    Hugging Face Dataset, IterableDataset
    DuckDB relation
    a dict of lists                          a batch of `Dataset.map`

Lone surrogates become U+FFFD, as in JSON that a run reads. No package is imported for its types.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import ArgumentError
from gristmill.tables.columns import well_formed

SLICE = 4 << 20  # bytes of text in one batch, unless one text is longer
ROWS = 1 << 16  # rows of a batch, at most
STREAMED = 1000  # texts that are taken from a generator at a time
# Columns of a table that steps read besides the text.
TABLE_COLUMNS = ("url", "date", "record_id", "declared_language", "content_type", "title", "extra")
EXPECTED = (
    "expected a string, a list of strings, a column of strings (Arrow, pandas, Polars, numpy), or "
    "a table with such a column (also of Hugging Face datasets and DuckDB)"
)


def value_package(value: Any) -> str:
    """Return the package that a value's type is from."""
    return type(value).__module__.partition(".")[0].lstrip("_")


def is_dataset(given: Any) -> bool:
    """Return whether it is a Hugging Face Dataset or IterableDataset."""
    return value_package(given) == "datasets" and hasattr(given, "with_format")


def is_stream(given: Any) -> bool:
    """Return whether it can be read only once: a generator, a map, an open file."""
    return isinstance(given, Iterator)


def is_table(given: Any) -> bool:
    """Return whether it has named columns."""
    return (
        isinstance(given, pa.Table | pa.RecordBatch | Mapping)
        or (value_package(given) in ("pandas", "polars") and hasattr(type(given), "columns"))
        or value_package(given) == "duckdb"
    )


def to_table(given: Any, text: str = "text") -> pa.Table:
    """Return what is given as a table: `text` (string types, with nulls), and what else steps read.

    `text` names the column of texts where a table is given. Raises ArgumentError.
    """
    if is_dataset(given):
        return _choose_columns(_dataset_table(given, text), text)
    if is_table(given):
        return _choose_columns(_arrow_table(given, text), text)
    return pa.table({"text": _checked(_column(given))})


def slice_batches(table: pa.Table) -> Iterator[pa.Table]:
    """Yield a table of `to_table` in slices of a few MB of text; `text` is one string array in
    each, the others as well.
    """
    start = 0
    for chunk in table["text"].chunks:
        sizes = pc.fill_null(pc.binary_length(chunk), 0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(sizes, dtype=np.int64)
        at = 0
        while at < len(chunk):
            base = int(ends[at - 1]) if at else 0
            stop = max(int(np.searchsorted(ends, base + SLICE, "right")), at + 1)
            stop = min(stop, at + ROWS)
            yield _one_chunk(table.slice(start + at, stop - at))
            at = stop
        start += len(chunk)


def streamed(given: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield the values of a stream, some at a time."""
    while part := list(islice(given, STREAMED)):
        yield part


def select_kept(given: Any, kept: np.ndarray, texts: pa.ChunkedArray, text: str = "text") -> Any:
    """Return what is kept of what was given, in its form: `kept` (n,) bool, `texts` those that are
    kept, as they are now.
    """
    if isinstance(given, str):
        return texts[0].as_py() if kept[0] else None
    if isinstance(given, Mapping):
        rows = np.flatnonzero(kept).tolist()
        left = {name: [values[row] for row in rows] for name, values in given.items()}
        return left | {text: texts.to_pylist()}
    if isinstance(given, pa.Array | pa.ChunkedArray):
        column = texts.cast(given.type) if not _is_dictionary(given.type) else texts
        return column if isinstance(given, pa.ChunkedArray) else _combined(column)
    if value_package(given) in ("pandas", "polars"):
        return _filter_frame(given, kept, texts, text)
    if is_table(given):
        return _filter_table(_arrow_table(given, text), kept, texts, text)
    if isinstance(given, np.ndarray):
        return np.array(texts.to_pylist(), given.dtype if given.dtype == object else None)
    return texts.to_pylist()


def _column(given: Any) -> pa.ChunkedArray | pa.Array:
    """Return one column of what is no table. Raises ArgumentError."""
    if isinstance(given, str):
        return pa.array([well_formed(given)], pa.string())
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given
    if isinstance(given, bytes | bytearray | memoryview):
        raise ArgumentError("texts: bytes were given: decode them, as in data.decode('utf-8')")
    if value_package(given) == "pandas" and hasattr(given, "to_numpy"):
        return _strings(given.to_numpy(dtype=object))
    if hasattr(given, "__arrow_c_stream__"):
        return pa.chunked_array(given)
    if hasattr(given, "__arrow_c_array__"):
        return pa.array(given)
    if isinstance(given, np.ndarray):
        if given.ndim != 1:
            raise ArgumentError(f"texts: an array of {given.ndim} dimensions: expected one")
        return _strings(given.astype(object))
    if isinstance(given, Iterable):
        return _strings(given if isinstance(given, list | tuple) else list(given))
    raise ArgumentError(f"texts: a {type(given).__name__} was given: {EXPECTED}")


def _strings(values: Any) -> pa.Array | pa.ChunkedArray:
    """Return a list or an array of objects as a column; None and NaN are nulls."""
    if bytes in set(map(type, values)):  # Arrow would take them for UTF-8
        place = next(place for place, value in enumerate(values) if type(value) is bytes)
        raise ArgumentError(f"texts[{place}] is bytes: decode it, as in data.decode('utf-8')")
    try:
        return pa.array(values, pa.large_string(), from_pandas=True)
    except UnicodeEncodeError:  # lone surrogates
        whole = [well_formed(value) if isinstance(value, str) else value for value in values]
        return pa.array(whole, pa.large_string(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        for place, value in enumerate(values):
            if value is not None and value == value and not isinstance(value, str):  # noqa: PLR0124
                raise ArgumentError(
                    f"texts[{place}] is a {type(value).__name__} ({value!r:.60}): expected a "
                    "string or None"
                ) from error
        raise ArgumentError(f"texts: {error}") from error


def _checked(column: pa.Array | pa.ChunkedArray, name: str = "texts") -> pa.ChunkedArray:
    """Return a column of strings, of types whose lengths can be asked for. Raises ArgumentError."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    kind = column.type
    if _is_dictionary(kind):
        column, kind = column.cast(pa.large_string()), pa.large_string()
    if pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_null(kind):
        column = column.cast(pa.string())
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ArgumentError(f"{name}: a column of {kind} was given: expected strings")
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ArgumentError(f"{name}: not a valid column of strings: {error}") from error
    return column


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_dictionary(kind)
        and (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))
    )


def _arrow_table(given: Any, text: str) -> pa.Table:
    if isinstance(given, Mapping):
        columns = {
            name: _strings([values] if isinstance(values, str) else values)
            for name, values in given.items()
            if name in (text, *TABLE_COLUMNS) and _of_strings(values)
        }
        if text not in columns:
            raise _no_column(text, list(given))
        return pa.table(columns)
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given
    if type(given).__name__ == "LazyFrame":
        raise ArgumentError("texts: a LazyFrame was given: collect() it first")
    if value_package(given) == "pandas":
        try:
            return pa.Table.from_pandas(given, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
            # A column that has no Arrow type, or lone surrogates: take only what is read.
            names = [name for name in given.columns if name in (text, *TABLE_COLUMNS)]
            return pa.table({name: _column(given[name]) for name in names})
    return pa.table(given)


def _of_strings(values: Any) -> bool:
    values = [values] if isinstance(values, str) else values
    first = next((value for value in values if value is not None), "")
    return isinstance(first, str)


def _choose_columns(table: pa.Table, text: str) -> pa.Table:
    """Return the columns that steps read, as strings. Raises ArgumentError."""
    names = table.column_names
    if text not in names:
        if text != "text" or len(names) != 1:
            raise _no_column(text, names)
        text = names[0]
    columns = {"text": _checked(table[text], f"the column {text!r}")}
    for name in TABLE_COLUMNS:
        if name in names and name != text:
            kind = table[name].type
            if not pa.types.is_nested(kind) and not pa.types.is_binary(kind):
                columns[name] = table[name].cast(pa.string())
    if "document" in names and pa.types.is_integer(table["document"].type):
        numbers = table["document"].cast(pa.int64())
        values = numbers.to_numpy() if numbers.null_count == 0 else np.zeros(2)
        if (np.diff(values) > 0).all():
            columns["document"] = numbers
    return pa.table(columns)


def _no_column(text: str, names: list[Any]) -> ArgumentError:
    return ArgumentError(
        f"texts: a table without a column {text!r}: it has {', '.join(map(str, names))}. Say "
        'which one holds the texts, as in text="content"'
    )


def _dataset_table(given: Any, text: str) -> pa.Table:
    """Return the columns of a Hugging Face data set that are read."""
    names = given.column_names
    if names is not None and text in names:
        given = given.select_columns([name for name in names if name in (text, *TABLE_COLUMNS)])
    given = given.with_format("arrow")
    parts = [pa.table(part) for part in given.iter(batch_size=STREAMED)]
    if not parts:
        return pa.table({text: pa.array([], pa.string())})
    return pa.concat_tables(parts, promote_options="permissive")


def _one_chunk(table: pa.Table) -> pa.Table:
    columns = {}
    for name in table.column_names:
        kind = pa.int64() if name == "document" else pa.string()
        columns[name] = _combined(table[name].cast(kind))
    return pa.table(columns)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.array([], column.type)
    )


def _filter_table(table: pa.Table, kept: np.ndarray, texts: pa.ChunkedArray, text: str) -> pa.Table:
    left = table.filter(pa.array(kept))
    name = text if text in table.column_names else table.column_names[0]
    place = table.schema.get_field_index(name)
    kind = table.schema.field(name).type
    return left.set_column(place, name, texts if _is_dictionary(kind) else texts.cast(kind))


def _filter_frame(given: Any, kept: np.ndarray, texts: pa.ChunkedArray, text: str) -> Any:
    """Return what is kept of a Series or DataFrame of pandas (with its index) or Polars."""
    left = given[kept] if value_package(given) == "pandas" else given.filter(kept)
    if value_package(given) == "pandas":
        if hasattr(given, "columns"):
            name = text if text in given.columns else given.columns[0]
            return left.assign(**{name: _like(left[name], texts)})
        return _like(left, texts)
    import polars

    series = polars.Series(texts.to_pylist(), dtype=polars.String)
    if hasattr(given, "columns"):
        name = text if text in given.columns else given.columns[0]
        return left.with_columns(series.alias(name))
    return series.alias(given.name)


def _like(series: Any, texts: pa.ChunkedArray) -> Any:
    """Return a pandas Series of texts with the index, name and type of another one."""
    # A category has no place for a text that was rewritten.
    kind = object if str(series.dtype) == "category" else series.dtype
    return type(series)(texts.to_pylist(), index=series.index, name=series.name, dtype=kind)


def mapped(given: Any, function: Callable[[dict[str, list[Any]]], dict[str, list[Any]]]) -> Any:
    """Return a Hugging Face data set with each batch of rows as a function leaves it."""
    return given.with_format(None).map(function, batched=True, batch_size=STREAMED)
