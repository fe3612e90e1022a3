"""Labels of choices, left out: against a twin on strings, and by hand."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.decontaminate import labels
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, strategies


def check(batch: list[str], column: pa.Array) -> None:
    """Compare the kernel on a column with the twin on its texts."""
    offsets, data = labels.blank(*utf8_buffers(column))
    assert [text.decode() for text in strategies.cut(offsets, data)] == [
        naive.blank(text) for text in batch
    ]


@strategies.fuzz(200)
@given(strategies.slices())
@example((["A"], pa.array(["A"])))
def test_fuzz_blank(drawn: tuple[list[str], pa.Array]) -> None:
    check(*drawn)


PIECES = (
    *"AbQ19.):]([*_ ﹣中é．）：、（。\n\xa0\x1c-",
    "12",
    "a.",
    " (B) ",
    "word",
    " " * 59,
    "x" * 60,
)


@strategies.fuzz(400)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=4))
@example([" " * 58 + "12. x"])
@example([" " * 59 + "A. x", "B)"])
def test_fuzz_labels(batch: list[str]) -> None:
    check(batch, pa.array(batch, pa.string()))


@pytest.mark.parametrize(
    "text",
    [
        "Why? A. red B. blue",
        "Why? (A) red (B) blue",
        "Why?\n a) red\n b) blue",
        "Why? 1. red 2. blue",
        "Why? [1] red [2] blue",
        "Why?\nA: red\nB: blue",
        "Why? **A.** red **B)** blue",
        "Why？（A）red（B）blue",
        "Why？A、red\u3000B．blue",
        "Why?\xa0A. red\xa0B. blue",
        "10. Why? red - blue",
    ],
)
def test_choices_are_one_form(text: str) -> None:
    assert naive.normalise(naive.blank(text)) == "why red blue"
    check([text], pa.array([text]))


@pytest.mark.parametrize(
    "text",
    [
        "A cat and I",
        "x = 3",
        "f(x) and g(2)",
        "3.5",
        "in 1999. Then",
        "no. it",
        "AB. x",
        "a.m",
        "1.5.2",
    ],
)
def test_words_and_numbers_stay(text: str) -> None:
    assert naive.blank(text) == text
    check([text], pa.array([text]))
