"""Which pieces a bin has, against the twin that lists every bin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.loading import feistel
from gristmill.kernels.packing import best_fit, choose
from tests.support import naive_packing, strategies


def contents(counts: np.ndarray) -> list[tuple[int, ...]]:
    """Every bin's pieces, in the order of the bins."""
    packed = best_fit.pack(counts)
    found = []
    for group, bins in enumerate(packed.bins.tolist()):
        rows = slice(packed.offsets[group], packed.offsets[group + 1])
        found += [tuple(np.repeat(packed.lengths[rows], packed.times[rows]).tolist())] * bins
    return found


@strategies.fuzz(200)
@given(st.data(), st.integers(1, 40), st.integers(0, (1 << 64) - 1))
def test_fuzz_choose(data: st.DataObject, limit: int, key: int) -> None:
    pieces = data.draw(st.lists(st.integers(1, limit), min_size=1, max_size=60))
    counts = np.bincount(pieces, minlength=limit + 1).astype(np.int64)
    index = np.random.default_rng(key % 1000).permutation(len(pieces)).astype(np.int64) * 7
    keys = np.array([key ^ (k * 0x123456789ABCDEF) for k in range(8)], np.uint64)
    plan = choose.plan_pieces(counts)
    packed = contents(counts)
    assert int(plan.first[-1]) == len(packed)
    bins = data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=20))
    got = choose.choose(np.array(bins, np.int64), plan, index, keys)
    expected = naive_packing.choose(bins, packed, index.tolist(), keys.tolist())
    rows: list[list[tuple[int, int]]] = [[] for _ in bins]
    for row, column, position, length in np.stack(got.runs, axis=1).tolist():
        assert column == sum(n for _, n in rows[row])
        rows[row].append((position, length))
    assert rows == expected
    assert (index[got.items] == got.runs.positions).all()
    # All bins together have every piece once.
    whole = choose.choose(np.arange(len(packed)), plan, index, keys)
    assert sorted(whole.runs.positions.tolist()) == sorted(index.tolist())


@pytest.mark.parametrize("length", [1, 2, 17, 2048, 1 << 20])
def test_a_length_has_the_permutation_of_its_salted_keys(length: int) -> None:
    keys = np.arange(8).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    counts = np.zeros(length + 1, np.int64)
    counts[length] = 100
    plan = choose.plan_pieces(counts)
    got = choose.choose(np.arange(100), plan, np.arange(100), keys)
    salted = choose.salted(keys, length)
    assert salted.tolist() == [key ^ naive_packing.salt(length) for key in keys.tolist()]
    assert (got.items == feistel.permute(np.arange(100), 100, salted)).all()


def test_a_bin_that_is_not_there() -> None:
    plan = choose.plan_pieces(np.array([0, 3, 2], np.int64))
    bins = int(plan.first[-1])
    for number in (-1, bins):
        with pytest.raises(IndexError, match=f"of {bins}"):
            choose.choose(np.array([number]), plan, np.arange(5), np.zeros(8, np.uint64))
