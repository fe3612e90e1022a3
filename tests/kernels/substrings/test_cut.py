"""Texts without some of their bytes, against Python's strings."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.substrings.cut import BOUNDARIES, CutSpans, cut
from gristmill.tables.columns import utf8_buffers, view_strings
from tests.support import naive_substrings, strategies

TEXT = st.lists(
    st.sampled_from(
        (
            "a",
            "bc",
            " ",
            "  ",
            "\n",
            "\r\n",
            "\r",
            "\u2028",
            "\x85",
            "é",
            "字",
            "ก",
            "😀",
            "\u3000",
            ".",
        )
    ),
    max_size=14,
).map("".join)


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[str, list[tuple[int, int]]]]:
    """Texts, each with spans of its bytes."""
    out = []
    for text in draw(st.lists(TEXT, max_size=4)):
        size = len(text.encode())
        marks = draw(st.lists(st.integers(0, size), max_size=6, unique=True).map(sorted))
        pairs = list(zip(marks[::2], marks[1::2], strict=False))
        out.append((text, pairs))
    return out


@strategies.fuzz(120)
@given(cases(), st.sampled_from(BOUNDARIES))
def test_fuzz_cut(drawn: list[tuple[str, list[tuple[int, int]]]], boundary: str) -> None:
    offsets, data = utf8_buffers(pa.array([text for text, _ in drawn], pa.string()))
    counts = [len(pairs) for _, pairs in drawn]
    flat = [pair for _, pairs in drawn for pair in pairs]
    spans = CutSpans(
        np.cumsum([0, *counts]).astype(np.int64),
        np.array([first for first, _ in flat], np.int64),
        np.array([end for _, end in flat], np.int64),
    )
    new_offsets, new_data, removed = cut(offsets, data, spans, boundary=boundary)
    wanted = [naive_substrings.cut(text, pairs, boundary) for text, pairs in drawn]
    assert view_strings(new_offsets, new_data).to_pylist() == [text for text, _ in wanted]
    assert removed.spans.tolist() == [count for _, count in wanted]
    assert removed.bytes.tolist() == [
        len(text.encode()) - len(new.encode())
        for (text, _), (new, _) in zip(drawn, wanted, strict=True)
    ]


@pytest.mark.parametrize(
    ("boundary", "left"), [("characters", "a bghi\n"), ("words", "a bcd ghi\n"), ("lines", "")]
)
def test_bounds_go_inward(boundary: str, left: str) -> None:
    text = "a bcd é\nf ghi\n"
    first, end = 3, text.encode().index(b"ghi")
    offsets, data = utf8_buffers(pa.array([text]))
    one = CutSpans(*(np.array(column, np.int64) for column in ([0, 1], [first], [end])))
    new = view_strings(*cut(offsets, data, one, boundary=boundary)[:2])[0].as_py()
    assert new == (left or text)
