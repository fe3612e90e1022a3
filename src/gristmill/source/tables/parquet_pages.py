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
from gristmill.source.tables.parquet_indices import count_indices, varint

MOST_PAGE = 256 << 20  # bytes of a decompressed page; pyarrow takes about 2.5 times as many
SMALL = 1 << 16  # bytes of a dictionary that needs no limit
# Bytes of a dictionary's longest value with which rows are decoded a few at a time. With a longer
# one the column is read as a dictionary, which is slower where most values are in none.
MOST_VALUE = 1 << 20
# Bytes of a dictionary that is read as one. The rows of a larger one are decoded a few at a time.
MOST_KEPT = 8 << 20
# Of the values of each type that has one length, in bytes
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# Where no group has more rows, columns that name values of a dictionary alone, and some of them
# often, are read as one, which is copied for one batch then.
MOST_TOGETHER = 1 << 10
# How many times longer than the longest value of a dictionary another one may be: bytes may be made
# so that another codec finds other values in them (4 GB of rows at worst).
_MOST_TIMES = 64
# Bytes of all rows that name values of a dictionary, up to which its longest value does not matter.
MOST_NAMED = 64 << 20
_HEADER = 1 << 14  # bytes that most page headers fit in; statistics make a header longer
_MOST_HEADER = 64 << 20
_DATA_PAGE, _DICTIONARY_PAGE, _DELTA_BYTE_ARRAY = 0, 2, 7
_RLE = 3
_INDICES = 2, 8  # encodings of a page that names values of a dictionary


