"""Starts of pieces by masks of 64 bytes, against the pattern itself."""

from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from gristmill.columns import utf8_buffers
from gristmill.kernels.pieces import blocks_gpt2
from tests.support import strategies
from tests.support.naive import PIECE

# What meets in the patterns: each of these beside each, around the end of a block.
MEETING = [
    "a",
    "é",
    "日",
    "1",
    "²",
    "!",
    "\u0301",
    "'s",
    "'ll",
    "'",
    " ",
    "\n",
    "\u3000",
    "\x85",
    "😀",
]


def starts_of(batch: list[str]) -> list[int]:
    """Where the pieces of texts start that lie one behind another, and where the last one stops."""
    ends = [0, *accumulate(len(text.encode()) for text in batch)]
    places = {
        end + len(text[: piece.start()].encode())
        for end, text in zip(ends, batch, strict=False)
        for piece in PIECE.finditer(text)
    }
    return sorted(places | {ends[-1]}) if batch else []


def marked(offsets: np.ndarray, data: np.ndarray) -> list[int]:
    """The bits that the kernel sets."""
    starts = np.zeros(-(-int(offsets[-1]) // 64) + 1, np.uint64)
    blocks_gpt2.mark(offsets, data, starts)
    return np.flatnonzero(np.unpackbits(starts.view(np.uint8), bitorder="little")).tolist()


@strategies.fuzz(400)
@given(strategies.slices())
def test_fuzz_gpt2(drawn: tuple[list[str], pa.Array]) -> None:
    batch, column = drawn
    offsets, data = utf8_buffers(column)
    first = int(offsets[0])
    assert marked(offsets, data) == [first + place for place in starts_of(batch)]


@pytest.mark.parametrize("size", range(50, 70))
def test_what_meets_at_the_end_of_a_block(size: int) -> None:
    for letter in ("x", " "):
        front = letter * size
        batch = [front + one + two + three for one in MEETING for two in MEETING for three in "a' "]
        for text in batch:
            assert marked(*strategies.buffers([text])) == starts_of([text]), text
        # Texts that start and stop anywhere.
        assert marked(*strategies.buffers(batch)) == starts_of(batch)
        halves = [half for text in batch for half in (text[: size + 1], text[size + 1 :])]
        assert marked(*strategies.buffers(halves)) == starts_of(halves)
