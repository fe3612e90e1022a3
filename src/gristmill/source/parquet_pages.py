"""The page headers of a Parquet file: how much memory a page takes, and so how many rows can be
decoded together.

A page is decompressed whole, even if few of its rows are read, so a page over the limit is refused.
Where values are in a dictionary, a thousand rows may name its longest one; where they share a
prefix with the value before, one row may be as long as the page. Source: Apache Parquet,
parquet.thrift, PageHeader, and Compression.md; Apache Thrift, the compact protocol.
"""

import os
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.errors import SourceError

MOST_PAGE = 256 << 20  # bytes of a decompressed page; pyarrow takes about 2.5 times as many
SMALL = 1 << 16  # bytes of a dictionary that needs no limit
# Bytes of a dictionary's longest value with which rows are decoded a few at a time. With a longer
# one the column is read as a dictionary, which is slower where most values are in none.
MOST_VALUE = 1 << 20
# Bytes of a dictionary that is read as one. The rows of a larger one are decoded a few at a time.
MOST_KEPT = 8 << 20
# Of the values of each type that has one length, in bytes
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# How many times longer than the longest value of a dictionary another one may be: bytes may be made
# so that another codec finds other values in them (4 GB of rows at worst).
_MOST_TIMES = 64
_HEADER = 1 << 14  # bytes that most page headers fit in; statistics make a header longer
_MOST_HEADER = 64 << 20
_DICTIONARY_PAGE, _DELTA_BYTE_ARRAY = 2, 7


class PageSizes(NamedTuple):
    """The sizes of a row group's pages."""

    row_count: int
    unpacked: int  # bytes of all pages, decompressed
    longest: int  # bytes that one value may have through a dictionary or a prefix; 0: neither

    def rows(self, most: int, size: int) -> int:
        """How many rows, at most `most`, have about `size` bytes."""
        fit = min(most, size * self.row_count // max(self.unpacked, 1))
        return max(1, min(fit, 4 * size // self.longest) if self.longest else fit)


def size_of(path: str) -> int:
    """The size of a file in bytes."""
    return os.path.getsize(path)


def read_sizes(path: str, metadata: Any) -> tuple[list[PageSizes], list[str]]:
    """The sizes of each row group, and the names of the columns to read as dictionaries.

    Raises SourceError if a page is over the limit, or its header cannot be read.
    """
    # For each row group: bytes of its pages, of its longest value, of its dictionaries by column.
    found: list[tuple[int, int, dict[str, int]]] = []
    largest: dict[str, int] = {}  # bytes of the largest dictionary of a column
    with open(path, "rb") as file:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            unpacked = longest = 0
            dictionaries: dict[str, int] = {}
            for place in range(group.num_columns):
                column = group.column(place)
                whole, dictionary, delta = _column(file, column, number)
                unpacked += whole
                longest = max(longest, delta)
                if dictionary <= MOST_VALUE:
                    longest = max(longest, dictionary)
                else:
                    name = column.path_in_schema
                    dictionaries[name] = dictionary
                    # A column that is read as a dictionary copies it for every batch.
                    fits = dictionary <= MOST_KEPT and column.physical_type == "BYTE_ARRAY"
                    largest[name] = max(largest.get(name, 0), dictionary if fits else MOST_PAGE)
            found.append((unpacked, longest, dictionaries))
    kept = {name for name, size in largest.items() if size <= MOST_KEPT}
    groups = []
    for number, (unpacked, longest, dictionaries) in enumerate(found):
        most = max([longest, *(size for name, size in dictionaries.items() if name not in kept)])
        groups.append(PageSizes(metadata.row_group(number).num_rows, unpacked, most))
    return groups, sorted(kept)


def _column(file: BinaryIO, column: Any, group: int) -> tuple[int, int, int]:
    """Bytes of a column's decompressed pages, of the longest value of its dictionary, and of its
    longest page whose values share prefixes (delta byte arrays).
    """
    if column.num_values == 0:
        return 0, 0, 0
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    whole = longest = delta = 0
    while at < end:
        page, length = _header(file, at)
        size, packed = page.get(2), page.get(3)
        if not isinstance(size, int) or not isinstance(packed, int) or size < 0 or packed < 0:
            raise SourceError(f"not a readable Parquet file: no page at byte {at:,}", "damaged")
        if size > MOST_PAGE:
            raise SourceError(
                f"column {column.path_in_schema!r} of row group {group} has a page of {size:,} "
                f"bytes, and pages are read whole, up to {MOST_PAGE:,} bytes. Write the file again "
                "with smaller pages or row groups (pyarrow: write_batch_size=8, "
                "use_dictionary=False, or row_group_size=64)",
                "too-large",
            )
        whole += size
        if page.get(1) == _DICTIONARY_PAGE:
            longest = max(longest, _longest(file, column, at + length, packed, size))
        inner: Any = page.get(5) or page.get(8) or {}
        if inner.get(2 if 5 in page else 4) == _DELTA_BYTE_ARRAY:
            delta = max(delta, size)
        at += length + packed
    return whole, longest, delta


def _longest(file: BinaryIO, column: Any, at: int, packed: int, size: int) -> int:
    """Bytes of the longest value of a dictionary page whose bytes begin at a place: those of the
    whole dictionary, decompressed (`size`), where that is all that can be said.
    """
    if column.physical_type in _WIDTHS:
        return _WIDTHS[column.physical_type]
    if column.physical_type != "BYTE_ARRAY" or not SMALL < size <= MOST_KEPT:
        return size
    from gristmill.kernels.reading import plain_values

    file.seek(at)
    data = file.read(packed)
    if (codec := _codec(data, size)) is None:
        return size
    try:
        data = pa.decompress(data, size, codec, asbytes=True)
    except (pa.ArrowException, OSError):
        return size  # the reader of the page says what is wrong with it
    found = plain_values.longest(np.frombuffer(data, np.uint8)) if len(data) == size else -1
    return max(found, size // _MOST_TIMES) if found >= 0 else size


def _codec(data: bytes, size: int) -> str | None:
    """How a page of `size` bytes is compressed, by its first bytes; None: it cannot be said.
    (pyarrow ends the process where the codec in the metadata is none that it knows.)
    """
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if data.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    try:
        return "snappy" if _varint(data, 0)[0] == size else None
    except IndexError:
        return None


def _header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """A page's header by field numbers, and its length in bytes."""
    size = _HEADER
    while True:
        file.seek(at)
        data = file.read(size)
        try:
            return _struct(data, 0, 0)
        except (IndexError, RecursionError):
            if len(data) < size or size >= _MOST_HEADER:
                raise SourceError(
                    f"not a readable Parquet file: no page header at byte {at:,}", "damaged"
                ) from None
            size *= 16


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise IndexError


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            zigzag, at = _varint(data, at)
            number = (zigzag >> 1) ^ -(zigzag & 1)
        fields[number], at = _value(data, at, head & 15, depth + 1)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value of the compact protocol (None for types that are skipped) and the place after it."""
    if depth > 8:
        raise RecursionError
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        zigzag, at = _varint(data, at)
        return (zigzag >> 1) ^ -(zigzag & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = _varint(data, at)
        if at + size > len(data):
            raise IndexError
        return None, at + size
    if kind == 12:
        return _struct(data, at, depth)
    raise IndexError  # lists and maps: a page header has none
