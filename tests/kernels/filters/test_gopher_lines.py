"""Gopher's counts are those of str methods and a Counter."""

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.filters import gopher_lines, gopher_quality
from gristmill.kernels.text import words
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, strategies


def check(batch: list[str], column: pa.Array, most_words: int) -> None:
    """Compare the kernel on a column with the twin on its texts."""
    offsets, data = utf8_buffers(column)
    counts = gopher_lines.count(data, words.find(offsets, data), most_words=most_words)
    got = list(zip(*(values.tolist() for values in counts), strict=True))
    assert got == [tuple(naive.count(text, most_words=most_words)) for text in batch]


@strategies.fuzz(250)
@given(
    strategies.slices(st.one_of(strategies.texts(), strategies.repetitive_texts())),
    st.sampled_from((0, 1, 5, 50, 100_000)),
)
@example((["• a\n- b\n\t* c\n…\nd …\n"], pa.array(["• a\n- b\n\t* c\n…\nd …\n"])), 100)
def test_fuzz_count(drawn: tuple[list[str], pa.Array], most_words: int) -> None:
    check(*drawn, most_words)


@strategies.fuzz(100)
@given(st.lists(st.text(".…# a", max_size=200), max_size=4))
def test_fuzz_count_signs(batch: list[str]) -> None:
    found = gopher_quality.count_signs(*strategies.buffers(batch))
    assert list(zip(*(array.tolist() for array in found), strict=True)) == [
        naive.count_signs(text) for text in batch
    ]


def test_counts_beyond_a_byte() -> None:
    """A place of the table counts to 255 and no further; counts around it and far above it stay
    exact.
    """
    batch = ["a b " * times for times in (126, 127, 128, 129, 253, 254, 255, 256, 257, 258, 3_000)]
    batch += ["a " * times for times in (254, 255, 256, 257, 258, 259, 70_000)]
    batch += ["a b c " * 300 + "d e " * 280 + "f g h " * 299]
    check(batch, pa.array(batch), 100_000)


def test_words_that_share_a_fingerprint() -> None:
    """The fingerprint sees a length and 8 bytes at either end: words that differ between those are
    told apart.
    """
    one, other, third = (f"abcdefgh{middle}ijklmnop" for middle in "xyz")
    batch = [
        f"{one} s {other} s {third} s " * 20,
        f"{one} {one} {other} {other} {third} {third} " * 7,
        f"{one} {other} " * 9 + f"{third} {one} " * 8,
    ]
    check(batch, pa.array(batch), 1_000)


def test_all_words_distinct() -> None:
    """Chance puts n-grams on one place; the count stays 1."""
    batch = [
        " ".join(f"w{number}" for number in range(30_000)),
        "only",
        "two words",
        "now three words",
    ]
    check(batch, pa.array(batch), 100_000)


def test_too_many_words_are_not_counted() -> None:
    batch = ["a " * 100, "a " * 101]
    offsets, data = strategies.buffers(batch)
    counts = gopher_lines.count(data, words.find(offsets, data), most_words=100)
    assert counts.top_2_gram.tolist() == [99, -1]
    assert counts.top_3_gram.tolist() == [98, -1]
