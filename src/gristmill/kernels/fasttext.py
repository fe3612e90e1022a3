"""fastText's prediction of one label (Joulin 2016), for supervised models with hierarchical softmax: its own label and float32 score.

    words and the character n-grams of each -> rows of the input matrix, averaged -> the likeliest leaf of a Huffman tree

Equality with the library needs its arithmetic in its order: FNV-1a with sign-extended bytes; a word's own row before its n-grams, in
the order of the text; float32 sums; the mean as the sum times float32(1 / n); the sigmoid through float32; logarithms in double
precision of a float32 plus 1e-5, rounded to float32 again. Of the n-grams few survive a model's pruning: a bitmap tells which.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.compile import BYTES, INT32S, INT64S, OFFSETS, UINT64S, helper, kernel
from gristmill.kernels.loads import count_ones

FLOAT_ROWS = types.Array(types.float32, 2, "C", readonly=True)
BASIS, PRIME = np.uint32(2166136261), np.uint32(16777619)
OPEN, CLOSE = np.uint8(0x3C), np.uint8(0x3E)  # < and >, around each word


class Model(NamedTuple):
    """A model as the kernel reads it; clean/fasttext.py makes it from a file."""

    entries: np.ndarray  # bytes of the dictionary's entries, words then labels
    entry_offsets: np.ndarray  # (entries + 1,) int64
    table: (
        np.ndarray
    )  # open addressing over entries by their FNV-1a hash, int64: its high 31 bits, and the entry; -1: free
    words: int  # entries below are words, from it on labels
    end_of_line: int  # the word </s>
    shortest: int  # n-grams, in characters
    longest: int
    buckets: int  # n-gram hashes are taken modulo this
    kept: np.ndarray  # a bitmap of the buckets that are not pruned, uint64
    kept_before: np.ndarray  # for each word of it, how many are kept before, int32
    bucket_rows: np.ndarray  # the row of each kept bucket, int32
    rows: np.ndarray  # (rows, dimension) float32
    output: np.ndarray  # (labels - 1, dimension) float32, a row a node
    left: np.ndarray  # (2 * labels - 1,) int32: children; -1: a leaf
    right: np.ndarray


@helper
def _hash_byte(value, byte):
    return np.uint32((value ^ np.uint32(np.int32(np.int8(byte)))) * PRIME)


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
def _is_label(word):
    """Whether a word between brackets starts with __label__."""
    return (
        word[1] == 0x5F and word[2] == 0x5F and word[3] == 0x6C and word[4] == 0x61 and word[5] == 0x62
        and word[6] == 0x65 and word[7] == 0x6C and word[8] == 0x5F and word[9] == 0x5F
    )  # fmt: skip


@helper
def _find_entry(word, length, value, entries, entry_offsets, table):
    """The dictionary's entry that a word between brackets is, given its hash; -1: none."""
    mask = np.int64(len(table) - 1)
    place = np.int64(value) & mask
    tag = np.int64(value) >> 1
    while table[place] >= 0:
        entry = table[place] & 0xFFFFFFFF
        # Most words are no entry: what is not of this hash is not looked at.
        if (table[place] >> 32) == tag and entry_offsets[entry + 1] - entry_offsets[entry] == length - 1:
            begin = entry_offsets[entry]
            same = True
            for j in range(length - 1):
                if entries[begin + j] != word[j + 1]:
                    same = False
                    break
            if same:
                return entry
        place = (place + 1) & mask
    return np.int64(-1)


@helper
def _hash_all(flat, total, shortest, longest, inverse, buckets, hashes, found):
    """The bucket of the `size` bytes at each place, for every size: found[size - shortest]. Plain loops, which become wide ones."""
    count = np.int32(buckets)
    now = hashes[:total]
    now[:] = BASIS
    for size in range(1, longest + 1):
        ahead = flat[size - 1 : size - 1 + total]
        for k in range(total):
            now[k] = _hash_byte(now[k], ahead[k])
        if size < shortest:
            continue
        out = found[size - shortest, :total]
        for k in range(total):
            # The quotient is at most one off.
            bucket = np.int32(now[k] - np.uint32(np.uint32(np.float64(now[k]) * inverse) * np.uint32(count)))
            bucket += count if bucket < 0 else np.int32(0)
            out[k] = bucket - (count if bucket >= count else np.int32(0))


@helper
def _gather(flat, begin, end, shortest, longest, buckets, kept, pending):
    """Write the buckets that are kept of a word's n-grams, characters of any width; their number."""
    hits = np.int64(0)
    for first in range(begin, end):
        if (flat[first] & 0xC0) == 0x80:
            continue
        at = first
        size = np.int64(0)
        value = BASIS
        while at < end and size < longest:
            size += 1
            value = _hash_byte(value, flat[at])
            at += 1
            while at < end and (flat[at] & 0xC0) == 0x80:
                value = _hash_byte(value, flat[at])
                at += 1
            if size < shortest or (size == 1 and (first == begin or at == end)):
                continue
            bucket = np.int32(np.int64(value) % buckets)
            if (kept[bucket >> 6] >> np.uint64(bucket & 63)) & np.uint64(1):
                pending[hits] = bucket
                hits += 1
    return hits


