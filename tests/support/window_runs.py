"""Texts in which much occurs again, and their runs of windows."""

import numpy as np
from hypothesis import strategies as st

from gristmill.kernels.substrings.runs import WindowRuns, find_runs


def repetitive() -> st.SearchStrategy[list[bytes]]:
    """Texts of a few pieces that come again and again, some periodic, some empty."""
    piece = st.text("ab", min_size=1, max_size=30).map(str.encode)
    text = st.lists(st.tuples(piece, st.integers(1, 6)), max_size=5).map(
        lambda found: b"".join(piece * count for piece, count in found)
    )
    return st.lists(text, max_size=4)


def runs_of(texts: list[bytes], size: int) -> tuple[np.ndarray, np.ndarray, WindowRuns]:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    data = np.frombuffer(b"".join(texts), np.uint8)
    return offsets, data, find_runs(offsets, data, size=size)
