r"""Byte-pair encoding (Sennrich 2016, Radford 2019), exact, with GPT-2's way of cutting text into pieces.

    text -> pieces ('s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+) -> merges -> token numbers

Most pieces were seen before: those of up to 96 bytes are looked up in a table that learns as it goes, always by all of their
bytes. The others are merged: lowest rank first, of equal ranks the leftmost; short pieces by looking at all pairs, long ones with a
heap, so that a text of one piece costs n log n.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.compile import BYTES, INT32S, INT64S, OFFSETS, UINT64S, helper, kernel
from gristmill.kernels.loads import load_u64, load_up_to_8
from gristmill.kernels.unicode import (
    CLASS_INDEX,
    CLASS_PAGES,
    LETTER,
    NUMBER,
    SPACE,
    class_of,
    code_point,
    width_of,
)

MIX = np.uint64(0x9E3779B97F4A7C15)
LOW_56 = np.uint64((1 << 56) - 1)
NO_PAIR = np.uint64(0xFFFFFFFFFFFFFFFF)
SHORT = 15  # bytes of a piece that with its length makes two 64-bit keys
LONG = 96  # bytes of a piece that the table of pieces takes; longer than SHORT, its bytes rest in `spelling`
FEW = 48  # parts up to which looking at all pairs beats the heap
KINDS = np.uint8(LETTER | NUMBER | SPACE)
WIDE, NOTHING = np.uint8(64), np.uint8(128)  # the kind takes more than one byte to tell; no kind
APOSTROPHE, BLANK = 0x27, 0x20
PIECES = 1 << 18  # places of the table of pieces
ARENA = 1 << 20  # tokens of pieces that have more than one
SPELLING = 1 << 22  # bytes of long pieces

# Of each first byte: the kind of its code point, and how many bytes that has.
_KINDS = np.full(256, WIDE, np.uint8)
_KINDS[:128] = CLASS_PAGES[int(CLASS_INDEX[0]) << 8 :][:128] & KINDS
_WIDTHS = np.repeat(np.array([1, 2, 3, 4], np.uint8), [0xC0, 0x20, 0x10, 0x10])


@helper
def _hash(data, start, length):
    value = np.uint64(length) * MIX
    for j in range(0, length, 8):
        value = (value ^ load_up_to_8(data, start + j, length - j)) * MIX
        value ^= value >> np.uint64(32)
    return value


@helper
def _equal(one, start, other, begin, length):
    for j in range(0, length, 8):
        if load_up_to_8(one, start + j, length - j) != load_up_to_8(other, begin + j, length - j):
            return False
    return True


@helper
def _find_token(data, start, length, blob, token_offsets, token_table):
    """The token that has exactly these bytes, or -1."""
    mask = np.int64(len(token_table) - 1)
    place = np.int64(_hash(data, start, length) & np.uint64(mask))
    while token_table[place] >= 0:
        token = token_table[place]
        begin = token_offsets[token]
        if token_offsets[token + 1] - begin == length:
            if _equal(data, start, blob, begin, length):
                return token
        place = (place + 1) & mask
    return np.int32(-1)


@helper
def _pair_place(pair, mask):
    mixed = pair * MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))


@helper
def _find_pair(left, right, pair_keys, pair_values):
    """What two neighbours become: rank << 32 | token; NO_PAIR where they do not merge."""
    pair = (np.uint64(left) << np.uint64(32)) | np.uint64(right)
    mask = np.int64(len(pair_keys) - 1)
    place = _pair_place(pair, mask)
    while pair_keys[place] != NO_PAIR:
        if pair_keys[place] == pair:
            return pair_values[place]
        place = (place + 1) & mask
    return NO_PAIR


@kernel(BYTES, INT64S, types.int32[::1])
def _index_tokens(blob, token_offsets, token_table):
    mask = np.int64(len(token_table) - 1)
    for token in range(len(token_offsets) - 1):
        length = token_offsets[token + 1] - token_offsets[token]
        if length == 0:
            continue
        place = np.int64(_hash(blob, token_offsets[token], length) & np.uint64(mask))
        while token_table[place] >= 0:
            place = (place + 1) & mask
        token_table[place] = token


@kernel(BYTES, INT64S, INT32S, types.uint64[::1], types.uint64[::1], returns=types.int64)
def _pairs_of_ranks(blob, token_offsets, token_table, lefts_rights, values):
    """Every way to cut a token into two tokens is a pair that merges, with the token's number as rank."""
    count = np.int64(0)
    for token in range(len(token_offsets) - 1):
        begin = token_offsets[token]
        length = token_offsets[token + 1] - begin
        for cut in range(1, length):
            left = _find_token(blob, begin, cut, blob, token_offsets, token_table)
            if left >= 0:
                right = _find_token(blob, begin + cut, length - cut, blob, token_offsets, token_table)
                if right >= 0:
                    lefts_rights[count] = (np.uint64(left) << np.uint64(32)) | np.uint64(right)
                    values[count] = (np.uint64(token) << np.uint64(32)) | np.uint64(token)
                    count += 1
    return count


