r"""Byte-pair encoding (Sennrich 2016, Radford 2019), exact, for any pattern of pieces.

    text -> starts of pieces (kernels/pieces) -> keys of 256 pieces, their entries on the way
         -> tokens, entry after entry; what has none is merged and remembered

Most pieces were seen before: their tokens are in a table (tables.py), found always by all of their
bytes. The table's lines lie far apart in memory, so a group of pieces first asks for all of them
and then reads them: that, and one loop without branches for most pieces, is what makes this fast.
Pieces that were not seen are merged (merging.py).
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.bpe.merging import Scratch, merge_piece, room_of
from gristmill.kernels.bpe.pairs import Merges, rules_of
from gristmill.kernels.bpe.tables import (
    COUNT_SHIFT,
    FULL,
    INLINE,
    LENGTH_SHIFT,
    LONG,
    MIDDLE,
    MOST_SHORT,
    SHORT,
    Learned,
    copy_entries,
    hash_long,
    hash_middle,
    hash_short,
    is_long,
    is_middle,
    line_of,
    load_up_to_8_before,
    remember_long,
    remember_middle,
    remember_short,
    remember_whole,
    tables_of,
)
from gristmill.kernels.jit import memory
from gristmill.kernels.jit.compile import BYTES, OFFSETS, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64s, Uint64s
from gristmill.kernels.jit.loads import ONE, count_ones, count_trailing_zeros, load_u64
from gristmill.kernels.jit.vectors import address_of, equal_entries, prefetch, store_tokens
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.kernels.pieces.patterns import mark

GROUP = 256  # pieces whose entries are asked for together


class _Spans(NamedTuple):
    """A group of pieces; a mask of 64 bytes may add 63 to it, and writes 8 at a time."""

    starts: Int32s  # (GROUP + 80,)
    keys: Uint64s  # the first two words of short entries, or the hash of a long piece
    places: Int64s  # the word at which an entry's table is searched first
    masks: Uint64s  # (32,) of each length the bytes that it leaves of the two words


class _Tokens(NamedTuple):
    """The tokens of n texts."""

    offsets: Int64s  # (n + 1,)
    tokens: Int32s


@helper
def _write_ones(mask, base, out, count):
    """Write the positions of a mask's set bits; up to 8 places more are written and mean nothing.
    (As kernels/text/words.py does.)
    """
    ones = count_ones(mask)
    written = np.int64(0)
    while written < ones:
        for k in range(8):
            out[count + written + k] = base + count_trailing_zeros(mask)
            mask &= mask - ONE
        written += 8
    return count + ones


@helper
def _collect(marks, word, last, starts):
    """Write the starts of a group of pieces, and where the last of them stops; (pieces, next word).

    The last mark of all is no start.
    """
    count = np.int64(0)
    while count < GROUP and word <= last:
        count = _write_ones(marks[word], word << 6, starts, count)
        word += 1
    ahead = word
    while ahead <= last and marks[ahead] == 0:
        ahead += 1
    if ahead > last:
        return count - 1, word
    starts[count] = (ahead << 6) + count_trailing_zeros(marks[ahead])
    return count, word


@helper
def _find_keys(data, readable, count, spans, tables):
    """Compute where each piece's entry is searched, and ask for its line."""
    starts, keys, places, masks_of_length = spans
    short, middle, long, masks = tables[0], tables[1], tables[2], tables[7]
    safe = readable - 16
    for j in range(count):
        start = np.int64(starts[j])
        length = np.int64(starts[j + 1]) - start
        if length <= SHORT:
            if start <= safe:
                head = load_u64(data, start) & masks_of_length[2 * length]
                tail = load_u64(data, start + 8) & masks_of_length[2 * length + 1]
            else:
                head = load_up_to_8_before(data, start, length, readable)
                tail = np.uint64(0)
                if length > 8:
                    tail = load_up_to_8_before(data, start + 8, length - 8, readable)
            tail |= np.uint64(length) << LENGTH_SHIFT
            place = line_of(hash_short(head, tail), masks[0])
            prefetch(short, place)
            keys[2 * j] = head
            keys[2 * j + 1] = tail
            places[j] = place
        elif length <= MIDDLE:
            place = line_of(hash_middle(data, start, length), masks[1])
            prefetch(middle, place)
            places[j] = place
        elif length <= LONG:
            hashed = hash_long(data, start, length)
            place = line_of(hashed, masks[2])
            prefetch(long, place)
            keys[2 * j] = hashed
            places[j] = place


