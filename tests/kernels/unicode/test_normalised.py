"""Normalised text, character for character."""

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.unicode import normalised
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, strategies


def check(batch: list[str], column: pa.Array) -> None:
    """Compare the kernel on a column with the twin on its texts."""
    offsets, data = normalised.normalise(*utf8_buffers(column))
    assert len(offsets) == len(batch) + 1
    assert offsets[0] == 0
    assert offsets[-1] == len(data), "the text did not fit its buffer"
    assert [text.decode() for text in strategies.cut(offsets, data)] == [
        naive.normalise(text) for text in batch
    ]


@strategies.fuzz(300)
@given(strategies.slices())
@example((["İstanbul ΑΣ ẞ K"], pa.array(["İstanbul ΑΣ ẞ K"])))
@example((["a中b文。字 c"], pa.array(["a中b文。字 c"])))
def test_fuzz_normalise(drawn: tuple[list[str], pa.Array]) -> None:
    check(*drawn)


@strategies.fuzz(100)
@given(
    st.lists(st.sampled_from((*"ȺȾaé!\n中ก𠀀㐀ẞİ", "\u3000", "𞤀")), min_size=1, max_size=12),
    st.integers(1, 40),
)
@example(["Ⱥ", "中"], 40)
@example(["a", "中"], 40)
def test_fuzz_growth(unit: list[str], times: int) -> None:
    """Text that grows by lower case and by gaps at once fits."""
    text = "".join(unit) * times
    check([text], pa.array([text]))


def test_growth_of_long_text() -> None:
    """The buffer is large enough for what grows most: two bytes to three with a space, three to
    three with a space.
    """
    for unit in ("Ⱥ中", "a中", "中", "Ⱥ!", "a", "𠀀", "中Ⱥ中a"):
        check([unit * 2_000], pa.array([unit * 2_000]))


def test_every_character() -> None:
    """Each code point alone, and between letters."""
    batch = list(strategies.known_characters())
    check(batch, pa.array(batch))
    batch = [f"A{character}{character}B" for character in batch]
    check(batch, pa.array(batch))


@strategies.fuzz(100)
@given(strategies.batches())
def test_fuzz_normalised_text_stays(batch: list[str]) -> None:
    """Normalising twice is normalising once: the second pass finds nothing to do."""
    once = [naive.normalise(text) for text in batch]
    offsets, data = normalised.normalise(*strategies.buffers(once))
    assert [text.decode() for text in strategies.cut(offsets, data)] == once
