"""Starts of pieces by masks of 64 bytes, against the same pattern one code point after another."""

import numpy as np
import pytest
from hypothesis import given

from gristmill.kernels.pieces import blocks_cl100k, blocks_deepseek, blocks_gpt2, blocks_o200k
from gristmill.kernels.pieces.cl100k import mark_cl100k
from gristmill.kernels.pieces.deepseek import mark_deepseek
from gristmill.kernels.pieces.gpt2 import mark_gpt2
from gristmill.kernels.pieces.o200k import mark_o200k
from tests.support import strategies

FORMS = {
    "gpt2": (blocks_gpt2.mark, mark_gpt2, {}),
    "single numbers": (blocks_gpt2.mark, mark_gpt2, {"single_numbers": True}),
    "cl100k": (blocks_cl100k.mark, mark_cl100k, {"whole_tail": True}),
    "llama3": (blocks_cl100k.mark, mark_cl100k, {}),
    "qwen35": (blocks_cl100k.mark, mark_cl100k, {"digits": 1, "marks": True}),
    "o200k": (blocks_o200k.mark, mark_o200k, {}),
    "deepseek": (blocks_deepseek.mark, mark_deepseek, {}),
    "tekken": (blocks_o200k.mark, mark_o200k, {"contractions": False, "digits": 1}),
}
# What meets in the patterns: each of these beside each, around the end of a block.
MEETING = [
    *("a", "B", "é", "日", "1", "²", "!", "\u0301", "'s", "'LL", "'\u017f", "'", " ", "\n"),
    *("\r\n", "\t", "\u3000", "\x85", "😀", "\n ", " \n", "12345", "—"),
    *("/", "\n/", "AB", "aB", "日A", "'sA", "!\u0301", "\u0301\n", "\0", "カ"),
]


def marked(form: str, batch: list[str], *, fast: bool) -> list[int]:
    """The bits that one of the two kernels sets, and no others."""
    by_masks, by_points, settings = FORMS[form]
    offsets, data = strategies.buffers(batch)
    starts = np.zeros(-(-int(offsets[-1]) // 64) + 1, np.uint64)
    (by_masks if fast else by_points)(offsets, data, starts, **settings)
    return np.flatnonzero(np.unpackbits(starts.view(np.uint8), bitorder="little")).tolist()


def check(form: str, batch: list[str]) -> None:
    found, wanted = marked(form, batch, fast=True), marked(form, batch, fast=False)
    if found != wanted and len(batch) > 1:
        for text in batch:
            check(form, [text])
    assert found == wanted, batch


@pytest.mark.parametrize("form", FORMS)
@strategies.fuzz(200)
@given(batch=strategies.batches())
def test_fuzz(form: str, batch: list[str]) -> None:
    check(form, batch)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("letter", ["x", " ", "\n", "1", "!"])
def test_what_meets_at_the_end_of_a_block(form: str, letter: str, soak: int) -> None:
    for size in range(61, 66) if soak == 1 else range(56, 68):
        batch = [
            letter * size + one + two + three
            for one in MEETING
            for two in MEETING
            for three in ("", "a", "' ", "\n", " \nx")
        ]
        # Texts that start and stop anywhere, and each alone at the start of a block.
        check(form, batch)
        check(form, [half for text in batch for half in (text[: size + 1], text[size + 1 :])])
        check(form, ["".join(text + "~" * (-len(text.encode()) % 64) for text in batch)])


@pytest.mark.parametrize("form", FORMS)
def test_runs_of_every_length(form: str) -> None:
    for letter in MEETING:
        check(form, [letter * size + last for size in range(200) for last in ("", "a", " ", "\n")])


def corpus(seed: int, size: int) -> list[str]:
    """Texts of parts that meet by chance, longer than a block."""
    generator = np.random.default_rng(seed)
    parts = [*MEETING, "the ", "  ", "    ", "\n\n", "word", "12", "...", "don't", " 'tis", "A"]
    return ["".join(generator.choice(parts, length)) for length in generator.integers(1, 90, size)]


@pytest.mark.parametrize("form", FORMS)
def test_many_texts(form: str) -> None:
    check(form, corpus(1, 4000 * max(1, strategies.FUZZ)))
