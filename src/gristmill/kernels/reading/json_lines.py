"""JSON lines (RFC 8259) that are objects with a string for the text: their texts and URLs as
columns of UTF-8, and their other members as they are written.

Only lines that are as they should be: the kernel stops before any other (a text that is missing or
is no string, a name that is escaped, half a pair of surrogates, ill-formed UTF-8), and before one
that the buffer cuts off. What the other members hold is not looked at: who reads them says whether
they are JSON.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int64Rows, Int64s
from gristmill.kernels.jit.loads import count_trailing_zeros, load_u64, mask_of_range, store_u64
from gristmill.kernels.reading.utf8 import is_well_formed

TEXT, URL, OTHERS = 0, 1, 2  # columns
SLACK = 64  # bytes that are read, and written, beyond a string


class JsonColumns(NamedTuple):
    """The columns that lines are read into; each array has room for SLACK bytes more."""

    texts: Bytes
    urls: Bytes
    others: Bytes  # objects of the other members; empty: there are none
    ends: Int64Rows  # (n + 1, 3): where the three of line i - 1 end; the first row is 0
    has_url: Bytes  # (n,)
    starts: Int64s  # (n + 1,): where each line starts, and where the next one would


@helper
def _special(data, at):
    """Of 64 bytes: which end a run of plain characters of a string."""
    return (
        mask_of_range(data, at, np.uint8(0x22), np.uint8(0))
        | mask_of_range(data, at, np.uint8(0x5C), np.uint8(0))
        | mask_of_range(data, at, np.uint8(0), np.uint8(0x1F))
    )


@helper
def _skip_string(data, at):
    """Return where a string ends that began before a place, and whether it has escapes; -1:
    nowhere.
    """
    escapes = False
    while at + 2 * SLACK <= len(data):
        mask = _special(data, at)
        if mask == np.uint64(0):
            at += 64
            continue
        at += count_trailing_zeros(mask)
        if data[at] == 0x22:
            return at + 1, escapes
        if data[at] != 0x5C:
            break
        escapes = True
        at += 2
    return np.int64(-1), escapes


@helper
def _hex(data, at):
    """Return the number of four hexadecimal digits; -1: they are none."""
    value = np.int64(0)
    for j in range(at, at + 4):
        digit = np.int64(data[j])
        if digit >= 0x30 and digit <= 0x39:
            digit -= 0x30
        else:
            digit |= 0x20
            if digit < 0x61 or digit > 0x66:
                return np.int64(-1)
            digit -= 0x57
        value = value << 4 | digit
    return value


@helper
def _write_point(out, at, point):
    """Write a code point as UTF-8; where it ends."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | point >> 6
        out[at + 1] = 0x80 | point & 63
        return at + 2
    if point < 0x10000:
        out[at] = 0xE0 | point >> 12
        out[at + 1] = 0x80 | point >> 6 & 63
        out[at + 2] = 0x80 | point & 63
        return at + 3
    out[at] = 0xF0 | point >> 18
    out[at + 1] = 0x80 | point >> 12 & 63
    out[at + 2] = 0x80 | point >> 6 & 63
    out[at + 3] = 0x80 | point & 63
    return at + 4


@helper
def _unescape(data, at, out, filled):
    """Write what the escape at a place stands for: where it ends, and where `out` does; -1: it is
    none. 64 bytes follow.
    """
    letter = data[at + 1]
    if letter == 0x75:  # u
        point = _hex(data, at + 2)
        at += 6
        if point >= 0xD800 and point < 0xE000:
            if point >= 0xDC00 or data[at] != 0x5C or data[at + 1] != 0x75:
                return np.int64(-1), filled
            low = _hex(data, at + 2)
            if low < 0xDC00 or low >= 0xE000:
                return np.int64(-1), filled
            point = 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00
            at += 6
        if point < 0:
            return np.int64(-1), filled
        return at, _write_point(out, filled, point)
    if letter == 0x6E:  # n
        point = 0x0A
    elif letter == 0x22 or letter == 0x5C or letter == 0x2F:
        point = np.int64(letter)
    elif letter == 0x74:  # t
        point = 0x09
    elif letter == 0x72:  # r
        point = 0x0D
    elif letter == 0x62:  # b
        point = 0x08
    elif letter == 0x66:  # f
        point = 0x0C
    else:
        return np.int64(-1), filled
    out[filled] = point
    return at + 2, filled + 1


@helper
def _copy_string(data, at, out, filled):
    """Copy a string that began before a place: where it ends, and where `out` does; -1: it has a
    flaw, or does not end, or there is no room.
    """
    while at + 2 * SLACK <= len(data) and filled + SLACK <= len(out):
        mask = _special(data, at)
        for j in range(0, 64, 8):
            store_u64(out, filled + j, load_u64(data, at + j))
        if mask == np.uint64(0):
            at += 64
            filled += 64
            continue
        plain = count_trailing_zeros(mask)
        at += plain
        filled += plain
        if data[at] == 0x22:
            return at + 1, filled
        if data[at] != 0x5C or filled + SLACK > len(out):
            break
        at, filled = _unescape(data, at, out, filled)
        if at < 0:
            break
    return np.int64(-1), filled


