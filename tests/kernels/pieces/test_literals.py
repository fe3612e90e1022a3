"""Strings of a list in texts, against `re`."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.pieces import literals
from gristmill.tables.columns import utf8_buffers
from tests.support import strategies

LISTS = (
    ["  ", "   ", "     "],
    ["<a>", "<ab>", "a>", "<", ">>"],
    ["é", "e", "\u0301", "é\u0301x"],
    ["a", "aa", "aaaaaaa", "b" * 256],
)


def naive_find(strings: list[str], text: str) -> list[tuple[int, str]]:
    """Byte places of the longest string at each place, none inside another."""
    longest_first = sorted(strings, key=lambda string: -len(string.encode()))
    found = re.finditer("|".join(map(re.escape, longest_first)), text)
    return [(len(text[: match.start()].encode()), match[0]) for match in found]


def pieces_of(strings: list[str]) -> st.SearchStrategy[str]:
    parts = st.sampled_from([*strings, *(string[:1] for string in strings), "x", "é", " "])
    return st.lists(st.one_of(parts, parts, strategies.fragments()), max_size=40).map("".join)


@pytest.mark.parametrize("strings", LISTS)
@strategies.fuzz(150)
@given(data=st.data())
def test_fuzz_find(strings: list[str], data: st.DataObject) -> None:
    batch, column = data.draw(strategies.slices(pieces_of(strings)))
    trie = literals.build_trie([string.encode() for string in strings])
    offsets, buffer = utf8_buffers(column)
    texts, starts, numbers = literals.find(offsets, buffer, trie)
    found = [
        (int(row), int(start - offsets[row]), strings[number])
        for row, start, number in zip(texts, starts, numbers, strict=True)
    ]
    assert found == [
        (row, *each) for row, text in enumerate(batch) for each in naive_find(strings, text)
    ]


def test_no_strings_are_found_nowhere() -> None:
    offsets, data = utf8_buffers(pa.array(["abc", ""], pa.string()))
    assert [len(column) for column in literals.find(offsets, data, literals.build_trie([]))] == [
        0
    ] * 3


def test_many_strings() -> None:
    strings = [f"<|reserved_{number}|>" for number in range(3_000)]
    trie = literals.build_trie([string.encode() for string in strings])
    text = "<|reserved_17|>  <|reserved_2999|><|reserved_|><|reserved_5"
    texts, starts, numbers = literals.find(*utf8_buffers(pa.array([text], pa.string())), trie)
    assert starts.tolist() == [place for place, _ in naive_find(strings, text)]
    assert numbers.tolist() == [17, 2999]
    assert np.array_equal(texts, np.zeros(2, np.int32))