@kernel(UINT64S, UINT64S, types.uint64[::1], types.uint64[::1])
def _index_pairs(pairs, values, pair_keys, pair_values):
    mask = np.int64(len(pair_keys) - 1)
    for i in range(len(pairs)):
        place = _pair_place(pairs[i], mask)
        while pair_keys[place] != NO_PAIR and pair_keys[place] != pairs[i]:
            place = (place + 1) & mask
        if pair_keys[place] == NO_PAIR:
            pair_keys[place] = pairs[i]
            pair_values[place] = values[i]


@helper
def _merge_few(count, parts, merges, pair_keys, pair_values):
    """Merge parts[:count] in place, looking at all pairs each time; return how many are left."""
    for j in range(count - 1):
        merges[j] = _find_pair(parts[j], parts[j + 1], pair_keys, pair_values)
    while count > 1:
        best = NO_PAIR
        at = np.int64(0)
        for j in range(count - 1):
            # The token's number cannot decide: equal ranks have equal tokens, and the first is kept.
            if merges[j] < best:
                best = merges[j]
                at = j
        if best == NO_PAIR:
            break
        parts[at] = np.int32(best & np.uint64(0xFFFFFFFF))
        for j in range(at + 1, count - 1):
            parts[j] = parts[j + 1]
            merges[j] = merges[j + 1]
        count -= 1
        if at + 1 < count:
            merges[at] = _find_pair(parts[at], parts[at + 1], pair_keys, pair_values)
        if at > 0:
            merges[at - 1] = _find_pair(parts[at - 1], parts[at], pair_keys, pair_values)
    return count


@helper
def _push(heap, size, value):
    at = size
    while at > 0 and heap[(at - 1) >> 1] > value:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = value
    return size + 1


@helper
def _pop(heap, size):
    """Take the least value from a heap; the caller reads heap[0] before."""
    size -= 1
    value = heap[size]
    at = np.int64(0)
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
    return size


