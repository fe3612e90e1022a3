"""Which texts composition may change, against unicodedata."""

import unicodedata

import pyarrow as pa
from hypothesis import example, given

from gristmill.kernels.unicode import composition
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, strategies


def test_what_is_settled_never_changes() -> None:
    every = strategies.known_characters()
    longest = composition.unsettled(*strategies.buffers(list(every)))
    composing = naive.composing_seconds()
    for character, run in zip(every, longest.tolist(), strict=True):
        if run == 0:
            assert unicodedata.normalize("NFC", character) == character
            assert unicodedata.combining(character) == 0
            assert character not in composing
    assert (longest == 0).mean() > 0.9
    common = (
        "Größe “naïve” – it’s… Ελληνικά русский עברית العربية 漢字ひらがなカタカナ한국어ქართული 😀"
    )
    assert composition.unsettled(
        *strategies.buffers([common.replace("ά", "α"), "e\u0301", "\u212b", ""])
    ).tolist() == [0, 1, 1, 0]


@strategies.fuzz(80)
@given(strategies.slices())
@example(
    (
        ["x" * 63 + "\u0301" * 3 + "é\u0301\u0301"],
        pa.array(["x" * 63 + "\u0301" * 3 + "é\u0301\u0301"]),
    )
)
def test_fuzz_unsettled(drawn: tuple[list[str], pa.Array]) -> None:
    """A run is as long as that of its code points, each looked at alone."""
    batch, column = drawn
    for text, found in zip(
        batch, composition.unsettled(*utf8_buffers(column)).tolist(), strict=True
    ):
        alone = composition.unsettled(*strategies.buffers(list(text))).tolist()
        runs = "".join("x" if run else " " for run in alone).split()
        assert found == min(max(map(len, runs), default=0), composition.LONG_RUN)
        if found == 0:
            assert unicodedata.is_normalized("NFC", text)


def test_long_runs_are_found() -> None:
    texts = ["a" + "\u0301" * size for size in (1, 127, 128, 129, 1000)]
    assert composition.unsettled(*strategies.buffers(texts)).tolist() == [1, 127, 128, 128, 128]
