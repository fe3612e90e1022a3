"""How many rows of a Parquet file are decoded together, by the sizes of its pages.

A page is decompressed whole, even if few of its rows are read, so a page over the limit is refused.
Rows that name values of a dictionary may all name its longest one, and of values that share a
prefix with the value before each may be as long as the page. The footer has the size of no page:
the head of each is read. Source: Apache Parquet, parquet.thrift, PageHeader; Apache Thrift, the
compact protocol.
"""

from typing import Any, BinaryIO

from gristmill.errors import SourceError

MOST_PAGE = 256 << 20  # bytes of a decompressed page; pyarrow takes about 2.5 times as many
# Times the bytes that rows should have: as many they have where each is as long as one can be. So
# a dictionary of 1 MB, which writers stop at, leaves 256 rows.
MOST_TIMES = 64
_HEADER = 1 << 14  # bytes that most page headers fit in; statistics make a header longer
_MOST_HEADER = 64 << 20
_DICTIONARY_PAGE, _DELTA_BYTE_ARRAY = 2, 7


def count_rows(path: str, metadata: Any, most: int, size: int) -> list[int]:
    """Return for each row group how many rows, at most `most`, have about `size` bytes, and
    MOST_TIMES as many at most.

    Raises SourceError if a page is over the limit, or its header cannot be read.
    """
    counts = []
    with open(path, "rb") as file:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            whole, rows = 1, most
            for place in range(group.num_columns):
                column = group.column(place)
                unpacked, longest = _page_sizes(file, column, number)
                whole += unpacked
                if longest and column.physical_type.endswith("BYTE_ARRAY"):
                    # A row of a list names several values.
                    each = -(-column.num_values // max(group.num_rows, 1))
                    rows = min(rows, MOST_TIMES * size // (longest * each))
            counts.append(max(1, min(rows, size * group.num_rows // whole)))
    return counts


def _page_sizes(file: BinaryIO, column: Any, group: int) -> tuple[int, int]:
    """Return the bytes of all pages of a column of a row group, decompressed, and those that a
    value may have through a dictionary or a prefix; 0: neither.
    """
    if column.num_values == 0:
        return 0, 0
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    whole = longest = 0
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
        head: Any = page.get(5) or page.get(8) or {}
        if page.get(1) == _DICTIONARY_PAGE or head.get(2 if 5 in page else 4) == _DELTA_BYTE_ARRAY:
            longest = max(longest, size)
        at += length + packed
    return whole, longest


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
    """Return the fields of a struct of the compact protocol, and the place after it: its numbers
    and structs, None for what else a page header has.
    """
    if depth > 8:
        raise RecursionError
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        value: Any = None
        kind = head & 15
        if kind == 3:
            at += 1
        elif kind in (4, 5, 6):
            value, at = _integer(data, at)
        elif kind == 7:
            at += 8
        elif kind == 8:  # bytes; their length has no sign
            size, at = _varint(data, at)
            at += size
        elif kind == 12:
            value, at = _struct(data, at, depth + 1)
        elif kind not in (1, 2):
            raise IndexError  # lists and maps: a page header has none
        fields[number] = value
    return fields, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    zigzag, at = _varint(data, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, the lowest first, and the place after it."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise IndexError
