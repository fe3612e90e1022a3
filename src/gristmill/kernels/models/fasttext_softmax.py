"""fastText's probability of one label (Joulin 2016), for models of words and word n-grams with a
softmax: the library's own float32.

    words of the dictionary, and the n-grams of all words -> rows of the input matrix, averaged ->
    the output matrix, a softmax

What the library does, in its order (fastText 0.9.2, Dictionary::getLine, addWordNgrams,
SoftmaxLoss): words are cut at white space and NUL; a word's own row where it is known, then the
rows of n-grams, hashed with factor 116049371 over sign-extended 32-bit hashes of words known or
not, the end of the line among them; labels in the text are passed over; `</s>` ends it. Sums and
dot products are float32, one after another; the mean is the sum times float32(1 / n); a score is
exp(log(p + 1e-5)), so that it may pass 1 by a hair.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import (
    Bytes,
    Float32s,
    Int32s,
    ReadBytes,
    ReadFloat32Rows,
    ReadInt64s,
    ReadUint64Rows,
    read_only,
)
from gristmill.kernels.jit.loads import load_u64
from gristmill.kernels.models.fasttext_words import LABEL, find_entry
from gristmill.kernels.models.subwords import BASIS, hash_byte

FACTOR = np.uint64(116049371)
PAD = 8  # bytes behind a text that are read with it


class Bag(NamedTuple):
    """A model as the kernel reads it; filters/models/fasttext_file.py makes it from a file."""

    entries: ReadBytes  # bytes of the dictionary's entries, words then labels, and 8 more
    entry_offsets: ReadInt64s  # (entries + 1,)
    table: ReadUint64Rows  # (slots, 2), as kernels.models.fasttext_words.HierarchicalModel's
    words: int  # entries below are words, from it on labels
    end_of_line: int  # the word </s>
    word_ngrams: int  # this many words or fewer are an n-gram
    buckets: int  # n-gram hashes are taken modulo this
    rows: ReadFloat32Rows  # (words + buckets, dimension)
    output: ReadFloat32Rows  # (labels, dimension)


class _LabelledText(NamedTuple):
    """A text, its words, and what its label is computed from."""

    text: Bytes  # its bytes and PAD blanks
    listed: Int32s  # rows of the words that are known
    hashes: Int32s  # of all words
    hidden: Float32s  # (dimension,)
    shares: Float32s  # (labels,)


@helper
def _list_words(size, model, scratch):
    """Return the rows of the words that are known, and the hashes of all words: how many of
    each.
    """
    text, listed, hashes = scratch.text, scratch.listed, scratch.hashes
    entries, entry_offsets, table = model.entries, model.entry_offsets, model.table
    end_of_line = model.end_of_line
    known = np.int64(0)
    count = np.int64(0)
    at = np.int64(0)
    while at < size:
        begin = at
        value = BASIS
        while at < size and not (
            text[at] == 0x20 or (text[at] >= 0x09 and text[at] <= 0x0D) or text[at] == 0
        ):
            value = hash_byte(value, text[at])
            at += 1
        length = at - begin
        at += 1
        if length == 0:
            continue
        entry = find_entry(text, begin, length, value, entries, entry_offsets, table)
        if entry >= model.words or (
            entry < 0 and length > 8 and load_u64(text, begin) == LABEL and text[begin + 8] == 0x5F
        ):
            continue
        if entry == end_of_line:
            break
        if entry >= 0:
            listed[known] = entry
            known += 1
        hashes[count] = np.int32(value)
        count += 1
    listed[known] = end_of_line
    start = entry_offsets[end_of_line]
    value = BASIS
    for k in range(start, entry_offsets[end_of_line + 1]):
        value = hash_byte(value, entries[k])
    hashes[count] = np.int32(value)
    return known + 1, count + 1


@helper
def _add_rows(known, count, model, scratch):
    """Sum the rows of the words, then of their n-grams in the order of the text; how many."""
    listed, hashes, hidden = scratch.listed, scratch.hashes, scratch.hidden
    rows, words, word_ngrams, buckets = model.rows, model.words, model.word_ngrams, model.buckets
    hidden[:] = np.float32(0.0)
    for k in range(known):
        row = rows[listed[k]]
        for d in range(len(hidden)):
            hidden[d] += row[d]
    total = known
    for k in range(count):
        value = np.uint64(np.int64(hashes[k]))
        for j in range(k + 1, min(k + word_ngrams, count)):
            value = value * FACTOR + np.uint64(np.int64(hashes[j]))
            row = rows[np.int64(words) + np.int64(value % np.uint64(buckets))]
            for d in range(len(hidden)):
                hidden[d] += row[d]
            total += 1
    return total


@kernel(OFFSETS, BYTES, Bag, types.int64, _LabelledText, types.float32[::1], allocates=True)
def _probability(offsets, data, model, label, scratch, out):
    text, hidden, shares, output = scratch.text, scratch.hidden, scratch.shares, model.output
    for i in range(len(offsets) - 1):
        size = np.int64(offsets[i + 1] - offsets[i])
        text[:size] = data[offsets[i] : offsets[i + 1]]
        text[size : size + PAD] = 0
        known, count = _list_words(size, model, scratch)
        total = _add_rows(known, count, model, scratch)
        part = np.float32(1.0 / np.float64(total))
        for d in range(len(hidden)):
            hidden[d] = np.float32(hidden[d] * part)
        most = np.float32(-np.inf)
        for k in range(len(output)):
            dot = np.float32(0.0)
            for d in range(len(hidden)):
                dot += np.float32(output[k, d] * hidden[d])
            shares[k] = dot
            most = max(most, dot)
        whole = np.float32(0.0)
        for k in range(len(output)):
            # The library takes C's exp here, of a double; a float32's differs once in a thousand.
            shares[k] = np.float32(math.exp(np.float64(np.float32(shares[k] - most))))
            whole += shares[k]
        share = np.float32(shares[label] / whole)
        out[i] = np.float32(math.exp(np.float32(math.log(np.float64(share) + 1e-5))))


def probability(offsets: np.ndarray, data: np.ndarray, model: Bag, *, label: int) -> np.ndarray:
    """Return the probability of one label for n texts, newlines read as spaces: (n,) float32.

    offsets (n + 1,) int32 into data (bytes,) uint8.
    """
    size = int(np.diff(offsets).max(initial=0))
    scratch = _LabelledText(
        np.empty(size + PAD, np.uint8),
        np.empty(size // 2 + 2, np.int32),
        np.empty(size // 2 + 2, np.int32),
        np.empty(model.rows.shape[1], np.float32),
        np.empty(len(model.output), np.float32),
    )
    out = np.empty(len(offsets) - 1, np.float32)
    _probability(offsets, data, read_only(model), label, scratch, out)
    return out
