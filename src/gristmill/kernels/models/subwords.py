"""Words and character n-grams of a text, as fastText hashes them: where they stand, and which
n-grams a model kept.

N-grams are hashed at every place of a text at once, sizes after one another, and looked up in the
bitmap the same way, whether or not they stand in one word; a byte a place says which count. What
then is left for loops that branch are words, and the n-grams that survived.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import (
    count_continuations,
    count_ones,
    count_trailing_zeros,
    load_u64,
    mask_of_range,
)

BASIS, PRIME = np.uint32(2166136261), np.uint32(16777619)
OPEN, CLOSE = np.uint8(0x3C), np.uint8(0x3E)  # < and >, around each word
AHEAD = 8  # bytes hashed at every place: no n-gram may be longer
PAD = 72  # blanks behind a text: for n-grams, and for 64 bytes read at once


@helper
def hash_byte(value, byte):
    """One step of FNV-1a, the byte sign-extended."""
    return np.uint32((value ^ np.uint32(np.int32(np.int8(byte)))) * PRIME)


@helper
def find_stop(data, at, stop, characters):
    """Where the first `characters` code points of a text end."""
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
    """Whether the library cuts words at a byte."""
    return byte == 0x20 or (byte >= 0x09 and byte <= 0x0D) or byte == 0


@helper
def find_block(data, at, stop, room):
    """Where the words end that fit in the next `room` bytes; `at` itself where the first of them
    does not.
    """
    if stop - at <= room:
        return stop
    end = at + room
    while end > at and not is_white(data[end - 1]):
        end -= 1
    return end


@helper
def lay_out(text, head, tail, blank):
    """Write a text behind one blank and before PAD of them: `head` has < for each blank, `tail` has
    >.

    An n-gram may start with a word's < and may end with its >, so what stands at a blank depends on
    the side it is looked at from.
    """
    size = len(text)
    for k in range(size):
        byte = text[k]
        white = is_white(byte)
        head[k + 1] = OPEN if white else byte
        tail[k + 1] = CLOSE if white else byte
        blank[k + 1] = np.uint8(1) if white else np.uint8(0)
    head[0], tail[0], blank[0] = OPEN, CLOSE, np.uint8(1)
    for k in range(size + 1, size + 1 + PAD):
        head[k], tail[k], blank[k] = OPEN, CLOSE, np.uint8(1)


@helper
def hash_ahead(head, tail, total, hashes):
    """FNV-1a of the 1 to AHEAD bytes from each place on: hashes[size - 1, place]. Plain loops,
    which become wide ones.
    """
    first = hashes[0]
    for k in range(total):
        first[k] = hash_byte(BASIS, head[k])
    for size in range(2, AHEAD + 1):
        before, now, last = hashes[size - 2], hashes[size - 1], tail[size - 1 :]
        for k in range(total):
            now[k] = hash_byte(before[k], last[k])


@helper
def is_kept(kept, bucket):
    """Whether a model has a row for a bucket."""
    return (kept[bucket >> np.uint32(5)] >> (bucket & np.uint32(31))) & np.uint32(1)


@helper
def mark_kept(hashes, blank, total, shortest, longest, buckets, kept, whole, found, events):
    """Of the n-grams at each place, a byte a character: found[1 + size - shortest, place] its
    bucket, and that bit of events[place] whether it stands in one word and is kept.
    """
    events[: total + 8] = 0
    modulus = np.uint32(buckets)
    inverse = 1.0 / np.float64(buckets)
    for size in range(1, longest + 1):
        if size == 1:
            for k in range(total):
                whole[k] = 1 - blank[k]
        elif size == 2:
            for k in range(total):
                whole[k] = 1 - (blank[k] & blank[k + 1])
        else:
            last = blank[size - 2 :]
            for k in range(total):
                whole[k] &= 1 - last[k]
        if size < shortest:
            continue
        now, out = hashes[size - 1], found[1 + size - shortest]
        for k in range(total):
            # The quotient is at most one off.
            bucket = now[k] - np.uint32(np.uint32(np.float64(now[k]) * inverse) * modulus)
            bucket += modulus if bucket >= np.uint32(0x80000000) else np.uint32(0)
            out[k] = bucket - (modulus if bucket >= modulus else np.uint32(0))
        bit = np.uint8(1 + size - shortest)
        for k in range(total):
            events[k] |= (np.uint8(is_kept(kept, np.uint32(out[k]))) & whole[k]) << bit


@helper
def gather(tail, begin, end, shortest, longest, buckets, kept, found, events):
    """As mark_kept, for the word at begin:end and characters of any width."""
    for first in range(begin - 1, end):
        if (tail[first] & 0xC0) == 0x80:
            continue
        at = first
        size = np.int64(0)
        value = BASIS
        while at <= end and size < longest:
            size += 1
            value = hash_byte(value, OPEN if at < begin else tail[at])
            at += 1
            while (tail[at] & 0xC0) == 0x80:
                value = hash_byte(value, tail[at])
                at += 1
            if size >= shortest and (size > 1 or first >= begin):
                bucket = value % np.uint32(buckets)
                found[1 + size - shortest, first] = bucket
                events[first] |= np.uint8(is_kept(kept, bucket)) << np.uint8(1 + size - shortest)


@helper
def find_words(tail, blank, total, hashes, begins, ends, values):
    """Where words begin and end, below zero where one has other than ASCII bytes, and their hashes;
    their number.
    """
    number = np.int64(0)
    begin = np.int64(-1)
    carry = np.uint64(1)  # the place before was blank
    wide = np.uint64(0)
    for base in range(0, total + 1, 64):
        blanks = mask_of_range(blank, base, np.uint8(1), np.uint8(0))
        wides = mask_of_range(tail, base, np.uint8(0x80), np.uint8(0x7F))
        turns = blanks ^ ((blanks << np.uint64(1)) | carry)
        carry = blanks >> np.uint64(63)
        while turns:
            j = count_trailing_zeros(turns)
            turns &= turns - np.uint64(1)
            if begin < 0:
                begin = base + j
                continue
            end = base + j
            below = (np.uint64(1) << np.uint64(j)) - np.uint64(1)
            wide |= wides & below
            wides &= ~below
            value = hashes[min(end - begin, AHEAD) - 1, begin]
            for k in range(begin + AHEAD, end):
                value = hash_byte(value, tail[k])
            begins[number] = begin
            ends[number] = -end if wide else end
            values[number] = value
            number += 1
            begin = np.int64(-1)
            wide = np.uint64(0)
        wide |= wides
    return number


@helper
def row_of(bucket, kept, kept_before, words):
    """The row of an n-gram that is kept."""
    below = (np.uint32(1) << (bucket & np.uint32(31))) - np.uint32(1)
    place = bucket >> np.uint32(5)
    return words + np.int64(kept_before[place]) + count_ones(np.uint64(kept[place] & below))


@helper
def byte_of(data, begin, end, at):
    """A byte of the word at begin:end between its < and >."""
    if at < begin:
        return OPEN
    return data[at] if at < end else CLOSE
