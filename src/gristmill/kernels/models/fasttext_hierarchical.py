"""fastText's prediction of one label (Joulin 2016), for supervised models with hierarchical
softmax: its own label and float32 score.

    words and the character n-grams of each -> rows of the input matrix, averaged -> the likeliest
    leaf of a Huffman tree

Equality with the library needs its arithmetic in its order: FNV-1a with sign-extended bytes; a
word's own row before its n-grams, in the order of the text; float32 sums; the mean as the sum times
float32(1 / n); the sigmoid through float32; logarithms in double precision of a float32 plus 1e-5,
rounded to float32 again. Of the n-grams few survive a model's pruning: a bitmap tells which.

Words and n-grams are found by kernels.models.subwords. The rows do not fit a processor's second
cache, and drive the dictionary out of it: one cache line tells whether a short word is there.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import (
    Bytes,
    Float32s,
    Int32Rows,
    Int32s,
    ReadBytes,
    ReadFloat32Rows,
    ReadInt32s,
    ReadInt64s,
    ReadUint32s,
    ReadUint64Rows,
    Uint32Rows,
    Uint32s,
    Uint64s,
    read_only,
)
from gristmill.kernels.jit.lanes import add_rows_of_16
from gristmill.kernels.jit.loads import count_trailing_zeros, load_u64, prefetch
from gristmill.kernels.models.subwords import (
    AHEAD,
    BASIS,
    PAD,
    byte_of,
    find_block,
    find_stop,
    find_words,
    gather,
    hash_ahead,
    hash_byte,
    is_kept,
    is_white,
    lay_out,
    mark_kept,
    row_of,
)

LABEL = np.uint64(int.from_bytes(b"__label_", "little"))
FREE = np.uint64(2**64 - 1)
MOST_SIZES = 7  # of n-grams: with the word itself a bit each in a byte
# bytes of a text that are laid out together, at most: what is made of them stays in a near cache
BLOCK = 1 << 14


class HierarchicalModel(NamedTuple):
    """A model as the kernel reads it; filters/models/fasttext_file.py makes it from a file."""

    entries: ReadBytes  # bytes of the dictionary's entries, words then labels, and 8 more
    entry_offsets: ReadInt64s  # (entries + 1,)
    # (slots, 2): open addressing by FNV-1a. A word's first eight bytes; its hash and its entry, 32
    # bits each, or FREE.
    table: ReadUint64Rows
    words: int  # entries below are words, from it on labels
    end_of_line: int  # the word </s>
    shortest: int  # n-grams, in characters
    longest: int
    buckets: int  # n-gram hashes are taken modulo this
    kept: ReadUint32s  # a bitmap of the buckets that are not pruned
    kept_before: ReadInt32s  # for each word of it, how many are kept before
    rows: ReadFloat32Rows  # (words + kept buckets, dimension) in order of entries, then of buckets
    output: ReadFloat32Rows  # (labels - 1, dimension), a row a node
    left: ReadInt32s  # (2 * labels - 1,): children; -1: a leaf
    right: ReadInt32s


class _TextBlock(NamedTuple):
    """A block of a text laid out (subwords.lay_out), and its n-grams at every place."""

    head: Bytes
    tail: Bytes
    blank: Bytes
    whole: Bytes  # 1 where the n-gram of the size at hand stands in one word
    events: Bytes  # bits: what starts at a place, 0 a word that is an entry, from 1 on n-grams
    hashes: Uint32Rows  # (AHEAD, places) by size
    found: Int32Rows  # (1 + sizes, places): of each event the entry, complemented, or the bucket


class _BlockWords(NamedTuple):
    """The words of a block."""

    begins: Int32s
    ends: Int32s  # below zero where a word has other than ASCII bytes
    values: Uint32s  # hashes
    touched: Uint64s  # the slots of the dictionary where their search starts


class _Search(NamedTuple):
    """What finding the likeliest label takes."""

    listed: Int32s  # rows of a block's words and n-grams
    hidden: Float32s  # (dimension,) the sum of the rows
    stack: Int32s  # nodes
    scores: Float32s  # theirs


@helper
def _add_row(rows, row, hidden):
    for k in range(len(hidden)):
        hidden[k] += rows[row, k]


@helper
def _log(value):
    return np.float32(math.log(np.float64(value) + 1e-5))


@helper
def _likeliest(hidden, output, left, right, stack, scores):
    """Depth first, left before right, cut where a branch cannot win: (leaf, log score)."""
    labels = len(output) + 1
    best = np.float32(-np.inf)
    leaf = np.int64(-1)
    floor = _log(np.float32(0.0))
    stack[0] = 2 * labels - 2
    scores[0] = np.float32(0.0)
    size = 1
    while size > 0:
        size -= 1
        node = np.int64(stack[size])
        score = scores[size]
        if score < floor or (leaf >= 0 and score < best):
            continue
        if left[node] < 0:
            if leaf < 0 or score > best:
                best = score
                leaf = node
            continue
        dot = np.float32(0.0)
        for k in range(len(hidden)):
            dot += np.float32(output[node - labels, k] * hidden[k])
        inner = np.float32(1.0) + np.float32(math.exp(np.float32(-dot)))
        right_share = np.float32(1.0 / np.float64(inner))
        left_share = np.float32(1.0 - np.float64(right_share))
        stack[size] = right[node]
        scores[size] = np.float32(score + _log(right_share))
        stack[size + 1] = left[node]
        scores[size + 1] = np.float32(score + _log(left_share))
        size += 2
    return leaf, best


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
    """The dictionary's entry that a word is, given its hash; -1: none."""
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
def _mark_ngrams(text, total, model):
    shortest, longest, buckets, kept = model.shortest, model.longest, model.buckets, model.kept
    hashes, blank, whole, found, events = (
        text.hashes,
        text.blank,
        text.whole,
        text.found,
        text.events,
    )
    mark_kept(hashes, blank, total, shortest, longest, buckets, kept, whole, found, events)


