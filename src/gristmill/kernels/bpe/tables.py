"""The pieces that an encoder has met, and their tokens, in three tables by length.

    short   up to 15 bytes     32 bytes: bytes and length (2 words), tokens (2 words); two a line
    middle  up to 47 bytes     64 bytes: bytes and length (6 words), tokens (2 words)
    long    up to 1,000 bytes  32 bytes: hash, length and place in `spelling`, tokens (2 words)

The parts of long pieces (cutting.py) are in the first as well. A piece is found by all of its
bytes, never by a hash alone. A line is one of the processor's cache, 64 bytes. Up to six tokens of
20 bits are in the entry: three in a word, and their number in the highest bits of the first; of
more tokens the second word has the place in `arena` and the number.

Nothing grows inside a kernel. An entry that finds no room is not kept, and `used[FULL]` says where:
the encoder then doubles what is full, up to its limit, or else forgets all but whole tokens.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.bpe.pairs import Merges
from gristmill.kernels.jit import memory
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint64s
from gristmill.kernels.jit.loads import ONE, load_u64, store_u64
from gristmill.kernels.jit.vectors import address_of, differing_bytes, fold_multiply

SHORT, MIDDLE, LONG = 15, 47, 1000  # bytes
INLINE = 6  # tokens
MANY = np.uint64(7)  # the number of tokens that says that they are in the arena
LENGTH_SHIFT, COUNT_SHIFT = np.uint64(56), np.uint64(60)
PART = np.uint64(1 << 63)  # of a key: of a part of a piece, which is no piece (cutting.py)
SEED_0, SEED_1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
SEED_2, SEED_3 = np.uint64(0x165667B19E3779F9), np.uint64(0x9FB21C651E98DF25)

# Places of `used`: entries of each table, tokens, bytes; and which of these an entry found no room
# in, as bits.
# MOST_SHORT: how many entries the first table may have.
USED_SHORT, USED_MIDDLE, USED_LONG, USED_ARENA, USED_SPELLING, FULL, MOST_SHORT = range(7)


class Learned(NamedTuple):
    """The tables of pieces; sizes are powers of two, and lines start at multiples of 64 bytes."""

    short: Uint64s  # 8 words a line of two entries
    middle: Uint64s  # 8 words an entry
    long: Uint64s  # 4 words an entry
    arena: Int32s  # tokens of pieces that have more than INLINE
    spelling: Bytes  # bytes of long pieces
    used: Int64s  # (8,)

    @classmethod
    def of(
        cls, short: int, middle: int, long: int, arena: int, spelling: int, most: int
    ) -> "Learned":
        """Return empty tables with room for these numbers of entries, tokens and bytes; `most`:
        MOST_SHORT.
        """
        used = np.zeros(8, np.int64)
        used[MOST_SHORT] = most
        return cls(
            memory.zeros(4 * short, np.uint64),
            memory.zeros(8 * middle, np.uint64),
            memory.zeros(4 * long, np.uint64),
            np.empty(arena, np.int32),
            np.empty(spelling, np.uint8),
            used,
        )


@helper
def hash_short(head, tail):
    """Return the hash of a piece of up to SHORT bytes, given as its entry's first two words."""
    return fold_multiply(head ^ SEED_0, tail ^ SEED_1)


@helper
def hash_middle(data, start, length):
    """Return the hash of a piece of SHORT + 1 to MIDDLE bytes; it reads no other bytes."""
    last = start + length - 16
    third = min(start + 16, last)
    first = fold_multiply(load_u64(data, start) ^ SEED_0, load_u64(data, start + 8) ^ SEED_1)
    second = fold_multiply(
        load_u64(data, last) ^ SEED_2, load_u64(data, last + 8) ^ SEED_3 ^ np.uint64(length)
    )
    return (
        first
        ^ second
        ^ fold_multiply(load_u64(data, third) ^ SEED_1, load_u64(data, third + 8) ^ SEED_2)
    )


@helper
def hash_long(data, start, length):
    """Return the hash of a piece of more than MIDDLE bytes; it reads no other bytes."""
    value = np.uint64(length)
    for at in range(start, start + length - 16, 16):
        value = fold_multiply(load_u64(data, at) ^ SEED_0 ^ value, load_u64(data, at + 8) ^ SEED_1)
    last = start + length - 16
    value = fold_multiply(load_u64(data, last) ^ SEED_2 ^ value, load_u64(data, last + 8) ^ SEED_3)
    return value | ONE  # 0 is an empty entry


