r"""Byte-pair encoding (Sennrich 2016, Radford 2019), exact, for any pattern of pieces.

    text -> starts of pieces (kernels/pieces) -> keys of 256 pieces, their entries on the way
         -> tokens, entry after entry; what has none is merged and remembered

Most pieces were seen before: their tokens are in a table (tables.py), found always by all of their
bytes. The table's lines lie far apart in memory, so a group of pieces first asks for all of them
and then reads them: that, and one loop without branches for most pieces, is what makes this fast.
Pieces that were not seen are merged: short ones are gathered, merged by turns (batches.py), and
their tokens are written between those that stand there already; longer ones are cut where no token
crosses (cutting.py), or merged one by one (merging.py).
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.bpe.batches import MOST as MOST_GATHERED
from gristmill.kernels.bpe.batches import merge_batch, write_piece
from gristmill.kernels.bpe.merging import Scratch, merge_piece, scratch_addresses
from gristmill.kernels.bpe.pairs import Merges, merge_addresses
from gristmill.kernels.bpe.spans import (
    Spans,
    collect,
    find_keys,
    find_parts,
    find_short,
    find_wide,
    search_start,
    span_addresses,
)
from gristmill.kernels.bpe.tables import (
    COUNT_SHIFT,
    FULL,
    INLINE,
    LONG,
    MIDDLE,
    MOST_SHORT,
    SHORT,
    Learned,
    copy_entries,
    remember_long,
    remember_middle,
    remember_short,
    remember_whole,
    table_addresses,
)
from gristmill.kernels.jit import memory
from gristmill.kernels.jit.compile import BYTES, OFFSETS, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64s
from gristmill.kernels.jit.loads import count_ones
from gristmill.kernels.jit.vectors import address_of, equal_entries, move_tokens, store_tokens
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.kernels.pieces.patterns import mark


class _Tokens(NamedTuple):
    """The tokens of n texts."""

    offsets: Int64s  # (n + 1,)
    tokens: Int32s


@helper
def _write_gathered(gathered, end, batch, out, rules, room, tables):
    """Merge the pieces that were gathered, write their tokens between those that stand in `out`,
    and remember them; where tokens end.
    """
    keys, ends, living = batch[0], batch[1], batch[4]
    merge_batch(gathered, batch, rules)
    more = np.int64(0)
    for slot in range(gathered):
        more += count_ones(living[slot])
    parts = room[0]
    stop = end
    end += more
    for slot in range(gathered - 1, -1, -1):
        begin = ends[slot]
        move_tokens(out, begin + more, begin, stop - begin)
        count = write_piece(slot, batch, parts)
        more -= count
        for k in range(count):
            out[begin + more + k] = parts[k]
        remember_short(keys[2 * slot], keys[2 * slot + 1], parts, count, tables)
        stop = begin
    return end


@helper
def _write_parts(piece, gathered, end, spans, out, rules, room, tables):
    """Write the tokens of a long piece that can be cut, or gather its parts. Returns the number of
    gathered pieces, where tokens end, and whether it can be cut: if not, nothing is written.
    """
    data, start, length, readable = piece
    stop = start + length
    batch = spans[4]
    starts, keys, places = spans[5]
    arena, parts = tables[3], room[0]
    count = find_parts(piece, rules[7], spans, tables)
    if count == 1:
        return gathered, end, False
    while True:
        for j in range(count):
            size = starts[j + 1] - starts[j]
            if size > SHORT:
                many = merge_piece(data, starts[j], size, rules, room)
                for k in range(many):
                    out[end + k] = parts[k]
                end += many
                continue
            low, high = find_short(keys, j, places[j], tables)
            many = np.int64(low >> COUNT_SHIFT)
            if many == 0:
                if gathered == MOST_GATHERED:
                    end = _write_gathered(gathered, end, batch, out, rules, room, tables)
                    gathered = np.int64(0)
                batch[0][2 * gathered] = keys[2 * j]
                batch[0][2 * gathered + 1] = keys[2 * j + 1]
                batch[1][gathered] = end
                gathered += 1
            elif many <= INLINE:
                store_tokens(out, end, low, high)
                end += many
            else:
                begin = np.int64(high >> np.uint64(32))
                many = np.int64(high & np.uint64(0xFFFFFFFF))
                for k in range(many):
                    out[end + k] = arena[begin + k]
                end += many
        at = starts[count]
        if at == stop:
            return gathered, end, True
        count = find_parts((data, at, stop - at, readable), rules[7], spans, tables)


@helper
def _learn(piece, hashed, out, end, rules, room, tables):
    """Merge a long piece, write its tokens and remember them; how many there are."""
    data, start, length, readable = piece
    count = merge_piece(data, start, length, rules, room)
    parts = room[0]
    for j in range(count):
        out[end + j] = parts[j]
    if length <= MIDDLE:
        remember_middle(data, start, length, readable, parts, count, tables)
    elif length <= LONG:
        remember_long(data, start, length, hashed, parts, count, tables)
    return count


@kernel(
    *(OFFSETS, BYTES, UINT64S, Merges, Learned, Scratch, Spans, _Tokens, Int64s),
    returns=types.boolean,
)
def _encode(offsets, data, marks, merges, learned, scratch, spans, encoded, progress):
    """Encode from where `progress` says: the word of marks, the text, the token. True: all is done;
    False: a table is full.
    """
    tables, rules, room = (
        table_addresses(learned),
        merge_addresses(merges),
        scratch_addresses(scratch),
    )
    short, arena, used, masks = tables[0], tables[3], tables[5], tables[7]
    addresses = span_addresses(spans)
    starts, keys, places = addresses[:3]
    batch = addresses[4]
    gathered = np.int64(0)
    text_starts, text_bytes, marked = address_of(offsets), address_of(data), address_of(marks)
    out_offsets, out = address_of(encoded.offsets), address_of(encoded.tokens)
    readable = np.int64(len(data))
    last = np.int64(offsets[len(offsets) - 1]) >> 6
    word, text, end = progress[0], progress[1], progress[2]
    while word <= last:
        if used[FULL]:
            if gathered:
                end = _write_gathered(gathered, end, batch, out, rules, room, tables)
            progress[0] = word
            progress[1] = text
            progress[2] = end
            return False
        count, word = collect(marked, word, last, starts)
        find_keys(text_bytes, readable, count, addresses, tables)
        j = np.int64(0)
        while j < count:
            if text_starts[text] == starts[j]:
                if gathered:
                    end = _write_gathered(gathered, end, batch, out, rules, room, tables)
                    gathered = np.int64(0)
                out_offsets[text] = end
                text += 1
                continue
            stop = search_start(text_starts, text, starts, j, count)
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
                    low, high = find_wide(
                        text_bytes, start, length, readable, keys[2 * j], place, tables
                    )
                many = np.int64(low >> COUNT_SHIFT)
                if np.uint64(many - 1) < np.uint64(INLINE):
                    store_tokens(out, end, low, high)
                elif many == 0 and length <= SHORT:
                    if gathered == MOST_GATHERED:
                        end = _write_gathered(gathered, end, batch, out, rules, room, tables)
                        gathered = np.int64(0)
                    batch[0][2 * gathered] = keys[2 * j]
                    batch[0][2 * gathered + 1] = keys[2 * j + 1]
                    batch[1][gathered] = end
                    gathered += 1
                elif many == 0:
                    piece = (text_bytes, start, length, readable)
                    gathered, end, cut = _write_parts(
                        piece, gathered, end, addresses, out, rules, room, tables
                    )
                    if not cut:
                        many = _learn(piece, keys[2 * j], out, end, rules, room, tables)
                else:
                    begin = np.int64(high >> np.uint64(32))
                    many = np.int64(high & np.uint64(0xFFFFFFFF))
                    for k in range(many):
                        out[end + k] = arena[begin + k]
                end += many
                j += 1
    if gathered:
        end = _write_gathered(gathered, end, batch, out, rules, room, tables)
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
        self._spans = Spans.empty()
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


def _powers(sizes: np.ndarray) -> Limits:
    """Return the next powers of two."""
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
    """Return empty tables. The first one, which nearly every piece asks, is half full at most while
    it may grow.
    """
    most = sizes.short // 2 if sizes.short < limits.short else sizes.short * 11 // 16
    return Learned.of(*sizes, most)
