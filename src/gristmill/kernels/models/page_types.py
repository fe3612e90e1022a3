"""The type of a page by a forest of small trees over the mean of its blocks' rows.

Trees are perfect ones (kernels/models/page_forest.py); of n types tree k is of type k mod n. The
sums of leaves are turned into shares by softmax (kernels/models/exp_log.py). Means are summed in
float64 in the order of the blocks: shares are equal on every machine.
"""

import numpy as np
from numba import types

from gristmill.kernels.html.features import NAMES
from gristmill.kernels.jit.compile import kernel
from gristmill.kernels.jit.groups import Float32s, Float64s
from gristmill.kernels.models.exp_log import exp
from gristmill.kernels.models.page_forest import Forest

WORDS = NAMES.index("own.words")
MOST_WORDS = 100.0  # of a block that count in the mean


@kernel(types.float32[:, ::1], types.int64, types.int64, Float64s, returns=types.float64)
def _add(rows, count, words, sums):
    total = 0.0
    for block in range(count):
        weight = min(np.float64(rows[block, words]), MOST_WORDS)
        total += weight
        for column in range(len(sums)):
            sums[column] += weight * np.float64(rows[block, column])
    return total


@kernel(Float32s, Forest, Float64s)
def _vote(row, forest, votes):
    depth, columns, thresholds, leaves = forest
    nodes = (np.int64(1) << depth) - 1
    votes[:] = 0.0
    for tree in range(len(leaves) // (nodes + 1)):
        node = np.int64(0)
        for _ in range(depth):
            place = tree * nodes + node
            node = 2 * node + 1 + (row[columns[place]] > thresholds[place])
        votes[tree % len(votes)] += np.float64(leaves[tree * (nodes + 1) + node - nodes])
    most = votes[0]
    for kind in range(1, len(votes)):
        most = max(most, votes[kind])
    total = 0.0
    for kind in range(len(votes)):
        votes[kind] = exp(votes[kind] - most)
        total += votes[kind]
    for kind in range(len(votes)):
        votes[kind] /= total


class Mean:
    """The mean row of a page, summed part by part."""

    def __init__(self) -> None:
        self.sums = np.zeros(len(NAMES), np.float64)
        self.total = 0.0

    def add(self, rows: np.ndarray) -> None:
        """Add the rows of some blocks, (blocks, columns) float32; their words are their weights."""
        self.total += _add(rows, len(rows), WORDS, self.sums)

    def row(self) -> np.ndarray:
        """Return the mean, (columns,) float32; zeros where no block has words."""
        return (self.sums / max(self.total, 1.0)).astype(np.float32)


def mean_row(rows: np.ndarray) -> np.ndarray:
    """Return the mean row of a page's blocks."""
    mean = Mean()
    mean.add(rows)
    return mean.row()


def shares(row: np.ndarray, forest: Forest, kinds: int) -> np.ndarray:
    """Return how likely each of `kinds` types is for a page with this mean row: (kinds,)
    float64.
    """
    votes = np.empty(kinds, np.float64)
    _vote(row, forest, votes)
    return votes