@helper
def is_middle(data, start, length, readable, line, middle):
    """Return whether a line has exactly these bytes; `readable` is where data stops."""
    if start + 64 <= readable:
        # Behind the bytes come the length and the tokens, which differ from the text or not.
        differing = differing_bytes(data, start, middle, line)
        same = differing & ((ONE << np.uint64(length)) - ONE) == 0
        return same and middle[line + 5] >> LENGTH_SHIFT == np.uint64(length)
    for j in range(6):
        word = np.uint64(0)
        if length > 8 * j:
            word = load_up_to_8_before(data, start + 8 * j, length - 8 * j, readable)
        if j == 5:
            word |= np.uint64(length) << LENGTH_SHIFT
        if word != middle[line + j]:
            return False
    return True


@helper
def load_up_to_8_before(data, at, length, readable):
    """Return the first 8 bytes of data[at:at + length] as a uint64, missing ones 0; length >= 1."""
    if at + 8 <= readable:
        value = load_u64(data, at)
        if length < 8:
            value &= (ONE << np.uint64(8 * length)) - ONE
        return value
    value = np.uint64(0)
    for j in range(min(length, 8)):
        value |= np.uint64(data[at + j]) << np.uint64(8 * j)
    return value


@helper
def is_long(data, start, length, begin, spelling):
    """Return whether the bytes of a long piece are those at a place of `spelling`."""
    for at in range(0, length - 8, 8):
        if load_u64(data, start + at) != load_u64(spelling, begin + at):
            return False
    last = length - 8
    return load_u64(data, start + last) == load_u64(spelling, begin + last)


@helper
def pack_tokens(parts, count, tables):
    """Return the two words of an entry; more tokens than INLINE go to the arena, whose room is the
    caller's.
    """
    if count > INLINE:
        arena, used = tables[3], tables[5]
        begin = used[USED_ARENA]
        for j in range(count):
            arena[begin + j] = parts[j]
        used[USED_ARENA] = begin + count
        return MANY << COUNT_SHIFT, (np.uint64(begin) << np.uint64(32)) | np.uint64(count)
    low = np.uint64(count) << COUNT_SHIFT
    high = np.uint64(0)
    for j in range(count):
        token = np.uint64(parts[j])
        if j < 3:
            low |= token << np.uint64(20 * j)
        else:
            high |= token << np.uint64(20 * j - 60)
    return low, high


@helper
def table_addresses(learned):
    """Return the tables' addresses, how many entries, tokens and bytes each may have, and the masks
    of places. Of the places of entries at most two thirds are used, so that searches stay short.
    """
    sizes = (
        np.int64(learned.used[MOST_SHORT]),
        np.int64(len(learned.middle)) * 5 // 64,
        np.int64(len(learned.long)) * 5 // 32,
        np.int64(len(learned.arena)) - 8,
        np.int64(len(learned.spelling)) - 8,
    )
    return (
        address_of(learned.short),
        address_of(learned.middle),
        address_of(learned.long),
        address_of(learned.arena),
        address_of(learned.spelling),
        address_of(learned.used),
        sizes,
        (
            np.uint64(len(learned.short) - 1) & ~np.uint64(7),
            np.uint64(len(learned.middle) - 1) & ~np.uint64(7),
            np.uint64(len(learned.long) - 1) & ~np.uint64(3),
        ),
    )


@helper
def _has_room(table, count, tables):
    """Return whether a table has room for an entry, and the arena for its tokens; else `used` says
    so.
    """
    used, sizes = tables[5], tables[6]
    if used[table] >= sizes[table]:
        used[FULL] |= 1 << table
        return False
    if count > INLINE and used[USED_ARENA] + count > sizes[USED_ARENA]:
        used[FULL] |= 1 << USED_ARENA
        return False
    return True


@helper
def line_start(hashed, mask):
    """Return the first word of a hash's line or entry; `mask` is the table's."""
    return np.int64((hashed >> np.uint64(16)) & mask)


@helper
def remember_short(head, tail, parts, count, tables):
    """Write a piece, if it is in no entry yet."""
    short, used, masks = tables[0], tables[5], tables[7]
    if not _has_room(USED_SHORT, count, tables):
        return
    place = line_start(hash_short(head, tail), masks[0])
    while short[place + 1] != 0:
        if short[place] == head and short[place + 1] == tail:
            return
        if short[place + 5] == 0:
            place += 4
            break
        if short[place + 4] == head and short[place + 5] == tail:
            return
        place = np.int64(np.uint64(place + 8) & masks[0])
    low, high = pack_tokens(parts, count, tables)
    short[place] = head
    short[place + 1] = tail
    short[place + 2] = low
    short[place + 3] = high
    used[USED_SHORT] += 1


