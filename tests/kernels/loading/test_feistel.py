"""The keyed permutation against its twin; every count is permuted whole, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.loading.feistel import ROUNDS, permute
from tests.support import naive_loading, strategies


def keys(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 64, ROUNDS, np.uint64)


@strategies.fuzz(100)
@given(st.integers(1, 3000), st.lists(st.integers(0, (1 << 64) - 1), min_size=8, max_size=8))
def test_fuzz_permute(count: int, drawn: list[int]) -> None:
    got = permute(np.arange(count), count, np.array(drawn, np.uint64))
    assert got.dtype == np.int64
    assert got.tolist() == naive_loading.permute(count, drawn)


def test_every_count_is_permuted_whole_and_back() -> None:
    for count in range(1, 2001):
        places = np.arange(count)
        got = permute(places, count, keys(count))
        assert np.array_equal(np.sort(got), places)
        assert np.array_equal(permute(got, count, keys(count), inverse=True), places)


@pytest.mark.parametrize("count", [1 << 20, (1 << 20) + 1, 999_983])
def test_large_counts_are_permuted_whole(count: int) -> None:
    got = permute(np.arange(count), count, keys(1))
    assert len(np.unique(got)) == count
    assert (got.min(), got.max()) == (0, count - 1)
    # A shuffled order keeps nothing of the old one, and two keys give two orders.
    assert abs(np.corrcoef(np.arange(count), got)[0, 1]) < 0.01
    assert (got == permute(np.arange(count), count, keys(2))).mean() < 1e-4
    # Neighbours land anywhere: a step of the order is as long as that of two independent places.
    steps = np.abs(np.diff(got)) / count
    assert abs(steps.mean() - 1 / 3) < 0.005


def test_counts_of_any_size_have_an_inverse() -> None:
    generator = np.random.default_rng(0)
    for count in (1 << 31, (1 << 40) + 12345, 10**15, 1 << 61):
        some = generator.integers(0, count, 1000)
        got = permute(some, count, keys(3))
        assert 0 <= got.min() <= got.max() < count
        assert np.array_equal(permute(got, count, keys(3), inverse=True), some)


def test_small_counts_take_every_place_equally_often() -> None:
    """Over many keys, each of 6 items is at each of 6 places in a sixth of all orders."""
    table = np.zeros((6, 6))
    for seed in range(6000):
        table[np.arange(6), permute(np.arange(6), 6, keys(seed))] += 1
    assert np.abs(table - 1000).max() < 150


def test_indices_outside_are_refused() -> None:
    for index in (-1, 5):
        with pytest.raises(IndexError, match="of 5"):
            permute(np.array([index]), 5, keys(0))
