"""Cutting documents into pieces, and sorting pieces by length, against the twins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.packing import lengths
from tests.support import naive_packing, strategies

WORDS = (
    *("the", " of", " a", " Mr", ".", " end.", '."', '"', ")", "?", " !", "\n", "\n\n", ".\n\n"),
    *(" \n", "\n \n", "  ", "。", "文", "！", "\n\n\n", '")', " (", "...", "\r\n", ".)", " x\n"),
)


def marks_of(words: tuple[str, ...]) -> np.ndarray:
    """The marks of tokens by their texts, as lengths.py describes them."""
    closing = "".join(naive_packing.CLOSING)
    out = np.zeros(len(words), np.uint8)
    for at, word in enumerate(words):
        out[at] = (
            lengths.BREAK * ("\n\n" in word.replace(" ", ""))
            | lengths.LINE * word.rstrip(" ").endswith("\n")
            | lengths.NEXT * word.startswith("\n")
            | lengths.STOP * word.rstrip(closing).endswith((".", "?", "!"))
            | lengths.CLOSE * (not word.strip(closing))
            | lengths.SPACE * word[:1].isspace()
            | lengths.WIDE * word.endswith(("。", "！", "？"))
        )
    return out


@strategies.fuzz(200)
@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 70))
def test_fuzz_cut(documents: list[int], limit: int) -> None:
    pieces = lengths.cut(np.array(documents, np.int64), limit)
    assert pieces.dtype == np.uint32
    assert pieces.tolist() == naive_packing.cut(documents, limit)


@strategies.fuzz(400)
@given(
    st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=60), min_size=1, max_size=6),
    st.integers(1, 25),
    st.booleans(),
    st.sampled_from((np.uint16, np.uint32)),
)
def test_fuzz_cut_texts(
    documents: list[list[int]], limit: int, sentences: bool, dtype: type
) -> None:
    tokens = np.array([token for document in documents for token in document], dtype)
    sizes = np.array([len(document) for document in documents], np.int64)
    pieces = lengths.cut_texts(tokens, sizes, marks_of(WORDS), limit, sentences=sentences)
    texts = [[WORDS[token] for token in document] for document in documents]
    assert pieces.tolist() == naive_packing.cut_texts(texts, limit, sentences=sentences)
    assert pieces.sum() == len(tokens)
    assert (pieces <= limit).all()


@strategies.fuzz(200)
@given(st.lists(st.integers(1, 30), max_size=60), st.integers(0, 1 << 40), st.integers(30, 50))
def test_fuzz_sort_block(pieces: list[int], position: int, limit: int) -> None:
    counts, positions = lengths.sort_block(np.array(pieces, np.uint32), position, limit)
    expected = naive_packing.sort_block(pieces, position, limit)
    assert (counts.tolist(), positions.tolist()) == expected