@helper
def _find_wide(data, start, length, readable, head, place, tables):
    """The two words of tokens of a piece of more than SHORT bytes; 0 where it has no entry."""
    middle, long, spelling, masks = tables[1], tables[2], tables[4], tables[7]
    if length <= MIDDLE:
        while middle[place + 5] != 0:
            if is_middle(data, start, length, readable, place, middle):
                return middle[place + 6], middle[place + 7]
            place = np.int64(np.uint64(place + 8) & masks[1])
    elif length <= LONG:
        while long[place] != 0:
            if long[place] == head and long[place + 1] >> np.uint64(32) == np.uint64(length):
                begin = np.int64(long[place + 1] & np.uint64(0xFFFFFFFF))
                if is_long(data, start, length, begin, spelling):
                    return long[place + 2], long[place + 3]
            place = np.int64(np.uint64(place + 4) & masks[2])
    return np.uint64(0), np.uint64(0)


@helper
def _learn(piece, keys, out, end, rules, room, tables):
    """Merge a piece, write its tokens and remember them; how many there are."""
    data, start, length, readable = piece
    head, tail = keys
    count = merge_piece(data, start, length, rules, room)
    parts = room[0]
    for j in range(count):
        out[end + j] = parts[j]
    if length <= SHORT:
        remember_short(head, tail, parts, count, tables)
    elif length <= MIDDLE:
        remember_middle(data, start, length, readable, parts, count, tables)
    elif length <= LONG:
        remember_long(data, start, length, head, parts, count, tables)
    return count


@helper
def _search(offsets, text, starts, first, count):
    """The piece from first + 1 on at which a text starts; `count` if that is in a later group."""
    boundary = offsets[text]
    if boundary >= starts[count]:
        return count
    low = first + 1
    high = count
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] < boundary:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(
    *(OFFSETS, BYTES, UINT64S, Merges, Learned, Scratch, _Spans, _Tokens, Int64s),
    returns=types.boolean,
)
def _encode(offsets, data, marks, merges, learned, scratch, spans, encoded, progress):
    """Encode from where `progress` says: the word of marks, the text, the token. True: all is done;
    False: a table is full.
    """
    tables, rules, room = tables_of(learned), rules_of(merges), room_of(scratch)
    short, arena, used, masks = tables[0], tables[3], tables[5], tables[7]
    addresses = (
        address_of(spans.starts),
        address_of(spans.keys),
        address_of(spans.places),
        address_of(spans.masks),
    )
    starts, keys, places = addresses[:3]
    text_starts, text_bytes, marked = address_of(offsets), address_of(data), address_of(marks)
    out_offsets, out = address_of(encoded.offsets), address_of(encoded.tokens)
    readable = np.int64(len(data))
    last = np.int64(offsets[len(offsets) - 1]) >> 6
    word, text, end = progress[0], progress[1], progress[2]
    while word <= last:
        if used[FULL]:
            progress[0] = word
            progress[1] = text
            progress[2] = end
            return False
        count, word = _collect(marked, word, last, starts)
        _find_keys(text_bytes, readable, count, addresses, tables)
        j = np.int64(0)
        while j < count:
            if text_starts[text] == starts[j]:
                out_offsets[text] = end
                text += 1
                continue
            stop = _search(text_starts, text, starts, j, count)
            while j < stop:
                start = np.int64(starts[j])
                length = np.int64(starts[j + 1]) - start
                place = places[j]
                low = np.uint64(0)
                high = np.uint64(0)
                if length <= SHORT:
                    while True:
                        equal = equal_entries(short, place, keys, 2 * j)
                        if equal != 0:
                            at = place + ((equal >> 2) & 4)
                            low = short[at + 2]
                            high = short[at + 3]
                            break
                        if short[place + 5] == 0:
                            break
                        place = np.int64(np.uint64(place + 8) & masks[0])
                else:
                    low, high = _find_wide(
                        text_bytes, start, length, readable, keys[2 * j], place, tables
                    )
                many = np.int64(low >> COUNT_SHIFT)
                if np.uint64(many - 1) < np.uint64(INLINE):
                    store_tokens(out, end, low, high)
                elif many == 0:
                    piece = (text_bytes, start, length, readable)
                    many = _learn(
                        piece, (keys[2 * j], keys[2 * j + 1]), out, end, rules, room, tables
                    )
                else:
                    begin = np.int64(high >> np.uint64(32))
                    many = np.int64(high & np.uint64(0xFFFFFFFF))
                    for k in range(many):
                        out[end + k] = arena[begin + k]
                end += many
                j += 1
    while text < len(offsets):
        out_offsets[text] = end
        text += 1
    return True


class Limits(NamedTuple):
    """How large the tables of an encoder may become: 62 MB at most as they are."""

    short: int = 1 << 20  # pieces of up to 15 bytes, 32 bytes each
    middle: int = 1 << 18  # pieces of up to 47 bytes, 64 bytes each
    long: int = 1 << 15  # pieces of up to 1,000 bytes, 32 bytes each
    arena: int = 1 << 20  # tokens of pieces that have more than six
    spelling: int = 1 << 22  # bytes of long pieces


MOST = Limits()