@helper
def _skip_space(data, at):
    """Return the first byte that is no white space within a line; the last byte at most."""
    at = min(at, len(data) - 1)
    while at + 1 < len(data) and (data[at] == 0x20 or data[at] == 0x09 or data[at] == 0x0D):
        at += 1
    return at


@helper
def _skip_value(data, at):
    """Return where a value ends that begins at a place, if it is one; -1: nowhere."""
    depth = np.int64(0)
    start = at
    while at + SLACK <= len(data):
        byte = data[at]
        if byte == 0x22:
            at, _ = _skip_string(data, at + 1)
            if at < 0:
                return at
        elif byte == 0x7B or byte == 0x5B:
            depth += 1
            at += 1
        elif depth > 0 and (byte == 0x7D or byte == 0x5D):
            depth -= 1
            at += 1
        elif byte == 0x0A:
            return np.int64(-1)
        elif depth == 0 and (byte <= 0x20 or byte == 0x2C or byte == 0x7D or byte == 0x5D):
            return at if at > start else np.int64(-1)
        else:
            at += 1
            continue
        if depth == 0:
            return at
    return np.int64(-1)


@helper
def _is(data, start, stop, name):
    """Return whether data[start:stop] is this name."""
    if stop - start != len(name):
        return False
    j = np.int64(0)
    while j < len(name) and data[start + j] == name[j]:
        j += 1
    return j == len(name)


@helper
def _read_line(data, at, text, url, columns, line):
    """Read the line that begins at a place; where the next one begins, or -1: it has a flaw, or is
    cut off.
    """
    ends, flawed = columns.ends, np.int64(-1)
    filled = ends[line, OTHERS]
    members = np.int64(0)
    has_text = has_url = False
    at = _skip_space(data, at)
    if data[at] != 0x7B:
        return flawed
    at += 1
    while True:
        at = _skip_space(data, at)
        if at + 2 * SLACK > len(data) or data[at] != 0x22:
            return flawed
        first = at
        at, escapes = _skip_string(data, at + 1)
        if at < 0 or escapes:
            return flawed
        stop = at - 1
        at = _skip_space(data, at)
        if data[at] != 0x3A:
            return flawed
        at = _skip_space(data, at + 1)
        if _is(data, first + 1, stop, text):
            if has_text or data[at] != 0x22:
                return flawed
            has_text = True
            at, ends[line + 1, TEXT] = _copy_string(data, at + 1, columns.texts, ends[line, TEXT])
        elif _is(data, first + 1, stop, url):
            if has_url or data[at] != 0x22:
                return flawed
            has_url = True
            at, ends[line + 1, URL] = _copy_string(data, at + 1, columns.urls, ends[line, URL])
        else:
            at = _skip_value(data, at)
            length = at - first
            if at < 0 or filled + length + SLACK > len(columns.others):
                return flawed
            columns.others[filled] = 0x7B if members == 0 else 0x2C
            for j in range(length):
                columns.others[filled + 1 + j] = data[first + j]
            filled += length + 1
            members += 1
        if at < 0:
            return flawed
        at = _skip_space(data, at)
        if data[at] == 0x7D:
            break
        if data[at] != 0x2C:
            return flawed
        at += 1
    at = _skip_space(data, at + 1)
    if not has_text or data[at] != 0x0A:
        return flawed
    if members > 0:
        columns.others[filled] = 0x7D
        filled += 1
    ends[line + 1, OTHERS] = filled
    if not has_url:
        ends[line + 1, URL] = ends[line, URL]
    columns.has_url[line] = has_url
    return at + 1


@kernel(
    BYTES,
    types.int64,
    BYTES,
    BYTES,
    types.int64,
    types.int64,
    JsonColumns,
    Bytes,
    returns=types.int64,
)
def _read(data, at, text, url, most_bytes, most_lines, columns, tail):
    count = np.int64(0)
    columns.starts[0] = at
    columns.ends[0, :] = 0
    while count < most_lines and at + 2 * SLACK <= len(data):
        following = _read_line(data, at, text, url, columns, count)
        if following < 0 or following - at > most_bytes:
            break
        if not is_well_formed(data, at, following, tail):
            break
        at = following
        count += 1
        columns.starts[count] = at
    return count


def read(
    data: np.ndarray, at: int, names: tuple[np.ndarray, np.ndarray], columns: JsonColumns, most: int
) -> int:
    """Read lines of data (bytes,) uint8 from a place on into columns, until one is not flawless or
    the columns are full; how many.

    `names` are the fields of text and URL, as bytes in JSON. A line has at most `most` bytes, its
    line end included.
    """
    lines = len(columns.has_url)
    return int(_read(data, at, *names, most, lines, columns, np.empty(64, np.uint8)))
