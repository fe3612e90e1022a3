"""Files of scores that were made elsewhere: Parquet, or JSONL (plain, gzip, zstd, xz, bzip2, lz4).

    document,edu,topic                            a row for each document that was scored
    {"document": 4294967301, "edu": 3.2, "topic": "science"}

    file -> check_columns   which of the wanted columns it has
         -> blocks          keys and values, in bounded memory

A key says which document a row is of, and is two 64-bit numbers:

    document    its number, or `shard:row`; the second is the hash of its URL where the file has a
                column `url`, so that a file of another plan is noticed, else 0
    url         BLAKE2b of the URL, 16 bytes
    text        BLAKE2b of the text's UTF-8, 16 bytes; the file has it as 32 hexadecimal digits

Values are float64: numbers as they are, labels as places in a list, NaN where there is none.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import NO_JSON, RecipeError
from gristmill.filters.api.step import Input
from gristmill.store.codecs import Damage, DecodedPieces
from gristmill.tables.columns import utf8_buffers
from gristmill.tables.schema import MOST_ROWS, MOST_SHARDS, first_document

By = Literal["document", "url", "text"]
ROWS = 1 << 16  # of a block
LONGEST = 1 << 24  # bytes of one line
MOST_LABELS = 1 << 16  # different ones of a column
KEYS = {"document": "document", "url": "url", "text": "text_hash"}


class Wanted(NamedTuple):
    """What is read of files of scores."""

    by: By
    key: str  # the field with the key
    numbers: dict[str, str]  # name -> field
    labels: dict[str, str]
    nan: Literal["refuse", "missing"]

    @property
    def fields(self) -> dict[str, str]:
        """Return every column's field, by name: numbers, then labels."""
        return self.numbers | self.labels


class ScoreBlock(NamedTuple):
    """Rows of a file."""

    first: int  # the number of its first row, from 1
    keys: np.ndarray  # (n, 2) uint64
    values: np.ndarray  # (n, columns) float64


class Labels:
    """The labels of each column, in the order in which they occur first."""

    def __init__(self, names: Sequence[str], known: dict[str, list[str]] | None = None) -> None:
        self._places: dict[str, dict[str, int]] = {
            name: {label: place for place, label in enumerate((known or {}).get(name, []))}
            for name in names
        }

    def place(self, name: str, label: str, where: str) -> int:
        """Return the place of a label, which is new or not. Raises RecipeError for one too many."""
        places = self._places[name]
        if label not in places and len(places) == MOST_LABELS:
            raise RecipeError(
                f"{where}: {name} has more than {MOST_LABELS:,} different labels: is it a text? "
                "Numbers belong under `numbers`"
            )
        return places.setdefault(label, len(places))

    def all(self) -> dict[str, list[str]]:
        """Return the labels by column."""
        return {name: list(places) for name, places in self._places.items()}


def check_columns(file: Input, where: str, wanted: Wanted) -> tuple[str, ...]:
    """Return the names of the wanted columns that a file has. Raises RecipeError: it has none, has
    no key, or is no such file.
    """
    fields = _fields(file, where)
    if wanted.key not in fields:
        raise RecipeError(
            f"{where}: it has no column {wanted.key!r}, by which scores are joined (by = "
            f'"{wanted.by}"); it has {", ".join(map(repr, fields[:20]))}. `key` names the column'
        )
    columns = tuple(name for name, field in wanted.fields.items() if field in fields)
    if not columns:
        raise RecipeError(
            f"{where}: it has none of the columns {', '.join(map(repr, wanted.fields.values()))}; "
            f"it has {', '.join(map(repr, fields[:20]))}"
        )
    return columns


def blocks(
    file: Input, where: str, wanted: Wanted, names: Sequence[str], labels: Labels
) -> Iterator[ScoreBlock]:
    """Yield the rows of a file, with the columns `names`. Raises RecipeError for what is no
    score.
    """
    first = 1
    for rows in _tables(file, where, wanted, names):
        keys = _keys(rows, where, first, wanted)
        values = np.full((len(rows), len(names)), np.nan)
        for place, name in enumerate(names):
            column = rows[wanted.fields[name]]
            at = f"{where}, {wanted.fields[name]}"
            if name in wanted.labels:
                values[:, place] = _of_labels(column, at, name, labels)
            else:
                values[:, place] = _of_numbers(column, at, first, wanted)
        yield ScoreBlock(first, keys, values)
        first += len(rows)


