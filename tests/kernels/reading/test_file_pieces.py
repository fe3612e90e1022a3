"""Pieces of files, read by the system's own call, against the twin."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.reading.file_pieces import read_pieces
from tests.support import naive, strategies


def numbers(*columns: list[int]) -> list[np.ndarray]:
    """The columns as a kernel takes them."""
    return [np.array(column, np.int64) for column in columns]


@strategies.fuzz(60)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.data())
def test_fuzz_read_pieces(files: list[bytes], data: st.DataObject) -> None:
    """Also beyond the ends of files: the first piece that is not whole ends it."""
    piece = st.tuples(st.integers(0, len(files) - 1), st.integers(0, 45), st.integers(0, 12))
    asked = data.draw(st.lists(piece, max_size=12))
    expected = naive.read_pieces(files, asked)
    out = np.full(sum(size for _, _, size in asked) + 3, 7, np.uint8)
    with TemporaryDirectory() as name:
        opened = []
        for place, content in enumerate(files):
            path = Path(name, str(place))
            path.write_bytes(content)
            opened.append(open(path, "rb", 0))
        columns = numbers(*(list(column) for column in zip(*asked, strict=True))) or numbers(
            [], [], []
        )
        handles = np.array([file.fileno() for file in opened], np.int64)
        done = read_pieces(handles, *columns, out)
        for file in opened:
            file.close()
    assert done == len(expected)
    whole = b"".join(expected)
    assert out[: len(whole)].tobytes() == whole
    assert (out[-3:] == 7).all()


@pytest.mark.parametrize(
    ("file", "start", "size"), [(1, 0, 1), (-1, 0, 1), (0, -1, 1), (0, 0, -1), (0, 0, 9)]
)
def test_pieces_that_do_not_fit_are_refused(file: int, start: int, size: int) -> None:
    with pytest.raises(IndexError):
        read_pieces(*numbers([0], [file], [start], [size]), np.zeros(8, np.uint8))
