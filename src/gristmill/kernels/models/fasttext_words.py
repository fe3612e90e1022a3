"""The rows of a text's words in a fastText model: a table of words that were met has most of them,
and what is new is looked up in the model and takes its slot.

Equality with the library needs its order: a word's own row, then those of its n-grams in the order
of the text. Of the n-grams few survive a model's pruning: a bitmap tells which.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import (
    Bytes,
    Int32s,
    ReadBytes,
    ReadFloat32Rows,
    ReadInt32s,
    ReadInt64s,
    ReadUint32s,
    ReadUint64Rows,
    Uint64Rows,
)
from gristmill.kernels.jit.lanes import copy_8_words
from gristmill.kernels.jit.loads import load_u64
from gristmill.kernels.models.subwords import (
    BASIS,
    KEY_BYTES,
    MASKS,
    hash_byte,
    is_kept,
    list_ngrams,
    ngram_row,
    word_byte,
)
from gristmill.tables.columns import on_lines

LABEL = np.uint64(int.from_bytes(b"__label_", "little"))
FREE = np.uint64(2**64 - 1)
LONGEST = 8  # n-grams, in characters
MOST_SIZES = 7  # of n-grams
# numbers of a slot of the table of words, in words of 8 bytes: rows, how many, the key; of a model
# that is pruned, and of one that has a row for each n-gram
NARROW, WIDE = 8, 32
SLOT_BYTES = 1 << 23  # of all slots
ENDED = np.int64(-1)


class FastTextModel(NamedTuple):
    """A model as the kernel reads it; filters/models/fasttext_file.py makes it from a file."""

    entries: ReadBytes  # bytes of the dictionary's entries, words then labels, and 8 more
    entry_offsets: ReadInt64s  # (entries + 1,)
    # (slots, 2): open addressing by FNV-1a. A word's first eight bytes; its hash and its entry, 32
    # bits each, or FREE.
    table: ReadUint64Rows
    words: int  # entries below are words, from it on labels
    end_of_line: int  # the word </s>
    shortest: int  # n-grams, in characters
    longest: int  # below 1: words have none
    word_ngrams: int  # this many words or fewer are an n-gram, where there are none of characters
    buckets: int  # n-gram hashes are taken modulo this
    kept: ReadUint32s  # a bitmap of the buckets that are not pruned; of none where none is
    kept_before: ReadInt32s  # for each word of it, how many are kept before
    # (words + kept buckets) rows of `dimension` float32, at any address, in order of entries, then
    # of buckets
    matrix: ReadBytes
    dimension: int
    # (labels / 64, 64 * dimension): of 64 labels the first column, the second, ...; 0 behind the
    # last label. With a tree (labels - 1, dimension): a row a node.
    output: ReadFloat32Rows
    labels: int
    loss: int
    left: (
        ReadInt32s  # (2 * labels - 1,): children of a tree; -1: a leaf. Of none where there is none
    )
    right: ReadInt32s


class TextBlock(NamedTuple):
    """A block of a text laid out (subwords.lay_out), and its words."""

    text: Bytes
    edges: Int32s  # where words begin and end, in turns
    keys: Uint64Rows  # (3, words): two numbers of each, and its slot
    masks: ReadBytes  # subwords.MASKS


@helper
def _is_same(one, at, other, begin, length):
    while length >= 8:
        if load_u64(one, at) != load_u64(other, begin):
            return False
        at += 8
        begin += 8
        length -= 8
    return (
        length == 0
        or (load_u64(one, at) ^ load_u64(other, begin)) << np.uint64(64 - 8 * length) == 0
    )


@helper
def find_entry(tail, begin, length, value, entries, entry_offsets, table):
    """Return the dictionary's entry that a word is, given its hash; -1: none."""
    mask = np.int64(len(table) - 1)
    slot = np.int64(value) & mask
    first = load_u64(tail, begin)
    if length < 8:
        first &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
    while table[slot, 1] != FREE:
        # No word holds a zero byte: its first eight, with zeros behind a short one, are all of a
        # short one.
        if table[slot, 0] == first and (table[slot, 1] >> np.uint64(32)) == value:
            entry = np.int64(table[slot, 1] & np.uint64(0xFFFFFFFF))
            start = entry_offsets[entry] if length >= 8 else np.int64(0)
            if length < 8 or (
                entry_offsets[entry + 1] - start == length
                and _is_same(entries, start, tail, begin, length)
            ):
                return entry
        slot = (slot + 1) & mask
    return np.int64(-1)


