"""A forest of decision trees over the rows of a page's blocks, and what its scores keep.

Every tree is stored as a perfect one of one depth: node k has the children 2k + 1 and 2k + 2, and a
row goes to the second where its value is above the node's threshold. The sum of the leaves is
logistic in the share of a block that is main text. Values are compared as float32 and sums are
float64 in the order of the trees: scores are equal on every machine.

Nodes ask the same again and again (11,340 nodes 2,460 questions). So each question is asked once of
all rows, of 64 by one compare of vectors, and the answers are masks of rows; in a tree rows move as
bits, 256 at a time, and come to leaves without a branch (the masks are QuickScorer's idea, Lucchese
2015: doi 10.1145/2766462.2767733, with a bit for a row where it has one for a leaf).
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import IS_TITLE, Blocks
from gristmill.kernels.html.counts import Counts
from gristmill.kernels.jit.compile import kernel
from gristmill.kernels.jit.groups import Bytes, Float32s, Float64s, Int32s, Uint64s
from gristmill.kernels.jit.trees import LANES, WORDS, mask_above, split_level, write_leaves
from gristmill.kernels.models.exp_log import logistic

STRIDE = LANES + 16  # of a turned row: not a power of two, by which lines would share a place
DEEPEST = 8
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
LEVELS = 1000  # that scores are told apart in where a page's threshold is found


class Forest(NamedTuple):
    """Trees of one depth d."""

    depth: int
    columns: Int32s  # (trees * (2^d - 1),) of the rows
    thresholds: Float32s
    leaves: Float32s  # (trees * 2^d,)


class _Questions(NamedTuple):
    """A forest whose nodes name what they ask: many ask the same."""

    depth: int
    columns: Int32s  # of the rows that are asked for
    places: Int32s  # of each question its column, by its place in `columns`
    thresholds: Float32s  # of each question
    asked: Int32s  # of each node its question
    leaves: Float32s


class _ScoreRoom(NamedTuple):
    """What scoring LANES rows takes."""

    table: Float32s  # (columns, STRIDE): the rows, turned
    masks: Uint64s  # (questions, WORDS)
    reach: Uint64s  # (2^(d + 1) - 1, WORDS)
    planes: Uint64s  # (d, WORDS)
    numbers: Bytes  # (LANES,)


class Scorer(NamedTuple):
    """A forest made ready."""

    questions: _Questions
    scratch: _ScoreRoom


@kernel(types.float32[:, ::1], types.int64, types.int64, _Questions, _ScoreRoom, Float64s)
def _score(rows, first, count, forest, scratch, scores):
    depth, columns, places, thresholds, asked, leaves = forest
    table, masks, reach, planes, numbers = scratch
    for lane in range(count):
        for place in range(len(columns)):
            table[np.uint64(place * STRIDE + lane)] = rows[first + lane, columns[place]]
    words = (count + 63) // 64
    for question in range(len(places)):
        for word in range(words):
            at = np.int64(places[question]) * STRIDE + 64 * word
            masks[WORDS * question + word] = mask_above(table, at, thresholds[question])
    for word in range(WORDS):
        reach[word] = ALL
    ends = np.int64(1) << depth
    for lane in range(count):
        scores[first + lane] = 0.0
    for tree in range(len(leaves) // ends):
        for level in range(depth):
            split_level(reach, np.int64(1) << level, masks, asked, tree * (ends - 1), planes, level)
        for word in range(words):
            write_leaves(planes, depth, word, numbers)
        leaf = np.uint64(tree * ends)
        for lane in range(np.uint64(count)):
            value = np.float64(leaves[leaf + np.uint64(numbers[lane])])
            scores[np.uint64(first) + lane] += value
    for lane in range(count):
        scores[first + lane] = logistic(scores[first + lane])


@kernel(Blocks, types.int64, Counts, Float64s, types.float64, types.boolean[::1], Float64s)
def _choose(blocks, count, counts, scores, beta, kept, sums):
    squared = beta * beta
    sums[:] = 0.0
    total = 0.0
    for block in range(count):
        if blocks.flags[block] & IS_TITLE:
            continue
        level = min(np.int64(scores[block] * LEVELS), np.int64(LEVELS - 1))
        words = np.float64(counts.words[block])
        sums[2 * level] += words
        sums[2 * level + 1] += words * scores[block]
        total += words * scores[block]
    best = -1.0
    found = np.int64(LEVELS)
    words = likely = 0.0
    for step in range(LEVELS - 20):
        level = LEVELS - 1 - step
        if sums[2 * level] == 0.0:
            continue
        words += sums[2 * level]
        likely += sums[2 * level + 1]
        value = (1.0 + squared) * likely / (words + squared * total)
        if value > best:
            best = value
            found = np.int64(level)
    for block in range(count):
        level = min(np.int64(scores[block] * LEVELS), np.int64(LEVELS - 1))
        kept[block] = level >= found and blocks.flags[block] & IS_TITLE == 0


def make_scorer(forest: Forest) -> Scorer:
    """Make a forest of trees of depth 1 to 8 ready to score rows, in arrays of its own."""
    assert 1 <= forest.depth <= DEEPEST, f"trees of depth {forest.depth}"
    # What no value is above asks nothing of its column.
    never = forest.thresholds == np.inf
    asks = np.stack([np.where(never, -1.0, forest.columns), forest.thresholds], axis=1)
    different, asked = np.unique(asks.astype(np.float64), axis=0, return_inverse=True)
    columns = np.unique(np.maximum(different[:, 0], 0))
    questions = _Questions(
        forest.depth,
        columns.astype(np.int32),
        np.searchsorted(columns, np.maximum(different[:, 0], 0)).astype(np.int32),
        different[:, 1].astype(np.float32),
        asked.reshape(-1).astype(np.int32),
        forest.leaves,
    )
    scratch = _ScoreRoom(
        np.zeros(len(columns) * STRIDE, np.float32),
        np.zeros(len(different) * WORDS, np.uint64),
        np.zeros(WORDS << (forest.depth + 1), np.uint64),
        np.zeros(WORDS * forest.depth, np.uint64),
        np.zeros(LANES, np.uint8),
    )
    return Scorer(questions, scratch)


def score(rows: np.ndarray, scorer: Scorer) -> np.ndarray:
    """Return the scores of n blocks, (n,) float64 of 0 to 1, from their rows (n, columns)
    float32.
    """
    scores = np.empty(len(rows), np.float64)
    for first in range(0, len(rows), LANES):
        _score(rows, first, min(LANES, len(rows) - first), *scorer, scores)
    return scores


def choose(
    blocks: Blocks, count: int, counts: Counts, scores: np.ndarray, beta: float
) -> np.ndarray:
    """Return which blocks are kept, (count,) bool: those whose scores are at or above the page's
    threshold, which makes the expected F-beta of its words largest. A score below 0.02 keeps none.
    """
    kept = np.zeros(count, np.bool_)
    _choose(blocks, count, counts, scores, beta, kept, np.zeros(2 * LEVELS, np.float64))
    return kept
