"""fastText's prediction of one label (Joulin 2016), for supervised models: the library's own label
and float32 score.

    words, and the character n-grams or word n-grams of them -> rows of the input matrix, averaged
    -> a score for each label (softmax, one-versus-all, negative sampling), or the likeliest leaf of
    a Huffman tree (hierarchical softmax)

Equality with the library needs its arithmetic in its order (fastText 0.9.2): FNV-1a with
sign-extended bytes; a word's own row before its n-grams, in the order of the text; n-grams of words
behind all words, hashed with factor 116049371 over sign-extended 32-bit hashes of words known or
not, the end of the line among them; float32 sums, rows in the order of the text and dot products in
that of the columns; the mean as the sum times float32(1 / n); logarithms in double precision of a
float32 plus 1e-5, rounded to float32 again, so that a score may pass 1 by a hair; of equal labels
the last. The sigmoid of one-versus-all and negative sampling is read from a table of 512.

Rows are summed from the model file as it is mapped, where it is not quantised: 1.6 GB of GlotLID
are in memory once, however many processes read them. Sums take 128 columns, dot products 64 labels
at a time, of a few texts.

Most words of a text stand there again and again, in English all but one in ten of the last few
thousand texts: a table has the rows of those that were met. A word that is not there is looked up
in the dictionary, its n-grams are hashed one after another, and it takes its slot; so the table is
never full, and changes no result. What a text then costs are its words, not its bytes.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.exponentials import exponentials_of_16, largest
from gristmill.kernels.jit.groups import Float32s, Int32s, Uint64Rows, read_only
from gristmill.kernels.jit.loads import count_trailing_zeros, load_u64
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
    LABEL,
    WIDE,
    FastTextModel,
    TextBlock,
    find_entry,
    hash_word,
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
# bytes of a text that are laid out together, at most: what is made of them stays in a near cache
BLOCK = 1 << 13
LANES = 64  # labels that are scored together
TOGETHER = 8  # texts that are scored together: a block of labels is near the processor for all
FACTOR = np.uint64(116049371)
NO_LABEL = np.int64(-1)
# `loss` of a model, as its file has it; any other one has a sigmoid for each label.
TREE, SOFTMAX = 1, 3


class _LabelSearch(NamedTuple):
    """What finding the likeliest label takes."""

    listed: Int32s  # rows of a block's words and n-grams
    hashes: Int32s  # of all words of a text, for a model without n-grams of characters
    # (slots, NARROW or WIDE): words that were met. Rows as int32, an uint32 how many, the key; of
    # a slot that is free all are 0.
    known: Uint64Rows
    hidden: Float32Rows  # (TOGETHER, dimension) the sums of the rows
    dots: Float32Rows  # (TOGETHER, labels, rounded up to LANES)
    shares: Float32s  # of labels, of one text
    sigmoids: Float32s  # (513,)
    stack: Int32s  # nodes of the tree
    scores: Float32s  # theirs


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
def _log(share):
    return np.float32(math.log(np.float64(share) + 1e-5))


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
        score = _log(np.float32(shares[k] / whole))
        if not score < best:
            best = score
            label = k
            almost = np.float32(shares[k] * np.float32(0.99))
    return label, best


@helper
def _likeliest_leaf(hidden, output, left, right, stack, scores):
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
def _list_words(block, number, model, listed, hashes, seen):
    """List the rows of a block's words that are known, and the hashes of all words behind the
    `seen` ones: (how many rows, how many hashes, whether a word ended the text).
    """
    text, edges = block.text, block.edges
    count = np.int64(0)
    for w in range(number):
        begin, end = np.int64(edges[2 * w]), np.int64(edges[2 * w + 1])
        value = hash_word(text, begin, end)
        entry = find_entry(
            *(text, begin, end - begin, value, model.entries, model.entry_offsets, model.table)
        )
        if entry >= model.words or (entry < 0 and _is_label(text, begin, end)):
            continue
        if entry == model.end_of_line:
            return count, seen, True
        if entry >= 0:
            listed[count] = entry
            count += 1
        hashes[seen] = np.int32(value)
        seen += 1
    return count, seen, False


@helper
def _is_label(text, begin, end):
    return end - begin > 8 and load_u64(text, begin) == LABEL and text[begin + 8] == 0x5F


@helper
def _list_ngrams(model, hashes, seen, k, listed):
    """List the rows of the n-grams of words from word k on, in the order of the text, as many as
    there is room for: (how many rows, the word to go on with).
    """
    room = len(listed) - AHEAD - model.word_ngrams
    count = np.int64(0)
    while k < seen and count < room:
        value = np.uint64(np.int64(hashes[k]))
        for j in range(k + 1, min(k + model.word_ngrams, seen)):
            value = value * FACTOR + np.uint64(np.int64(hashes[j]))
            listed[count] = np.int64(model.words) + np.int64(value % np.uint64(model.buckets))
            count += 1
        k += 1
    return count, k


@helper
def _hash_end(model, hashes, seen):
    """Write the hash of the word that ends a text behind the `seen` ones; how many there are."""
    begin, end = model.end_of_line, model.end_of_line + 1
    value = hash_word(model.entries, model.entry_offsets[begin], model.entry_offsets[end])
    hashes[seen] = np.int32(value)
    return seen + 1


@helper
def _sum_rows(data, start, stop, room, model, block, search, hidden):
    """Write the mean of the rows of the text data[start:stop]."""
    text, edges = block.text, block.edges
    listed, known, hashes = search.listed, search.known, search.hashes
    by_words = model.longest < 1
    hidden[:] = np.float32(0.0)
    count = seen = np.int64(0)  # rows; hashes of words
    word = np.int64(0)  # whose n-grams are next
    ended = summed = False
    at = end = first = start  # `first` < `end`: n-grams of a long word from here on are left
    while not summed:
        # Rows are added in one place: that is a quarter of what is compiled.
        some = np.int64(0)
        if first < end:
            some, first = list_long_word(data, first, at, end, model, listed)
            if first >= end:
                at = end
        elif at < stop and not ended:
            end = find_block(data, at, stop, room)
            if end == at:
                while end < stop and not is_white(data[end]):
                    end += 1
                if not by_words:
                    first = at - 1
                    continue
                if not _is_label(data, at, end):
                    hashes[seen] = np.int32(hash_word(data, at, end))
                    seen += 1
            else:
                total = lay_out(data[at:end], text)
                number = find_words(text, total, edges)
                if by_words:
                    some, seen, ended = _list_words(block, number, model, listed, hashes, seen)
                else:
                    find_keys(text, edges, number, block.masks, block.keys, known)
                    some, ended = list_rows(block, number, model, listed, known)
            first = at = end
        elif at <= stop:
            # The row of a newline word is the one that ends a text.
            listed[0] = model.end_of_line
            some = np.int64(1)
            at = stop + 1
            first = end = np.int64(0)
            if by_words:
                seen = _hash_end(model, hashes, seen)
        else:
            some, word = _list_ngrams(model, hashes, seen, word, listed)
            summed = word >= seen
        _add_rows(model.matrix, listed, some, hidden)
        count += some
    part = np.float32(1.0 / np.float64(count))
    for k in range(len(hidden)):
        hidden[k] = np.float32(hidden[k] * part)


@kernel(
    *(OFFSETS, BYTES, types.int64, types.int64, types.int64, FastTextModel),
    *(TextBlock, _LabelSearch, types.int32[::1], types.float32[::1]),
    allocates=True,
)
def _predict(offsets, data, characters, room, wanted, model, block, search, labels, scores):
    hidden, dots, shares, output = search.hidden, search.dots, search.shares, model.output
    count = len(offsets) - 1
    for first in range(0, count, TOGETHER):
        texts = min(TOGETHER, count - first)
        for t in range(texts):
            start = np.int64(offsets[first + t])
            stop = find_stop(data, start, np.int64(offsets[first + t + 1]), characters)
            _sum_rows(data, start, stop, room, model, block, search, hidden[t])
        if model.loss == TREE:
            for t in range(texts):
                label, score = _likeliest_leaf(
                    *(hidden[t], output, model.left, model.right, search.stack, search.scores)
                )
                labels[first + t] = label
                scores[first + t] = np.float32(math.exp(score))
            continue
        for k in range(len(output)):
            for t in range(0, texts, 2):
                dots_of_64(output, np.int64(k), hidden, np.int64(t), dots)
        for t in range(texts):
            dots[t, model.labels :] = np.float32(-np.inf)
            whole = np.float32(1.0)
            if model.loss == SOFTMAX:
                whole = _softmax(dots[t], model.labels, shares)
            else:
                _sigmoid(dots[t], model.labels, search.sigmoids, shares)
            if wanted >= 0:
                label, score = wanted, _log(np.float32(shares[wanted] / whole))
            else:
                label, score = _likeliest(shares, model.labels, whole)
            labels[first + t] = label
            scores[first + t] = np.float32(math.exp(score))


def predict(
    offsets: np.ndarray,
    data: np.ndarray,
    model: FastTextModel,
    *,
    characters: int | None = None,
    label: int | None = None,
    block: int = BLOCK,
    tables: list[np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the likeliest label of the first `characters` code points (None: of all) of n texts,
    newlines read as spaces; with `label` that one, which a model with a tree has no score for.

    offsets (n + 1,) int32 into data (bytes,) uint8. Returns (labels (n,) int32 or -1, scores (n,)
    float32). A text is gone through a block at a time, so that memory is bounded however long it
    is, but for 2 bytes for each of a text's where a model has no n-grams of characters; no block
    changes a bit. `tables` has the tables of words of calls before with this model, SLOT_BYTES
    each; this call takes one, or makes one, and puts it back.
    """
    count = len(offsets) - 1
    labels, scores = np.empty(count, np.int32), np.empty(count, np.float32)
    longest = int(np.diff(offsets).max(initial=0))
    characters, most = limits(offsets, characters, block, model.entry_offsets)
    room = most + 1 + PAD
    known = tables.pop() if tables else no_words(len(model.kept) > 0)
    sizes = max(model.longest - model.shortest + 1, 0)
    tree = model.loss == TREE
    assert not (tree and label is not None)
    scored = 0 if tree else LANES * len(model.output)
    nodes = len(model.left) + 2
    search = _LabelSearch(
        np.zeros((1 + sizes) * room + 2 * WIDE + AHEAD, np.int32),
        np.empty(longest // 2 + 2 if model.longest < 1 else 0, np.int32),
        known,
        np.zeros((TOGETHER, model.dimension), np.float32),
        np.empty((TOGETHER, scored), np.float32),
        np.empty(scored, np.float32),
        _sigmoids(),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.float32),
    )
    wanted = NO_LABEL if label is None else label
    text = text_block(room)
    model = read_only(model)
    _predict(offsets, data, characters, most, wanted, model, text, search, labels, scores)
    if tables is not None:
        tables.append(known)
    return labels, scores


def _sigmoids() -> np.ndarray:
    """Return the library's table, by its arithmetic: (513,) float32."""
    places = (np.arange(513) * 16).astype(np.float32) / np.float32(512) - np.float32(8)
    powers = np.array([math.exp(-float(place)) for place in places]).astype(np.float32)
    return (1.0 / (1.0 + powers.astype(np.float64))).astype(np.float32)


def lay_out_labels(output: np.ndarray) -> np.ndarray:
    """Return an output matrix, (labels, dimension) float32, as a FastTextModel's."""
    labels, dimension = output.shape
    blocks = -(-labels // LANES)
    padded = np.zeros((blocks * LANES, dimension), np.float32)
    padded[:labels] = output
    turned = padded.reshape(blocks, LANES, dimension).transpose(0, 2, 1)
    return np.ascontiguousarray(turned).reshape(blocks, LANES * dimension)
