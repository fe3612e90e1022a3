"""Gopher's quality rules as datatrove states them: counts of words, signs and lines of every text
in one call, all exact.

Words come from outside (kernels.text.words, or another rule's). Most words start with an ASCII
letter, which settles that they are no symbol and have a letter; only the others are looked at
character by character.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint64, Uint64s
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_ones,
    count_trailing_zeros,
    load_u64,
    load_up_to_8,
    mask_of_range,
    valid_in,
)
from gristmill.kernels.text.words import WordBounds
from gristmill.kernels.unicode.tables import (
    CLASSES,
    LETTER,
    PUNCTUATION,
    SIGNS,
    TERMINAL,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
SHORT = 7  # bytes of a stop word that is found by one look
DOT, HASH = 0x2E, 0x23
SYMBOLS = {"datatrove-0.10": PUNCTUATION | TERMINAL, "datatrove-0.2": PUNCTUATION}


class GopherQualityCounts(NamedTuple):
    """What the rules are made of; each is (n,) int64."""

    plain_words: Int64s  # words with a character that is no symbol
    plain_characters: Int64s  # code points in these
    letter_words: Int64s  # words with a letter
    stop_words: Int64s  # how many different stop words occur
    stop_occurrences: Int64s  # words that are stop words
    hashes: Int64s  # `#`
    ellipses: Int64s  # `...`, not overlapping, and `…`


class StopWords(NamedTuple):
    """Stop words. Those of up to 7 bytes, 64 at most, each have a place of their own in a table:
    one look finds them.
    """

    table: Uint64s  # (size,): bytes, and the length in the highest; 0: none
    bits: Uint64s  # (size,): one bit a word
    multiplier: Uint64  # of the hash
    # (words,) offsets into data of what is longer, or too many: compared with each word
    others: Int32s
    data: Bytes


def stop_table(words: Sequence[str]) -> StopWords:
    """Lay out distinct stop words."""
    encoded = [word.encode() for word in dict.fromkeys(words) if word]
    short = [word for word in encoded if len(word) <= SHORT][:64]
    long = [word for word in encoded if word not in set(short)]
    keys = [int.from_bytes(word, "little") | len(word) << 56 for word in short]
    size, multiplier = 256, int(GOLDEN)
    while len({_table_place(key, multiplier, size) for key in keys}) < len(keys):
        multiplier += 2
        if multiplier - int(GOLDEN) > 2000:
            size, multiplier = 4 * size, int(GOLDEN)
    table, bits = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
    for number, key in enumerate(keys):
        place = _table_place(key, multiplier, size)
        table[place], bits[place] = key, 1 << number
    others = np.cumsum([0, *map(len, long)], dtype=np.int32)
    data = np.array(list(b"".join(long)), np.uint8)
    return StopWords(table, bits, np.uint64(multiplier), others, data)


def _table_place(key: int, multiplier: int, size: int) -> int:
    return ((key * multiplier) & ((1 << 64) - 1)) >> (65 - size.bit_length())


@helper
def _find_other(data, start, length, stop_words):
    """Return the number of the long stop word that a word is; -1: none."""
    others, other_data = stop_words.others, stop_words.data
    for number in range(len(others) - 1):
        if others[number + 1] - others[number] == length:
            same = True
            for k in range(length):
                if data[start + k] != other_data[others[number] + k]:
                    same = False
                    break
            if same:
                return number
    return -1


@kernel(
    *(BYTES, WordBounds, types.int64, StopWords, Int64s),
    *(PointBits, PointBits, GopherQualityCounts),
)
def _count_words(data, bounds, symbol, stop_words, seen, classes, signs, out):
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    table, bits, multiplier = stop_words.table, stop_words.bits, stop_words.multiplier
    others = stop_words.others
    shift = np.uint64(65)
    size = len(table)
    while size:
        shift -= ONE
        size >>= 1
    safe = len(data) - 8
    for i in range(len(word_offsets) - 1):
        begin = word_offsets[i]
        end = word_offsets[i + 1]
        symbols = np.int64(0)
        symbol_characters = np.int64(0)
        without = np.int64(0)
        found = np.int64(0)
        different = np.uint64(0)
        more = np.int64(0)
        for j in range(begin, end):
            start = np.int64(starts[j])
            stop = np.int64(stops[j])
            length = stop - start
            # Without a branch: which words are stop words no processor can predict.
            if start <= safe:
                head = load_u64(data, start) & (ALL >> np.uint64(64 - 8 * min(length, SHORT)))
            else:
                head = load_up_to_8(data, start, min(length, SHORT))
            key = head | (np.uint64(min(length, 255)) << np.uint64(56))
            at = np.int64((key * multiplier) >> shift)
            hit = table[at] == key
            found += hit
            different |= bits[at] if hit else np.uint64(0)
            if len(others) > 1:
                number = _find_other(data, start, length, stop_words)
                if number >= 0:
                    found += 1
                    more += seen[number] != i + 1
                    seen[number] = i + 1
            if np.uint8((data[start] | 0x20) - 0x61) < 26:
                continue
            plainly = False
            letter = False
            characters = np.int64(0)
            at = start
            while at < stop and not letter:
                width = lead_width(data[at])
                point = code_point(data, at, width)
                characters += 1
                plainly = plainly or not (unicode_bits(point, signs) & symbol)
                letter = (unicode_bits(point, classes) & LETTER) != 0
                at += width
            without += not letter
            if not plainly:
                # No letter is a symbol, so that all characters were counted.
                symbols += 1
                symbol_characters += characters
        out.plain_words[i] = end - begin - symbols
        out.plain_characters[i] = bounds.word_characters[i] - symbol_characters
        out.letter_words[i] = end - begin - without
        out.stop_words[i] = count_ones(different) + more
        out.stop_occurrences[i] = found


@kernel(OFFSETS, BYTES, types.uint8[::1], types.int64[::1], types.int64[::1])
def _count_signs(offsets, data, tail, hashes, ellipses):
    """`#`, `…`, and `...` from the left: of a run of dots a third."""
    for i in range(len(offsets) - 1):
        stop = np.int64(offsets[i + 1])
        signs = np.int64(0)
        dotted = np.int64(0)
        run = np.int64(0)  # of dots that reaches the block's start
        at = np.int64(offsets[i])
        while at < stop:
            if at + 64 > len(data):
                copy_tail(data, at, stop, tail)
            block = block_of(data, at, tail)
            valid = valid_in(at, stop)
            signs += count_ones(mask_of_range(block, 0, HASH, 0) & valid)
            wide = mask_of_range(block, 0, 0xE2, 0) & valid
            while wide:
                k = at + count_trailing_zeros(wide)
                wide &= wide - ONE
                dotted += data[k + 1] == 0x80 and data[k + 2] == 0xA6
            dots = mask_of_range(block, 0, DOT, 0) & valid
            if run or (dots & ((dots >> ONE) | (ONE << np.uint64(63)))):
                for j in range(min(stop - at, np.int64(64))):
                    if (dots >> np.uint64(j)) & ONE:
                        run += 1
                    else:
                        dotted += run // 3
                        run = np.int64(0)
            at += 64
        hashes[i] = signs
        ellipses[i] = dotted + run // 3


def count(
    offsets: np.ndarray,
    data: np.ndarray,
    bounds: WordBounds,
    *,
    symbols: int,
    stop_words: StopWords,
) -> GopherQualityCounts:
    """Count what the rules need for n texts, given their words: offsets (n + 1,) int32 into data
    (bytes,) uint8.

    `symbols` are the sign bits (kernels.unicode.tables) that make a character a symbol; no letter
    may have one.
    """
    texts = len(offsets) - 1
    out = GopherQualityCounts(*(np.empty(texts, np.int64) for _ in GopherQualityCounts._fields))
    seen = np.zeros(len(stop_words.others), np.int64)
    _count_words(data, bounds, symbols, stop_words, seen, CLASSES, SIGNS, out)
    out.hashes[:], out.ellipses[:] = count_signs(offsets, data)
    return out


def count_signs(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how often `#` stands in n texts, and how often `...` or `…`; (n,) int64 each. offsets
    (n + 1,) int32 into data (bytes,) uint8.
    """
    hashes, ellipses = np.empty(len(offsets) - 1, np.int64), np.empty(len(offsets) - 1, np.int64)
    _count_signs(offsets, data, np.zeros(64, np.uint8), hashes, ellipses)
    return hashes, ellipses
