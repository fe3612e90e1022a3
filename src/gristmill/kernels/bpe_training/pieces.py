"""Counts pieces of text in a table (open addressing, linear probing), exactly.

A row of the table is one cache line's half: a piece of up to 15 bytes is its own key, a longer one
has its hash as key and its bytes in `spelling`. Keys of 256 pieces are made, and their rows
fetched, before the first is looked for. Pieces of one byte are left out: they hold no pair.

Nothing grows here: the kernel stops at the piece that has no room, and says where; its caller makes
room and continues.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN, hash_bytes
from gristmill.kernels.jit.compile import BYTES, INT64S, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int64s, Uint64Rows
from gristmill.kernels.jit.loads import count_trailing_zeros, load_u64, load_up_to_8, prefetch

LOW_56 = np.uint64((1 << 56) - 1)
SHORT = 15  # bytes of a piece that fit into two words, with its length
CHUNK = 256  # pieces
LONG = np.uint64(0xFF << 56)  # in the second word, before the length
HEAD, TAIL, COUNT, PLACE = 0, 1, 2, 3  # columns of rows; PLACE: of a long piece's bytes
ROWS, SPELLED, BYTES_OF_PIECES = 0, 1, 2  # what `used` holds


class PieceTable(NamedTuple):
    """Pieces and how often each was met."""

    rows: Uint64Rows  # (a power of two, 4); TAIL is 0 in a free row
    spelling: Bytes
    used: Int64s  # (3,) rows, bytes of the spelling, bytes of all pieces


class PieceChunk(NamedTuple):
    """Pieces that are looked for together."""

    starts: Int64s  # (CHUNK + 1,)
    keys: Uint64Rows  # (CHUNK, 2)
    places: Int64s  # (CHUNK,)


@helper
def _place(head, tail, mask):
    """Return the row where the search for a key begins."""
    mixed = (head ^ (tail >> np.uint64(3))) * GOLDEN + tail
    mixed = (mixed ^ (mixed >> np.uint64(32))) * GOLDEN
    return np.int64(mixed >> np.uint64(32)) & mask


@helper
def _find(rows, spelling, data, start, length, head, tail, place):
    """Return the row of a piece, or the free one where it goes."""
    mask = len(rows) - 1
    while rows[place, TAIL] != 0:
        if rows[place, HEAD] == head and rows[place, TAIL] == tail:
            if length <= SHORT:
                break
            at = np.int64(rows[place, PLACE])
            if _equal(data, start, spelling, at, length):
                break
        place = (place + 1) & mask
    return place


@helper
def _equal(data, start, spelling, at, length):
    for j in range(0, length, 8):
        if load_up_to_8(data, start + j, length - j) != load_up_to_8(spelling, at + j, length - j):
            return False
    return True


@helper
def _make_keys(data, chunk, count, mask, rows):
    """The keys of the pieces between `count` + 1 starts, and the rows where their search begins."""
    starts, keys, places = chunk
    safe = len(data) - 16
    for i in range(count):
        start = starts[i]
        length = starts[i + 1] - start
        if length <= SHORT:
            if start <= safe:
                head = load_u64(data, start)
                tail = load_u64(data, start + 8)
                short = np.uint64(64 - 8 * min(length, 8))
                head = (head << short) >> short
                over = max(length - 8, 0)
                tail &= (np.uint64(1) << np.uint64(8 * over)) - np.uint64(1)
            else:
                head = load_up_to_8(data, start, length)
                tail = np.uint64(0)
                if length > 8:
                    tail = load_up_to_8(data, start + 8, length - 8)
            tail |= np.uint64(length) << np.uint64(56)
        else:
            head = hash_bytes(data, start, start + length)
            tail = LONG | np.uint64(length)
        keys[i, 0] = head
        keys[i, 1] = tail
        place = _place(head, tail, mask)
        places[i] = place
        prefetch(rows, 4 * place)


@kernel(BYTES, UINT64S, types.int64, PieceTable, PieceChunk, returns=types.int64, allocates=True)
def _count(data, marks, at, table, chunk):
    """Count the pieces that start at byte `at` or later; `marks` as of kernels.pieces.mark.

    Returns where the first piece starts that was not counted for want of room; -1: all were.
    """
    rows, spelling, used = table
    starts, keys, places = chunk
    mask = np.int64(len(rows) - 1)
    most = len(rows) // 2
    word = at >> 6
    bits = np.uint64(0)
    if word < len(marks):
        bits = marks[word] & (np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(at & 63))
    filled = np.int64(0)
    while True:
        while filled <= CHUNK:
            while bits == 0 and word + 1 < len(marks):
                word += 1
                bits = marks[word]
            if bits == 0:
                break
            starts[filled] = (word << 6) + count_trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            filled += 1
        if filled < 2:
            return -1
        _make_keys(data, chunk, filled - 1, mask, rows)
        for i in range(filled - 1):
            start = starts[i]
            length = starts[i + 1] - start
            if length < 2:
                continue
            place = _find(rows, spelling, data, start, length, keys[i, 0], keys[i, 1], places[i])
            if rows[place, TAIL] == 0:
                if used[ROWS] >= most:
                    return start
                if length > SHORT:
                    if used[SPELLED] + length > len(spelling):
                        return start
                    spelling[used[SPELLED] : used[SPELLED] + length] = data[start : start + length]
                    rows[place, PLACE] = np.uint64(used[SPELLED])
                    used[SPELLED] += length
                used[ROWS] += 1
                used[BYTES_OF_PIECES] += length
                rows[place, HEAD] = keys[i, 0]
                rows[place, TAIL] = keys[i, 1]
                rows[place, COUNT] = 0
            rows[place, COUNT] += np.uint64(1)
        starts[0] = starts[filled - 1]
        filled = 1


@kernel(PieceTable, PieceTable, allocates=True)
def _add_table(other, table):
    """Add the counts of another table to a table that has room for them."""
    rows, spelling, used = table
    theirs = other.rows
    mask = np.int64(len(rows) - 1)
    for i in range(len(theirs)):
        if theirs[i, TAIL] == 0:
            continue
        head, tail = theirs[i, HEAD], theirs[i, TAIL]
        length = np.int64(tail >> np.uint64(56))
        at = np.int64(theirs[i, PLACE])
        if length > SHORT:
            length = np.int64(tail & LOW_56)
        place = _find(
            rows, spelling, other.spelling, at, length, head, tail, _place(head, tail, mask)
        )
        if rows[place, TAIL] == 0:
            rows[place, HEAD] = head
            rows[place, TAIL] = tail
            rows[place, COUNT] = 0
            if length > SHORT:
                spelling[used[SPELLED] : used[SPELLED] + length] = other.spelling[at : at + length]
                rows[place, PLACE] = np.uint64(used[SPELLED])
                used[SPELLED] += length
            used[ROWS] += 1
            used[BYTES_OF_PIECES] += length
        rows[place, COUNT] += theirs[i, COUNT]


@kernel(PieceTable, INT64S, types.uint8[::1], types.int64[::1], allocates=True)
def _spell(table, order, blob, offsets):
    """Write the bytes of the pieces in these rows, consecutively."""
    rows, spelling = table.rows, table.spelling
    end = np.int64(0)
    for i in range(len(order)):
        offsets[i] = end
        tail = rows[order[i], TAIL]
        length = np.int64(tail >> np.uint64(56))
        if length <= SHORT:
            word = rows[order[i], HEAD]
            for j in range(length):
                if j == 8:
                    word = tail
                blob[end + j] = np.uint8(word & np.uint64(0xFF))
                word >>= np.uint64(8)
        else:
            length = np.int64(tail & LOW_56)
            at = np.int64(rows[order[i], PLACE])
            blob[end : end + length] = spelling[at : at + length]
        end += length
    offsets[len(order)] = end


class CountedPieces(NamedTuple):
    """Pieces of two or more bytes and how often each was met, the most frequent first."""

    blob: np.ndarray  # (bytes,) uint8
    offsets: np.ndarray  # (n + 1,) int64
    counts: np.ndarray  # (n,) int64


class PieceCounter:
    """Counts the pieces of batches of texts. Not for two threads at once.

    Memory: 64 to 128 bytes for each piece that was met, and the bytes of those over 15 bytes.
    """

    def __init__(self) -> None:
        """Start with no piece."""
        self._table = _free_table(1 << 14, 1 << 16)
        self._chunk = PieceChunk(
            np.empty(CHUNK + 1, np.int64),
            np.empty((CHUNK, 2), np.uint64),
            np.empty(CHUNK, np.int64),
        )

    def __len__(self) -> int:
        """Return how many different pieces were met."""
        return int(self._table.used[ROWS])

    @property
    def bytes(self) -> int:
        """Return the bytes of the different pieces."""
        return int(self._table.used[BYTES_OF_PIECES])

    def count(self, marks: np.ndarray, data: np.ndarray) -> None:
        """Count the pieces of data (bytes,) uint8 that start where `marks` says, the result of
        kernels.pieces.mark; the last mark is the end of the last piece.
        """
        at = 0
        while (at := _count(data, marks, at, self._table, self._chunk)) >= 0:
            rows, spelling, used = self._table
            if used[ROWS] >= len(rows) // 2:
                self._table = _with_room(self._table, 2 * len(rows), len(spelling))
            else:
                more = np.empty(len(spelling) + len(data), np.uint8)
                self._table = self._table._replace(spelling=np.concatenate([spelling, more]))

    def add(self, other: "PieceCounter") -> None:
        """Add the counts of another counter."""
        rows, spelling, used = self._table
        wanted = 2 * (len(self) + len(other))
        size = len(rows)
        while size < wanted:
            size *= 2
        spelled = int(used[SPELLED] + other._table.used[SPELLED])
        self._table = _with_room(self._table, size, max(spelled, len(spelling)))
        _add_table(other._table, self._table)

    def pieces(self) -> CountedPieces:
        """Return the pieces, the most frequent first; those of equal counts in no stated order."""
        rows = self._table.rows
        order = np.flatnonzero(rows[:, TAIL])
        counts = rows[order, COUNT].astype(np.int64)
        by_count = np.argsort(-counts, kind="stable")
        order, counts = order[by_count], counts[by_count]
        blob = np.empty(self.bytes, np.uint8)
        offsets = np.empty(len(order) + 1, np.int64)
        _spell(self._table, order, blob, offsets)
        return CountedPieces(blob, offsets, counts)


def _free_table(rows: int, spelling: int) -> PieceTable:
    return PieceTable(
        np.zeros((rows, 4), np.uint64), np.empty(spelling, np.uint8), np.zeros(3, np.int64)
    )


def _with_room(table: PieceTable, rows: int, spelling: int) -> PieceTable:
    """Return a table of the same counts with this room."""
    if rows == len(table.rows) and spelling == len(table.spelling):
        return table
    larger = _free_table(rows, spelling)
    _add_table(table, larger)
    return larger
