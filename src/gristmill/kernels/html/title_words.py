"""Words of a text by their hashes, and those of a block that are in the page's title as well.

A word is a run of letters and digits, ASCII letters in lower case; of scripts without spaces it is
each pair of characters that stand side by side. Signs are passed over.
"""

import numpy as np

from gristmill.kernels.hashing.primitives import BASIS, PRIME, mix
from gristmill.kernels.jit.compile import helper

TITLE_WORDS = 64  # of a page's title that are compared
COMPARED = 64  # words of a block that are compared with the title
ONE, UPPER = np.uint64(1), np.uint64(58)  # a hash's upper 6 bits are its bit in the filter


@helper
def decode_three(text, at):
    """Return the code point of three bytes."""
    return (
        ((np.int64(text[at]) & 0x0F) << 12)
        | ((np.int64(text[at + 1]) & 0x3F) << 6)
        | (np.int64(text[at + 2]) & 0x3F)
    )


@helper
def is_unspaced(point):
    """Return whether a code point of three bytes is of a script without spaces: kana, Chinese,
    Thai, Lao, Tibetan, Burmese.
    """
    return 0x3040 <= point < 0xAC00 or 0xE00 <= point < 0x1000


@helper
def next_word(text, at, stop):
    """Return the hash of the first word at or behind `at`, where to look for the next one, and
    whether it is a pair of characters; the hash BASIS where there is none.
    """
    value = BASIS
    while at < stop:
        byte = np.uint64(text[at])
        if byte < 0x80:
            at += 1
            if byte <= 0x20:
                if value != BASIS:
                    break
                continue
            if byte - np.uint64(0x41) < 26:
                byte |= np.uint64(0x20)
            if byte - np.uint64(0x61) < 26 or byte - np.uint64(0x30) < 10:
                value = (value ^ byte) * PRIME
            continue
        if 0xE0 <= byte < 0xF0 and at + 2 < stop:
            point = decode_three(text, at)
            if is_unspaced(point):
                if value != BASIS:
                    break
                if at + 5 < stop and 0xE0 <= text[at + 3] < 0xF0:
                    after = decode_three(text, at + 3)
                    if is_unspaced(after):
                        return mix(np.uint64((point << 16) | after)), at + 3, True
                at += 3
                continue
            if 0x2000 <= point < 0x2070:  # dashes and quotes, as their like in ASCII
                at += 3
                continue
            if 0x3000 <= point < 0x3040 or 0xFF00 <= point < 0xFF10 or 0xFF1A <= point < 0xFF21:
                at += 3
                if value != BASIS:
                    break
                continue
        value = (value ^ byte) * PRIME
        at += 1
    return value, at, False


@helper
def title_words(text, start, stop, titles):
    """Return the hashes of a title's words: how many."""
    count = np.int64(0)
    at = np.int64(start)
    while count < TITLE_WORDS:
        value, at, _ = next_word(text, at, stop)
        if value == BASIS:
            break
        titles[count] = value
        count += 1
    return count


@helper
def title_bits(titles, title_count):
    """Return a bit for each of a title's hashes: most words of a text have none of them."""
    known = np.uint64(0)
    for place in range(title_count):
        known |= ONE << (titles[place] >> UPPER)
    return known


@helper
def titled_words(text, start, stop, titles, title_count, known):
    """Return how many of a block's first words are in the title, a pair of characters as half a
    word; known: a filter of its hashes.
    """
    halves = np.int64(0)
    at = np.int64(start)
    for _ in range(COMPARED):
        value, at, pair = next_word(text, at, stop)
        if value == BASIS:
            break
        if (known >> (value >> UPPER)) & ONE:
            for place in range(title_count):
                if titles[place] == value:
                    halves += 1 if pair else 2
                    break
    return (halves + 1) // 2
