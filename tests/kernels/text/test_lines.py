"""Lines and paragraphs: where they are, their hashes, and texts without some of them, against the
twins.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.text import lines
from gristmill.kernels.unicode.normalised import normalise
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, strategies
from tests.support.naive_lines import cut_lines, find

BREAKS = (
    "\n",
    "\r\n",
    "\r",
    "\v",
    "\f",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\n\n",
    "\n \n",
    "\n\r",
    "\r\r\n",
)


def hash_lines(line: str, *, least: int) -> tuple[int, bool]:
    """FNV-1a of 64 bits, then fmix64, as a signed number; and whether the line has `least`
    characters.
    """
    value = naive.hash_word(line)
    return value - (1 << 64) * (value >> 63), len(line) >= least


def line_texts() -> st.SearchStrategy[str]:
    """Texts of few lines, many of them blank or alike, with ends of every kind and without."""
    pieces = st.sampled_from(
        ("a", "b c", "Ünïcode …", " ", "\u3000", "\xa0", "\x1f", "—", "\u200b", "x" * 70, "")
    )
    parts = st.lists(
        st.one_of(pieces, st.sampled_from(BREAKS), st.sampled_from(BREAKS)), max_size=14
    )
    return parts.map("".join)


def every_text() -> st.SearchStrategy[str]:
    return st.one_of(line_texts(), line_texts(), strategies.texts())


@strategies.fuzz(300)
@given(strategies.slices(every_text()), st.booleans(), st.randoms(use_true_random=False))
@example((["\n\n"], pa.array(["\n\n"])), True, None)
@example((["a\r", "\nb"], pa.array(["a\r", "\nb"])), False, None)
@example((["a\n\nb", "", "c"], pa.array(["a\n\nb", "", "c"])), True, None)
def test_fuzz_lines_and_cutting(
    drawn: tuple[list[str], pa.Array], paragraphs: bool, pick: object
) -> None:
    batch, column = drawn
    offsets, data = utf8_buffers(column)
    found = lines.find(offsets, data, paragraphs=paragraphs)
    twins = [find(text, paragraphs=paragraphs) for text in batch]
    assert np.diff(found.offsets).tolist() == list(map(len, twins))
    flat = [line for twin in twins for line in twin]
    raw = data.tobytes()
    starts, stops = found.starts.tolist(), found.stops.tolist()
    assert [raw[a:b].decode() for a, b in zip(starts[:-1], stops, strict=True)] == [
        line.text for line in flat
    ]
    assert [raw[a:b].decode() for a, b in zip(stops, starts[1:], strict=True)] == [
        line.end for line in flat
    ]
    assert found.blank.tolist() == [not line.text.strip() for line in flat]
    gone = [bool(pick and pick.random() < 0.5) for _ in flat]  # type: ignore[attr-defined]
    new, out = lines.cut_lines(data, found, np.array(gone, np.bool_))
    place, wanted = 0, []
    for twin in twins:
        wanted.append(cut_lines(twin, gone[place : place + len(twin)]))
        place += len(twin)
    assert [text.decode() for text in strategies.cut(new, out)] == wanted


@strategies.fuzz(200)
@given(strategies.batches(), st.integers(1, 9))
def test_fuzz_hashes_of_normalised_lines(batch: list[str], least: int) -> None:
    hashes, long_enough = lines.hash_lines(*normalise(*strategies.buffers(batch)), least=least)
    twins = [hash_lines(naive.normalise(text), least=least) for text in batch]
    assert list(zip(hashes.tolist(), long_enough.tolist(), strict=True)) == twins


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("a\nbanner\nb", [1], "a\nb"),
        ("a\nbanner", [1], "a"),
        ("a\nbanner\n", [1], "a\n"),
        ("a\r\nbanner", [1], "a"),
        ("a\r\nb\r\nbanner\n", [2], "a\r\nb\n"),
        ("banner\n\na", [0], "\na"),
        ("a\n\nbanner", [2], "a\n"),
        ("\n \nbanner\n", [2], ""),
        ("banner", [0], ""),
        ("a\u2028banner\u2029b", [1], "a\u2028b"),
        ("a\n", [], "a\n"),
        ("\n\n", [], "\n\n"),
    ],
)
def test_what_is_left_of_a_text(text: str, gone: list[int], left: str) -> None:
    offsets, data = strategies.buffers([text])
    found = lines.find(offsets, data, paragraphs=False)
    mask = np.zeros(len(found.stops), np.bool_)
    mask[gone] = True
    assert lines.cut_lines(data, found, mask)[1].tobytes().decode() == left


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("a\nb\n\nbanner\nmore\n\nc\n", [1], "a\nb\n\nc\n"),
        ("a\n \n\t\nbanner", [1], "a"),
        ("\n\na\n\nbanner\n\n\n", [2], "\n\na\n\n\n"),
        ("\n\nbanner\n\n", [1], ""),
    ],
)
def test_what_is_left_of_paragraphs(text: str, gone: list[int], left: str) -> None:
    offsets, data = strategies.buffers([text])
    found = lines.find(offsets, data, paragraphs=True)
    mask = np.zeros(len(found.stops), np.bool_)
    mask[gone] = True
    assert lines.cut_lines(data, found, mask)[1].tobytes().decode() == left


@pytest.mark.parametrize(
    "text", ["x" * 3_000_000, "\n" * 300_000, "\r\n" * 200_000 + "é" * 500_000]
)
@pytest.mark.parametrize("paragraphs", [False, True])
def test_huge_lines_and_very_many(text: str, paragraphs: bool) -> None:
    offsets, data = strategies.buffers([text])
    found = lines.find(offsets, data, paragraphs=paragraphs)
    assert len(found.stops) == len(find(text, paragraphs=paragraphs))
    _new, out = lines.cut_lines(data, found, np.zeros(len(found.stops), np.bool_))
    assert out.tobytes().decode() == text
    assert len(lines.cut_lines(data, found, np.ones(len(found.stops), np.bool_))[1]) == 0
