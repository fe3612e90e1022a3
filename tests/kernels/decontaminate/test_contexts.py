"""The text around places: characters before and behind, whole."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.decontaminate import contexts
from tests.support import naive, strategies


@strategies.fuzz(200)
@given(strategies.slices(), st.data(), st.integers(0, 9), st.integers(0, 30))
def test_fuzz_cut(
    drawn: tuple[list[str], object], data: st.DataObject, before: int, behind: int
) -> None:
    batch, column = drawn
    offsets, raw = strategies.utf8_buffers(column)
    rows = data.draw(
        st.lists(
            st.integers(0, len(batch) - 1).flatmap(
                lambda text: st.tuples(st.just(text), st.integers(0, len(batch[text])))
            ),
            max_size=6,
        )
        if batch
        else st.just([])
    )
    texts = np.array([text for text, _ in rows], np.int64)
    places = np.array(
        [offsets[text] + len(batch[text][:at].encode()) for text, at in rows], np.int64
    )
    cuts, out = contexts.cut(offsets, raw, texts, places, before=before, most=before + behind)
    held = bytes(out)
    got = [held[cuts[row] : cuts[row + 1]].decode() for row in range(len(rows))]
    assert got == [naive.cut(batch[text], at, before, before + behind) for text, at in rows]