@helper
def _read_words(data, at, stop, characters, end_of_line, words, entries, entry_offsets, table, flat, ends, known):
    """Write each word between brackets into `flat`; (words, bytes, whether a newline word ended them, behind which nothing counts).

    known[w]: its entry, -1 none; ends[w]: where it stops. A word of other than ASCII bytes is marked by an end below zero.
    """
    number = np.int64(0)
    to = np.int64(0)
    seen = np.int64(0)
    while True:
        length = np.int64(1)
        flat[to] = OPEN
        value = BASIS
        high = np.uint8(0)
        while at < stop:
            byte = data[at]
            if (byte & 0xC0) != 0x80:
                if seen == characters:
                    stop = at
                    break
                seen += 1
                if byte == 0x20 or (byte >= 0x09 and byte <= 0x0D) or byte == 0:
                    if length > 1:
                        break
                    at += 1
                    continue
            flat[to + length] = byte
            high |= byte
            value = _hash_byte(value, byte)
            length += 1
            at += 1
        if at < stop:
            at += 1
        if length == 1:
            return number, to, False
        entry = _find_entry(flat[to:], length, value, entries, entry_offsets, table)
        if entry >= words or (entry < 0 and length > 9 and _is_label(flat[to:])):
            continue  # a label
        flat[to + length] = CLOSE
        to += length + 1
        known[number] = entry
        ends[number] = to if high < 0x80 else -to
        number += 1
        if entry == end_of_line:
            return number, to, True


@kernel(
    OFFSETS, BYTES, types.int64,
    BYTES, INT64S, INT64S, types.int64, types.int64, types.int64, types.int64, types.int64, UINT64S, INT32S, INT32S,
    FLOAT_ROWS, FLOAT_ROWS, INT32S, INT32S,
    types.uint8[::1], types.int64[::1], types.int64[::1], types.uint32[::1], types.int32[:, ::1], types.int32[::1], types.float32[::1],
    types.int32[::1], types.float32[::1], types.int32[::1], types.float32[::1],
)  # fmt: skip
def _predict(
    offsets, data, characters,
    entries, entry_offsets, table, words, end_of_line, shortest, longest, buckets, kept, kept_before, bucket_rows,
    rows, output, left, right,
    flat, ends, known, hashes, found, pending, hidden, stack, scores,
    labels, probabilities,
):  # fmt: skip
    inverse = 1.0 / np.float64(buckets)
    for i in range(len(offsets) - 1):
        hidden[:] = np.float32(0.0)
        count = np.int64(0)
        number, total, ended = _read_words(
            data, np.int64(offsets[i]), np.int64(offsets[i + 1]), characters, end_of_line, words, entries, entry_offsets, table,
            flat, ends, known,
        )  # fmt: skip
        _hash_all(flat, total, shortest, longest, inverse, buckets, hashes, found)
        begin = np.int64(0)
        for w in range(number):
            end = abs(ends[w])
            if known[w] >= 0:
                _add_row(rows, known[w], hidden)
                count += 1
            hits = np.int64(0)
            if known[w] == end_of_line:
                pass
            elif ends[w] > 0 and shortest > 1:
                # A byte a character: its hashes are there already. Which of them are kept no processor can predict.
                for first in range(begin, end):
                    for size in range(shortest, min(longest, end - first) + 1):
                        bucket = found[size - shortest, first]
                        pending[hits] = bucket
                        hits += np.int64((kept[bucket >> 6] >> np.uint64(bucket & 63)) & np.uint64(1))
            else:
                hits = _gather(flat, begin, end, shortest, longest, buckets, kept, pending)
            for k in range(hits):
                bucket = pending[k]
                below = (np.uint64(1) << np.uint64(bucket & 63)) - np.uint64(1)
                rank = np.int64(kept_before[bucket >> 6]) + count_ones(kept[bucket >> 6] & below)
                _add_row(rows, bucket_rows[rank], hidden)
            count += hits
            begin = end
        if not ended:
            _add_row(rows, end_of_line, hidden)
            count += 1
        share = np.float32(1.0 / np.float64(count))
        for k in range(len(hidden)):
            hidden[k] = np.float32(hidden[k] * share)
        leaf, score = _likeliest(hidden, output, left, right, stack, scores)
        labels[i] = leaf
        probabilities[i] = np.float32(math.exp(score))


def predict(offsets: np.ndarray, data: np.ndarray, model: Model, *, characters: int) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest label of the first `characters` code points of n texts, newlines read as spaces.

    offsets (n + 1,) int32 into data (bytes,) uint8. Returns (labels (n,) int32 or -1, scores (n,) float32).
    """
    count = len(offsets) - 1
    labels, scores = np.empty(count, np.int32), np.empty(count, np.float32)
    # Brackets make at most three bytes of one, and n-grams look a little beyond the last.
    room = 3 * min(4 * characters, int(np.diff(offsets).max(initial=0))) + 16 + model.longest
    nodes = len(model.left) + 2
    scratch = (
        np.zeros(room, np.uint8), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint32),
        np.empty((max(model.longest - model.shortest + 1, 0), room), np.int32),
        np.empty(model.longest * room + 1, np.int32), np.empty(model.rows.shape[1], np.float32),
        np.empty(nodes, np.int32), np.empty(nodes, np.float32),
    )  # fmt: skip
    _predict(offsets, data, characters, *model, *scratch, labels, scores)
    return labels, scores
