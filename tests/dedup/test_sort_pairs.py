"""Two columns sorted by both, against numpy's own sort by two keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.dedup.sort_pairs import sort_pairs

SMALL = st.integers(0, 9)
NUMBERS = {
    "both fit into one number": (SMALL, SMALL),
    "keys of 64 bits": (st.integers(-(1 << 63), (1 << 63) - 1) | SMALL, SMALL),
    "neither fits": (st.integers(-5, 5), st.integers(0, (1 << 63) - 1) | SMALL),
}


@pytest.mark.parametrize("which", NUMBERS)
@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_equals_a_sort_by_two_keys(which: str, kind: type, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(*NUMBERS[which]), max_size=40))
    first = np.array([one for one, _ in pairs], np.int64).view(kind)
    second = np.array([two for _, two in pairs], np.int64)
    order = np.lexsort((second, first))
    found = sort_pairs(first, second)
    assert found[0].dtype == kind and found[1].dtype == np.int64
    assert found[0].tolist() == first[order].tolist()
    assert found[1].tolist() == second[order].tolist()


@pytest.mark.parametrize("bits", [30, 31, 32])
def test_columns_at_the_edge_of_one_number(bits: int) -> None:
    """The largest numbers that fit into one, and the next larger ones."""
    largest = (1 << bits) - 1
    first = np.array([largest, 0, largest, 1, 0], np.int64)
    second = np.array([largest << 1 | 1, largest, 0, 7, 0], np.int64)
    found = sort_pairs(first, second)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(
        zip(first.tolist(), second.tolist(), strict=True)
    )
