"""Starts of pieces where blocks of 64 bytes meet, against the published patterns."""

import numpy as np
import pytest

from gristmill.kernels.pieces.pattern_names import Pattern
from tests.kernels.pieces.test_patterns import check
from tests.support import strategies

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
