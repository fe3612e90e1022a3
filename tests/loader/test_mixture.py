"""The mix: shares at every prefix, the inverse, weights that are rounded and that are refused."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.loader.mixture import MOST_SLOTS, Mixture, assign_slots, fill_weights
from tests.support import strategies

weights = st.lists(st.integers(0, 1000), min_size=1, max_size=40).filter(any)


def check_prefixes(mixture: Mixture, shares: list[Fraction], most: float) -> None:
    """At every prefix of the period (and so of the stream) a count is near share x prefix."""
    taken = np.zeros((mixture.period, len(shares)), np.int64)
    taken[np.arange(mixture.period), mixture.sources] = 1
    counts = np.cumsum(taken, axis=0)
    wanted = np.arange(1, mixture.period + 1)[:, None] * np.array([float(s) for s in shares])
    assert np.abs(counts - wanted).max() < most
    assert counts[-1].tolist() == mixture.slots.tolist()


@strategies.fuzz(200)
@given(weights)
def test_fuzz_shares_at_every_prefix(drawn: list[int]) -> None:
    slots = assign_slots([Fraction(weight) for weight in drawn])
    assert sum(slots) <= MOST_SLOTS
    mixture = Mixture(slots)
    check_prefixes(mixture, [Fraction(count, sum(slots)) for count in slots], 1 + 1e-6)


@strategies.fuzz(30)
@given(st.lists(st.floats(1e-4, 1.0), min_size=2, max_size=12))
def test_fuzz_rounded_shares(drawn: list[float]) -> None:
    """Shares with no small denominator: each is right to a slot, and so is every prefix to two."""
    given_weights = [Fraction(weight) for weight in drawn]
    slots = assign_slots(given_weights)
    shares = [weight / sum(given_weights) for weight in given_weights]
    assert sum(slots) <= MOST_SLOTS
    for count, share in zip(slots, shares, strict=True):
        assert abs(Fraction(count, sum(slots)) - share) <= Fraction(1, MOST_SLOTS)
    check_prefixes(Mixture(slots), shares, 2)


@strategies.fuzz(100)
@given(weights, st.data())
def test_fuzz_places_and_back(drawn: list[int], data: st.DataObject) -> None:
    mixture = Mixture(assign_slots([Fraction(weight) for weight in drawn]))
    start = data.draw(st.integers(0, 10**12))
    windows = np.arange(start, start + 300)
    sources, ranks = mixture.place(windows)
    before = mixture.before(start)
    for window, source, rank in zip(
        windows.tolist(), sources.tolist(), ranks.tolist(), strict=True
    ):
        assert rank == before[source]
        before[source] += 1
        assert mixture.window_of(source, rank) == window
    assert mixture.before(start + 300).tolist() == before.tolist()


def test_exact_shares_make_a_short_period() -> None:
    weights = fill_weights({"web": 5, "books": 5}, {"web": 0.7, "books": 0.3})
    assert assign_slots(list(weights.values())) == [7, 3]
    assert assign_slots([Fraction(str(1 / 3))] * 3) == [1, 1, 1]
    assert assign_slots([Fraction(5)]) == [1]


def test_by_tokens_and_without_some() -> None:
    sources = {"web": 6, "books": 3, "code": 1}
    assert fill_weights(sources, None) == {"web": 6, "books": 3, "code": 1}
    assert fill_weights(sources, {"code": 0}) == {"web": 6, "books": 3, "code": 0}
    assert fill_weights(sources, {"code": 2}) == {"web": 0, "books": 0, "code": 2}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"wbe": 1}, "the corpus has no source 'wbe'; it has web, books"),
        ({"web": -1}, "web = -1 is not a number of 0 or more"),
        ({"web": float("nan")}, "web = nan is not a number"),
        ({"web": "a"}, "web = 'a' is not a number"),
        ({"web": True}, "web = True is not a number"),
        ({"web": 0, "books": 0}, "no source has a weight above 0"),
        ({"web": 1, "books": 1e-9}, "source 'books' has a share of 1e-09, less than half a slot"),
    ],
)
def test_weights_that_are_refused(asked: dict[str, float], said: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(said)):
        fill_weights({"web": 10, "books": 10}, asked)
