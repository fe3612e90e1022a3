"""Gopher's quality counts with any stop words: long ones, many, none; lines by their first and last
characters.
"""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.filters import gopher_lines, gopher_quality
from gristmill.kernels.text import words
from gristmill.tables.columns import utf8_buffers
from tests.support import strategies

STOPS = (
    "the",
    "a",
    "and",
    "straße",
    "sevenby",
    "eightbyt",
    "eightbyte",
    "日本",
    "日本語は",
    "…",
    "naïveté",
    "x" * 300,
)


def stop_table(text: str, stops: list[str]) -> tuple[int, int]:
    """(different stop words, occurrences) by Python's own set."""
    found = [word for word in text.split() if word in set(stops)]
    return len(set(found)), len(found)


def count_lines(text: str, asterisk: bool) -> tuple[int, int]:
    """(lines that start with a bullet, lines that end in an ellipsis) by str methods."""
    bullets, ends = ("•", "-", "*")[: 2 + asterisk], ("…", "...")
    lines = text.splitlines()
    return sum(line.lstrip().startswith(bullets) for line in lines), sum(
        line.rstrip().endswith(ends) for line in lines
    )


def check(batch: list[str], column: pa.Array, stops: list[str]) -> None:
    offsets, data = utf8_buffers(column)
    counts = gopher_quality.count(
        offsets,
        data,
        words.find(offsets, data),
        symbols=1,
        stop_words=gopher_quality.stop_table(stops),
    )
    got = list(zip(counts.stop_words.tolist(), counts.stop_occurrences.tolist(), strict=True))
    assert got == [stop_table(text, stops) for text in batch]


@strategies.fuzz(100)
@given(
    strategies.slices(
        st.lists(
            st.sampled_from((*STOPS, "th", "eightby", "eightbytes", "x" * 299, "日")), max_size=60
        ).map(" ".join)
    ),
    st.lists(st.sampled_from(STOPS), max_size=12),
)
def test_fuzz_stop_words(drawn: tuple[list[str], pa.Array], stops: list[str]) -> None:
    check(*drawn, stops)


def test_more_stop_words_than_a_table_holds() -> None:
    stops = [f"w{number}" for number in range(200)]
    batch = [" ".join(stops), "w1 w1 w199 w200 w", "", " ".join(stops[::3] * 2)]
    check(batch, pa.array(batch), stops)


@strategies.fuzz(100)
@given(strategies.slices(), st.booleans())
def test_fuzz_count_lines(drawn: tuple[list[str], pa.Array], asterisk: bool) -> None:
    batch, column = drawn
    offsets, data = utf8_buffers(column)
    found = gopher_lines.count_lines(data, words.find(offsets, data), asterisk=asterisk)
    got = list(zip(*(array.tolist() for array in found), strict=True))
    assert got == [count_lines(text, asterisk) for text in batch]
