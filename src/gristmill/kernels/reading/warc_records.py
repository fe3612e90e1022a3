"""Where the fields and blocks of WARC records are in a buffer (ISO 28500).

Only records that are as they should be: those that an archiver writes, of types that are known,
with a head of printable ASCII, a length that is true, and another record behind. The kernel stops
before any other, and before one that the buffer cuts off; source/archives/warc.py then says what
it is.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int64Rows
from gristmill.kernels.reading.utf8 import is_well_formed

# The columns of a record. Fields are two columns: where the value starts and stops.
KIND, BEGIN, WELL_FORMED, BLOCK, URL, DATE, RECORD_ID, LANGUAGE, MEDIA_TYPE = (
    *(0, 1, 2),
    *(3, 5, 7, 9, 11, 13),
)
COLUMNS = 15
TYPES = ("conversion", "warcinfo", "request", "metadata", "response", "resource", "revisit")
CONVERSION, FIRST_PAGE = 0, 4  # places in TYPES

MOST_HEAD = 1 << 16  # bytes

_FIELDS = (
    b"warc-type",
    b"content-length",
    b"warc-target-uri",
    b"warc-date",
    b"warc-record-id",
    b"warc-identified-content-language",
    b"content-type",
    b"warc-truncated",
)
_TYPE, _LENGTH, _TRUNCATED = 0, 1, 7
_LONGEST = 32


def _table(words: tuple[bytes, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return words as rows of bytes, and their lengths."""
    rows = np.frombuffer(b"".join(word.ljust(_LONGEST, b"\0") for word in words), np.uint8)
    return rows.reshape(len(words), _LONGEST), np.array([len(word) for word in words], np.int64)


_NAMES, _NAME_LENGTHS = _table(_FIELDS)
_KINDS, _KIND_LENGTHS = _table(tuple(name.encode() for name in TYPES))


@helper
def _find(data, start, stop, words, lengths):
    """Return which of the words (in lower case) data[start:stop] is, whatever its case; -1:
    none.
    """
    for word in range(len(lengths)):
        if lengths[word] != stop - start:
            continue
        j = np.int64(0)
        while j < stop - start and data[start + j] | 0x20 == words[word, j]:
            j += 1
        if j == stop - start:
            return word
    return -1


@helper
def _line_end(data, at):
    """Return bytes of the line end at a place: CRLF or LF; 0: there is none."""
    if data[at] == 10:
        return 1
    return 2 if data[at] == 13 and at + 1 < len(data) and data[at + 1] == 10 else 0


@helper
def _begins_record(data, at):
    """Return whether `WARC/` stands at a place."""
    return (
        data[at] == 0x57
        and data[at + 1] == 0x41
        and data[at + 2] == 0x52
        and data[at + 3] == 0x43
        and data[at + 4] == 0x2F
    )


@helper
def _is_digit(byte):
    return byte >= 0x30 and byte <= 0x39


@helper
def _number(data, start, stop):
    """Return the digits of a length as a number; -1: they are none."""
    if start == stop or stop - start > 15:
        return np.int64(-1)
    value = np.int64(0)
    for at in range(start, stop):
        if not _is_digit(data[at]):
            return np.int64(-1)
        value = value * 10 + np.int64(data[at] - 0x30)
    return value


