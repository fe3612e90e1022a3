"""Pieces of every pattern against the published pattern (tests/support/naive_pieces.py)."""

import itertools
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from gristmill.kernels.pieces import kinds
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.kernels.pieces.patterns import mark
from gristmill.kernels.unicode.tables import CLASSES, SYMBOL
from gristmill.tables.columns import utf8_buffers
from tests.support import naive_pieces, strategies
from tests.support.piece_texts import FRAMES, HARD, some_points


def cut(pattern: Pattern, column: pa.Array) -> list[list[str]]:
    """The pieces of each text; the bitmap's other bits are found to be 0."""
    offsets, data = utf8_buffers(column)
    starts = mark(pattern, offsets, data)
    assert len(starts) == -(-int(offsets[-1]) // 64) + 1
    places = np.flatnonzero(np.unpackbits(starts.view(np.uint8), bitorder="little")).tolist()
    raw, found = data.tobytes(), []
    for start, stop in itertools.pairwise(offsets.tolist()):
        assert start in places
        ends = [*(place for place in places if start <= place < stop), stop]
        found.append([raw[one:two].decode() for one, two in itertools.pairwise(ends)])
    assert not places or (places[0], places[-1]) == (offsets[0], offsets[-1])
    return found


def check(pattern: Pattern, batch: list[str], column: pa.Array | None = None) -> None:
    found = cut(pattern, pa.array(batch, pa.string()) if column is None else column)
    for text, pieces in zip(batch, found, strict=True):
        assert pieces == naive_pieces.pieces(pattern, text), text


@pytest.mark.parametrize("pattern", Pattern)
@strategies.fuzz(150)
@given(drawn=strategies.slices())
def test_fuzz(pattern: Pattern, drawn: tuple[list[str], pa.Array]) -> None:
    check(pattern, *drawn)


@pytest.mark.parametrize("pattern", Pattern)
def test_hard_texts(pattern: Pattern) -> None:
    check(pattern, HARD)
    check(pattern, ["".join(pair) for pair in itertools.product(HARD[:40], HARD[:50])])


@pytest.mark.parametrize("pattern", Pattern)
def test_nothing(pattern: Pattern) -> None:
    for batch in ([""], ["", "a", "", ""], ["", ""]):
        check(pattern, batch)
    assert mark(pattern, np.zeros(1, np.int32), np.empty(0, np.uint8)).tolist() == [0]


@pytest.mark.parametrize("pattern", Pattern)
def test_every_code_point(pattern: Pattern, soak: int) -> None:
    """Each code point alone, and among others."""
    for number, frame in enumerate(FRAMES):
        texts = [frame.format(chr(point)) for point in some_points(7 * pattern + number, soak)]
        if frame != "{0}":
            texts = ["".join(texts[at : at + 50]) for at in range(0, len(texts), 50)]
        offsets, data = utf8_buffers(pa.array(texts, pa.string()))
        bits = np.unpackbits(mark(pattern, offsets, data).view(np.uint8), bitorder="little")
        raw, places = data.tobytes(), np.flatnonzero(bits).tolist()
        found = [raw[one:two] for one, two in itertools.pairwise(places)]
        wanted = [p.encode() for text in texts for p in naive_pieces.pieces(pattern, text)]
        assert found == wanted, frame


def test_kinds_are_those_of_unicode() -> None:
    """Where the running Python knows a code point, and says of it what 16.0 says of its letters and
    numbers (few have changed).
    """
    every = kinds.KINDS.every()
    bits = {"L": kinds.LETTER, "N": kinds.NUMBER, "M": kinds.MARK}
    bits |= {"P": kinds.SIGN, "S": kinds.SIGN}
    cases = {"Lu": kinds.CAPITAL, "Lt": kinds.CAPITAL, "Ll": kinds.SMALL}
    unequal = 0
    for character in strategies.known_characters():
        category = unicodedata.category(character)
        wanted = bits.get(category[0], 0) | cases.get(category, 0)
        unequal += every[ord(character)] & (0xFF - kinds.SPACE - kinds.KANA_HAN) != wanted
    assert unequal < 10
    classes = CLASSES.every()
    assert ((every & 7) == (classes & 7)).all()
    assert ((every & kinds.SIGN > 0) == (classes & SYMBOL > 0)).all()
    kana_han = {*range(0x4E00, 0x9FA6), *range(0x3040, 0x3100)}
    assert set(np.flatnonzero(every & kinds.KANA_HAN).tolist()) == kana_han
    assert not (every[sorted(kana_han)] & (kinds.NUMBER | kinds.SPACE)).any()


# What meets in the patterns: each of these beside each, around the end of a block.
MEETING = [
    *("a", "B", "é", "日", "1", "²", "!", "\u0301", "'s", "'LL", "'\u017f", "'", " ", "\n"),
    *("\r\n", "\t", "\u3000", "\x85", "😀", "\n ", " \n", "12345", "—"),
    *("/", "\n/", "AB", "aB", "日A", "'sA", "!\u0301", "\u0301\n", "\0", "カ"),
]


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("letter", ["x", " "])
def test_what_meets_at_the_end_of_a_block(pattern: Pattern, letter: str, soak: int) -> None:
    for size in (63,) if soak == 1 else range(56, 68):
        batch = [
            letter * size + one + two + three
            for one in MEETING
            for two in MEETING
            for three in ("", " \nx")
        ]
        # Each alone at the start of a block, and texts that start and stop anywhere.
        check(pattern, ["".join(text + "~" * (-len(text.encode()) % 64) for text in batch)])
        if soak > 1:
            check(pattern, [half for text in batch for half in (text[:size], text[size:])])


@pytest.mark.parametrize("pattern", Pattern)
def test_runs_of_every_length(pattern: Pattern) -> None:
    for letter in MEETING:
        check(pattern, [letter * size + last for size in range(60, 70) for last in ("", "a", "\n")])


def corpus(seed: int, size: int) -> list[str]:
    """Texts of parts that meet by chance, longer than a block."""
    generator = np.random.default_rng(seed)
    parts = [*MEETING, "the ", "  ", "    ", "\n\n", "word", "12", "...", "don't", " 'tis", "A"]
    return ["".join(generator.choice(parts, length)) for length in generator.integers(1, 90, size)]


@pytest.mark.parametrize("pattern", Pattern)
def test_many_texts(pattern: Pattern) -> None:
    check(pattern, corpus(1, 1000 * max(1, strategies.FUZZ)))
