r"""Byte-pair encoding (Sennrich 2016, Radford 2019), exact, with GPT-2's pattern of pieces.

    text -> pieces -> merges -> token numbers

A piece is one of the pattern's alternatives, the first that fits:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

Most pieces were seen before: those of up to 96 bytes are looked up in a table that learns as it
goes, always by all of their bytes. The others are merged (kernels/bpe/merges.py).
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.bpe.merges import (
    FEW,
    LOW_20,
    Merges,
    Scratch,
    equal_bytes,
    find_token,
    hash_piece,
    merge_few,
    merge_many,
)
from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint64Rows
from gristmill.kernels.jit.loads import count_trailing_zeros, load_u64, load_up_to_8, mask_of_range
from gristmill.kernels.unicode.tables import (
    CLASSES,
    LETTER,
    NUMBER,
    SPACE,
    PointBits,
    code_point,
    unicode_bits,
    width_of,
)

LOW_56 = np.uint64((1 << 56) - 1)
SHORT = 15  # bytes of a piece that with its length makes two 64-bit keys
# bytes of a piece that the table of pieces takes; longer than SHORT, its bytes rest in `spelling`
LONG = 96
KINDS = np.uint8(LETTER | NUMBER | SPACE)
WIDE, NOTHING = np.uint8(64), np.uint8(128)  # the kind takes more than one byte to tell; no kind
APOSTROPHE, BLANK = 0x27, 0x20
PIECES = 1 << 18  # places of the table of pieces
ARENA = 1 << 20  # tokens of pieces that have more than three
SPELLING = 1 << 22  # bytes of long pieces

# Of each first byte: the kind of its code point, and how many bytes that has.
_KINDS = np.full(256, WIDE, np.uint8)
_KINDS[:128] = CLASSES.every()[:128] & KINDS
_WIDTHS = np.repeat(np.array([1, 2, 3, 4], np.uint8), [0xC0, 0x20, 0x10, 0x10])


@helper
def _wide_kind(data, at, classes):
    """LETTER, NUMBER, SPACE or 0, of a code point of more than one byte."""
    return np.uint8(unicode_bits(code_point(data, at, width_of(data[at])), classes)) & KINDS


class _Leads(NamedTuple):
    """What the first byte of a code point says of it."""

    kinds: Bytes  # (256,) LETTER, NUMBER, SPACE, 0, or WIDE
    widths: Bytes  # (256,)


class _Learned(NamedTuple):
    """The pieces that an encoder has met."""

    # (PIECES, 4): of each piece its key, two words; up to three tokens and their number, else where
    # its tokens lie in the arena
    pieces: Uint64Rows
    arena: Int32s  # (ARENA,)
    spelling: Bytes  # (SPELLING,)
    used: Int64s  # (3,) places of pieces, of the arena, of the spelling that are taken


class _Tokens(NamedTuple):
    """The tokens of n texts."""

    offsets: Int64s  # (n + 1,)
    tokens: Int32s


@helper
def _remember(data, start, length, head, tail, mixed, place, parts, count, learned):
    """Write a piece and its tokens into the table; `place` is the free one that the search ended
    at.
    """
    pieces, arena, spelling, used = learned
    if used[0] >= len(pieces) // 2 or used[1] + LONG > len(arena) or used[2] + LONG > len(spelling):
        # Full, perhaps of a language that the crawl has left behind: forget it all.
        pieces[:, 1] = 0
        used[:] = 0
        place = np.int64((mixed >> np.uint64(40)) & np.uint64(len(pieces) - 1))
        if length > SHORT:
            tail = np.uint64(length) << np.uint64(56)
    if length > SHORT:
        for j in range(length):
            spelling[used[2] + j] = data[start + j]
        used[2] += length
    pieces[place, 0] = head
    pieces[place, 1] = tail
    used[0] += 1
    if count <= 3:
        packed = np.uint64(count) << np.uint64(60)
        for j in range(count):
            packed |= np.uint64(parts[j]) << np.uint64(20 * j)
        pieces[place, 2] = packed
    else:
        pieces[place, 2] = (np.uint64(4) << np.uint64(60)) | np.uint64(count)
        pieces[place, 3] = np.uint64(used[1])
        for j in range(count):
            arena[used[1] + j] = parts[j]
        used[1] += count


@helper
def _spell(data, start, length, parts, ranks, byte_tokens, byte_pairs):
    """Write a piece as the tokens of its bytes, and the ranks of neighbours."""
    parts[0] = byte_tokens[data[start]]
    for j in range(1, length):
        parts[j] = byte_tokens[data[start + j]]
        pair = (np.int64(data[start + j - 1]) << 8) | np.int64(data[start + j])
        ranks[j - 1] = byte_pairs[pair]


@kernel(OFFSETS, BYTES, _Leads, PointBits, Merges, _Learned, Scratch, _Tokens)
def _encode(offsets, data, leads, classes, merges, learned, scratch, encoded):
    kinds, widths = leads
    pieces, arena, spelling, used = learned
    out_offsets, out = encoded
    parts, ranks, heap, following, preceding = scratch
    # Arrays, not groups, for helpers that a piece calls: a group of ten is 70 arguments.
    byte_tokens, whole, blob, token_offsets, token_table = merges[:5]
    byte_pairs, pair_table, pair_filter, merged = merges[5:]
    mask = np.int64(len(pieces) - 1)
    safe = len(data) - 16
    wide_safe = len(data) - 64
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        while at < stop:
            start = at
            # The piece that starts here, by GPT-2's pattern. It stands here, and not in a function
            # of its own: that halved the encoder's speed, put into the kernel by numba or not.
            lead = data[at]
            kind = kinds[lead]
            if lead == BLANK and at + 1 < stop:
                # One space goes with the letters, numbers or signs after it.
                following_lead = data[at + 1]
                kind = kinds[following_lead]
                if kind == WIDE:
                    kind = _wide_kind(data, at + 1, classes)
                if kind != SPACE:
                    at += 1 + widths[following_lead]
            elif kind == WIDE:
                kind = _wide_kind(data, at, classes)
                if kind != SPACE:
                    at += widths[lead]
            elif kind != SPACE:
                at += 1
                if lead == APOSTROPHE and at < stop:
                    second = data[at]
                    if (
                        second == 0x73 or second == 0x74 or second == 0x6D or second == 0x64
                    ):  # s t m d
                        at += 1
                        kind = NOTHING
                    elif at + 1 < stop:
                        third = data[at + 1]
                        if (third == 0x65 and (second == 0x72 or second == 0x76)) or (
                            third == 0x6C and second == 0x6C
                        ):
                            at += 2  # re ve ll
                            kind = NOTHING
            last = at
            if kind == LETTER and at <= wide_safe:
                # ASCII letters, most of all text: as many as follow, without a branch for each.
                letters = mask_of_range(data, at, 0x61, 25) | mask_of_range(data, at, 0x41, 25)
                at = min(at + count_trailing_zeros(~letters), stop)
            while at < stop and kind != NOTHING:
                lead = data[at]
                other = kinds[lead]
                if other == WIDE:
                    other = _wide_kind(data, at, classes)
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
                        tail = load_u64(data, start + 8) & (
                            (np.uint64(1) << np.uint64(8 * length - 64)) - np.uint64(1)
                        )
                else:
                    head = load_up_to_8(data, start, length)
                    tail = np.uint64(0)
                    if length > 8:
                        tail = load_up_to_8(data, start + 8, length - 8)
                tail |= np.uint64(length) << np.uint64(56)
                mixed = (head ^ (tail >> np.uint64(3))) * GOLDEN + tail
                mixed = (mixed ^ (mixed >> np.uint64(32))) * GOLDEN
                place = np.int64((mixed >> np.uint64(40)) & np.uint64(mask))
                while pieces[place, 1] != 0 and (
                    pieces[place, 0] != head or pieces[place, 1] != tail
                ):
                    place = (place + 1) & mask
            elif length <= LONG:
                head = hash_piece(data, start, length)
                tail = (np.uint64(length) << np.uint64(56)) | np.uint64(used[2])
                mixed = head
                place = np.int64((mixed >> np.uint64(40)) & np.uint64(mask))
                while pieces[place, 1] != 0:
                    if pieces[place, 0] == head and pieces[place, 1] >> np.uint64(56) == np.uint64(
                        length
                    ):
                        begin = np.int64(pieces[place, 1] & LOW_56)
                        if equal_bytes(data, start, spelling, begin, length):
                            break
                    place = (place + 1) & mask
            if place >= 0 and pieces[place, 1] != 0:
                packed = pieces[place, 2]
                many = np.int64(packed >> np.uint64(60))
                if many <= 3:
                    # Three are written whatever there are; what follows writes over those that mean
                    # nothing.
                    out[end] = np.int32(packed & LOW_20)
                    out[end + 1] = np.int32((packed >> np.uint64(20)) & LOW_20)
                    out[end + 2] = np.int32((packed >> np.uint64(40)) & LOW_20)
                    end += many
                else:
                    begin = np.int64(pieces[place, 3])
                    many = np.int64(packed & LOW_20)
                    for j in range(many):
                        out[end + j] = arena[begin + j]
                    end += many
                continue
            count = np.int64(0)
            if whole:
                token = find_token(data, start, length, blob, token_offsets, token_table)
                if token >= 0:
                    parts[0] = token
                    count = np.int64(1)
            if count == 0:
                _spell(data, start, length, parts, ranks, byte_tokens, byte_pairs)
                if length <= FEW:
                    count = merge_few(length, parts, ranks, pair_table, pair_filter, merged)
                else:
                    count = merge_many(
                        *(length, parts, ranks, heap, following, preceding),
                        *(pair_table, pair_filter, merged),
                    )
            for j in range(count):
                out[end + j] = parts[j]
            end += count
            if place >= 0:
                _remember(data, start, length, head, tail, mixed, place, parts, count, learned)
    out_offsets[len(offsets) - 1] = end


_LEADS = _Leads(_KINDS, _WIDTHS)


class Encoder:
    """Encodes batches of texts; remembers the pieces it has met. Not for two threads at once."""

    def __init__(self, merges: Merges) -> None:
        """Start with an empty table of pieces (16 MB at the most)."""
        self._merges = merges
        self._learned = _Learned(
            np.zeros((PIECES, 4), np.uint64),
            np.empty(ARENA, np.int32),
            np.zeros(SPELLING, np.uint8),
            np.zeros(3, np.int64),
        )

    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encode n texts in UTF-8, offsets (n + 1,) int32 into data (bytes,) uint8.

        Returns (token offsets (n + 1,) int64, tokens (m,) int32).
        """
        longest = int(np.diff(offsets).max(initial=0)) + 1
        encoded = _Tokens(
            np.empty(len(offsets), np.int64),
            np.empty(int(offsets[-1]) - int(offsets[0]) + 3, np.int32),
        )
        # A pair is pushed at first, and twice for each merge.
        scratch = Scratch(
            np.empty(longest, np.int32),
            np.empty(longest, np.uint32),
            np.empty(3 * longest, np.uint64),
            np.empty(longest, np.int32),
            np.empty(longest, np.int32),
        )
        _encode(offsets, data, _LEADS, CLASSES, self._merges, self._learned, scratch, encoded)
        return encoded.offsets, encoded.tokens[: encoded.offsets[-1]]
