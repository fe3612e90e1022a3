"""Agreement, exact similarity, deciding and components against the twins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.hashing import pairs
from tests.support import naive, strategies

UINT64 = st.integers(0, naive.MASK_64)


@strategies.fuzz(100)
@given(st.data(), st.integers(1, 6), st.integers(0, 70))
def test_fuzz_agreement(data: st.DataObject, count: int, places: int) -> None:
    numbers = st.lists(st.sampled_from((0, 1, naive.MASK_32)), min_size=places, max_size=places)
    rows = data.draw(st.lists(numbers, min_size=count, max_size=count))
    wanted = data.draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=9)
    )
    left, right = (np.array([pair[side] for pair in wanted], np.int64) for side in (0, 1))
    signatures = np.array(rows, np.uint32).reshape(count, places)
    got = pairs.agreement(signatures, signatures[::-1].copy(), left, count - 1 - right)
    assert got.tolist() == [naive.agreement(rows[a], rows[b]) for a, b in wanted]


@strategies.fuzz(200)
@given(st.data())
def test_fuzz_jaccard(data: st.DataObject) -> None:
    """Sets with numbers of equal low bits, so that places of the table collide; pairs grouped by
    `left`, and not.
    """
    numbers = st.one_of(st.integers(0, 40), st.integers(0, 40).map(lambda high: high << 58), UINT64)
    sets = data.draw(st.lists(st.lists(numbers, unique=True, max_size=40), min_size=1, max_size=6))
    place = st.integers(0, len(sets) - 1)
    wanted = data.draw(st.lists(st.tuples(place, place), max_size=20))
    if data.draw(st.booleans()):
        wanted.sort()
    offsets = np.cumsum([0, *map(len, sets)]).astype(np.int64)
    shingles = np.array([number for one in sets for number in one], np.uint64)
    left, right = (np.array([pair[side] for pair in wanted], np.int64) for side in (0, 1))
    got = pairs.jaccard(offsets, shingles, left, right)
    assert got.tolist() == [naive.jaccard(sets[a], sets[b]) for a, b in wanted]


@strategies.fuzz(200)
@given(st.data(), st.integers(0, 9), st.sampled_from((0.0, 0.5, 0.7, 1.0)))
def test_fuzz_decide(data: st.DataObject, count: int, threshold: float) -> None:
    every = [(document, other) for document in range(count) for other in range(document)]
    like = st.sampled_from((0.0, 0.49999, 0.5, 0.6, 0.7, 0.7000001, 1.0))
    similarities = data.draw(st.dictionaries(st.sampled_from(every), like)) if every else {}
    rows = sorted(similarities)
    documents, candidates = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    values = np.array([similarities[row] for row in rows], np.float64)
    keepers, kept = np.full(count, -1), np.zeros(count)
    cut = data.draw(st.integers(0, len(rows)))
    for part in (slice(0, cut), slice(cut, None)):
        pairs.decide(
            keepers, kept, documents[part], candidates[part], values[part], threshold=threshold
        )
    assert (keepers.tolist(), kept.tolist()) == naive.decide(
        count, similarities, threshold=threshold
    )


def test_who_went_keeps_nobody() -> None:
    """A chain: 1 is like 0, 2 is like 1 only; 1 goes, so 2 stays."""
    documents, candidates = np.array([1, 2], np.int64), np.array([0, 1], np.int64)
    keepers, kept = np.full(3, -1), np.zeros(3)
    pairs.decide(keepers, kept, documents, candidates, np.array([0.9, 0.9]), threshold=0.7)
    assert keepers.tolist() == [-1, 0, -1]
    assert kept.tolist() == [0.0, 0.9, 0.0]


@strategies.fuzz(200)
@given(st.data(), st.integers(0, 12), st.sampled_from((0.0, 0.5, 1.0)))
def test_fuzz_components(data: st.DataObject, count: int, threshold: float) -> None:
    every = [(document, other) for document in range(count) for other in range(document)]
    similarities = (
        data.draw(st.dictionaries(st.sampled_from(every), st.sampled_from((0.0, 0.49, 0.5, 1.0))))
        if every
        else {}
    )
    rows = data.draw(st.permutations(sorted(similarities)))
    parents, best = np.arange(count), np.zeros(count)
    cut = data.draw(st.integers(0, len(rows)))
    for part in (rows[:cut], rows[cut:]):
        documents, candidates = (np.array([row[side] for row in part], np.int64) for side in (0, 1))
        values = np.array([similarities[row] for row in part], np.float64)
        pairs.connect(parents, best, documents, candidates, values, threshold=threshold)
    assert (pairs.components(parents).tolist(), best.tolist()) == naive.connect(
        count, similarities, threshold=threshold
    )


def test_a_chain_is_one_component() -> None:
    size = 100_000
    parents, best = np.arange(size), np.zeros(size)
    rows = np.arange(1, size)[::-1].copy()
    pairs.connect(parents, best, rows, rows - 1, np.full(size - 1, 0.9), threshold=0.8)
    assert not pairs.components(parents).any()


def test_a_chain_of_100_000_versions_is_no_cluster() -> None:
    """Each version is like the three before it: every fourth stays, and keeps the three that follow
    it.
    """
    size = 100_000
    rows = np.repeat(np.arange(1, size), 3)
    candidates = rows - np.tile([3, 2, 1], size - 1)
    known = candidates >= 0
    keepers, kept = np.full(size, -1), np.zeros(size)
    pairs.decide(
        keepers, kept, rows[known], candidates[known], np.full(int(known.sum()), 0.9), threshold=0.8
    )
    assert keepers.tolist() == [-1 if row % 4 == 0 else row - row % 4 for row in range(size)]
