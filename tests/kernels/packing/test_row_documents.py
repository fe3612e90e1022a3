"""Values of positions, against loops over positions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.packing import row_documents
from tests.support import naive_packing, strategies

Segments = list[tuple[int, int, int, int]]


@st.composite
def segments_of_rows(draw: st.DrawFn) -> tuple[Segments, int, int]:
    """Segments with a first value each, the number of rows, and their width."""
    rows = draw(st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=4))
    segments = [
        (row, sum(lengths[:i]), length, draw(st.integers(0, 1000)))
        for row, lengths in enumerate(rows)
        for i, length in enumerate(lengths)
    ]
    return segments, len(rows), max(1, *map(sum, rows), 1) + draw(st.integers(0, 3))


def fields_of(segments: Segments) -> np.ndarray:
    return np.array(segments, np.int64).reshape(-1, 4).T.copy()


@strategies.fuzz(200)
@given(segments_of_rows())
def test_fuzz_count(drawn: tuple[Segments, int, int]) -> None:
    segments, rows, width = drawn
    out = np.full((rows, width), -7, np.int32)
    row_documents.count(*fields_of(segments), out)
    expected = [[-7] * width for _ in range(rows)]
    naive_packing.count(segments, expected)
    assert out.tolist() == expected


@strategies.fuzz(200)
@given(segments_of_rows())
def test_fuzz_number(drawn: tuple[Segments, int, int]) -> None:
    segments, rows, width = drawn
    out = np.full((rows, width), -7, np.int32)
    row_documents.number(*fields_of(segments)[:3], out)
    expected = [[-7] * width for _ in range(rows)]
    naive_packing.number(segments, expected)
    assert out.tolist() == expected
