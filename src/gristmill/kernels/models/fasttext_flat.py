"""fastText's prediction of one label (Joulin 2016), for models of words and character n-grams that
score every label: a softmax (GlotLID, OpenLID, NLLB), one-versus-all or negative sampling. The
library's own label and float32 score.

    words and the character n-grams of each -> rows of the input matrix, averaged -> the output
    matrix -> the likeliest label

Rows are summed from the model file as it is mapped: 1.6 GB of GlotLID are in memory once, however
many processes read them. Sums go through the rows in the order of the text, dot products through
the columns in theirs, as the library's do; 128 columns and 64 labels at a time, of a few texts.

The library keeps the likeliest label by float32(log(share + 1e-5)); of equal ones the last. The
sigmoid of the other losses is read from a table of 512 (fastText 0.9.2, src/loss.cc).
"""

import math
from typing import Annotated, NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.exponentials import exponentials_of_16, largest
from gristmill.kernels.jit.groups import (
    Float32s,
    Int32s,
    ReadBytes,
    ReadFloat32Rows,
    ReadInt32s,
    ReadInt64s,
    ReadUint32s,
    ReadUint64Rows,
    Uint64Rows,
    read_only,
)
from gristmill.kernels.jit.loads import count_trailing_zeros
from gristmill.kernels.jit.row_sums import (
    AHEAD,
    add_1_column,
    add_2_columns,
    add_4_columns,
    add_8_columns,
    add_16_columns,
    add_32_columns,
    add_64_columns,
    add_128_columns,
    dots_of_64,
)
from gristmill.kernels.models.fasttext_words import (
    WIDE,
    TextBlock,
    limits,
    list_long_word,
    list_rows,
    no_words,
    text_block,
)
from gristmill.kernels.models.subwords import (
    PAD,
    find_block,
    find_keys,
    find_stop,
    find_words,
    is_white,
    lay_out,
)

Float32Rows = Annotated[np.ndarray, types.float32[:, ::1]]
BLOCK = 1 << 13  # bytes of a text that are laid out together, at most
LANES = 64  # labels that are scored together
TOGETHER = 8  # texts that are scored together: a block of labels is near the processor for all


class FlatModel(NamedTuple):
    """A model as the kernel reads it; filters/models/fasttext_file.py makes it from a file."""

    # As fasttext_words.HierarchicalModel's: every bucket is kept, so that the bitmap is
    # of none.
    entries: ReadBytes
    entry_offsets: ReadInt64s
    table: ReadUint64Rows
    words: int
    end_of_line: int
    shortest: int
    longest: int
    buckets: int
    kept: ReadUint32s
    kept_before: ReadInt32s
    matrix: ReadBytes  # (words + buckets) rows of `dimension` float32, at any address
    dimension: int
    # (labels / 64, 64 * dimension): of 64 labels the first column, the second, ...; 0 behind the
    # last label
    output: ReadFloat32Rows
    labels: int
    softmax: bool  # else each label has a sigmoid


class _LabelSearch(NamedTuple):
    """What finding the likeliest label takes."""

    listed: Int32s  # rows of a block's words and n-grams
    known: Uint64Rows  # (slots, WIDE): words that were met
    hidden: Float32Rows  # (TOGETHER, dimension) the sums of the rows
    dots: Float32Rows  # (TOGETHER, labels, rounded up to LANES)
    shares: Float32s  # of labels, of one text
    sigmoids: Float32s  # (513,)


@helper
def _add_rows(matrix, listed, count, hidden):
    size = len(hidden)
    pitch = np.int64(4 * size)
    column = np.int64(0)
    while size - column >= 128:
        add_128_columns(matrix, pitch, listed, np.int64(count), column, hidden)
        column += 128
    if size & 64:
        add_64_columns(matrix, pitch, listed, np.int64(count), column, hidden)
        column += 64
    if size & 32:
        add_32_columns(matrix, pitch, listed, np.int64(count), column, hidden)
        column += 32
    if size & 16:
        add_16_columns(matrix, pitch, listed, np.int64(count), column, hidden)
        column += 16
    if size & 8:
        add_8_columns(matrix, pitch, listed, np.int64(count), column, hidden)
        column += 8
    if size & 4:
        add_4_columns(matrix, pitch, listed, np.int64(count), column, hidden)
        column += 4
    if size & 2:
        add_2_columns(matrix, pitch, listed, np.int64(count), column, hidden)
        column += 2
    if size & 1:
        add_1_column(matrix, pitch, listed, np.int64(count), column, hidden)


@helper
def _softmax(dots, labels, shares):
    """Write exponentials into `shares`; their sum."""
    most = largest(dots, np.int64(len(dots)))
    for k in range(0, len(dots), 16):
        unknown = exponentials_of_16(dots, np.int64(k), most, shares)
        while unknown:
            place = k + count_trailing_zeros(unknown)
            shares[place] = np.float32(math.exp(np.float64(np.float32(dots[place] - most))))
            unknown &= unknown - np.uint64(1)
    whole = np.float32(0.0)
    for k in range(labels):
        whole += shares[k]
    return whole


@helper
def _sigmoid(dots, labels, sigmoids, shares):
    for k in range(labels):
        value = dots[k]
        if value < np.float32(-8.0):
            shares[k] = np.float32(0.0)
        elif value > np.float32(8.0):
            shares[k] = np.float32(1.0)
        else:
            at = np.int64(np.float32(value + np.float32(8.0)) * np.float32(32.0))
            shares[k] = sigmoids[at]