def digests(column: pa.Array) -> np.ndarray:
    """Return BLAKE2b of n texts without nulls, 16 bytes each: (n, 2) big-endian uint64, as
    numbers.
    """
    from gristmill.kernels.hashing.blake2b import hash_texts

    offsets, data = utf8_buffers(column)
    hashes = np.ascontiguousarray(hash_texts(offsets.astype(np.int64), data, size=16))
    empty = np.diff(offsets) == 0  # which the kernel leaves out
    hashes[empty] = np.frombuffer(hashlib.blake2b(b"", digest_size=16).digest(), np.uint8)
    return hashes.view(">u8").astype(np.uint64)


def document_keys(documents: np.ndarray, urls: pa.Array | None) -> np.ndarray:
    """Return the keys of n documents, (n, 2) uint64; `urls` are theirs, null: not known."""
    keys = np.zeros((len(documents), 2), np.uint64)
    keys[:, 0] = documents.astype(np.uint64)
    if urls is not None:
        known = ~urls.is_null().to_numpy(zero_copy_only=False)
        keys[known, 1] = digests(urls.drop_null())[:, 0]
    return keys


def _fields(file: Input, where: str) -> list[str]:
    try:
        with open(file.path, "rb") as opened:
            if opened.read(4) == b"PAR1":
                return list(pq.read_schema(file.path).names)
    except OSError as error:
        raise RecipeError(f"{where}: cannot be read: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise RecipeError(f"{where}: damaged Parquet: {error}") from error
    for _, row in _objects(file, where):
        return list(row)
    raise RecipeError(f"{where}: it has no row")


def _tables(
    file: Input, where: str, wanted: Wanted, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows: the key, the columns, and `url` where it checks documents."""
    fields = list(dict.fromkeys([wanted.key, *(wanted.fields[name] for name in names)]))
    if wanted.by == "document" and "url" not in fields and "url" in _fields(file, where):
        fields.append("url")
    with open(file.path, "rb") as opened:
        is_parquet = opened.read(4) == b"PAR1"
    if is_parquet:
        try:
            with pq.ParquetFile(file.path) as table:
                yield from table.iter_batches(ROWS, columns=fields, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise RecipeError(f"{where}: damaged Parquet: {error}") from error
        return
    held: list[dict[str, Any]] = []
    for number, row in _objects(file, where):
        held.append(row)
        if len(held) == ROWS:
            yield _batch(held, fields, where, number - ROWS + 1)
            held = []
    if held:
        yield _batch(held, fields, where, number - len(held) + 1)


def _batch(
    rows: list[dict[str, Any]], fields: Sequence[str], where: str, first: int
) -> pa.RecordBatch:
    columns = []
    for field in fields:
        values = [row.get(field) for row in rows]
        try:
            columns.append(pa.array(values))
        except (pa.ArrowException, OverflowError) as error:
            raise RecipeError(
                f"{where}, rows {first:,} to {first + len(rows) - 1:,}: {field!r} has values of "
                f"several kinds: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, names=list(fields))


def _objects(file: Input, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSONL, numbered from 1; lines of white space are none."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    number = 0
    for line in _lines(file, where):
        if not line.strip():
            continue
        number += 1
        try:
            yield number, decode(line)
        except NO_JSON as error:
            row = _of_python(line)
            if row is not None:
                yield number, row
                continue
            raise RecipeError(
                f"{where}: row {number:,} is no JSON object: {error}. Scores are Parquet or JSONL"
            ) from error


def _of_python(line: bytes) -> dict[str, Any] | None:
    """Return an object with NaN or Infinity in it, which Python writes and JSON has not."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _lines(file: Input, where: str) -> Iterator[bytes]:
    rest = b""
    try:
        with open(file.path, "rb") as opened:
            for piece in DecodedPieces(opened):
                if isinstance(piece, Damage):
                    raise RecipeError(f"{where}: {piece.reason} at byte {piece.offset:,}")
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines
                if len(rest) > LONGEST:
                    raise RecipeError(f"{where}: a line of over {LONGEST:,} bytes is no score's")
    except OSError as error:
        raise RecipeError(f"{where}: cannot be read: {error.strerror or error}") from error
    yield rest


def _keys(rows: pa.RecordBatch, where: str, first: int, wanted: Wanted) -> np.ndarray:
    column, at = rows[wanted.key], f"{where}, {wanted.key}"
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise RecipeError(f"{at}: row {row:,} has none: every row needs the key of its document")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if wanted.by == "document":
        numbers = _document_numbers(column, at, first)
        urls = rows["url"] if "url" in rows.schema.names and wanted.key != "url" else None
        if urls is not None and not _is_text(urls.type):
            urls = None
        return document_keys(numbers, urls.cast(pa.string()) if urls is not None else None)
    if not _is_text(column.type):
        raise RecipeError(f"{at}: expected strings, got {column.type}")
    column = column.cast(pa.string())
    if wanted.by == "url":
        return digests(column)
    for row, value in enumerate(column.to_pylist()):
        if not re.fullmatch("[0-9a-f]{32}", value):
            raise RecipeError(
                f"{at}: row {first + row:,} is {value[:80]!r}: expected the BLAKE2b of a text's "
                "UTF-8, 16 bytes as 32 hexadecimal digits"
            )
    data = bytes.fromhex("".join(column.to_pylist()))
    return np.frombuffer(data, ">u8").reshape(-1, 2).astype(np.uint64)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _document_numbers(column: pa.Array, at: str, first: int) -> np.ndarray:
    """Documents' numbers, (n,) int64, of numbers or of `shard:row`."""
    if pa.types.is_integer(column.type):
        try:
            numbers = column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise RecipeError(f"{at}: {error}") from error
        if len(numbers) and int(numbers.min()) < 0:
            row = first + int(numbers.argmin())
            raise RecipeError(f"{at}: row {row:,} is {int(numbers.min())}: no document's number")
        return np.asarray(numbers)
    if not _is_text(column.type):
        raise RecipeError(f"{at}: expected documents' numbers or shard:row, got {column.type}")
    documents = []
    for row, name in enumerate(column.to_pylist()):
        match = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", name)
        if not match or int(match[1]) >= MOST_SHARDS or int(match[2]) >= MOST_ROWS:
            raise RecipeError(f"{at}: row {first + row:,} is {name[:80]!r}: expected shard:row")
        documents.append(first_document(int(match[1])) + int(match[2]))
    return np.array(documents, np.int64)


def _of_numbers(column: pa.Array, at: str, first: int, wanted: Wanted) -> np.ndarray:
    """Return (n,) float64, NaN where there is no score."""
    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise RecipeError(f"{at}: expected numbers, got {kind}: labels belong under `labels`")
    known = ~column.is_null().to_numpy(zero_copy_only=False)
    values = np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    wrong = known & ~np.isfinite(values)
    if wrong.any() and wanted.nan == "refuse":
        row = int(np.flatnonzero(wrong)[0])
        value = values[row]
        shown = "NaN" if math.isnan(value) else "infinite"
        raise RecipeError(
            f"{at}: row {first + row:,} is {shown}, which no threshold can be compared with. "
            'Score the document again, or say nan = "missing"'
        )
    values[wrong] = np.nan
    return values


def _of_labels(column: pa.Array, at: str, name: str, labels: Labels) -> np.ndarray:
    """Return (n,) float64: the labels' places, NaN where there is none."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise RecipeError(f"{at}: expected labels, got {kind}: numbers belong under `numbers`")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    encoded = column.cast(pa.string()).dictionary_encode()
    places = [labels.place(name, label, at) for label in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*places, np.nan], np.float64)[indices])
