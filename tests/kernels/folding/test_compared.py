"""The form in which texts are compared, character for character."""

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.folding import fold_tables as tables
from gristmill.kernels.folding.compared import compared, locate_words
from gristmill.kernels.folding.folded_text import GROWTH
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, naive_folding, strategies

# Letters with marks in and out of order, Hangul, Bengali, what folds, and what is not drawn.
JOINING = (
    *("e", "é", "\u0301", "\u0323", "\u0327", "\u0344", "ệ", "\u1100", "\u1161", "\u11a8", "각"),
    *("가", "\u09c7", "\u09be", "\u09cb", "ক", "\u0958", "\u00ad", "\u200b", "\u200d", "\ufe0f"),
    *(
        "ﬁ",
        "Ａ",
        "，",
        "＝",
        "ｶ",
        "ﾞ",
        "…",
        "“",
        "–",
        "-",
        "−",
        "=",
        "\u0338",
        "!",
        "！",
        "\x00",
        "\x7f",
    ),
    *(" ", "\n", "\t", "\u3000", "\x85", "x", "中", "ﻻ", "\u064e", "\u0651", "ـ", "آ"),
)


def joining() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(JOINING), max_size=40).map("".join)


def forms(column: pa.Array, form: str, *, arabic_marks: bool = True) -> list[str]:
    offsets, data = compared(*utf8_buffers(column), form, arabic_marks=arabic_marks)
    assert offsets[0] == 0
    assert offsets[-1] == len(data), "the text did not fit its buffer"
    return [text.decode() for text in strategies.cut(offsets, data)]


def check(batch: list[str], column: pa.Array, *, arabic_marks: bool = True) -> None:
    """Compare each form of a column with the twin's of its texts."""
    marks = arabic_marks
    assert forms(column, "bytes") == batch
    assert forms(column, "folded", arabic_marks=marks) == [
        naive_folding.folded(text, arabic_marks=marks) for text in batch
    ]
    for form in ("words", "signs"):
        assert forms(column, form, arabic_marks=marks) == [
            naive_folding.words(text, signs=form == "signs", arabic_marks=marks) for text in batch
        ]


@strategies.fuzz(300)
@given(strategies.slices())
@example((["e" + "\u0323\u0301" * 200 + "x"], pa.array(["e" + "\u0323\u0301" * 200 + "x"])))
def test_forms_of_any_text_are_those_of_plain_python(drawn: tuple[list[str], pa.Array]) -> None:
    check(*drawn)


@strategies.fuzz(300)
@given(st.lists(joining(), max_size=4), st.booleans())
def test_forms_of_what_joins_are_those_of_plain_python(batch: list[str], marks: bool) -> None:
    check(batch, pa.array(batch, pa.string()), arabic_marks=marks)


def test_forms_of_every_character() -> None:
    """Each code point alone, and between letters."""
    known = strategies.known_characters()
    batch = [character for character in known if unicodedata.category(character) != "Co"]
    check(batch, pa.array(batch))
    letters = ("Lo", "So")  # those that are not taken apart are all alike
    batch = [
        f"A{character}{character}B"
        for character in batch
        if unicodedata.category(character) not in letters or unicodedata.decomposition(character)
    ]
    check(batch, pa.array(batch))


@strategies.fuzz(200)
@given(st.one_of(strategies.texts(), joining()))
def test_a_folded_text_stays(text: str) -> None:
    [once] = forms(pa.array([text], pa.string()), "folded")
    assert forms(pa.array([once], pa.string()), "folded") == [once]


@strategies.fuzz(200)
@given(st.one_of(strategies.texts(), joining()))
def test_canonically_equal_texts_have_one_form(text: str) -> None:
    column = pa.array([text, unicodedata.normalize("NFD", text)], pa.string())
    if any(len(row) > 40 for row in _mark_rows(text)):
        return  # long rows of marks are taken in pieces
    for form in ("folded", "words", "signs"):
        first, second = forms(column, form)
        assert first == second


def _mark_rows(text: str) -> list[str]:
    rows = [""]
    for character in unicodedata.normalize("NFD", text):
        rows.append(rows.pop() + character) if unicodedata.combining(character) else rows.append("")
    return rows


def test_no_character_grows_by_more_than_the_buffers_allow() -> None:
    places = tables.FOLDING.places
    every = places.pages.reshape(-1, 256)[places.blocks].reshape(-1)
    for point in np.flatnonzero(every).tolist():
        count = tables.FOLDING.expansions[every[point]]
        made = tables.FOLDING.expansions[every[point] + 1 :][:count].tolist()
        size = sum(len(chr(part).encode()) for part in made)
        assert size <= GROWTH * len(chr(point).encode())
    for unit in ("Ⱥ中", "a中", "<a", "Ⱥ<", "\U0001d160", "\u0958", "ﻻ"):
        check([unit * 2_000], pa.array([unit * 2_000]))


@strategies.fuzz(200)
@given(st.one_of(strategies.texts(), joining()), st.one_of(strategies.texts(), joining()))
def test_words_are_found_where_they_stand(text: str, other: str) -> None:
    batch = [text, other]
    offsets, data = strategies.buffers(batch)
    counts, starts, stops = locate_words(offsets, data)
    assert np.diff(counts).tolist() == [
        len(naive_folding.words(text, signs=False).split()) for text in batch
    ]
    for k, held in enumerate(batch):
        for start, stop in zip(
            starts[counts[k] : counts[k + 1]], stops[counts[k] : counts[k + 1]], strict=True
        ):
            assert offsets[k] <= start < stop <= offsets[k + 1]
            held.encode()[start - offsets[k] : stop - offsets[k]].decode()


def test_words_of_plain_text_stand_where_they_did() -> None:
    text = "Die Mühle, am M\u00adühlbach: ﬁn 中文。"
    offsets, data = strategies.buffers([text])
    _, starts, stops = locate_words(offsets, data)
    raw = text.encode()
    assert [raw[a:b].decode() for a, b in zip(starts, stops, strict=True)] == (
        ["Die", "Mühle", "am", "M\u00adühlbach", "ﬁn", "中", "文"]
    )


def test_words_of_text_that_folds_to_itself_are_those_of_the_normal_form() -> None:
    text = "Ein Satz, (mit) Zeichen: 3,14! 中文 и ещё"
    assert forms(pa.array([text]), "words") == [naive.normalise(text)]


@pytest.mark.parametrize(
    ("text", "form", "right"),
    [
        ("if x<=y:\n\treturn -5", "folded", "if x<=y:\n\treturn -5"),
        ("if x<=y:\n\treturn -5", "signs", "if x <= y return - 5"),
        ("a != b", "signs", "a != b"),
        ("a - b, well-known, 20–30 °C", "signs", "a - b well known 20 30 ° c"),
        ("Müh\u00adle\u200b \r\n\r\n“q”… ", "folded", 'Mühle "q"...'),
        ("two\u3000\u00a0 words\nand\n\n  more", "folded", "two words and\n  more"),
        ("كَتَبَ", "folded", "كَتَبَ"),
    ],
)
def test_forms(text: str, form: str, right: str) -> None:
    assert forms(pa.array([text]), form) == [unicodedata.normalize("NFC", right)]


def test_arabic_marks_and_tatweel_go_where_the_setting_says_so() -> None:
    for form in ("folded", "words", "signs"):
        assert forms(pa.array(["كَتَبَ مـــحمد آ"]), form, arabic_marks=False) == ["كتب محمد آ"]