@helper
def _likeliest(shares, labels, whole):
    """Return (label, log score); a label's share is one of `shares` over `whole`."""
    best = np.float32(-np.inf)
    label = np.int64(-1)
    almost = np.float32(-1.0)
    for k in range(labels):
        # A logarithm does not fall: a share that is clearly smaller cannot win.
        if shares[k] < almost:
            continue
        score = np.float32(math.log(np.float64(np.float32(shares[k] / whole)) + 1e-5))
        if not score < best:
            best = score
            label = k
            almost = np.float32(shares[k] * np.float32(0.99))
    return label, best


@helper
def _sum_rows(data, start, stop, room, model, block, search, hidden):
    """Write the mean of the rows of the text data[start:stop]."""
    text, edges = block.text, block.edges
    matrix, listed, known = model.matrix, search.listed, search.known
    hidden[:] = np.float32(0.0)
    count = np.int64(0)
    ended = False
    at = start
    while at < stop and not ended:
        end = find_block(data, at, stop, room)
        if end == at:
            while end < stop and not is_white(data[end]):
                end += 1
            first = at - 1
            while first < end:
                some, first = list_long_word(data, first, at, end, model, listed)
                _add_rows(matrix, listed, some, hidden)
                count += some
            at = end
            continue
        total = lay_out(data[at:end], text)
        number = find_words(text, total, edges)
        find_keys(text, edges, number, block.masks, block.keys, known)
        some, ended = list_rows(block, number, model, listed, known)
        _add_rows(matrix, listed, some, hidden)
        count += some
        at = end
    # The row of a newline word is the one that ends a text.
    listed[0] = model.end_of_line
    _add_rows(matrix, listed, 1, hidden)
    count += 1
    part = np.float32(1.0 / np.float64(count))
    for k in range(len(hidden)):
        hidden[k] = np.float32(hidden[k] * part)


@kernel(
    *(OFFSETS, BYTES, types.int64, types.int64, FlatModel),
    *(TextBlock, _LabelSearch, types.int32[::1], types.float32[::1]),
    allocates=True,
)
def _predict(offsets, data, characters, room, model, block, search, labels, probabilities):
    hidden, dots, shares, output = search.hidden, search.dots, search.shares, model.output
    count = len(offsets) - 1
    for first in range(0, count, TOGETHER):
        texts = min(TOGETHER, count - first)
        for t in range(texts):
            start = np.int64(offsets[first + t])
            stop = find_stop(data, start, np.int64(offsets[first + t + 1]), characters)
            _sum_rows(data, start, stop, room, model, block, search, hidden[t])
        for k in range(len(output)):
            for t in range(0, texts, 2):
                dots_of_64(output, np.int64(k), hidden, np.int64(t), dots)
        for t in range(texts):
            dots[t, model.labels :] = np.float32(-np.inf)
            whole = np.float32(1.0)
            if model.softmax:
                whole = _softmax(dots[t], model.labels, shares)
            else:
                _sigmoid(dots[t], model.labels, search.sigmoids, shares)
            label, score = _likeliest(shares, model.labels, whole)
            labels[first + t] = label
            probabilities[first + t] = np.float32(math.exp(score))


def predict(
    offsets: np.ndarray,
    data: np.ndarray,
    model: FlatModel,
    *,
    characters: int | None,
    block: int = BLOCK,
    tables: list[np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """As fasttext_hierarchical.predict: the likeliest label of n texts, (n,) int32, and its score,
    (n,) float32.
    """
    count = len(offsets) - 1
    labels, scores = np.empty(count, np.int32), np.empty(count, np.float32)
    characters, most = limits(offsets, characters, block, model.entry_offsets)
    room = most + 1 + PAD
    known = tables.pop() if tables else no_words(False)
    sizes = max(model.longest - model.shortest + 1, 0)
    search = _LabelSearch(
        np.zeros((1 + sizes) * room + 2 * WIDE + AHEAD, np.int32),
        known,
        np.zeros((TOGETHER, model.dimension), np.float32),
        np.empty((TOGETHER, LANES * len(model.output)), np.float32),
        np.empty(LANES * len(model.output), np.float32),
        _sigmoids(),
    )
    text = text_block(room)
    model = read_only(model)
    _predict(offsets, data, characters, most, model, text, search, labels, scores)
    if tables is not None:
        tables.append(known)
    return labels, scores


def _sigmoids() -> np.ndarray:
    """Return the library's table, by its arithmetic: (513,) float32."""
    places = (np.arange(513) * 16).astype(np.float32) / np.float32(512) - np.float32(8)
    powers = np.array([math.exp(-float(place)) for place in places]).astype(np.float32)
    return (1.0 / (1.0 + powers.astype(np.float64))).astype(np.float32)


def lay_out_labels(output: np.ndarray) -> np.ndarray:
    """Return an output matrix, (labels, dimension) float32, as FlatModel's."""
    labels, dimension = output.shape
    blocks = -(-labels // LANES)
    padded = np.zeros((blocks * LANES, dimension), np.float32)
    padded[:labels] = output
    turned = padded.reshape(blocks, LANES, dimension).transpose(0, 2, 1)
    return np.ascontiguousarray(turned).reshape(blocks, LANES * dimension)
