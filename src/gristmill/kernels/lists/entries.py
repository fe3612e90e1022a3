"""Lists of millions of entries: read from bytes, and looked up.

A list is its entries one behind another, and an open-addressing table of 64-bit slots: the upper
half of the entry's hash, and 1 + its number. So a look-up that finds nothing costs about one cache
line, and one that finds something compares the strings. Hashes run from the last byte to the first:
on one way through a host's name they give the hash of every domain above it.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, PRIME, mix
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import (
    Bytes,
    Int32s,
    Int64s,
    ReadBytes,
    ReadInt32s,
    ReadUint64s,
    read_only,
)
from gristmill.kernels.unicode.tables import (
    CLASSES,
    PYTHON_SPACE,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)

# What becomes of a line.
AS_WRITTEN, LOWER_CASE, WORD = 0, 1, 2  # WORD: its ASCII letters and digits alone, in lower case
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class Table(NamedTuple):
    """A list of n entries."""

    offsets: ReadInt32s  # (n + 1,) into data
    data: ReadBytes
    slots: ReadUint64s  # (a power of two,); 0: free
    longest: int  # of the entries, in bytes


class Gathered(NamedTuple):
    """What a list's bytes hold."""

    offsets: np.ndarray  # (n + 1,) int32 into data
    data: np.ndarray  # (bytes,) uint8
    nuls: int  # bytes 0
    lines: int  # that are neither blank nor comments
    ill_formed: int  # of them not in UTF-8


@helper
def lower(byte):
    """Return a byte, A to Z in lower case."""
    if 0x41 <= byte <= 0x5A:
        return np.uint8(byte | 0x20)
    return np.uint8(byte)


@helper
def in_word(byte):
    """Return whether a byte is an ASCII letter or digit."""
    lower = byte | 0x20
    return 0x61 <= lower <= 0x7A or 0x30 <= byte <= 0x39


@helper
def blank(byte):
    """Return whether an ASCII byte is what str.strip takes away."""
    return 9 <= byte <= 13 or 28 <= byte <= 32


@helper
def _well_formed(data, start, stop):
    """Return whether data[start:stop] is UTF-8 (RFC 3629; Unicode's table 3-7)."""
    at = start
    while at < stop:
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        width = lead_width(lead)
        if at + width > stop:
            return False
        second = data[at + 1]
        least = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        most = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if second < least or second > most:
            return False
        for j in range(2, width):
            if data[at + j] & 0xC0 != 0x80:
                return False
        at += width
    return True


@helper
def _strip(data, start, stop, wide, classes):
    """data[start:stop] without the white space at both ends; `wide`: it is UTF-8 and not all
    ASCII.
    """
    while start < stop:
        width = lead_width(data[start]) if wide else 1
        if width == 1:
            if not blank(data[start]):
                break
        elif unicode_bits(code_point(data, start, width), classes) & PYTHON_SPACE == 0:
            break
        start += width
    while start < stop:
        last = stop - 1
        while wide and data[last] & 0xC0 == 0x80:
            last -= 1
        width = stop - last
        if width == 1:
            if not blank(data[last]):
                break
        elif unicode_bits(code_point(data, last, width), classes) & PYTHON_SPACE == 0:
            break
        stop = last
    return start, stop


@kernel(BYTES, returns=types.int64)
def _count_lines(data):
    count = np.int64(1)
    for at in range(len(data)):
        count += np.int64(data[at] == 10) | np.int64(data[at] == 13)
    return count


@kernel(Bytes, types.int64, Int32s, Int64s, PointBits, returns=types.int64)
def _gather(data, form, offsets, counted, classes):
    entries = np.int64(0)
    written = np.int64(0)
    nuls = np.int64(0)
    lines = np.int64(0)
    ill_formed = np.int64(0)
    at = np.int64(0)
    offsets[0] = 0
    while at < len(data):
        # A line is written as it is read, at or before its own place, and then cut to what counts.
        end = written
        high = np.uint8(0)
        while at < len(data):
            byte = data[at]
            if byte < 14:
                if byte == 10 or byte == 13:
                    break
                nuls += np.int64(byte == 0)
            data[end] = byte
            high |= byte
            end += 1
            at += 1
        at += 1
        if end == written or data[written] == 0x23:
            continue
        begin = written
        if high >= 0x80 or data[begin] <= 0x20 or data[end - 1] <= 0x20:
            wide = high >= 0x80 and _well_formed(data, begin, end)
            begin, end = _strip(data, begin, end, wide, classes)
            if begin == end:
                continue
            ill_formed += np.int64(high >= 0x80 and not wide)
        lines += 1
        if form == AS_WRITTEN and begin == written:
            written = end
        else:
            for j in range(begin, end):
                byte = data[j]
                if form != AS_WRITTEN:
                    byte = lower(byte)
                if form != WORD or in_word(byte):
                    data[written] = byte
                    written += 1
        if written > offsets[entries]:
            entries += 1
            offsets[entries] = written
    counted[0] = nuls
    counted[1] = lines
    counted[2] = ill_formed
    return entries


