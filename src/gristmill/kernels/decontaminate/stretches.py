"""Stretches of documents beside benchmark items, by MinHash signatures and their bands.

    signatures of a document's blocks -> those of its stretches: minima of blocks in a row
    a stretch's band keys             -> a bitmap, a table -> the parts that have one of them
    both signatures                   -> in how many places they agree

Stretches are the whole document, then 1, 2, 3, 4, 6, 8, 12 ... blocks at every block. Nearly all
keys end at the bitmap: a document of 5,000 bytes has some 50,000.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import PRIME, mix
from gristmill.kernels.jit.compile import INT64S, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import (
    Int64Rows,
    Int64s,
    ReadInt32s,
    ReadInt64s,
    ReadUint64s,
    Uint32Rows,
    Uint32s,
    Uint64s,
    read_only,
)
from gristmill.kernels.jit.loads import ONE

SIGNATURES = types.Array(types.uint32, 2, "C", readonly=True)
BITS_A_KEY = 12  # of the bitmap, at least; of what is not there 2 % or less goes on to the table


class PartKeys(NamedTuple):
    """The band keys of parts, ready to be looked up."""

    keys: ReadUint64s  # (k,): equal ones stand together
    owners: ReadInt32s  # (k,): of each key its part
    bitmap: ReadUint64s  # (2^b,): a Bloom filter (1970), two bits of one word a key
    table: ReadInt64s  # (2^t,), open addressing: 1 + the place of a key's first owner; 0: none
    # (s,): blocks of stretches, a power of two and half of it or none; first 0: whole documents
    sizes: ReadInt64s
    halves: ReadInt64s
    most: int  # parts of a key that are compared, the first


class Alike(NamedTuple):
    """Parts that documents were compared with, r rows by document, then part: the stretch that
    agrees most, of equal ones the first.
    """

    documents: np.ndarray  # (r,) int64, as all
    parts: np.ndarray
    agreements: np.ndarray  # places of the signatures that agree
    starts: np.ndarray  # the stretch's first block in its document
    stops: np.ndarray  # the block behind it


class _Room(NamedTuple):
    """What comparing takes."""

    least: Uint32Rows  # (blocks of a document, k): of each block and those behind it
    stretch: Uint32s  # (k,)
    bands: Uint64s  # (bands,): where a band's key begins
    # the same memory as `stretch`, (k // bands, bands): such loops numba makes vectors of
    banded: Uint32Rows
    found: Uint64s  # (bands,): their keys
    # (p, 6): of each part the last document, its best stretch (agreement, start, stop), the last
    # stretch; the parts that were touched
    by_part: Int64Rows
    rows: Int64Rows
    ends: Int64s  # rows written, stretches compared


@helper
def _key_bits(key):
    return (ONE << (key >> np.uint64(52) & np.uint64(63))) | (
        ONE << (key >> np.uint64(58) & np.uint64(63))
    )


@kernel(UINT64S, types.uint64[::1], types.int64[::1])
def _enter(keys, bitmap, table):
    """Enter sorted keys into the bitmap and the table."""
    word, last = np.uint64(len(bitmap) - 1), np.uint64(len(table) - 1)
    for j in range(len(keys)):
        key = keys[j]
        if j and keys[j - 1] == key:
            continue
        bitmap[key & word] |= _key_bits(key)
        place = key & last
        while table[place] != 0:
            place = (place + ONE) & last
        table[place] = j + 1


@helper
def _compare(document, start, stop, room, known, signatures, touched):
    """Compare room.stretch, blocks start to stop of a document, with the parts that share a key;
    how many parts the document has touched.
    """
    stretch, banded, by_part = room.stretch, room.banded, room.by_part
    found, bands = room.found, len(room.bands)
    keys, bitmap, table = known.keys, known.bitmap, known.table
    word, last = np.uint64(len(bitmap) - 1), np.uint64(len(table) - 1)
    room.ends[1] += 1
    serial = room.ends[1]
    for band in range(bands):
        found[band] = room.bands[band]
    for row in range(len(banded)):  # bands side by side
        for band in range(bands):
            key = (found[band] ^ np.uint64(banded[row, band])) * PRIME
            found[band] = key ^ (key >> np.uint64(29))
    for band in range(bands):
        found[band] = mix(found[band])
    for band in range(bands):
        key = found[band]
        bits = _key_bits(key)
        if bitmap[key & word] & bits != bits:
            continue
        place = key & last
        while table[place] != 0 and keys[table[place] - 1] != key:
            place = (place + ONE) & last
        if table[place] == 0:
            continue
        first = table[place] - 1
        for j in range(first, min(first + known.most, len(keys))):
            if keys[j] != key:
                break
            part = np.int64(known.owners[j])
            best = by_part[part]
            if best[4] == serial:
                continue
            best[4] = serial
            other = signatures[part]
            same = np.int64(0)
            for k in range(len(stretch)):
                same += stretch[k] == other[k]
            if best[0] != document + 1:
                best[0] = document + 1
                best[1] = -1
                by_part[touched, 5] = part
                touched += 1
            if same > best[1] or (same == best[1] and start < best[2]):
                best[1], best[2], best[3] = same, start, stop
    return touched


@kernel(SIGNATURES, INT64S, types.int64, SIGNATURES, PartKeys, _Room, returns=types.int64)
def _find(blocks, offsets, first, signatures, known, room):
    """Compare documents from `first` on, until all are done or there may be no room; the first that
    is not done. offsets (n + 1,) are each document's blocks.
    """
    least, stretch, by_part, rows = room.least, room.stretch, room.by_part, room.rows
    width = len(stretch)
    row = np.int64(0)
    done = first
    for i in range(first, len(offsets) - 1):
        if len(rows) - row < len(by_part):
            break
        done = i + 1
        count = offsets[i + 1] - offsets[i]
        if count == 0:
            continue
        for k in range(width):
            stretch[k] = blocks[offsets[i], k]
        for block in range(count):
            for k in range(width):
                value = blocks[offsets[i] + block, k]
                least[block, k] = value
                stretch[k] = min(stretch[k], value)
        touched = np.int64(0)
        for step in range(len(known.sizes)):
            size, more = known.sizes[step], known.halves[step]
            if size > 1 and more == 0:  # `least` is of half as many blocks
                for start in range(count - size + 1):
                    for k in range(width):
                        least[start, k] = min(least[start, k], least[start + size // 2, k])
            length = size + more if size else count
            for start in range(count - length + 1):
                if more:
                    for k in range(width):
                        stretch[k] = min(least[start, k], least[start + more, k])
                elif size:
                    for k in range(width):
                        stretch[k] = least[start, k]
                touched = _compare(i, start, start + length, room, known, signatures, touched)
        for t in range(touched):
            part = by_part[t, 5]
            rows[row, 0] = i
            rows[row, 1] = part
            rows[row, 2], rows[row, 3], rows[row, 4] = (
                by_part[part, 1],
                by_part[part, 2],
                by_part[part, 3],
            )
            row += 1
    room.ends[0] = row
    return done


def _power(least: int) -> int:
    return 1 << max(int(least - 1).bit_length(), 6)


def known_keys(keys: np.ndarray, owners: np.ndarray, *, longest: int, most: int) -> PartKeys:
    """Band keys (k,) uint64 of parts, owners (k,) int32, in any order; `longest`: blocks of the
    longest stretch, `most`: parts of a key that are compared.
    """
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    bitmap = np.zeros(_power(BITS_A_KEY * len(keys) // 64), np.uint64)
    table = np.zeros(_power(2 * len(keys)), np.int64)
    _enter(keys, bitmap, table)
    lengths, size = [(0, 0), (1, 0)], 2
    while size <= longest:
        lengths += [(size, more) for more in (0, size // 2) if size + more <= longest]
        size *= 2
    owners = owners[order].astype(np.int32)
    sizes, halves = (np.array(column, np.int64) for column in zip(*lengths, strict=True))
    return PartKeys(keys, owners, bitmap, table, sizes, halves, most)


def find_alike(
    blocks: np.ndarray,
    offsets: np.ndarray,
    signatures: np.ndarray,
    known: PartKeys,
    *,
    bands: int,
    room: int = 1 << 16,
) -> Alike:
    """Compare the stretches of n documents with p parts: blocks (b, k) and signatures (p, k)
    uint32, offsets (n + 1,) int64 the blocks of each document. Each of `bands` has a key, as
    hashing/minhash.py's `band_keys` in scope 0; a signature holds the first number of every band,
    then the second.
    """
    count, (parts, width) = len(offsets) - 1, signatures.shape
    begin = np.arange(1, bands + 1, dtype=np.uint64)
    _mix_all(begin)
    stretch = np.zeros(width, np.uint32)
    held = _Room(
        np.empty((int(np.diff(offsets).max(initial=0)), width), np.uint32),
        stretch,
        begin,
        stretch.reshape(-1, bands),
        np.empty(bands, np.uint64),
        np.zeros((parts, 6), np.int64),
        np.empty((max(room, parts), 5), np.int64),
        np.zeros(2, np.int64),
    )
    known, done, got = read_only(known), 0, [np.empty((0, 5), np.int64)]
    while done < count:
        done = _find(blocks, offsets, done, signatures, known, held)
        got.append(held.rows[: held.ends[0]].copy())
    rows = np.concatenate(got)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    return Alike(*(np.ascontiguousarray(rows[:, column]) for column in range(5)))


@kernel(types.uint64[::1])
def _mix_all(values):
    for j in range(len(values)):
        values[j] = mix(values[j])
