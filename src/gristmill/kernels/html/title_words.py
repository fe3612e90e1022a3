"""Words of a block of text that are in the page's title as well, by hashes: ASCII letters in lower
case, digits and what is no ASCII.
"""

import numpy as np

from gristmill.kernels.hashing.primitives import BASIS, PRIME
from gristmill.kernels.jit.compile import helper

TITLE_WORDS = 64  # of a page's title that are compared
COMPARED = 64  # words of a block that are compared with the title
ONE, UPPER = np.uint64(1), np.uint64(58)  # a hash's upper 6 bits are its bit in the filter


@helper
def title_words(text, start, stop, titles):
    """The hashes of a title's words: how many."""
    count = np.int64(0)
    value = BASIS
    inside = False
    for at in range(start, stop + 1):
        byte = text[at] if at < stop else np.uint8(0x20)
        if byte <= 0x20:
            if inside and count < TITLE_WORDS:
                titles[count] = value
                count += 1
            inside = False
            value = BASIS
            continue
        inside = True
        if np.uint8(byte - 0x41) < 26:
            byte |= 0x20
        if byte >= 0x80 or np.uint8(byte - 0x61) < 26 or np.uint8(byte - 0x30) < 10:
            value = (value ^ np.uint64(byte)) * PRIME
    return count


@helper
def filter_of(titles, title_count):
    """A bit for each of a title's hashes: most words of a text have none of them."""
    known = np.uint64(0)
    for place in range(title_count):
        known |= ONE << (titles[place] >> UPPER)
    return known


@helper
def point_of(text, at):
    """The code point of three bytes."""
    return (
        ((np.int64(text[at]) & 0x0F) << 12)
        | ((np.int64(text[at + 1]) & 0x3F) << 6)
        | (np.int64(text[at + 2]) & 0x3F)
    )


@helper
def titled_words(text, start, stop, titles, title_count, known):
    """How many of a block's first words are in the title; known: a filter of its hashes."""
    titled = compared = np.int64(0)
    at = start
    while at < stop and compared < COMPARED:
        if text[at] <= 0x20:
            at += 1
            continue
        value = BASIS
        while at < stop:
            byte = text[at]
            if byte <= 0x20:
                break
            if byte < 0x80:
                if np.uint8(byte - 0x41) < 26:
                    byte |= 0x20
                if np.uint8(byte - 0x61) < 26 or np.uint8(byte - 0x30) < 10:
                    value = (value ^ np.uint64(byte)) * PRIME
                at += 1
                continue
            value = (value ^ np.uint64(byte)) * PRIME
            if byte >= 0xE0 and at + 2 < stop:
                value = (value ^ np.uint64(point_of(text, at))) * PRIME
                at += 3 if byte < 0xF0 else 4
            elif byte >= 0xC0 and at + 1 < stop:
                value = (value ^ np.uint64(text[at + 1])) * PRIME
                at += 2
            else:
                at += 1
        compared += 1
        if (known >> (value >> UPPER)) & ONE:
            for place in range(title_count):
                if titles[place] == value:
                    titled += 1
                    break
    return titled