@helper
def _list_word(text, begin, end, value, model, listed, count):
    """List the rows of a word, given its hash, as list_ngrams does; ENDED where it ends the text.
    Labels have none.
    """
    length = end - begin
    entry = find_entry(text, begin, length, value, model.entries, model.entry_offsets, model.table)
    if entry >= model.words or (
        entry < 0 and length > 8 and load_u64(text, begin) == LABEL and text[begin + 8] == 0x5F
    ):
        return count
    if entry == model.end_of_line:
        return ENDED
    if entry >= 0:
        listed[count] = entry
        count += 1
    return list_ngrams(text, begin, end, model, listed, count)


@helper
def hash_word(text, begin, end):
    """Return a word's hash, by which the dictionary has it."""
    value = BASIS
    for k in range(begin, end):
        value = hash_byte(value, text[k])
    return value


@helper
def list_rows(block, number, model, listed, known):
    """List the rows of a block's words and n-grams, in the order of the text; (how many, whether a
    word ended the text).
    """
    edges, keys = block.edges, block.keys
    width = known.shape[1]
    count = np.int64(0)
    for w in range(number):
        slot = np.int64(keys[2, w])
        if known[slot, width - 2] == keys[0, w] and known[slot, width - 1] == keys[1, w]:
            for k in range(0, width, 8):
                copy_8_words(known, slot * width + k, listed, count + 2 * k)
            count += np.int64(known[slot, width - 3] >> np.uint64(32))
            continue
        begin = count
        start, end = np.int64(edges[2 * w]), np.int64(edges[2 * w + 1])
        value = hash_word(block.text, start, end)
        count = _list_word(block.text, start, end, value, model, listed, begin)
        if count == ENDED:
            return begin, True
        if end - start <= KEY_BYTES:
            _remember(known, slot, keys[0, w], keys[1, w], listed, begin, count)
    return count, False


@helper
def _remember(known, slot, first, second, listed, begin, end):
    """Write a word's rows listed[begin:end] into its slot, if there is room for them."""
    width = known.shape[1]
    number = end - begin
    if number > 2 * width - 5:
        return
    for k in range(width - 2):
        one, two = begin + 2 * k, begin + 2 * k + 1
        low = np.uint64(listed[one]) if one < end else np.uint64(0)
        high = np.uint64(listed[two]) if two < end else np.uint64(0)
        known[slot, k] = low | high << np.uint64(32)
    known[slot, width - 3] |= np.uint64(number) << np.uint64(32)
    known[slot, width - 2], known[slot, width - 1] = first, second


@helper
def list_long_word(data, first, begin, end, model, listed):
    """List the rows of n-grams of a word that is longer than any entry, without writing it out:
    those that begin at `first` or behind it, as many as `listed` has room for, in their order; (how
    many, where the next begins). The first begin at begin - 1, the word's <.
    """
    shortest, longest, buckets, kept = model.shortest, model.longest, model.buckets, model.kept
    count = np.int64(0)
    if load_u64(data, begin) == LABEL and data[begin + 8] == 0x5F:
        return count, end
    while first < end and count + MOST_SIZES < len(listed):
        if (word_byte(data, begin, end, first) & 0xC0) == 0x80:
            first += 1
            continue
        at = first
        size = np.int64(0)
        value = BASIS
        while at <= end and size < longest:
            size += 1
            value = hash_byte(value, word_byte(data, begin, end, at))
            at += 1
            while (word_byte(data, begin, end, at) & 0xC0) == 0x80:
                value = hash_byte(value, word_byte(data, begin, end, at))
                at += 1
            bucket = value % np.uint32(buckets)
            if size >= shortest and (size > 1 or first >= begin) and is_kept(kept, bucket):
                listed[count] = ngram_row(bucket, kept, model.kept_before, model.words)
                count += 1
        first += 1
    return count, first


def limits(
    offsets: np.ndarray, characters: int | None, block: int, entry_offsets: np.ndarray
) -> tuple[int, int]:
    """Return how many characters of a text are read, and how many bytes are laid out together."""
    largest = int(np.diff(offsets).max(initial=0))
    characters = largest if characters is None else characters
    # What is longer than a block is no entry.
    return characters, min(
        4 * characters, largest, max(block, 16, int(np.diff(entry_offsets).max()))
    )


def text_block(room: int) -> TextBlock:
    """Return arrays for a block of `room` places."""
    return TextBlock(
        np.empty(room, np.uint8),
        np.empty(room + 1 + 64, np.int32),
        np.empty((3, room), np.uint64),
        MASKS,
    )


def no_words(pruned: bool) -> np.ndarray:
    """Return a table of words that has none yet, of a model that has few n-grams' rows, or all."""
    width = NARROW if pruned else WIDE
    slots = 1 << (SLOT_BYTES // (8 * width)).bit_length() - 1
    return on_lines(slots, width, np.uint64)