@helper
def remember_middle(data, start, length, readable, parts, count, tables):
    """Write a piece that is in no entry yet."""
    middle, used, masks = tables[1], tables[5], tables[7]
    if not _has_room(USED_MIDDLE, count, tables):
        return
    place = line_start(hash_middle(data, start, length), masks[1])
    while middle[place + 5] != 0:
        place = np.int64(np.uint64(place + 8) & masks[1])
    for j in range(6):
        word = np.uint64(0)
        if length > 8 * j:
            word = load_up_to_8_before(data, start + 8 * j, length - 8 * j, readable)
        if j == 5:
            word |= np.uint64(length) << LENGTH_SHIFT
        middle[place + j] = word
    low, high = pack_tokens(parts, count, tables)
    middle[place + 6] = low
    middle[place + 7] = high
    used[USED_MIDDLE] += 1


@helper
def remember_long(data, start, length, hashed, parts, count, tables):
    """Write a piece that is in no entry yet."""
    long, spelling, used, sizes, masks = tables[2], tables[4], tables[5], tables[6], tables[7]
    begin = used[USED_SPELLING]
    if begin + length > sizes[USED_SPELLING]:
        used[FULL] |= 1 << USED_SPELLING
        return
    if not _has_room(USED_LONG, count, tables):
        return
    place = line_start(hashed, masks[2])
    while long[place] != 0:
        place = np.int64(np.uint64(place + 4) & masks[2])
    for at in range(0, length - 8, 8):
        store_u64(spelling, begin + at, load_u64(data, start + at))
    store_u64(spelling, begin + length - 8, load_u64(data, start + length - 8))
    used[USED_SPELLING] = begin + length
    low, high = pack_tokens(parts, count, tables)
    long[place] = hashed
    long[place + 1] = (np.uint64(length) << np.uint64(32)) | np.uint64(begin)
    long[place + 2] = low
    long[place + 3] = high
    used[USED_LONG] += 1


@kernel(Merges, Int32s, Learned)
def remember_whole(merges, parts, learned):
    """Write every whole token as the one token of its bytes; `parts` has room for one."""
    tables = table_addresses(learned)
    data = address_of(merges.blob)
    readable = np.int64(len(merges.blob))
    for token in merges.whole_tokens:
        start = merges.token_offsets[token]
        length = merges.token_offsets[token + 1] - start
        parts[0] = token
        if length <= SHORT:
            head = load_up_to_8_before(data, start, length, readable)
            tail = np.uint64(length) << LENGTH_SHIFT
            if length > 8:
                tail |= load_up_to_8_before(data, start + 8, length - 8, readable)
            remember_short(head, tail, parts, 1, tables)
        elif length <= MIDDLE:
            remember_middle(data, start, length, readable, parts, 1, tables)
        elif length <= LONG:
            hashed = hash_long(data, start, length)
            remember_long(data, start, length, hashed, parts, 1, tables)


@kernel(Learned, Bytes, Learned)
def copy_entries(old, middle_bytes, new):
    """Write the entries of tables into larger, empty ones; arena and spelling are not touched.

    `middle_bytes` is the old middle table as bytes.
    """
    tables = table_addresses(new)
    masks = tables[7]
    for at in range(0, len(old.short), 4):
        if old.short[at + 1] != 0:
            place = line_start(hash_short(old.short[at], old.short[at + 1]), masks[0])
            while new.short[place + 1] != 0:
                if new.short[place + 5] == 0:
                    place += 4
                    break
                place = np.int64(np.uint64(place + 8) & masks[0])
            for j in range(4):
                new.short[place + j] = old.short[at + j]
    for at in range(0, len(old.middle), 8):
        if old.middle[at + 5] != 0:
            length = np.int64(old.middle[at + 5] >> LENGTH_SHIFT)
            place = line_start(hash_middle(middle_bytes, 8 * at, length), masks[1])
            while new.middle[place + 5] != 0:
                place = np.int64(np.uint64(place + 8) & masks[1])
            for j in range(8):
                new.middle[place + j] = old.middle[at + j]
    for at in range(0, len(old.long), 4):
        if old.long[at] != 0:
            place = line_start(old.long[at], masks[2])
            while new.long[place] != 0:
                place = np.int64(np.uint64(place + 4) & masks[2])
            for j in range(4):
                new.long[place + j] = old.long[at + j]
