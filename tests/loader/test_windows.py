"""Concat windows: the cut of an epoch, and which windows have which tokens."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.loader.windows import ConcatWindows
from tests.support import strategies


@strategies.fuzz(200)
@given(st.integers(1, 12), st.integers(0, 60), st.integers(0, 5))
def test_fuzz_cut_against_a_ring(length: int, more: int, epoch: int) -> None:
    """All windows of an epoch are a stretch of the ring, without a hole or a repeat."""
    tokens = length + more
    windows = ConcatWindows("0" * 64, 1, "web", tokens, length)
    assert (windows.count, windows.unused) == divmod(tokens, length)
    runs = windows.runs(epoch, np.arange(windows.count))
    table: dict[int, dict[int, int]] = {}
    for row, column, position, run in zip(*(f.tolist() for f in runs), strict=True):
        assert 0 <= position < position + run <= tokens
        for at in range(run):
            table.setdefault(row, {})[column + at] = position + at
    offset = windows.offset(epoch)
    assert 0 <= offset < length
    ring = [(offset + at) % tokens for at in range(windows.count * length)]
    for row in range(windows.count):
        assert [table[row][at] for at in range(length)] == ring[row * length : (row + 1) * length]
        assert list(table[row]) == list(range(length))  # ordered by column
    # The inverse, token by token and as a range.
    holder = {token: at // length for at, token in enumerate(ring)}
    for token in range(tokens):
        expected = [holder[token]] if token in holder else []
        assert windows.locate(epoch, token, token + 1).tolist() == expected
    for start in range(0, tokens, 3):
        stop = min(tokens, start + length + 2)
        expected = sorted({holder[token] for token in range(start, stop) if token in holder})
        assert windows.locate(epoch, start, stop).tolist() == expected


def test_windows_in_any_order() -> None:
    windows = ConcatWindows("0" * 64, 7, "web", 103, 10)
    order = np.array([9, 0, 4, 9])
    assert windows.offset(2) > 3  # so that window 9 goes over the end
    some = windows.runs(2, order)
    for row, window in enumerate(order):
        one = windows.runs(2, np.array([window]))
        for field in ("columns", "positions", "lengths"):
            mine = getattr(some, field)[some.rows == row]
            assert mine.tolist() == getattr(one, field).tolist()
    assert np.all(np.diff(some.rows) >= 0)
    empty = windows.runs(2, np.empty(0, np.int64))
    assert len(empty.rows) == 0


def test_each_epoch_source_seed_and_corpus_has_its_own_offset() -> None:
    def offsets(corpus: str = "0", seed: int = 1, source: str = "web") -> list[int]:
        windows = ConcatWindows(corpus, seed, source, 1 << 20, 4096)
        return [windows.offset(epoch) for epoch in range(50)]

    assert len(set(offsets())) > 40
    assert offsets() == offsets()
    for other in (offsets(corpus="1"), offsets(seed=2), offsets(source="books")):
        assert sum(a == b for a, b in zip(other, offsets(), strict=True)) < 3


def test_a_source_shorter_than_a_window_is_refused() -> None:
    said = "source 'web' has 9 tokens, fewer than a window of 10: use a shorter sequence length"
    with pytest.raises(RecipeError, match=re.escape(said)):
        ConcatWindows("0" * 64, 1, "web", 9, 10)
