"""Windows that begin with a document, against the twin that goes from token to token."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.packing import aligned
from tests.support import naive_packing, strategies


@strategies.fuzz(300)
@given(
    st.lists(st.lists(st.integers(0, 60), max_size=10), max_size=4),
    st.integers(1, 25),
    st.booleans(),
)
def test_fuzz_starts(blocks: list[list[int]], limit: int, keep_rest: bool) -> None:
    state = np.zeros(1, np.int64)
    first, found = 0, []
    for block in blocks:
        ends = first + np.cumsum(np.array(block, np.int64), dtype=np.int64)
        found += aligned.starts(ends, first, limit, state, keep_rest=keep_rest).tolist()
        first = int(ends[-1]) if len(ends) else first
    documents = [length for block in blocks for length in block]
    assert found == naive_packing.starts(documents, limit, keep_rest=keep_rest)
