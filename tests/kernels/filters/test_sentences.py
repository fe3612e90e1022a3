"""Where sentences are, against a twin on Python's strings."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.filters.sentences import count_sentences, find_sentences
from gristmill.kernels.text import words
from gristmill.tables.columns import utf8_buffers
from tests.support import strategies
from tests.support.naive_lines import Line, sentences

pieces = st.sampled_from(
    (
        "one",
        "Two.",
        "three?!",
        '(four.")',
        "...",
        "—",
        ".",
        " ",
        "\n",
        "\r\n",
        "\u2028",
        "好。",
        "ไทย",
        "5.5",
    )
)
every_text = st.one_of(
    st.lists(st.one_of(pieces, st.just(" ")), max_size=14).map("".join), strategies.texts()
)


@strategies.fuzz(200)
@given(strategies.slices(every_text))
@example((["One. Two", "", " "], pa.array(["One. Two", "", " "])))
def test_fuzz_find_sentences(drawn: tuple[list[str], pa.Array]) -> None:
    batch, column = drawn
    offsets, data = utf8_buffers(column)
    found = find_sentences(offsets, data)
    for row, text in enumerate(batch):
        got = []
        for place in range(found.offsets[row], found.offsets[row + 1]):
            start, stop, end = found.starts[place], found.stops[place], found.starts[place + 1]
            got.append(Line(bytes(data[start:stop]).decode(), bytes(data[stop:end]).decode()))
            assert found.blank[place] == (not got[-1].text)
        assert got == sentences(text)
    assert found.starts[-1] == offsets[-1]
    # As many as C4's rules count, of lines that have words.
    bounds = words.separate(offsets, data, words.find(offsets, data))
    counted = count_sentences(data, bounds, whole_words=False)
    solid = np.array([sum(bool(line.strip()) for line in text.splitlines()) for text in batch])
    lines = np.array([len(text.splitlines()) for text in batch])
    blank = np.array([sum(not one.text for one in sentences(text)) for text in batch])
    assert (np.diff(found.offsets) - blank == counted - (lines - solid)).all()
