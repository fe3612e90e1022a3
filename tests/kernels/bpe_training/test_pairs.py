"""Choosing merges, against a twin that counts all pairs anew, and against HF tokenizers."""

from collections import Counter

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers

from gristmill.kernels.bpe_training import pairs
from gristmill.tokens.byte_level import BYTE_LEVEL
from tests.support import naive_bpe_training, strategies

BY_CHARACTER = np.argsort(np.argsort(BYTE_LEVEL)).astype(np.int32)  # HF's order of bytes
WORDS = st.one_of(
    st.text("ab", min_size=1, max_size=12),
    st.text("abcd ", min_size=1, max_size=9),
    st.tuples(st.sampled_from("axy"), st.integers(1, 40)).map(lambda run: run[0] * run[1]),
    st.tuples(st.sampled_from(["ab", "aab", "aba"]), st.integers(1, 9)).map(
        lambda run: run[0] * run[1]
    ),
    st.text(max_size=6).filter(bool),
)
PIECES = st.dictionaries(
    WORDS.map(str.encode), st.one_of(st.integers(1, 4), st.integers(1, 1 << 40)), max_size=25
)


def chosen(pieces: dict[bytes, int], order: np.ndarray, merges: int, **more: object) -> list:
    """The kernel's merges, as pairs."""
    blob = np.frombuffer(b"".join(pieces), np.uint8)
    offsets = np.cumsum([0, *map(len, pieces)]).astype(np.int64)
    counts = np.array(list(pieces.values()), np.int64)
    found = pairs.choose_merges(blob, offsets, counts, order, merges, **more)
    return [(int(sides) >> 32, int(sides) & 0xFFFFFFFF) for sides in found]


def packed(merges: list[tuple[int, int]]) -> np.ndarray:
    return np.array([left << 32 | right for left, right in merges], np.int64)


@strategies.fuzz(150)
@given(PIECES, st.integers(0, 60), st.integers(1, 3), st.randoms())
def test_fuzz(pieces: dict[bytes, int], merges: int, least: int, shuffle: object) -> None:
    order = list(range(256))
    shuffle.shuffle(order)
    found = chosen(pieces, np.array(order, np.int32), merges, least=least)
    assert found == naive_bpe_training.choose_merges(pieces, order, merges, least=least)


@strategies.fuzz(80)
@given(PIECES, PIECES, st.integers(0, 20), st.integers(0, 20))
def test_fuzz_given(
    before: dict[bytes, int], pieces: dict[bytes, int], first: int, merges: int
) -> None:
    """Merges that are given are applied whether they stand in the text or not."""
    order = list(range(256))
    known = naive_bpe_training.choose_merges(before, order, first)
    found = chosen(pieces, np.arange(256, dtype=np.int32), merges, given=packed(known))
    assert found == naive_bpe_training.choose_merges(pieces, order, merges, known)


@strategies.fuzz(80)
@given(PIECES)
def test_no_two_merges_make_the_same_bytes(pieces: dict[bytes, int]) -> None:
    """Why no merge is looked up by its bytes: a string has one way to be merged, since no token
    ever crosses its ends.
    """
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in chosen(pieces, np.arange(256, dtype=np.int32), 400):
        tokens.append(tokens[left] + tokens[right])
    assert len(set(tokens)) == len(tokens)


@strategies.fuzz(60)
@given(st.lists(WORDS.filter(lambda word: " " not in word and "\0" not in word), max_size=30))
def test_fuzz_library(words: list[str]) -> None:
    """HF's trainer, which gets the pieces as words between zero bytes."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\0", "removed"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=sorted(BYTE_LEVEL), show_progress=False
    )
    tokenizer.train_from_iterator(["\0".join(words)], trainer)
    theirs = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    pieces = Counter(word.encode() for word in words)
    tokens = sorted(BYTE_LEVEL)
    for left, right in chosen(pieces, BY_CHARACTER, 44):
        tokens.append(tokens[left] + tokens[right])
    assert tokens == [token for token, _ in theirs]


def test_room_that_runs_out_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    pieces = {
        generator.integers(0, 256, 300).astype(np.uint8).tobytes(): int(generator.integers(1, 9))
        for _ in range(40)
    }
    order = np.arange(256, dtype=np.int32)
    expected = chosen(pieces, order, 3000)
    longer, made = pairs._longer, []
    monkeypatch.setattr(pairs, "FIRST_ROOM", 16)
    monkeypatch.setattr(pairs, "_longer", lambda *given: made.append(0) or longer(*given))
    assert chosen(pieces, order, 3000) == expected
    assert len(expected) == 3000
    assert made


def test_nothing_to_merge() -> None:
    assert chosen({}, BY_CHARACTER, 10) == []
    assert chosen({b"a": 5}, BY_CHARACTER, 10) == []
    assert chosen({b"ab": 5}, BY_CHARACTER, 0) == []
    assert chosen({b"ab": 5}, BY_CHARACTER, 10, least=6) == []