@helper
def _read_head(data, at, record):
    """Read the head of a record that begins at a place into its columns; `record[BLOCK + 1]` gets
    the length of its block. Returns where the block starts; -1: the head is unusual, or cut off.
    """
    last = len(data) - 2
    if at + 10 > last or not _begins_record(data, at):
        return -1
    if not _is_digit(data[at + 5]) or data[at + 6] != 0x2E or not _is_digit(data[at + 7]):
        return -1
    ending = _line_end(data, at + 8)
    if ending == 0:
        return -1
    at += 8 + ending
    record[:] = 0
    record[KIND] = -1
    length = np.int64(-1)
    seen = 0
    while at <= last:
        ending = _line_end(data, at)
        if ending != 0:  # the empty line behind the head
            if record[KIND] < 0 or length < 0:
                return -1
            record[BLOCK + 1] = length
            return at + ending
        start = at
        while at < last and data[at] > 0x20 and data[at] < 0x7F and data[at] != 0x3A:
            if data[at] == 0x2F:  # no name has a slash; the next record's first line has
                return -1
            at += 1
        if data[at] != 0x3A:
            return -1
        field = _find(data, start, at, _NAMES, _NAME_LENGTHS)
        at += 1
        while at < last and data[at] == 0x20:
            at += 1
        start = at
        while at < last and data[at] >= 0x20 and data[at] < 0x7F:
            at += 1
        stop = at
        ending = _line_end(data, at)
        if ending == 0:
            return -1
        at += ending
        if field < 0:
            continue
        if field == _TRUNCATED:  # it is noted with the document
            return -1
        if seen >> field & 1:  # of repeated fields the first
            continue
        seen |= 1 << field
        while stop > start and data[stop - 1] == 0x20:
            stop -= 1
        if field == _TYPE:
            record[KIND] = _find(data, start, stop, _KINDS, _KIND_LENGTHS)
            if record[KIND] < 0:
                return -1
        elif field == _LENGTH:
            length = _number(data, start, stop)
            if length < 0:
                return -1
        else:
            column = URL + 2 * (field - 2)
            if column in (URL, RECORD_ID):  # in angle brackets
                while start < stop and (data[start] == 0x3C or data[start] == 0x3E):
                    start += 1
                while stop > start and (data[stop - 1] == 0x3C or data[stop - 1] == 0x3E):
                    stop -= 1
            record[column] = start
            record[column + 1] = stop
    return -1


@helper
def _same(data, one, other):
    """Return whether two records have the same media type."""
    start, other_start = one[MEDIA_TYPE], other[MEDIA_TYPE]
    length = one[MEDIA_TYPE + 1] - start
    if other[MEDIA_TYPE + 1] - other_start != length:
        return False
    j = np.int64(0)
    while j < length and data[start + j] == data[other_start + j]:
        j += 1
    return j == length


@kernel(
    BYTES,
    types.int64,
    types.int64,
    types.int64,
    types.int64,
    types.boolean,
    Int64Rows,
    Bytes,
    returns=types.UniTuple(types.int64, 2),
)
def _frame(data, at, most_bytes, most_documents, kinds, followed, records, tail):
    count = documents = np.int64(0)
    first = np.int64(-1)
    while count < len(records) and documents < most_documents:
        begin = at
        while begin < len(data) and (data[begin] == 10 or data[begin] == 13):
            begin += 1
        record = records[count]
        start = _read_head(data, begin, record)
        if start < 0 or start - begin > MOST_HEAD:
            break
        kind = record[KIND]
        length = record[BLOCK + 1]
        stop = start + length
        if length > most_bytes or stop + 2 > len(data) or kind >= kinds:
            break
        ending = _line_end(data, stop)
        if stop + 2 * ending > len(data):
            break
        if ending == 0 or _line_end(data, stop + ending) != ending:
            break
        following = stop + 2 * ending
        if following == len(data):
            if not followed:
                break
        elif following + 5 > len(data) or not _begins_record(data, following):
            break
        if kind == CONVERSION:
            if first < 0:
                first = count
            elif not _same(data, records[first], record):
                break
            record[WELL_FORMED] = is_well_formed(data, start, stop, tail)
        if kind == CONVERSION or kind >= FIRST_PAGE:
            documents += 1
        record[BEGIN] = begin
        record[BLOCK] = start
        record[BLOCK + 1] = stop
        count += 1
        at = following
    return count, at


def frame(
    data: np.ndarray,
    at: int,
    records: np.ndarray,
    *,
    most_bytes: int,
    most_documents: int,
    pages: bool,
    followed: bool,
) -> tuple[int, int]:
    """Find the records that follow each other in data (bytes,) uint8 from a place on, until one is
    not flawless, `records` is full, or there are enough documents.

    records (n, COLUMNS) int64 gets a row each: the place of its type in TYPES, where it begins,
    whether its block is well-formed UTF-8 (of conversions), and where its block, URL, date, id,
    language and media type start and stop (equal: there is none). All conversions have the same
    media type. A block has at most `most_bytes`. `pages`: records of pages are taken as well.
    `followed`: another record begins right behind the data.
    Returns how many records there are, and where the next one begins.
    """
    kinds = len(TYPES) - 1 if pages else FIRST_PAGE
    count, stop = _frame(
        data, at, most_bytes, most_documents, kinds, followed, records, np.empty(64, np.uint8)
    )
    return int(count), int(stop)