@helper
def _merge_many(count, parts, merges, heap, following, preceding, pair_keys, pair_values):
    """Merge parts[:count] in place with a heap of rank << 32 | position over a linked list; return how many are left."""
    size = np.int64(0)
    for j in range(count):
        following[j] = j + 1
        preceding[j] = j - 1
        merges[j] = NO_PAIR
        if j + 1 < count:
            merges[j] = _find_pair(parts[j], parts[j + 1], pair_keys, pair_values)
            if merges[j] != NO_PAIR:
                size = _push(heap, size, (merges[j] & np.uint64(0xFFFFFFFF00000000)) | np.uint64(j))
    while size > 0:
        least = heap[0]
        size = _pop(heap, size)
        at = np.int64(least & np.uint64(0xFFFFFFFF))
        # A pair that changed since it was pushed has another rank, or none; it was pushed again when it changed.
        if parts[at] < 0 or merges[at] == NO_PAIR or merges[at] >> np.uint64(32) != least >> np.uint64(32):
            continue
        gone = np.int64(following[at])
        parts[at] = np.int32(merges[at] & np.uint64(0xFFFFFFFF))
        parts[gone] = -1
        after = np.int64(following[gone])
        following[at] = after
        merges[at] = NO_PAIR
        if after < count:
            preceding[after] = at
            merges[at] = _find_pair(parts[at], parts[after], pair_keys, pair_values)
            if merges[at] != NO_PAIR:
                size = _push(heap, size, (merges[at] & np.uint64(0xFFFFFFFF00000000)) | np.uint64(at))
        before = np.int64(preceding[at])
        if before >= 0:
            merges[before] = _find_pair(parts[before], parts[at], pair_keys, pair_values)
            if merges[before] != NO_PAIR:
                size = _push(heap, size, (merges[before] & np.uint64(0xFFFFFFFF00000000)) | np.uint64(before))
    left = np.int64(0)
    at = np.int64(0)
    while at < count:
        parts[left] = parts[at]
        left += 1
        at = np.int64(following[at])
    return left


@helper
def _wide_kind(data, at, class_index, class_pages):
    """LETTER, NUMBER, SPACE or 0, of a code point of more than one byte."""
    return np.uint8(class_of(code_point(data, at, width_of(data[at])), class_index, class_pages)) & KINDS