class PageSizes(NamedTuple):
    """The sizes of a row group's pages."""

    row_count: int
    unpacked: int  # bytes of all pages, decompressed
    longest: int  # bytes that one value may have through a dictionary or a prefix; 0: neither
    counts: dict[str, int]  # values of the dictionary of each column that is read as one

    def rows(self, most: int, size: int) -> int:
        """Return how many rows, at most `most`, have about `size` bytes."""
        fit = min(most, size * self.row_count // max(self.unpacked, 1))
        return max(1, min(fit, 4 * size // self.longest) if self.longest else fit)


def file_size(path: str) -> int:
    """Return the size of a file in bytes."""
    return os.path.getsize(path)


def read_sizes(path: str, metadata: Any, coded: bool = True) -> tuple[list[PageSizes], list[str]]:
    """Return the sizes of each row group, and the names of the columns to read as dictionaries;
    `coded`: whether there may be any.

    Raises SourceError if a page is over the limit, or its header cannot be read.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    at_once = all(group.num_rows <= MOST_TOGETHER for group in groups)
    kept = set()
    lengths: list[dict[str, int]] = []  # of each group: bytes of the longest value, by columns
    with open(path, "rb") as file:
        pages = [
            [_column(file, group.column(place), number) for place in range(group.num_columns)]
            for number, group in enumerate(groups)
        ]
        able = _named_alone(metadata, pages) if coded else set()
        for group, columns in zip(groups, pages, strict=True):
            lengths.append({})
            for place, found in enumerate(columns):
                column = group.column(place)
                name = column.path_in_schema
                seldom = _seldom_named(file, metadata.schema.column(place), column, found)
                if seldom is not None:
                    longest = seldom
                elif at_once and name in able:
                    # It is read as a dictionary, and need not be decompressed here as well. (One
                    # that is read so is copied for every batch.)
                    longest = found.dictionary
                else:
                    longest = max(
                        (_longest(file, column, page) for page in found.dictionaries), default=0
                    )
                if seldom is None and name in able and longest > (SMALL if at_once else MOST_VALUE):
                    kept.add(name)
                lengths[-1][name] = max(lengths[-1].get(name, 0), longest)
    sizes = []
    for group, columns, longest_of in zip(groups, pages, lengths, strict=True):
        counts = {
            group.column(place).path_in_schema: found.dictionaries[0].values
            for place, found in enumerate(columns)
            if found.dictionaries and group.column(place).path_in_schema in kept
        }
        others = [length for name, length in longest_of.items() if name not in kept]
        longest = max([0, *(found.delta for found in columns), *others])
        whole = sum(found.whole for found in columns)
        sizes.append(PageSizes(group.num_rows, whole, longest, counts))
    return sizes, sorted(kept)


def _named_alone(metadata: Any, pages: list[list["_ColumnPages"]]) -> set[str]:
    """Return the columns of strings of which every group names values of one dictionary alone,
    which is not too large to be read as one.
    """
    names = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    able = set()
    for place, name in enumerate(names):
        column = metadata.schema.column(place)
        if (
            column.physical_type == "BYTE_ARRAY"
            and column.logical_type.type in ("NONE", "STRING")
            and column.max_repetition_level == 0
            and "." not in name
            and names.count(name) == 1
            and all(
                columns[place].named_alone and columns[place].dictionary <= MOST_KEPT
                for columns in pages
            )
        ):
            able.add(name)
    return able


class _PageInFile(NamedTuple):
    """A page of a dictionary, or one that names values of it, in its file."""

    at: int  # where its bytes begin
    packed: int  # how many these are
    size: int  # and decompressed
    values: int  # how many it says that there are; -1: it does not


class _ColumnPages(NamedTuple):
    """The pages of a column of a row group."""

    whole: int = 0  # bytes of all, decompressed
    delta: int = 0  # of the longest one whose values share prefixes (delta byte arrays)
    dictionaries: tuple[_PageInFile, ...] = ()
    named_alone: bool = True  # all values are named in one dictionary, or there is none
    # that name values of a dictionary; None: not all can be read here
    indices: tuple[_PageInFile, ...] | None = ()

    @property
    def dictionary(self) -> int:
        """Return bytes of the largest dictionary, decompressed."""
        return max((page.size for page in self.dictionaries), default=0)


def _column(file: BinaryIO, column: Any, group: int) -> _ColumnPages:
    if column.num_values == 0:
        return _ColumnPages()
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    whole = delta = 0
    dictionaries, indices = [], []
    named_alone = readable = True
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
            dictionaries.append(_PageInFile(at + length, packed, size, _number(page.get(7))))
        inner: Any = page.get(5) or page.get(8) or {}
        encoding = inner.get(2 if 5 in page else 4)
        if encoding == _DELTA_BYTE_ARRAY:
            delta = max(delta, size)
        if encoding in _INDICES:
            indices.append(_PageInFile(at + length, packed, size, _number(inner)))
            first_version = page.get(1) == _DATA_PAGE and 5 in page
            readable = readable and first_version and inner.get(3) == _RLE
        elif page.get(1) != _DICTIONARY_PAGE:
            named_alone = False
        at += length + packed
    named_alone = named_alone and len(dictionaries) == 1
    found = tuple(indices) if readable else None
    return _ColumnPages(whole, delta, tuple(dictionaries), named_alone, found)


def _seldom_named(file: BinaryIO, schema: Any, column: Any, found: _ColumnPages) -> int | None:
    """Return bytes that one value is taken to have where each value of the dictionary is named a
    few times at most; None: that cannot be said. Any rows together have few bytes then, however
    long one is.
    """
    if len(found.dictionaries) != 1 or not found.indices:
        return None
    size = found.dictionaries[0].size
    if (
        column.physical_type != "BYTE_ARRAY"
        or schema.max_repetition_level > 0
        or not SMALL < size <= MOST_KEPT
        or sum(page.size for page in found.indices) > size // _MOST_TIMES
    ):
        return None
    times = _most_times(file, found, nullable=schema.max_definition_level > 0)
    if times is None or times * size > MOST_NAMED:
        return None
    return max(SMALL, size // _MOST_TIMES)


def _most_times(file: BinaryIO, found: _ColumnPages, *, nullable: bool) -> int | None:
    """Return how often pages name one value of a dictionary, at most; None: it cannot be said."""
    (dictionary,) = found.dictionaries
    if not 0 < dictionary.values <= dictionary.size // 4:  # the length of each takes 4 bytes
        return None
    counts = np.zeros(dictionary.values, np.int64)
    for page in found.indices or ():
        data = _decompressed(file, page) if page.values >= 0 else None
        if data is None or not count_indices(data, page.values, nullable, counts):
            return None
    return int(counts.max())


def _longest(file: BinaryIO, column: Any, page: _PageInFile) -> int:
    """Return bytes of the longest value of a dictionary: those of the whole dictionary where that
    is all that can be said.
    """
    size = page.size
    if column.physical_type in _WIDTHS:
        return _WIDTHS[column.physical_type]
    if column.physical_type != "BYTE_ARRAY" or not SMALL < size <= MOST_KEPT:
        return size
    from gristmill.kernels.reading import plain_values

    if (data := _decompressed(file, page)) is None:
        return size
    found = plain_values.longest(np.frombuffer(data, np.uint8))
    return max(found, size // _MOST_TIMES) if found >= 0 else size


def _decompressed(file: BinaryIO, page: _PageInFile) -> bytes | None:
    """Return the bytes of a page; None: they cannot be read here, and its reader says what is
    wrong.
    """
    file.seek(page.at)
    data = file.read(page.packed)
    if (codec := _codec(data, page.size)) is None:
        return None
    try:
        data = pa.decompress(data, page.size, codec, asbytes=True)
    except (pa.ArrowException, OSError):
        return None
    return data if len(data) == page.size else None


def _number(header: Any) -> int:
    """Return the number of values that the header of a page says; -1: none."""
    count = header.get(1) if isinstance(header, dict) else None
    return count if isinstance(count, int) else -1


def _codec(data: bytes, size: int) -> str | None:
    """Return how a page of `size` bytes is compressed, by its first bytes; None: it cannot be said.
    (pyarrow ends the process where the codec in the metadata is none that it knows.)
    """
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if data.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    try:
        return "snappy" if varint(data, 0)[0] == size else None
    except IndexError:
        return None


def _header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """Return a page's header by field numbers, and its length in bytes."""
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
            zigzag, at = varint(data, at)
            number = (zigzag >> 1) ^ -(zigzag & 1)
        fields[number], at = _value(data, at, head & 15, depth + 1)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return a value of the compact protocol (None for types that are skipped) and the place after
    it.
    """
    if depth > 8:
        raise RecursionError
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        zigzag, at = varint(data, at)
        return (zigzag >> 1) ^ -(zigzag & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = varint(data, at)
        if at + size > len(data):
            raise IndexError
        return None, at + size
    if kind == 12:
        return _struct(data, at, depth)
    raise IndexError  # lists and maps: a page header has none
