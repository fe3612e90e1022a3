"""A forest of decision trees over the rows of a page's blocks, and what its scores keep.

Every tree is stored as a perfect one of one depth: node k has the children 2k + 1 and 2k + 2, and a
row goes to the second where its value is above the node's threshold. So a row takes the same steps
in every tree, without a branch. The sum of the leaves is logistic in the share of a block that is
main text. Values are compared as float32 and sums are float64 in the order of the trees: scores are
equal on every machine.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import IS_TITLE, Blocks
from gristmill.kernels.html.counts import Counts
from gristmill.kernels.jit.compile import kernel
from gristmill.kernels.jit.groups import Float32s, Float64s, Int32s
from gristmill.kernels.models.exp_log import logistic

TWICE = 150  # words of a block that is kept once only
LEVELS = 1000  # that scores are told apart in where a page's threshold is found


class Forest(NamedTuple):
    """Trees of one depth d."""

    depth: int
    columns: Int32s  # (trees * (2^d - 1),) of the rows
    thresholds: Float32s
    leaves: Float32s  # (trees * 2^d,)


@kernel(types.float32[:, ::1], types.int64, Forest, Float64s)
def _score(rows, count, forest, scores):
    depth, columns, thresholds, leaves = forest
    nodes = (np.int64(1) << depth) - 1
    trees = len(leaves) // (nodes + 1)
    scores[:count] = 0.0
    for tree in range(trees):
        first = tree * nodes
        leaf = tree * (nodes + 1) - nodes
        block = np.int64(0)
        while block + 4 <= count:
            # Four rows side by side: their steps do not wait for each other.
            one = two = three = four = np.int64(0)
            for _ in range(depth):
                place = first + one
                one = 2 * one + 1 + (rows[block, columns[place]] > thresholds[place])
                place = first + two
                two = 2 * two + 1 + (rows[block + 1, columns[place]] > thresholds[place])
                place = first + three
                three = 2 * three + 1 + (rows[block + 2, columns[place]] > thresholds[place])
                place = first + four
                four = 2 * four + 1 + (rows[block + 3, columns[place]] > thresholds[place])
            scores[block] += np.float64(leaves[leaf + one])
            scores[block + 1] += np.float64(leaves[leaf + two])
            scores[block + 2] += np.float64(leaves[leaf + three])
            scores[block + 3] += np.float64(leaves[leaf + four])
            block += 4
        while block < count:
            one = np.int64(0)
            for _ in range(depth):
                place = first + one
                one = 2 * one + 1 + (rows[block, columns[place]] > thresholds[place])
            scores[block] += np.float64(leaves[leaf + one])
            block += 1
    for block in range(count):
        scores[block] = logistic(scores[block])


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


def score(rows: np.ndarray, forest: Forest) -> np.ndarray:
    """The scores of n blocks, (n,) float64 of 0 to 1, from their rows (n, columns) float32."""
    scores = np.empty(len(rows), np.float64)
    _score(rows, len(rows), forest, scores)
    return scores


def choose(
    blocks: Blocks, count: int, counts: Counts, scores: np.ndarray, beta: float
) -> np.ndarray:
    """Which blocks are kept, (count,) bool: those whose scores are at or above the page's
    threshold, which makes the expected F-beta of its words largest. A score below 0.02 keeps none.
    """
    kept = np.zeros(count, np.bool_)
    _choose(blocks, count, counts, scores, beta, kept, np.zeros(2 * LEVELS, np.float64))
    # A body that a page has twice (for print, for another script) is kept once.
    long = np.flatnonzero(kept & (counts.words[:count] >= TWICE))
    _, first = np.unique(counts.hashes[long], return_index=True)
    kept[np.delete(long, first)] = False
    return kept