def gather(data: np.ndarray, form: int = AS_WRITTEN) -> Gathered:
    """Return the entries of a list, one a line, from its bytes (fewer than 2**31, uint8), which are
    overwritten.

    Lines end as Python's universal newlines do. Lines that start with `#` are comments; white space
    around an entry goes, and so do lines that hold nothing else, or with WORD no letter or digit.
    """
    offsets, counted = np.empty(_count_lines(data) + 1, np.int32), np.zeros(3, np.int64)
    entries = _gather(data, form, offsets, counted, CLASSES)
    offsets = offsets[: entries + 1].copy()
    return Gathered(offsets, data[: offsets[-1]], *counted.tolist())


@helper
def hash_backwards(data, start, stop):
    """FNV-1a of data[start:stop], read backwards; `mix` makes a slot's place and tag of it."""
    value = BASIS
    for at in range(stop - 1, start - 1, -1):
        value = (value ^ np.uint64(data[at])) * PRIME
    return value


@helper
def _equal(data, start, length, fold, offsets, entries, entry):
    """Return whether data[start:start + length] is an entry; `fold`: in lower case."""
    first = np.int64(offsets[entry])
    if offsets[entry + 1] - first != length:
        return False
    for j in range(length):
        byte = data[start + j]
        if fold:
            byte = lower(byte)
        if byte != entries[first + j]:
            return False
    return True


@helper
def find(value, data, start, stop, fold, table):
    """1 + the entry that is data[start:stop], whose hash is `value`; 0: none."""
    slots = table.slots
    value = mix(value)
    mask = np.uint64(len(slots) - 1)
    place = value & mask
    while True:
        slot = slots[np.int64(place)]
        if slot == 0:
            return np.int64(0)
        if slot >> HALF == value >> HALF:
            entry = np.int64(slot & LOW) - 1
            if _equal(data, start, stop - start, fold, table.offsets, table.data, entry):
                return entry + 1
        place = (place + np.uint64(1)) & mask


@kernel(OFFSETS, BYTES, types.uint64[::1], types.uint64[::1])
def _index(offsets, entries, slots, hashes):
    mask = np.uint64(len(slots) - 1)
    for block in range(0, len(offsets) - 1, len(hashes)):
        behind = min(block + len(hashes), len(offsets) - 1)
        # Hashed first: so the processor waits for many slots together.
        for entry in range(block, behind):
            hashes[entry - block] = mix(
                hash_backwards(entries, np.int64(offsets[entry]), np.int64(offsets[entry + 1]))
            )
        for entry in range(block, behind):
            value = hashes[entry - block]
            start = np.int64(offsets[entry])
            length = np.int64(offsets[entry + 1]) - start
            place = value & mask
            # An entry that is there already takes no second slot.
            while slots[np.int64(place)] != 0:
                slot = slots[np.int64(place)]
                if slot >> HALF == value >> HALF:
                    if _equal(
                        entries, start, length, False, offsets, entries, np.int64(slot & LOW) - 1
                    ):
                        break
                place = (place + np.uint64(1)) & mask
            else:
                slots[np.int64(place)] = (value >> HALF << HALF) | np.uint64(entry + 1)


def index(offsets: np.ndarray, data: np.ndarray) -> Table:
    """Return a table of n entries, none of them empty: offsets (n + 1,) int32 into data. Of equal
    ones the first has the number.
    """
    count = len(offsets) - 1
    # At most two thirds of the slots are taken.
    slots = np.zeros(1 << (count * 3 // 2).bit_length(), np.uint64)
    _index(offsets, data, slots, np.empty(256, np.uint64))
    longest = int(np.diff(offsets).max(initial=0))
    return Table(offsets, data, slots, longest)


@kernel(OFFSETS, BYTES, Table, types.int32[::1])
def _find_whole(offsets, data, table, found):
    for i in range(len(offsets) - 1):
        start = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        found[i] = 0
        if stop - start <= table.longest:
            value = hash_backwards(data, start, stop)
            found[i] = find(value, data, start, stop, False, table)


def find_whole(offsets: np.ndarray, data: np.ndarray, table: Table) -> np.ndarray:
    """1 + the entry that each text is, (n,) int32; 0: none. Texts are offsets (n + 1,) int32 into
    data.
    """
    found = np.empty(len(offsets) - 1, np.int32)
    _find_whole(offsets, data, read_only(table), found)
    return found
