"""Cutting keys apart, and telling those that repeat, against the twins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.hashing import band_keys
from tests.support import naive, strategies

UINT64 = st.integers(0, naive.MASK_64)


@strategies.fuzz(100)
@given(st.data(), st.integers(0, 6), st.integers(1, 5), st.integers(0, 4))
def test_fuzz_split(data: st.DataObject, count: int, bands: int, bits: int) -> None:
    of_one = st.lists(
        st.one_of(UINT64, st.integers(0, 15).map(lambda high: high << 60)),
        min_size=bands,
        max_size=bands,
    )
    given = data.draw(st.lists(of_one, min_size=count, max_size=count))
    numbers = data.draw(st.lists(st.integers(0, 1 << 40), min_size=count, max_size=count))
    banded = np.array(given, np.uint64).reshape(count, bands).view(np.int64)
    cuts = band_keys.split(banded, np.array(numbers, np.int64), bits=bits)
    got = [[(int(np.int64(key).view(np.uint64)), int(row)) for key, row in cut] for cut in cuts]
    assert got == naive.split(given, numbers, bits=bits)


@strategies.fuzz(150)
@given(st.data(), st.sampled_from((0, 1, 4_095, 4_096, 4_097, 9_000)))
def test_fuzz_repeated(data: st.DataObject, size: int) -> None:
    """Keys that share low bits of 16 and 17 places, and all of 64."""
    low = st.integers(0, 5)
    drawn = st.lists(
        st.builds(lambda a, b, c: a | b << 16 | c << 17, low, st.integers(0, 1), low) | UINT64,
        max_size=60,
    )
    batches = data.draw(st.lists(drawn, max_size=4))
    asked = data.draw(drawn) + [key for batch in batches for key in batch]
    got, twin = band_keys.Repeated(size), naive.Repeated(size)
    for batch in batches:
        got.add(np.array(batch, np.uint64))
        twin.add(batch)
    mask = got.mask(np.array(asked, np.uint64))
    assert mask.dtype == np.bool_
    assert mask.tolist() == twin.mask(asked)


def test_few_keys_pass_by_chance() -> None:
    """With 8 places a key, about one key in 8 that occurs once is taken for repeated; one that
    repeats always is.
    """
    generator = np.random.default_rng(3)
    once = generator.integers(0, 1 << 64, 50_000, np.uint64)
    twice = generator.integers(0, 1 << 64, 1_000, np.uint64)
    repeated = band_keys.Repeated(len(once))
    for some in (twice, once, twice):
        repeated.add(some)
    assert repeated.mask(twice).all()
    assert repeated.mask(once).mean() < 0.16
