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
    table: np.ndarray  # open addressing over entries by their FNV-1a hash, int32; -1: free
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


@kernel(
    OFFSETS, BYTES, types.int64,
    BYTES, INT64S, INT32S, types.int64, types.int64, types.int64, types.int64, types.int64, UINT64S, INT32S, INT32S,
    FLOAT_ROWS, FLOAT_ROWS, INT32S, INT32S,
    types.uint8[::1], types.int64[::1], types.float32[::1], types.int32[::1], types.float32[::1],
    types.int32[::1], types.float32[::1],
)  # fmt: skip
def _predict(
    offsets, data, characters,
    entries, entry_offsets, table, words, end_of_line, shortest, longest, buckets, kept, kept_before, bucket_rows,
    rows, output, left, right,
    word, starts, hidden, stack, scores,
    labels, probabilities,
):  # fmt: skip
    mask = np.int64(len(table) - 1)
    inverse = 1.0 / np.float64(buckets)
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        hidden[:] = np.float32(0.0)
        count = np.int64(0)
        seen = np.int64(0)
        ended = False
        while not ended:
            # The next word, between brackets, its characters' starts beside it.
            length = np.int64(1)
            points = np.int64(1)
            word[0] = OPEN
            starts[0] = 0
            value = BASIS
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
                    starts[points] = length
                    points += 1
                word[length] = byte
                value = _hash_byte(value, byte)
                length += 1
                at += 1
            if at < stop:
                at += 1
            if length == 1:
                _add_row(rows, end_of_line, hidden)
                count += 1
                break
            place = np.int64(value) & mask
            entry = np.int64(-1)
            while table[place] >= 0:
                begin = entry_offsets[table[place]]
                if entry_offsets[table[place] + 1] - begin == length - 1:
                    same = True
                    for j in range(length - 1):
                        if entries[begin + j] != word[j + 1]:
                            same = False
                            break
                    if same:
                        entry = np.int64(table[place])
                        break
                place = (place + 1) & mask
            if entry >= words:
                continue  # a label
            if entry >= 0:
                _add_row(rows, entry, hidden)
                count += 1
                if entry == end_of_line:
                    ended = True
                    continue
            elif length > 9 and _is_label(word):
                continue
            word[length] = CLOSE
            starts[points] = length
            points += 1
            length += 1
            starts[points] = length
            for first in range(points):
                value = BASIS
                begin = starts[first]
                last = min(points, first + longest)
                for n in range(first, last):
                    for j in range(starts[n], starts[n + 1]):
                        value = _hash_byte(value, word[j])
                    size = n - first + 1
                    if size < shortest or (size == 1 and (first == 0 or n + 1 == points)):
                        continue
                    bucket = np.int64(value) - np.int64(np.float64(value) * inverse) * buckets
                    if bucket < 0:
                        bucket += buckets
                    elif bucket >= buckets:
                        bucket -= buckets
                    bits = kept[bucket >> 6]
                    one = np.uint64(1) << np.uint64(bucket & 63)
                    if bits & one:
                        rank = np.int64(kept_before[bucket >> 6]) + count_ones(bits & (one - np.uint64(1)))
                        _add_row(rows, bucket_rows[rank], hidden)
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
    room = 4 * min(characters, int(np.diff(offsets).max(initial=0))) + 16
    nodes = len(model.left) + 2
    scratch = (
        np.empty(room, np.uint8), np.empty(room, np.int64), np.empty(model.rows.shape[1], np.float32),
        np.empty(nodes, np.int32), np.empty(nodes, np.float32),
    )  # fmt: skip
    _predict(offsets, data, characters, *model, *scratch, labels, scores)
    return labels, scores
