"""Character references of HTML: `&amp;`, `&#233;`, `&#xE9;` and their like (WHATWG HTML, 13.2.5.72
to 13.2.5.80).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import BASIS, GOLDEN, PRIME
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int32s, Uint64s

SLOT, SLOTS = np.uint64(51), 8192
LONGEST = 32  # bytes of a name, its semicolon counted
LONGEST_BARE = 6  # of a name that needs no semicolon
MOST_BYTES = 6  # that a reference becomes

# What the numbers 128 to 159 mean: bytes of windows-1252, not controls.
_WINDOWS = bytes(range(0x80, 0xA0)).decode("cp1252", "replace")


class References(NamedTuple):
    """The named references by FNV-1a of their names, the semicolon included where there is one."""

    keys: Uint64s  # (8192,), 0: none
    starts: Int32s
    stops: Int32s
    data: Bytes  # what they stand for, in UTF-8
    windows: Int32s  # (32,) code points of the numbers from 128


with np.load(Path(__file__).with_name("references.npz")) as _tables:
    REFERENCES = References(
        _tables["keys"],
        _tables["starts"],
        _tables["stops"],
        _tables["data"],
        np.array(
            [
                128 + place if character == "\ufffd" else ord(character)
                for place, character in enumerate(_WINDOWS)
            ],
            np.int32,
        ),
    )


@helper
def put_point(point, out, to):
    """Write a code point as UTF-8; where it stops."""
    if point < 0x80:
        out[to] = point
        return to + 1
    if point < 0x800:
        out[to] = 0xC0 | (point >> 6)
        out[to + 1] = 0x80 | (point & 0x3F)
        return to + 2
    if point < 0x10000:
        out[to] = 0xE0 | (point >> 12)
        out[to + 1] = 0x80 | ((point >> 6) & 0x3F)
        out[to + 2] = 0x80 | (point & 0x3F)
        return to + 3
    out[to] = 0xF0 | (point >> 18)
    out[to + 1] = 0x80 | ((point >> 12) & 0x3F)
    out[to + 2] = 0x80 | ((point >> 6) & 0x3F)
    out[to + 3] = 0x80 | (point & 0x3F)
    return to + 4


@helper
def _number(data, at, stop, windows, out, to):
    """Return a reference by number, from behind its &#: (where it stops, or 0 where it is none;
    to).
    """
    base = np.int64(10)
    if at < stop and data[at] | 0x20 == 0x78:
        base = np.int64(16)
        at += 1
    point = np.int64(0)
    digits = np.int64(0)
    while at < stop:
        byte = np.int64(data[at])
        digit = byte - 0x30
        if digit > 9:
            digit = (byte | 0x20) - 0x57
            if digit < 10:  # a sign before the letters
                break
        if digit < 0 or digit >= base:
            break
        point = min(point * base + digit, np.int64(0x110000))
        digits += 1
        at += 1
    if digits == 0:
        return np.int64(0), to
    if at < stop and data[at] == 0x3B:
        at += 1
    if point == 0 or point > 0x10FFFF or 0xD800 <= point < 0xE000:
        point = np.int64(0xFFFD)
    elif 0x80 <= point < 0xA0:
        point = np.int64(windows[point - 0x80])
    return at, put_point(point, out, to)


@helper
def _name_slot(key, references):
    """Return the slot of a name by its key, -1 where there is none."""
    slot = np.int64((key * GOLDEN) >> SLOT)
    while references.keys[slot] != 0:
        if references.keys[slot] == key:
            return slot
        slot = (slot + 1) & (SLOTS - 1)
    return np.int64(-1)


@helper
def _is_name_byte(byte):
    return np.uint8((byte | 0x20) - 0x61) < 26 or np.uint8(byte - 0x30) < 10


@helper
def put_reference(data, at, stop, references, out, to):
    """Write what the & at `at` stands for: (where the text goes on, where the output stops).

    An & that begins no reference stands for itself. At most MOST_BYTES bytes are written.
    """
    first = at + 1
    if first < stop and data[first] == 0x23:
        behind, to = _number(data, first + 1, stop, references.windows, out, to)
        if behind > 0:
            return behind, to
    key = BASIS
    best = np.int64(-1)
    behind = first
    end = first
    while end < stop and end - first < LONGEST:
        byte = data[end]
        if byte == 0x3B:
            slot = _name_slot((key ^ np.uint64(byte)) * PRIME, references)
            if slot >= 0:
                best = slot
                behind = end + 1
            break
        if not _is_name_byte(byte):
            break
        key = (key ^ np.uint64(byte)) * PRIME
        end += 1
        if end - first <= LONGEST_BARE:
            slot = _name_slot(key, references)
            if slot >= 0:
                best = slot
                behind = end
    if best < 0:
        out[to] = 0x26
        return first, to + 1
    for place in range(references.starts[best], references.stops[best]):
        out[to] = references.data[place]
        to += 1
    return behind, to
