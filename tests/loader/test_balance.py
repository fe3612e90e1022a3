"""Windows dealt to ranks: equal numbers, costs within the bound; 5 % on lognormal lengths."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.loader.balance import deal
from tests.support import strategies


def least(costs: np.ndarray, ranks: int) -> float:
    """No dealing has less for its dearest rank: the mean, or the dearest window and the cheapest
    beside it.
    """
    ordered = np.sort(costs)
    beside = ordered[: max(len(ordered) // ranks - 1, 0)]
    return max(ordered.sum() / ranks, float(ordered[-1] + beside.sum())) if len(ordered) else 0.0


def imbalance(costs: np.ndarray, dealt: np.ndarray, ranks: int) -> float:
    """How much more than the mean the dearest rank has."""
    sums = np.bincount(dealt, costs, minlength=ranks)
    return float(sums.max() * ranks / max(sums.sum(), 1) - 1)


@strategies.fuzz(300)
@given(st.data(), st.integers(1, 9), st.integers(0, 8))
def test_fuzz_deal(data: st.DataObject, ranks: int, each: int) -> None:
    size = st.one_of(st.integers(0, 9), st.integers(0, 1 << 40))
    costs = data.draw(st.lists(size, min_size=ranks * each, max_size=ranks * each))
    dealt = deal(np.array(costs, np.int64), ranks)
    assert sorted(dealt.tolist()) == sorted(list(range(ranks)) * each)
    sums = [sum(itertools.compress(costs, dealt == rank)) for rank in range(ranks)]
    ordered = sorted(costs, reverse=True)
    groups = [ordered[at : at + ranks] for at in range(0, len(ordered), ranks)]
    most = max((group[0] - group[-1] for group in groups), default=0)
    assert max(sums) - min(sums) <= most
    assert least(np.array(costs, np.int64), ranks) <= max(sums)
    assert (deal(np.array(costs, np.int64), ranks) == dealt).all()


def test_small_cases_are_as_good_as_any() -> None:
    """Every way to deal 6 or 8 windows to two ranks; with this little choice, near the best."""
    rng = np.random.default_rng(2)
    worse = []
    for count in [6, 8] * 40:
        costs = rng.integers(1, 1000, count)
        best = min(
            abs(2 * costs[list(some)].sum() - costs.sum())
            for some in itertools.combinations(range(count), count // 2)
        )
        dealt = deal(costs, 2)
        found = abs(costs[dealt == 0].sum() - costs[dealt == 1].sum())
        assert found >= best
        assert least(costs, 2) <= (costs.sum() + best) / 2
        worse.append((found - best) / costs.sum())
    assert np.median(worse) == 0
    assert np.mean(worse) < 0.01


def windows(count: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of squares of lognormal documents, one behind another, cut to windows."""
    lengths = np.exp(rng.normal(6.2, 1.1, count * length // 200)).astype(np.int64) + 1
    ends = np.union1d(np.cumsum(lengths), np.arange(0, count * length + 1, length))
    ends = ends[ends <= count * length]
    costs = np.zeros(count, np.int64)
    np.add.at(costs, ends[:-1] // length, np.diff(ends) ** 2)
    return costs


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize(
    ("length", "each"), [(1024, 8), (2048, 8), (2048, 16), (8192, 8), (8192, 64)]
)
def test_lognormal_documents_within_5_percent(ranks: int, length: int, each: int) -> None:
    """Dearest and cheapest rank, with 8 windows a rank or more."""
    rng = np.random.default_rng(ranks)
    found, in_order, spread = [], [], []
    for _ in range(10):
        costs = windows(each * ranks, length, rng)
        dealt = deal(costs, ranks)
        sums = np.bincount(dealt, costs, ranks)
        spread.append((sums.max() - sums.min()) / sums.mean())
        found.append(imbalance(costs, dealt, ranks))
        in_order.append(imbalance(costs, np.arange(len(costs)) // each, ranks))
    assert max(spread) < 0.05
    assert np.mean(found) < np.mean(in_order) / 4


def test_one_window_that_is_most_of_a_step() -> None:
    """No dealing helps: the rank that has it has at least its cost."""
    costs = np.array([1000, 1, 1, 1, 1, 1, 1, 1])
    dealt = deal(costs, 4)
    assert imbalance(costs, dealt, 4) == pytest.approx(1001 * 4 / 1007 - 1)


def test_windows_that_cannot_be_divided() -> None:
    for count, ranks in ((5, 2), (4, 0), (1, 3)):
        with pytest.raises(RecipeError, match=f"{count} windows for {ranks} ranks"):
            deal(np.ones(count, np.int64), ranks)


@pytest.mark.parametrize(("each", "more"), [(2, 0.14), (3, 0.06), (4, 0.03)])
def test_with_few_windows_a_rank_it_is_near_what_no_dealing_beats(each: int, more: float) -> None:
    """How much more the dearest rank has than `least`, as a share of the mean."""
    for ranks in (2, 8, 64):
        rng = np.random.default_rng(ranks)
        found = []
        for _ in range(20):
            costs = windows(each * ranks, 2048, rng)
            most = np.bincount(deal(costs, ranks), costs, ranks).max()
            found.append((most - least(costs, ranks)) * ranks / costs.sum())
        assert np.mean(found) < more


def test_two_windows_a_rank_are_dealt_as_well_as_can_be() -> None:
    """The dearest beside the cheapest, the next beside the next: no dealing has a smaller most."""
    rng = np.random.default_rng(5)
    for ranks in (2, 3, 8, 40):
        costs = rng.integers(0, 1000, 2 * ranks)
        ordered = np.sort(costs)
        best = (ordered[:ranks] + ordered[::-1][:ranks]).max()
        assert np.bincount(deal(costs, ranks), costs, ranks).max() == best
