"""The shuffled order and the copying, against the twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.hashing import shuffle
from tests.support import naive, strategies


@strategies.fuzz(100)
@given(st.lists(st.integers(0, (1 << 63) - 1), max_size=30), st.integers(0, naive.MASK_64))
def test_fuzz_order_keys(documents: list[int], key: int) -> None:
    got = shuffle.order_keys(np.array(documents, np.int64), key)
    assert got.dtype == np.uint64
    assert got.tolist() == naive.order_keys(documents, key)


def test_order_is_a_permutation_that_the_key_decides() -> None:
    documents = np.arange(100_000)
    one, other = shuffle.order_keys(documents, 1), shuffle.order_keys(documents, 2)
    assert len(np.unique(one)) == len(documents)
    assert (np.argsort(one) != np.argsort(other)).mean() > 0.99
    # A shuffled order keeps nothing of the old one.
    assert abs(np.corrcoef(documents, np.argsort(one))[0, 1]) < 0.02


@strategies.fuzz(150)
@given(st.data(), st.sampled_from((np.uint16, np.uint32)))
def test_fuzz_gather(data: st.DataObject, dtype: type) -> None:
    top = int(np.iinfo(dtype).max)
    documents = data.draw(
        st.lists(st.lists(st.integers(0, top), max_size=9), min_size=1, max_size=8)
    )
    tokens = [token for document in documents for token in document]
    ends = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    order = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=20))
    starts, stops = ends[:-1].copy(), ends[1:].copy()
    got = shuffle.gather(np.array(tokens, dtype), starts, stops, np.array(order, np.int64))
    assert got.dtype == dtype
    assert got.tolist() == naive.gather(tokens, starts.tolist(), stops.tolist(), order)


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_gather_takes_read_only_tokens(dtype: str) -> None:
    """Tokens come from mapped files."""
    tokens = np.frombuffer(np.arange(10, dtype=dtype).tobytes(), dtype)
    bounds = np.array([0, 4, 4], np.int64), np.array([4, 4, 10], np.int64)
    assert shuffle.gather(tokens, *bounds, np.array([2, 0, 1])).tolist() == [
        4,
        5,
        6,
        7,
        8,
        9,
        0,
        1,
        2,
        3,
    ]
