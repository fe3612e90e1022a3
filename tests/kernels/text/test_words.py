"""Words and lines are those of str.split and str.splitlines."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given

from gristmill.kernels.text import words
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, strategies


def check(batch: list[str], column: pa.Array) -> None:
    """Compare the kernel on a column with the twin on its texts."""
    offsets, data = utf8_buffers(column)
    found = words.find(offsets, data)
    raw = data.tobytes()
    assert found.word_offsets[0] == 0
    assert found.line_offsets[0] == 0
    assert found.word_offsets[-1] == len(found.starts) == len(found.stops)
    assert found.line_offsets[-1] == len(found.line_stops)
    for row, text in enumerate(batch):
        twin = naive.find(text)
        begin = int(offsets[row])
        of_words = slice(found.word_offsets[row], found.word_offsets[row + 1])
        of_lines = slice(found.line_offsets[row], found.line_offsets[row + 1])
        starts, stops = found.starts[of_words].tolist(), found.stops[of_words].tolist()
        assert [
            raw[start:stop].decode() for start, stop in zip(starts, stops, strict=True)
        ] == twin.words
        assert [start - begin for start in starts] == twin.starts
        assert [stop - begin for stop in stops] == twin.stops
        assert (found.line_stops[of_lines] - begin).tolist() == twin.line_stops
        assert found.characters[row] == twin.characters
        assert found.word_characters[row] == twin.word_characters


@strategies.fuzz(300)
@given(strategies.slices())
@example((["x" * 64 + "\r\n" + "y"], pa.array(["x" * 64 + "\r\n" + "y"])))
@example((["x" * 63 + "\r\n"], pa.array(["x" * 63 + "\r\n"])))
@example((["x" * 62 + "\u2028", "\u3000"], pa.array(["x" * 62 + "\u2028", "\u3000"])))
def test_fuzz_find(drawn: tuple[list[str], pa.Array]) -> None:
    check(*drawn)


def test_every_space_at_every_place_of_a_block() -> None:
    """White space of one, two and three bytes, over both edges of the 64 bytes that are looked at
    together.
    """
    batch = [
        "x" * before + space + after
        for space in (*strategies.SPACES, *strategies.NEARLY, "…", "•")
        for before in range(56, 67)
        for after in ("", "y", "\n", "y" * 70)
    ]
    check(batch, pa.array(batch))


def test_every_character() -> None:
    """Each code point alone, and between letters."""
    batch = list(strategies.known_characters())
    offsets, data = strategies.buffers([f"a{character}b" for character in batch])
    found = words.find(offsets, data)
    cuts = np.array([len(f"a{character}b".split()) for character in batch])
    breaks = np.array([len(f"a{character}b".splitlines()) for character in batch])
    assert (np.diff(found.word_offsets) == cuts).all()
    assert (np.diff(found.line_offsets) == breaks).all()
    assert (found.characters == 3).all()
    alone = words.find(*strategies.buffers(batch))
    assert (alone.word_characters == [not character.isspace() for character in batch]).all()


def test_nothing_at_all() -> None:
    for batch in ([], [""], ["", "", ""]):
        found = words.find(*strategies.buffers(batch))
        assert len(found.characters) == len(batch)
        assert len(found.starts) == len(found.line_stops) == found.characters.sum() == 0


def test_long_text_without_a_space() -> None:
    batch = ["é" * 100_000, " " * 100_000, "a " * 50_000, "\n" * 100_000]
    check(batch, pa.array(batch))
