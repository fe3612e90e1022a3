"""Words and character n-grams of a text, as fastText hashes them: where words stand, what they are
as keys of a table, and the rows of the n-grams that a model kept.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import (
    count_continuations,
    count_ones,
    load_u64,
    mask_of_range,
    prefetch,
    write_ones,
)

BASIS, PRIME = np.uint32(2166136261), np.uint32(16777619)
OPEN, CLOSE = np.uint8(0x3C), np.uint8(0x3E)  # < and >, around each word
BLANK = np.uint8(0x20)
PAD = 72  # blanks behind a text: 64 bytes are read at once
PLACES = 16  # bytes of a key, one of which is always 0
KEY_BYTES = PLACES - 1  # of a word that has a key, at most
# 0 and 1 are no bytes of a word's, and begin no key: what a word without one has
NO_KEY = np.uint64(0), np.uint64(1)
FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
# the mask of a key of n bytes begins at byte PLACES - n
MASKS = np.frombuffer(b"\xff" * PLACES + b"\0" * PLACES, np.uint8)


@helper
def hash_byte(value, byte):
    """Return one step of FNV-1a, the byte sign-extended."""
    return np.uint32((value ^ np.uint32(np.int32(np.int8(byte)))) * PRIME)


@helper
def find_stop(data, at, stop, characters):
    """Return where the first `characters` code points of a text end."""
    if stop - at <= characters:
        return stop
    while stop - at >= 8:
        more = 8 - count_continuations(load_u64(data, at))
        if more > characters:
            break
        characters -= more
        at += 8
    while at < stop:
        if (data[at] & 0xC0) != 0x80:
            if characters == 0:
                break
            characters -= 1
        at += 1
    return at


@helper
def is_white(byte):
    """Return whether the library cuts words at a byte."""
    return byte == 0x20 or (byte >= 0x09 and byte <= 0x0D) or byte == 0


@helper
def find_block(data, at, stop, room):
    """Return where the words end that fit in the next `room` bytes; `at` itself where the first of
    them does not.
    """
    if stop - at <= room:
        return stop
    end = at + room
    while end > at and not is_white(data[end - 1]):
        end -= 1
    return end


@helper
def lay_out(text, out):
    """Write a text behind one blank and before PAD of them; its places with the first blank."""
    total = len(text) + 1
    out[0] = BLANK
    out[1:total] = text
    out[total : total + PAD] = BLANK
    return total


@helper
def find_words(text, total, edges):
    """Return where words begin and end, in turns, in a text that is laid out; their number. `edges`
    has room for 8 more.
    """
    count = np.int64(0)
    carry = np.uint64(1)  # the place before was blank
    for base in range(0, total + 1, 64):
        blanks = (
            mask_of_range(text, base, np.uint8(0x20), np.uint8(0))
            | mask_of_range(text, base, np.uint8(0x09), np.uint8(4))
            | mask_of_range(text, base, np.uint8(0), np.uint8(0))
        )
        count = write_ones(blanks ^ ((blanks << np.uint64(1)) | carry), base, edges, count)
        carry = blanks >> np.uint64(63)
    return count >> 1


@helper
def find_keys(text, edges, number, masks, keys, table):
    """Of each word keys[:, w]: its bytes as two numbers, or NO_KEY of a longer one, and the slot of
    `table` that it would have, which is on its way then.
    """
    firsts, seconds, slots = keys[0], keys[1], keys[2]
    most = np.uint64(len(table) - 1)
    for w in range(number):
        begin = np.int64(edges[2 * w])
        length = np.int64(edges[2 * w + 1]) - begin
        at = PLACES - min(length, PLACES)
        first = load_u64(text, begin) & load_u64(masks, at)
        second = load_u64(text, begin + 8) & load_u64(masks, at + 8)
        if length > KEY_BYTES:
            first, second = NO_KEY
        value = (first * FIRST ^ second) * SECOND
        slot = ((value >> np.uint64(32)) ^ value >> np.uint64(47)) & most
        firsts[w], seconds[w], slots[w] = first, second, slot
        for k in range(0, table.shape[1], 8):
            prefetch(table, np.int64(slot) * table.shape[1] + k)


@helper
def is_kept(kept, bucket):
    """Return whether a model has a row for a bucket; a bitmap of none: for each."""
    if len(kept) == 0:
        return np.uint32(1)
    return (kept[bucket >> np.uint32(5)] >> (bucket & np.uint32(31))) & np.uint32(1)


@helper
def ngram_row(bucket, kept, kept_before, words):
    """Return the row of an n-gram that is kept."""
    if len(kept) == 0:
        return words + np.int64(bucket)
    below = (np.uint32(1) << (bucket & np.uint32(31))) - np.uint32(1)
    place = bucket >> np.uint32(5)
    return words + np.int64(kept_before[place]) + count_ones(np.uint64(kept[place] & below))


@helper
def list_ngrams(text, begin, end, model, listed, count):
    """List the rows of the n-grams of the word at begin:end, in their order; `count` rows are
    listed before, and how many are then.

    The places on both sides of the word become its < and >.
    """
    shortest, longest, kept = model.shortest, model.longest, model.kept
    modulus = np.uint32(model.buckets)
    inverse = 1.0 / np.float64(model.buckets)
    text[begin - 1], text[end] = OPEN, CLOSE
    for first in range(begin - 1, end):
        if (text[first] & 0xC0) == 0x80:
            continue
        at = np.int64(first)
        size = np.int64(0)
        value = BASIS
        while at <= end and size < longest:
            size += 1
            value = hash_byte(value, text[at])
            at += 1
            while (text[at] & 0xC0) == 0x80:
                value = hash_byte(value, text[at])
                at += 1
            if size < shortest or (size == 1 and first < begin):
                continue
            # The quotient is at most one off.
            bucket = value - np.uint32(np.uint32(np.float64(value) * inverse) * modulus)
            bucket += modulus if bucket >= np.uint32(0x80000000) else np.uint32(0)
            bucket -= modulus if bucket >= modulus else np.uint32(0)
            if is_kept(kept, bucket):
                listed[count] = ngram_row(bucket, kept, model.kept_before, model.words)
                count += 1
    return count


@helper
def word_byte(data, begin, end, at):
    """Return a byte of the word at begin:end between its < and >."""
    if at < begin:
        return OPEN
    return data[at] if at < end else CLOSE
