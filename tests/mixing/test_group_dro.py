"""The update of DoReMi's weights: its invariants, and a slow twin in exact steps."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import GristmillError
from gristmill.mixing.group_dro import updated
from tests.support import strategies

excesses = st.lists(st.lists(st.floats(0, 20), min_size=3, max_size=3), min_size=1, max_size=20)


def naive(steps: list[list[float]], eta: float, smoothing: float) -> list[list[float]]:
    """Algorithm 1 of the paper, a line for a line."""
    weights = [1 / 3] * 3
    log = []
    for excess in steps:
        raised = [weight * math.exp(eta * one) for weight, one in zip(weights, excess, strict=True)]
        weights = [(1 - smoothing) * one / sum(raised) + smoothing / 3 for one in raised]
        log.append(weights)
    return log


@strategies.fuzz(200)
@given(excesses, st.floats(0.01, 3), st.floats(0, 0.5))
def test_fuzz_the_update(steps: list[list[float]], eta: float, smoothing: float) -> None:
    weights, log = np.full(3, 1 / 3), []
    for excess in steps:
        weights = updated(weights, np.array(excess), eta=eta, smoothing=smoothing)
        log.append(weights)
        assert weights.sum() == pytest.approx(1)
        assert weights.min() >= smoothing / 3 * (1 - 1e-12)
    assert np.array(log) == pytest.approx(np.array(naive(steps, eta, smoothing)), abs=1e-9)


@strategies.fuzz(100)
@given(excesses, st.permutations(range(3)))
def test_fuzz_the_order_of_domains_is_irrelevant(
    steps: list[list[float]], order: list[int]
) -> None:
    one = other = np.full(3, 1 / 3)
    for excess in steps:
        one = updated(one, np.array(excess))
        other = updated(other, np.array(excess)[order])
        assert other == pytest.approx(one[order])


def test_equal_losses_move_weights_only_towards_uniform() -> None:
    weights = np.array([0.7, 0.2, 0.1])
    after = updated(weights, np.full(3, 5.0), smoothing=0.1)
    assert after == pytest.approx(0.9 * weights + 0.1 / 3)


def test_a_large_loss_overflows_nothing() -> None:
    after = updated(np.full(2, 0.5), np.array([2000.0, 0.0]))
    assert after == pytest.approx([1 - 5e-4, 5e-4])
    back = updated(np.array([1.0, 0.0]), np.array([0.0, 1.0]), smoothing=0)
    assert back.tolist() == [1.0, 0.0]


def test_losses_that_are_not_finite_are_refused() -> None:
    for wrong in (math.nan, math.inf):
        with pytest.raises(GristmillError, match="an excess loss is not finite"):
            updated(np.full(2, 0.5), np.array([wrong, 0.0]))
