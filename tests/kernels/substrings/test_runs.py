"""Runs of windows, against windows whose anchors are looked for one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.substrings.runs import gather
from tests.support import naive_substrings, strategies
from tests.support.window_runs import repetitive, runs_of


@strategies.fuzz(80)
@given(repetitive(), st.sampled_from((8, 11, 40)))
def test_fuzz_runs(texts: list[bytes], size: int) -> None:
    offsets, _, runs = runs_of(texts, size)
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(texts))}
    for text, start, count, lead, repeats, value in zip(
        *(one.tolist() for one in runs), strict=True
    ):
        own = start - int(offsets[text])
        context = texts[text][own : own + count + size - 1]
        for copy in range(repeats + 1):
            at = own + copy * count
            assert texts[text][at : at + count + size - 1] == context
            found[text] += [(at + lead, value)] * count
    for number, text in enumerate(texts):
        assert found[number] == naive_substrings.windows(text, size, max(8, size // 4))


def joined(data: bytes, pairs: list[tuple[int, int]]) -> bytes:
    return b"".join(data[start:stop] for start, stop in pairs)


@strategies.fuzz(50)
@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_fuzz_gather(data: bytes, bounds: list[tuple[int, int]]) -> None:
    pairs = [(min(one, len(data)), min(max(one, other), len(data))) for one, other in bounds]
    starts = np.array([start for start, _ in pairs], np.int64)
    lengths = np.array([stop - start for start, stop in pairs], np.int64)
    out = gather(np.frombuffer(data, np.uint8), starts, lengths)
    assert out.tobytes() == joined(data, pairs)


@pytest.mark.parametrize("period", [1, 3, 100])
def test_a_periodic_text_has_few_runs(period: int) -> None:
    piece = bytes(range(33, 33 + period)) if period < 100 else bytes(range(100))
    _, _, runs = runs_of([piece * (200_000 // period)], 500)
    assert len(runs.texts) < 10


def test_runs_are_about_two_in_the_grams_of_a_window() -> None:
    text = np.random.default_rng(1).integers(32, 127, 300_000, np.uint8).tobytes()
    _, _, runs = runs_of([text], 500)
    assert 0.8 < len(runs.texts) * (500 - 500 // 4 + 2) / 2 / len(text) < 1.2