@kernel(
    OFFSETS, BYTES, BYTES, BYTES, BYTES, BYTES, INT32S, types.boolean, BYTES, INT64S, INT32S, UINT64S, UINT64S,
    types.uint64[:, ::1], types.int32[:, ::1], types.int32[::1], types.uint8[::1], types.int64[::1],
    types.int32[::1], types.uint64[::1], types.uint64[::1], types.int32[::1], types.int32[::1],
    types.int32[::1], types.int64[::1],
)  # fmt: skip
def _encode(
    offsets, data, kinds, widths, class_index, class_pages, byte_tokens, whole, blob, token_offsets, token_table, pair_keys, pair_values,
    pieces, piece_tokens, arena, spelling, used,
    parts, merges, heap, following, preceding,
    out, out_offsets,
):  # fmt: skip
    mask = np.int64(len(pieces) - 1)
    safe = len(data) - 16
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        while at < stop:
            start = at
            lead = data[at]
            kind = kinds[lead]
            if lead == BLANK and at + 1 < stop:
                # One space goes with the letters, numbers or signs after it.
                following_lead = data[at + 1]
                kind = kinds[following_lead]
                if kind == WIDE:
                    kind = _wide_kind(data, at + 1, class_index, class_pages)
                if kind != SPACE:
                    at += 1 + widths[following_lead]
            elif kind == WIDE:
                kind = _wide_kind(data, at, class_index, class_pages)
                if kind != SPACE:
                    at += widths[lead]
            elif kind != SPACE:
                at += 1
                if lead == APOSTROPHE and at < stop:
                    second = data[at]
                    if second == 0x73 or second == 0x74 or second == 0x6D or second == 0x64:  # s t m d
                        at += 1
                        kind = NOTHING
                    elif at + 1 < stop:
                        third = data[at + 1]
                        if (third == 0x65 and (second == 0x72 or second == 0x76)) or (third == 0x6C and second == 0x6C):
                            at += 2  # re ve ll
                            kind = NOTHING
            last = at
            while at < stop and kind != NOTHING:
                lead = data[at]
                other = kinds[lead]
                if other == WIDE:
                    other = _wide_kind(data, at, class_index, class_pages)
                if other != kind:
                    break
                last = at
                at += widths[lead]
            if kind == SPACE and at < stop and last > start:
                at = last  # the last character of white space belongs to what follows it
            length = at - start
            place = np.int64(-1)
            if length <= SHORT:
                if start <= safe:
                    head = load_u64(data, start)
                    tail = np.uint64(0)
                    if length < 8:
                        head &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
                    elif length > 8:
                        tail = load_u64(data, start + 8) & ((np.uint64(1) << np.uint64(8 * length - 64)) - np.uint64(1))
                else:
                    head = load_up_to_8(data, start, length)
                    tail = np.uint64(0)
                    if length > 8:
                        tail = load_up_to_8(data, start + 8, length - 8)
                tail |= np.uint64(length) << np.uint64(56)
                mixed = (head ^ (tail >> np.uint64(3))) * MIX + tail
                mixed = (mixed ^ (mixed >> np.uint64(32))) * MIX
                place = np.int64((mixed >> np.uint64(40)) & np.uint64(mask))
                while pieces[place, 1] != 0 and (pieces[place, 0] != head or pieces[place, 1] != tail):
                    place = (place + 1) & mask
            elif length <= LONG:
                head = _hash(data, start, length)
                tail = (np.uint64(length) << np.uint64(56)) | np.uint64(used[2])
                mixed = head
                place = np.int64((mixed >> np.uint64(40)) & np.uint64(mask))
                while pieces[place, 1] != 0:
                    if pieces[place, 0] == head and pieces[place, 1] >> np.uint64(56) == np.uint64(length):
                        begin = np.int64(pieces[place, 1] & LOW_56)
                        if _equal(data, start, spelling, begin, length):
                            break
                    place = (place + 1) & mask
            if place >= 0 and pieces[place, 1] != 0:
                many = piece_tokens[place, 1]
                if many == 1:
                    out[end] = piece_tokens[place, 0]
                    end += 1
                else:
                    begin = np.int64(piece_tokens[place, 0])
                    for j in range(many):
                        out[end + j] = arena[begin + j]
                    end += many
                continue
            count = np.int64(0)
            if whole:
                token = _find_token(data, start, length, blob, token_offsets, token_table)
                if token >= 0:
                    parts[0] = token
                    count = np.int64(1)
            if count == 0:
                for j in range(length):
                    parts[j] = byte_tokens[data[start + j]]
                if length <= FEW:
                    count = _merge_few(length, parts, merges, pair_keys, pair_values)
                else:
                    count = _merge_many(length, parts, merges, heap, following, preceding, pair_keys, pair_values)
            for j in range(count):
                out[end + j] = parts[j]
            end += count
            if place >= 0:
                if used[0] >= len(pieces) // 2 or used[1] + LONG > len(arena) or used[2] + LONG > len(spelling):
                    # Full, perhaps of a language that the crawl has left behind: forget it all.
                    pieces[:, 1] = 0
                    used[:] = 0
                    place = np.int64((mixed >> np.uint64(40)) & np.uint64(mask))
                    if length > SHORT:
                        tail = np.uint64(length) << np.uint64(56)
                if length > SHORT:
                    for j in range(length):
                        spelling[used[2] + j] = data[start + j]
                    used[2] += length
                pieces[place, 0] = head
                pieces[place, 1] = tail
                piece_tokens[place, 1] = count
                used[0] += 1
                if count == 1:
                    piece_tokens[place, 0] = parts[0]
                else:
                    piece_tokens[place, 0] = used[1]
                    for j in range(count):
                        arena[used[1] + j] = parts[j]
                    used[1] += count
    out_offsets[len(offsets) - 1] = end


class Merges(NamedTuple):
    """What an encoder knows; make it with `merges_of_ranks` or `merges_of_list`."""

    byte_tokens: np.ndarray  # (256,) int32: the token of each byte
    whole: bool  # a piece that is a token becomes that token, before any merge (tiktoken's rule)
    blob: np.ndarray  # the bytes of all tokens
    token_offsets: np.ndarray  # (tokens + 1,) int64
    token_table: np.ndarray  # open addressing: token numbers by their bytes
    pair_keys: np.ndarray  # open addressing: left << 32 | right
    pair_values: np.ndarray  # rank << 32 | token


