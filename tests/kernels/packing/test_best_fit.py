"""Best-fit decreasing on the histogram, against the twin that packs one piece after another."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.packing import best_fit
from tests.support import naive_packing, strategies


def bins_of(packed: best_fit.Bins) -> Counter[tuple[int, ...]]:
    """Every bin's pieces, and how often it occurs."""
    found: Counter[tuple[int, ...]] = Counter()
    for group, bins in enumerate(packed.bins.tolist()):
        rows = slice(packed.offsets[group], packed.offsets[group + 1])
        pieces = np.repeat(packed.lengths[rows], packed.times[rows])
        found[tuple(pieces.tolist())] += bins
    return found


def check(counts: list[int]) -> None:
    packed = best_fit.pack(np.array(counts, np.int64))
    assert (packed.bins > 0).all()
    assert bins_of(packed) == naive_packing.pack(counts)


@strategies.fuzz(400)
@given(st.data(), st.integers(1, 200))
def test_fuzz_pack(data: st.DataObject, limit: int) -> None:
    lengths = data.draw(
        st.dictionaries(
            st.integers(1, limit), st.sampled_from((1, 1, 2, 3, 5, 17, 60)), max_size=40
        )
    )
    check([0, *(lengths.get(length, 0) for length in range(1, limit + 1))])


def test_lengths_of_every_kind() -> None:
    """Full pieces, halves, ones; more of the short ones than the long ones' bins have space for."""
    check([0, 0, 0, 0, 7])
    check([0, 9, 0, 0, 0, 2, 3, 0, 0])
    check([0, 1000, *[0] * 127])
    check([0, 0, 500, *[0] * 61, 3])
    rng = np.random.default_rng(5)
    lengths = np.minimum(np.exp(rng.normal(4, 1.2, 20_000)).astype(int) + 1, 512)
    check(np.bincount(lengths, minlength=513).tolist())


def test_groups_are_few_whatever_the_number_of_pieces() -> None:
    rng = np.random.default_rng(6)
    lengths = np.minimum(np.exp(rng.normal(6, 1.2, 200_000)).astype(int) + 1, 2048)
    counts = np.bincount(lengths, minlength=2049).astype(np.int64)
    few, many = best_fit.pack(counts), best_fit.pack(counts * 10**9)
    assert len(many.bins) <= 2 * 2048
    assert (np.bincount(np.repeat(few.lengths, 1), minlength=1) >= 0).all()
    total = (counts * np.arange(2049)).sum()
    assert few.bins.sum() * 2048 >= total
    pieces = np.repeat(many.bins, np.diff(many.offsets)) * many.times
    placed = np.zeros(2049, np.int64)
    np.add.at(placed, many.lengths, pieces)
    assert (placed == counts * 10**9).all()


def test_no_pieces() -> None:
    packed = best_fit.pack(np.zeros(9, np.int64))
    assert len(packed.bins) == len(packed.lengths) == 0
    assert packed.offsets.tolist() == [0]
