"""The counts of tokens, against the twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.tokens import counts
from tests.support import naive, strategies

DTYPES = st.sampled_from(("<u2", "<u4"))


@strategies.fuzz(100)
@given(st.lists(st.integers(0, 60_000), max_size=60), st.integers(1, 70_000), DTYPES)
def test_fuzz_add_counts(tokens: list[int], vocabulary: int, dtype: str) -> None:
    found = np.full(vocabulary + 1, 3, np.int64)
    counts.add_counts(np.frombuffer(np.array(tokens, dtype).tobytes(), dtype), found)
    expected = naive.add_counts(tokens, vocabulary)
    assert (found - 3).tolist() == expected


@strategies.fuzz(100)
@given(st.data(), st.integers(1, 9), st.integers(1, 4), DTYPES)
def test_fuzz_add_counts_by_group(
    data: st.DataObject, vocabulary: int, groups: int, dtype: str
) -> None:
    documents = data.draw(st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=8))
    drawn = [data.draw(st.integers(0, groups - 1)) for _ in documents]
    tokens = [token for document in documents for token in document]
    ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    found = np.zeros((groups, vocabulary + 1), np.int64)
    counts.add_counts_by_group(np.array(tokens, dtype), ends, np.array(drawn, np.uint8), found)
    assert found.tolist() == naive.add_counts_by_group(documents, drawn, vocabulary, groups)


@pytest.mark.parametrize(
    ("ends", "groups"), [([2, 1], [0, 0]), ([4], [0]), ([-1], [0]), ([3], [0, 0]), ([3], [2])]
)
def test_ends_and_groups_that_do_not_fit_are_refused(ends: list[int], groups: list[int]) -> None:
    with pytest.raises(IndexError):
        counts.add_counts_by_group(
            np.zeros(3, "<u2"),
            np.array(ends, np.int64),
            np.array(groups, np.uint8),
            np.zeros((2, 5), np.int64),
        )
