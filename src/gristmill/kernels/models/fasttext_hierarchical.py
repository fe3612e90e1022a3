"""fastText's prediction of one label (Joulin 2016), for supervised models with hierarchical
softmax: its own label and float32 score.

    words and the character n-grams of each -> rows of the input matrix, averaged -> the likeliest
    leaf of a Huffman tree

Equality with the library needs its arithmetic in its order: FNV-1a with sign-extended bytes; a
word's own row before its n-grams, in the order of the text; float32 sums; the mean as the sum times
float32(1 / n); the sigmoid through float32; logarithms in double precision of a float32 plus 1e-5,
rounded to float32 again. Of the n-grams few survive a model's pruning: a bitmap tells which.

Most words of a text stand there again and again, in English all but one in ten of the last few
thousand texts: a table has the rows of those that were met. A word that is not there is looked up
in the dictionary, its n-grams are hashed one after another, and it takes its slot; so the table is
never full, and changes no result. What a text then costs are its words, not its bytes.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Float32s, Int32s, Uint64Rows, read_only
from gristmill.kernels.jit.lanes import SOON, add_rows_of_16
from gristmill.kernels.models.fasttext_words import (
    WIDE,
    HierarchicalModel,
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

# bytes of a text that are laid out together, at most: what is made of them stays in a near cache
BLOCK = 1 << 13


class _Search(NamedTuple):
    """What finding the likeliest label takes."""

    listed: Int32s  # rows of a block's words and n-grams
    # (slots, NARROW or WIDE): words that were met. Rows as int32, an uint32 how many, the key; of
    # a slot that is free all are 0.
    known: Uint64Rows
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


@kernel(
    *(OFFSETS, BYTES, types.int64, types.int64, HierarchicalModel),
    *(TextBlock, _Search, types.int32[::1], types.float32[::1]),
    allocates=True,
)
def _predict(offsets, data, characters, room, model, block, search, labels, probabilities):
    text, edges = block.text, block.edges
    rows, hidden, listed, known = model.rows, search.hidden, search.listed, search.known
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
                first = at - 1
                while first < end:
                    some, first = list_long_word(data, first, at, end, model, listed)
                    for k in range(some):
                        _add_row(rows, listed[k], hidden)
                    count += some
                at = end
                continue
            total = lay_out(data[at:end], text)
            number = find_words(text, total, edges)
            find_keys(text, edges, number, block.masks, block.keys, known)
            some, ended = list_rows(block, number, model, listed, known)
            if len(hidden) == 16:
                add_rows_of_16(rows, listed, some, hidden)
            else:
                for k in range(some):
                    _add_row(rows, listed[k], hidden)
            count += some
            at = end
        # The row of a newline word is the one that ends a text.
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
    tables: list[np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the likeliest label of the first `characters` code points (None: of all) of n texts,
    newlines read as spaces.

    offsets (n + 1,) int32 into data (bytes,) uint8. Returns (labels (n,) int32 or -1, scores (n,)
    float32). A text is gone through a block at a time, so that memory is bounded however long it
    is; no block changes a bit. `tables` has the tables of words of calls before with this model,
    SLOT_BYTES each; this call takes one, or makes one, and puts it back.
    """
    count = len(offsets) - 1
    labels, scores = np.empty(count, np.int32), np.empty(count, np.float32)
    characters, most = limits(offsets, characters, block, model.entry_offsets)
    room = most + 1 + PAD
    nodes = len(model.left) + 2
    text = text_block(room)
    known = tables.pop() if tables else no_words(len(model.rows) - model.words < model.buckets)
    search = _Search(
        _room_for_rows(room, model),
        known,
        np.empty(model.rows.shape[1], np.float32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.float32),
    )
    model = read_only(model)
    _predict(offsets, data, characters, most, model, text, search, labels, scores)
    if tables is not None:
        tables.append(known)
    return labels, scores


def _room_for_rows(room: int, model: HierarchicalModel) -> np.ndarray:
    """Return an array for the rows of a block of `room` places."""
    sizes = max(model.longest - model.shortest + 1, 0)
    return np.empty((1 + sizes) * room + 2 * WIDE + SOON, np.int32)
