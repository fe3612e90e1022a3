"""The headers of a Parquet file's pages: how much memory a page takes, and so how many rows may be
decoded at a time.

A page is unpacked whole, however few of its rows are asked for: one over the limit is refused. Of a
page whose values a dictionary holds, or are told by what they share with the one before, each row
may be as long as the dictionary or the page. (Apache Parquet: parquet.thrift, PageHeader; Apache
Thrift: the compact protocol.)
"""

import os
from typing import Any, BinaryIO, NamedTuple

from gristmill.errors import SourceError

MOST_PAGE = 256 << 20  # bytes of a page, unpacked: pyarrow takes some two and a half times as many
SMALL = 1 << 16  # a dictionary whose rows are no matter
MOST_KEPT = (
    8 << 20
)  # a dictionary that is read as one; the rows of a larger one are decoded few at a time
_HEADER = 1 << 14  # bytes that a page's header seldom exceeds; statistics make it longer
_MOST_HEADER = 64 << 20
_DICTIONARY_PAGE, _DELTA_BYTE_ARRAY = 2, 7


class Sizes(NamedTuple):
    """What a row group's pages take."""

    held: int  # rows
    unpacked: int  # bytes of all pages
    longest: int  # bytes that one value may have, beyond what the pages have for each; 0: none

    def rows(self, most: int, size: int) -> int:
        """How many rows come to about this many bytes."""
        fit = min(most, size * self.held // max(self.unpacked, 1))
        return max(1, min(fit, 4 * size // self.longest) if self.longest else fit)


def size_of(path: str) -> int:
    """The file's bytes."""
    return os.path.getsize(path)


def walk(path: str, metadata: Any) -> tuple[list[Sizes], list[str]]:
    """(sizes by row group, the columns to read as dictionaries).

    Raises SourceError where a page is over the limit, or none.
    """
    found: list[
        tuple[int, int, dict[str, int]]
    ] = []  # of each row group: bytes of its pages, of a value, of dictionaries by column
    largest: dict[str, int] = {}  # dictionaries that can be kept as such
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
                if dictionary > SMALL:
                    name = column.path_in_schema
                    dictionaries[name] = dictionary
                    # Kept as such it is copied for every batch.
                    fits = dictionary <= MOST_KEPT and column.physical_type == "BYTE_ARRAY"
                    largest[name] = max(largest.get(name, 0), dictionary if fits else MOST_PAGE)
            found.append((unpacked, longest, dictionaries))
    kept = {name for name, size in largest.items() if size <= MOST_KEPT}
    groups = []
    for number, (unpacked, longest, dictionaries) in enumerate(found):
        most = max([longest, *(size for name, size in dictionaries.items() if name not in kept)])
        groups.append(Sizes(metadata.row_group(number).num_rows, unpacked, most))
    return groups, sorted(kept)


def _column(file: BinaryIO, column: Any, group: int) -> tuple[int, int, int]:
    """(bytes of a column's pages unpacked, of its dictionary, of its longest page whose values
    share their starts).
    """
    if column.num_values == 0:
        return 0, 0, 0
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    whole = dictionary = delta = 0
    while at < end:
        page, length = _header(file, at)
        size, packed = page.get(2), page.get(3)
        if not isinstance(size, int) or not isinstance(packed, int) or size < 0 or packed < 0:
            raise SourceError(f"no readable Parquet file: no page at byte {at:,}", "damaged")
        if size > MOST_PAGE:
            raise SourceError(
                f"column {column.path_in_schema!r} of row group {group} has a page of "
                f"{size:,} bytes, and a page is unpacked whole: at most "
                f"{MOST_PAGE:,} are read. Write the file again in smaller pages or row "
                "groups (pyarrow: write_batch_size=8, use_dictionary=False, or "
                "row_group_size=64)",
                "too-large",
            )
        whole += size
        if page.get(1) == _DICTIONARY_PAGE:
            dictionary = max(dictionary, size)
        inner: Any = page.get(5) or page.get(8) or {}
        if inner.get(2 if 5 in page else 4) == _DELTA_BYTE_ARRAY:
            delta = max(delta, size)
        at += length + packed
    return whole, dictionary, delta


def _header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """(a page's header by field numbers, its length)."""
    size = _HEADER
    while True:
        file.seek(at)
        data = file.read(size)
        try:
            return _struct(data, 0, 0)
        except (IndexError, RecursionError):
            if len(data) < size or size >= _MOST_HEADER:
                raise SourceError(
                    f"no readable Parquet file: no page's header at byte {at:,}", "damaged"
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
    """A value of the compact protocol; of those that a page's size does not need only the end."""
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
    raise IndexError  # lists and maps: a page's header has none