@helper
def _mark_words(text, total, number, listed, model):
    """Mark the words that are entries: bit 0 of events at the place before each, found[0] the
    entry, complemented. Take back the n-grams of labels. Returns the places that count, and whether
    a newline word ended them.
    """
    tail, found, events = text.tail, text.found, text.events
    begins, ends, values, touched = listed
    entries, entry_offsets, table = model.entries, model.entry_offsets, model.table
    shortest, longest, buckets, kept = model.shortest, model.longest, model.buckets, model.kept
    # The table is larger than the nearest cache: have what is needed of it on its way before
    # anything waits for it.
    for w in range(number):
        touched[w] = table[np.int64(values[w]) & np.int64(len(table) - 1), 1]
    for w in range(number):
        begin, end = np.int64(begins[w]), np.int64(abs(ends[w]))
        length = end - begin
        entry = np.int64(-1)
        if touched[w] != FREE:
            entry = find_entry(tail, begin, length, values[w], entries, entry_offsets, table)
        if entry >= model.words or (
            entry < 0 and length > 8 and load_u64(tail, begin) == LABEL and tail[begin + 8] == 0x5F
        ):
            events[begin - 1 : end] = 0
            continue
        if entry == model.end_of_line:
            events[begin - 1 : total + 8] = 0
            events[begin - 1] = 1
            found[0, begin - 1] = ~entry
            return begin, True
        if ends[w] < 0:
            events[begin - 1 : end] = 0
            gather(tail, begin, end, shortest, longest, buckets, kept, found, events)
        events[begin - 1] |= np.uint8(entry >= 0)
        found[0, begin - 1] = ~entry
    return total, False


@helper
def _list_rows(text, total, model, listed):
    """The rows of the words and n-grams that are marked, in the order of the text; their number."""
    events, found, kept, kept_before = text.events, text.found, model.kept, model.kept_before
    count = np.int64(0)
    for base in range(0, total, 8):
        some = load_u64(events, base)
        while some:
            j = count_trailing_zeros(some)
            some &= some - np.uint64(1)
            listed[count] = found[j & 7, base + (j >> 3)]
            count += 1
    for k in range(count):
        entry = listed[k]
        row = row_of(np.uint32(max(entry, np.int32(0))), kept, kept_before, model.words)
        row = ~np.int64(entry) if entry < 0 else row
        prefetch(model.rows, row * model.rows.shape[1])
        listed[k] = np.int32(row)
    return count


