"""Tidy text against three regular expressions in a row; what composition may change against
unicodedata.
"""

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.unicode import tidy as kernel
from gristmill.tables.columns import utf8_buffers
from tests.support import strategies
from tests.support.naive_tidy import PIECES, tidy


def check(batch: list[str], column: pa.Array) -> None:
    for control, urls, space in product((True, False), repeat=3):
        rules = {"control": control, "urls": urls, "space": space}
        offsets, data, removed = kernel.tidy(*utf8_buffers(column), **rules)
        assert offsets[0] == 0
        assert offsets[-1] == len(data)
        found = [text.decode() for text in strategies.cut(offsets, data)]
        twins = [tidy(text, **rules) for text in batch]
        assert found == [text for text, _ in twins], rules
        assert removed.tolist() == [count for _, count in twins], rules
        again = kernel.tidy(*strategies.buffers(found), **rules)
        assert list(strategies.cut(again[0], again[1])) == [text.encode() for text in found], (
            "tidied twice it differs"
        )


@strategies.fuzz(120)
@given(strategies.slices())
@example((["\r\r\n\n\r"], pa.array(["\r\r\n\n\r"])))
def test_fuzz_tidy(drawn: tuple[list[str], pa.Array]) -> None:
    check(*drawn)


@strategies.fuzz(300)
@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), max_size=3),
    st.sampled_from((0, 50, 63)),
)
@example(["hht\u200btp:\u200b/\u200b/\u200b\u200b x http:// www.", "http://<http://a>b"], 0)
@example(["see http://a.b上www.c.d。 xwww.e www.f"], 60)
def test_fuzz_urls_and_breaks(batch: list[str], before: int) -> None:
    batch = ["x" * before + text for text in batch]
    check(batch, pa.array(batch, pa.string()))


def test_every_character() -> None:
    """Each code point between letters, the crowded ones also after a blank and within a URL;
    noncharacters too.
    """
    every = [
        *strategies.known_characters(),
        *(chr(p << 16 | low) for p in range(17) for low in (0xFFFE, 0xFFFF)),
        "\ufdd0",
    ]
    every = [
        character
        for character in every
        if ord(character) < 0x3500 or ord(character) >= 0xF900 or ord(character) % 64 == 0
    ]
    every = [
        character for character in every if ord(character) < 0x20000 or ord(character) % 256 > 252
    ]
    crowded = [
        character
        for character in every
        if ord(character) < 0x3100 or 0xFB00 <= ord(character) < 0x10000
    ]
    all_rules = {"control": True, "urls": True, "space": True}
    only_urls = {"control": False, "urls": True, "space": False}
    for form, characters, rules in (
        ("a{}b", every, all_rules),
        (" {} \n{}", crowded, all_rules),
        ("http://a{}b", crowded, only_urls),
        ("http://a{}b", crowded, all_rules),
    ):
        batch = [form.format(character, character) for character in characters]
        offsets, data, removed = kernel.tidy(*strategies.buffers(batch), **rules)
        twins = [tidy(text, **rules) for text in batch]
        assert [text.decode() for text in strategies.cut(offsets, data)] == [
            text for text, _ in twins
        ]
        assert removed.tolist() == [count for _, count in twins]


def test_every_piece_at_every_place_of_a_block() -> None:
    batch = [
        "y" * before + piece + after
        for piece in PIECES
        for before in range(57, 66)
        for after in ("", " ", "z" * 70)
    ]
    check(batch, pa.array(batch))


@pytest.mark.parametrize(
    "unit", ["http://", "www.", "\u200b", "http://\u200b", " \n", "\u2029", "://", "w", "\r", "é中"]
)
def test_long_runs(unit: str) -> None:
    """Megabytes of what is looked at again and again take no longer for each byte."""
    for times in (1 << 10, 1 << 20):
        _offsets, data, _ = kernel.tidy(
            *strategies.buffers([unit * times]), control=True, urls=True, space=True
        )
        if times == 1 << 10:
            assert (
                data.tobytes().decode()
                == tidy(unit * times, control=True, urls=True, space=True)[0]
            )
