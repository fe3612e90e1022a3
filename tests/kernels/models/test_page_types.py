"""Types of pages: the mean row and the shares, equal to plain Python."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.html import features
from gristmill.kernels.models import page_types
from gristmill.kernels.models.page_forest import Forest
from tests.support.strategies import fuzz

WIDTH = len(features.NAMES)


def mean_of(values: list[float], weights: list[int]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True)) / max(sum(weights), 1)


def softmax_of(votes: list[float]) -> list[float]:
    total = sum(map(math.exp, votes))
    return [math.exp(vote) / total for vote in votes]


@fuzz(40)
@given(st.integers(0, 7), st.integers(0, 1 << 30))
def test_a_mean_weighs_blocks_by_their_words(count: int, seed: int) -> None:
    rng = random.Random(seed)
    rows = np.array([[rng.uniform(-2, 9) for _ in range(WIDTH)] for _ in range(count)], np.float32)
    rows = rows.reshape(count, WIDTH)
    sizes = [rng.choice([0, 1, 30, 99, 100, 101, 5000]) for _ in range(count)]
    place = features.NAMES.index("own.words")
    rows[:, place] = sizes
    weights = [min(size, 100) for size in sizes]
    parts = page_types.Mean()
    for row in rows:
        parts.add(row.reshape(1, -1))
    for found in (page_types.mean_row(rows), parts.row()):
        for column in range(WIDTH):
            expected = mean_of(rows[:, column].tolist(), weights)
            assert found[column] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@fuzz(40)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 12), st.integers(0, 1 << 30))
def test_shares_are_the_softmax_of_the_trees(depth: int, kinds: int, trees: int, seed: int) -> None:
    rng, nodes = random.Random(seed), (1 << depth) - 1
    grown = [
        (
            [rng.randrange(5) for _ in range(nodes)],
            [rng.choice([-1.0, 0.0, 0.5, math.inf]) for _ in range(nodes)],
            [rng.uniform(-3, 3) for _ in range(nodes + 1)],
        )
        for _ in range(trees)
    ]
    row = np.array([rng.choice([-2.0, 0.0, 0.25, 0.5, 3.0]) for _ in range(5)], np.float32)
    votes = [0.0] * kinds
    for number, (columns, thresholds, leaves) in enumerate(grown):
        node = 0
        while node < nodes:
            node = 2 * node + 1 + bool(row[columns[node]] > thresholds[node])
        votes[number % kinds] += float(np.float32(leaves[node - nodes]))
    made = Forest(
        depth,
        np.array([c for tree in grown for c in tree[0]], np.int32),
        np.array([t for tree in grown for t in tree[1]], np.float32),
        np.array([leaf for tree in grown for leaf in tree[2]], np.float32),
    )
    found = page_types.shares(row, made, kinds).tolist()
    assert found == pytest.approx(softmax_of(votes), rel=1e-9)