def _index(tokens: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    blob = np.frombuffer(b"".join(tokens), np.uint8)
    token_offsets = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum([len(token) for token in tokens], out=token_offsets[1:])
    table = np.full(1 << (2 * len(tokens)).bit_length(), -1, np.int32)
    _index_tokens(blob, token_offsets, table)
    return blob, token_offsets, table


def _pair_table(pairs: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keys = np.full(1 << max(4, (2 * len(pairs)).bit_length()), NO_PAIR, np.uint64)
    table = np.empty_like(keys)
    _index_pairs(pairs, values, keys, table)
    return keys, table


def merges_of_ranks(tokens: list[bytes]) -> Merges:
    """From tiktoken's ranks: tokens in the order of their rank, all 256 single bytes among them."""
    blob, token_offsets, table = _index(tokens)
    pairs, values = np.empty(len(blob), np.uint64), np.empty(len(blob), np.uint64)
    count = _pairs_of_ranks(blob, token_offsets, table, pairs, values)
    numbers = {token: number for number, token in enumerate(tokens) if len(token) == 1}
    byte_tokens = np.array([numbers[bytes([byte])] for byte in range(256)], np.int32)
    return Merges(byte_tokens, True, blob, token_offsets, table, *_pair_table(pairs[:count], values[:count]))


def merges_of_list(tokens: list[bytes], merges: list[tuple[int, int, int]], *, whole: bool) -> Merges:
    """From a list of merges (left, right, merged token), first merge first; a token that is no bytes is empty."""
    blob, token_offsets, table = _index(tokens)
    numbers = {token: number for number, token in enumerate(tokens) if len(token) == 1}
    byte_tokens = np.array([numbers[bytes([byte])] for byte in range(256)], np.int32)
    triples = np.array(merges, np.uint64).reshape(-1, 3)
    pairs = (triples[:, 0] << np.uint64(32)) | triples[:, 1]
    values = (np.arange(len(triples), dtype=np.uint64) << np.uint64(32)) | triples[:, 2]
    return Merges(byte_tokens, whole, blob, token_offsets, table, *_pair_table(pairs, values))


class Encoder:
    """Encodes batches of texts; remembers the pieces it has met. Not for two threads at once."""

    def __init__(self, merges: Merges) -> None:
        """Start with an empty table of pieces (14 MB at the most)."""
        self._merges = merges
        self._pieces = np.zeros((PIECES, 2), np.uint64)
        self._piece_tokens = np.empty((PIECES, 2), np.int32)
        self._arena = np.empty(ARENA, np.int32)
        self._spelling = np.zeros(SPELLING, np.uint8)
        self._used = np.zeros(3, np.int64)  # places of pieces, of the arena, of the spelling

    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encode n texts in UTF-8, offsets (n + 1,) int32 into data (bytes,) uint8.

        Returns (token offsets (n + 1,) int64, tokens (m,) int32).
        """
        longest = int(np.diff(offsets).max(initial=0)) + 1
        out = np.empty(int(offsets[-1]) - int(offsets[0]) + 1, np.int32)
        out_offsets = np.empty(len(offsets), np.int64)
        # A pair is pushed at first, and twice for each merge.
        scratch = (
            np.empty(longest, np.int32), np.empty(longest, np.uint64), np.empty(3 * longest, np.uint64),
            np.empty(longest, np.int32), np.empty(longest, np.int32),
        )  # fmt: skip
        learned = (self._pieces, self._piece_tokens, self._arena, self._spelling, self._used)
        _encode(
            offsets,
            data,
            _KINDS,
            _WIDTHS,
            CLASS_INDEX,
            CLASS_PAGES,
            *self._merges,
            *learned,
            *scratch,
            out,
            out_offsets,
        )
        return out_offsets, out[: out_offsets[-1]]
