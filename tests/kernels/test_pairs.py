"""Agreement, exact similarity, deciding and repeated keys against the twins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels import pairs
from tests import naive, strategies

UINT64 = st.integers(0, naive.MASK_64)


@strategies.fuzz(100)
@given(st.data(), st.integers(1, 6), st.integers(0, 70))
def test_fuzz_agreement(data: st.DataObject, count: int, places: int) -> None:
    numbers = st.lists(st.sampled_from((0, 1, naive.MASK_32)), min_size=places, max_size=places)
    rows = data.draw(st.lists(numbers, min_size=count, max_size=count))
    wanted = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=9))
    left, right = (np.array([pair[side] for pair in wanted], np.int64) for side in (0, 1))
    got = pairs.agreement(np.array(rows, np.uint32).reshape(count, places), left, right)
    assert got.tolist() == [naive.agreement(rows[a], rows[b]) for a, b in wanted]


@strategies.fuzz(200)
@given(st.data())
def test_fuzz_jaccard(data: st.DataObject) -> None:
    """Sets with numbers of equal low bits, so that places of the table collide; pairs grouped by `left`, and not."""
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
    keepers, kept = pairs.decide(count, documents, candidates, values, threshold=threshold)
    assert (keepers.tolist(), kept.tolist()) == naive.decide(count, similarities, threshold=threshold)


def test_who_went_keeps_nobody() -> None:
    """A chain: 1 is like 0, 2 is like 1 only; 1 goes, so 2 stays."""
    documents, candidates = np.array([1, 2], np.int64), np.array([0, 1], np.int64)
    keepers, kept = pairs.decide(3, documents, candidates, np.array([0.9, 0.9]), threshold=0.7)
    assert keepers.tolist() == [-1, 0, -1]
    assert kept.tolist() == [0.0, 0.9, 0.0]


@strategies.fuzz(150)
@given(st.data(), st.sampled_from((0, 1, 4_095, 4_096, 4_097, 9_000)))
def test_fuzz_repeated(data: st.DataObject, size: int) -> None:
    """Keys that share low bits of 16 and 17 places, and all of 64."""
    low = st.integers(0, 5)
    keys = st.lists(st.builds(lambda a, b, c: a | b << 16 | c << 17, low, st.integers(0, 1), low) | UINT64, max_size=60)
    batches = data.draw(st.lists(keys, max_size=4))
    asked = data.draw(keys) + [key for batch in batches for key in batch]
    got, twin = pairs.Repeated(size), naive.Repeated(size)
    for batch in batches:
        got.add(np.array(batch, np.uint64))
        twin.add(batch)
    mask = got.mask(np.array(asked, np.uint64))
    assert mask.dtype == np.bool_
    assert mask.tolist() == twin.mask(asked)


def test_few_keys_pass_by_chance() -> None:
    """With 8 places a key, about one key in 8 that occurs once is taken for repeated; one that repeats always is."""
    generator = np.random.default_rng(3)
    once = generator.integers(0, 1 << 64, 50_000, np.uint64)
    twice = generator.integers(0, 1 << 64, 1_000, np.uint64)
    repeated = pairs.Repeated(len(once))
    for keys in (twice, once, twice):
        repeated.add(keys)
    assert repeated.mask(twice).all()
    assert repeated.mask(once).mean() < 0.16