@helper
def _add_long_word(data, begin, end, model, hidden):
    """Sum the rows of the n-grams of a word that is longer than any entry, in their order, without
    writing them out; how many.
    """
    shortest, longest, buckets, kept = model.shortest, model.longest, model.buckets, model.kept
    count = np.int64(0)
    if load_u64(data, begin) == LABEL and data[begin + 8] == 0x5F:
        return count
    for first in range(begin - 1, end):
        if (byte_of(data, begin, end, first) & 0xC0) == 0x80:
            continue
        at = first
        size = np.int64(0)
        value = BASIS
        while at <= end and size < longest:
            size += 1
            value = hash_byte(value, byte_of(data, begin, end, at))
            at += 1
            while (byte_of(data, begin, end, at) & 0xC0) == 0x80:
                value = hash_byte(value, byte_of(data, begin, end, at))
                at += 1
            bucket = value % np.uint32(buckets)
            if size >= shortest and (size > 1 or first >= begin) and is_kept(kept, bucket):
                row = row_of(bucket, kept, model.kept_before, model.words)
                _add_row(model.rows, row, hidden)
                count += 1
    return count


@kernel(
    *(OFFSETS, BYTES, types.int64, types.int64, HierarchicalModel),
    *(_TextBlock, _BlockWords, _Search, types.int32[::1], types.float32[::1]),
)
def _predict(offsets, data, characters, room, model, text, words, search, labels, probabilities):
    head, tail, blank, hashes = text.head, text.tail, text.blank, text.hashes
    rows, hidden, listed = model.rows, search.hidden, search.listed
    for i in range(len(offsets) - 1):
        start = np.int64(offsets[i])
        stop = find_stop(data, start, np.int64(offsets[i + 1]), characters)
        hidden[:] = np.float32(0.0)
        count = np.int64(0)
        ended = False
        at = start
        while at < stop and not ended:
            end = find_block(data, at, stop, room)
            if end == at:
                while end < stop and not is_white(data[end]):
                    end += 1
                count += _add_long_word(data, at, end, model, hidden)
                at = end
                continue
            lay_out(data[at:end], head, tail, blank)
            total = end - at + 1
            hash_ahead(head, tail, total, hashes)
            _mark_ngrams(text, total, model)
            number = find_words(tail, blank, total, hashes, words.begins, words.ends, words.values)
            total, ended = _mark_words(text, total, number, words, model)
            some = _list_rows(text, total, model, listed)
            if len(hidden) == 16:
                add_rows_of_16(rows, listed, some, hidden)
            else:
                for k in range(some):
                    _add_row(rows, listed[k], hidden)
            count += some
            at = end
        if not ended:
            _add_row(rows, model.end_of_line, hidden)
            count += 1
        share = np.float32(1.0 / np.float64(count))
        for k in range(len(hidden)):
            hidden[k] = np.float32(hidden[k] * share)
        leaf, score = _likeliest(
            hidden, model.output, model.left, model.right, search.stack, search.scores
        )
        labels[i] = leaf
        probabilities[i] = np.float32(math.exp(score))


def predict(
    offsets: np.ndarray,
    data: np.ndarray,
    model: HierarchicalModel,
    *,
    characters: int | None,
    block: int = BLOCK,
) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest label of the first `characters` code points (None: of all) of n texts, newlines
    read as spaces.

    offsets (n + 1,) int32 into data (bytes,) uint8. Returns (labels (n,) int32 or -1, scores (n,)
    float32). A text is gone through a block at a time, so that memory is bounded however long it
    is; no block changes a bit.
    """
    count = len(offsets) - 1
    labels, scores = np.empty(count, np.int32), np.empty(count, np.float32)
    largest = int(np.diff(offsets).max(initial=0))
    characters = largest if characters is None else characters
    # What is longer than a block is no entry.
    most = min(4 * characters, largest, max(block, 16, int(np.diff(model.entry_offsets).max())))
    room = most + 1 + PAD
    sizes = max(model.longest - model.shortest + 1, 0)
    nodes = len(model.left) + 2
    head, tail, blank, whole, events = (np.empty(room, np.uint8) for _ in range(5))
    hashes, found = np.empty((AHEAD, room), np.uint32), np.empty((1 + sizes, room), np.int32)
    text = _TextBlock(head, tail, blank, whole, events, hashes, found)
    words = _BlockWords(
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.uint32),
        np.empty(room, np.uint64),
    )
    search = _Search(
        np.empty((1 + sizes) * room, np.int32),
        np.empty(model.rows.shape[1], np.float32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.float32),
    )
    model = read_only(model)
    _predict(offsets, data, characters, most, model, text, words, search, labels, scores)
    return labels, scores