class Encoder:
    """Encodes batches of texts; remembers the pieces it has met. Not for two threads at once."""

    def __init__(
        self, merges: Merges, pattern: Pattern = Pattern.GPT2, limits: Limits = MOST
    ) -> None:
        """Start with tables that know the whole tokens and have room for more pieces."""
        self._merges = merges
        self._pattern = pattern
        lengths = np.diff(merges.token_offsets)[merges.whole_tokens]
        short, middle = np.count_nonzero(lengths <= SHORT), np.count_nonzero(lengths <= MIDDLE)
        long, spelling = len(lengths) - middle, int(lengths[lengths > MIDDLE].sum())
        counts = np.array([short, middle - short, long, 0, spelling])
        least = _powers(2 * counts + (64, 64, 64, 2048, 2048))
        # A third full of whole tokens at most: a process that encodes little pays for little.
        # Nothing is written into arena and spelling before it is used, so that they cost nothing.
        first = _powers(3 * counts + (4096, 32768, 2048, MOST.arena, MOST.spelling))
        self._limits = Limits(*map(max, least, limits))
        self._learned = _tables(Limits(*map(min, first, self._limits)), self._limits)
        self._scratch = Scratch.of(1 << 12)
        room = GROUP + 80
        self._spans = _Spans(
            np.zeros(room, np.int32),
            np.zeros(2 * room, np.uint64),
            np.zeros(room, np.int64),
            _masks(),
        )
        self._remember_whole()

    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encode n texts in UTF-8, offsets (n + 1,) int32 into data (bytes,) uint8.

        Returns (token offsets (n + 1,) int64, tokens (m,) int32).
        """
        size = int(offsets[-1]) - int(offsets[0])
        if size == 0:
            return np.zeros(len(offsets), np.int64), np.empty(0, np.int32)
        encoded = _Tokens(np.empty(len(offsets), np.int64), memory.zeros(size + 8, np.int32))
        marks = mark(self._pattern, offsets, data)
        longest = int(np.diff(offsets).max())
        scratch = self._scratch
        if longest >= len(scratch.parts):
            scratch = Scratch.of(longest)
        progress = np.array([int(offsets[0]) >> 6, 0, 0], np.int64)
        while not _encode(
            *(offsets, data, marks, self._merges, self._learned, scratch, self._spans),
            *(encoded, progress),
        ):
            self._make_room()
        return encoded.offsets, encoded.tokens[: encoded.offsets[-1]]

    def _remember_whole(self) -> None:
        remember_whole(self._merges, np.empty(1, np.int32), self._learned)

    def _make_room(self) -> None:
        """Double the tables that are full; if one may not grow, forget what was learned."""
        old = self._learned
        sizes = _sizes(old)
        full = int(old.used[FULL])
        wanted = {
            name: size << (full >> place & 1)
            for place, (name, size) in enumerate(sizes._asdict().items())
        }
        if any(size > limit for size, limit in zip(wanted.values(), self._limits, strict=True)):
            for table in (old.short, old.middle, old.long, old.used[:MOST_SHORT]):
                table[:] = 0
            self._remember_whole()
            return
        grown = _tables(Limits(**wanted), self._limits)
        # Only what grew is written anew: the others are the same arrays, and nothing to copy.
        nothing = _tables(Limits(0, 0, 0, 0, 0), self._limits)
        same = [name for name in sizes._fields if wanted[name] == getattr(sizes, name)]
        before = old._replace(**{name: getattr(nothing, name) for name in same})
        old.used[MOST_SHORT] = grown.used[MOST_SHORT]
        new = grown._replace(used=old.used, **{name: getattr(old, name) for name in same})
        new.arena[: len(before.arena)] = before.arena
        new.spelling[: len(before.spelling)] = before.spelling
        copy_entries(before, before.middle.view(np.uint8), new)
        new.used[FULL] = 0
        self._learned = new


def _masks() -> np.ndarray:
    """Of each length up to SHORT, the bits of its bytes in two words, (32,) uint64."""
    bits = [(1 << 8 * length) - 1 for length in range(SHORT + 1)]
    words = [word for mask in bits for word in (mask & (1 << 64) - 1, mask >> 64)]
    return np.array(words, np.uint64)


def _powers(sizes: np.ndarray) -> Limits:
    """The next powers of two."""
    return Limits(*(1 << (size - 1).bit_length() for size in sizes.tolist()))


def _sizes(learned: Learned) -> Limits:
    return Limits(
        len(learned.short) // 4,
        len(learned.middle) // 8,
        len(learned.long) // 4,
        len(learned.arena),
        len(learned.spelling),
    )


def _tables(sizes: Limits, limits: Limits) -> Learned:
    """Empty tables. The first one, which nearly every piece asks, is half full at most while it may
    grow.
    """
    most = sizes.short // 2 if sizes.short < limits.short else sizes.short * 11 // 16
    return Learned.of(*sizes, most)
