"""Many patterns at once are what bytes.find and re say one at a time."""

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.lists import aho_corasick
from gristmill.tables.columns import utf8_buffers
from tests.support import strategies

NAMES = dict(zip(map(ord, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), "abcdefghijklmnopqrstuvwxyz", strict=True))


def find_first(text: str, patterns: list[str], fold_ascii: bool) -> int:
    """The twin: 1 + the pattern that ends first, of those the longest; of equal ones the first."""
    if fold_ascii:
        text, patterns = text.translate(NAMES), [pattern.translate(NAMES) for pattern in patterns]
    best = None
    for number, pattern in enumerate(patterns, 1):
        at = text.find(pattern)
        if at >= 0:
            candidate = (len(text[: at + len(pattern)].encode()), -len(pattern.encode()), number)
            best = candidate if best is None else min(best, candidate)
    return best[2] if best else 0


def find_bounded(text: str, patterns: list[str], fold_ascii: bool) -> int:
    r"""The twin: the same with a \W or an end of the text at both sides."""
    if fold_ascii:
        text, patterns = text.translate(NAMES), [pattern.translate(NAMES) for pattern in patterns]
    best = None
    for number, pattern in enumerate(patterns, 1):
        match = re.search(rf"(?:(?<=\W)|^){re.escape(pattern)}(?=\W|\Z)", text)
        if match:
            candidate = (len(text[: match.end()].encode()), -len(pattern.encode()), number)
            best = candidate if best is None else min(best, candidate)
    return best[2] if best else 0


def check(column: pa.Array, texts: list[str], patterns: list[str], fold_ascii: bool) -> None:
    automaton = aho_corasick.build(
        [pattern.encode() for pattern in patterns], fold_ascii=fold_ascii
    )
    offsets, data = utf8_buffers(column)
    first = aho_corasick.find_first(offsets, data, automaton).tolist()
    assert first == [find_first(text, patterns, fold_ascii) for text in texts]
    bounded = aho_corasick.find_bounded(offsets, data, automaton).tolist()
    assert bounded == [find_bounded(text, patterns, fold_ascii) for text in texts]


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Array, list[str], list[str], bool]:
    """Texts of few characters, and patterns that are pieces of them or of the same characters."""
    signs = draw(st.sampled_from(("ab", "aAbB ", "aé_ ’²", "ⅧÀ. ·\u0301x", "aaab ", "中文 ab")))
    texts = draw(
        strategies.batches(
            st.one_of(st.text(st.sampled_from(signs), max_size=40), strategies.texts())
        )
    )
    pieces = [st.text(st.sampled_from(signs), min_size=1, max_size=6)]
    if longest := max(texts, key=len, default=""):
        spots = st.integers(0, len(longest) - 1)
        pieces.append(
            st.tuples(spots, st.integers(1, 9)).map(
                lambda spot: longest[spot[0] : spot[0] + spot[1]]
            )
        )
    patterns = draw(st.lists(st.one_of(*pieces), max_size=8))
    return pa.array(["a b", *texts], pa.string()).slice(1), texts, patterns, draw(st.booleans())


@strategies.fuzz(150)
@given(cases())
def test_fuzz_find(case: tuple[pa.Array, list[str], list[str], bool]) -> None:
    check(*case)


@strategies.fuzz(100)
@given(st.lists(st.text("abc", min_size=1, max_size=6), max_size=12), st.text("abcd", max_size=60))
def test_fuzz_every_pattern_that_ends_at_a_place(patterns: list[str], text: str) -> None:
    """The chain of `ends` and `also` names each, the longest first, and no other."""
    automaton = aho_corasick.build([pattern.encode() for pattern in patterns])
    state = 0
    for place, sign in enumerate(text.encode(), 1):
        state = int(automaton.moves[state * automaton.width + automaton.classes[sign]])
        ending, found = state, []
        while ending and automaton.ends[ending]:
            found.append(patterns[automaton.ends[ending] - 1])
            ending = int(automaton.also[ending])
        expected = {pattern for pattern in patterns if text[:place].endswith(pattern)}
        assert found == sorted(expected, key=len, reverse=True)


def test_what_is_a_word_character() -> None:
    """Every code point before and after a pattern."""
    every = strategies.known_characters()
    automaton = aho_corasick.build([b"bad"])
    for texts in ([f"{sign}bad" for sign in every], [f"bad{sign}" for sign in every]):
        found = aho_corasick.find_bounded(*strategies.buffers(texts), automaton)
        assert found.tolist() == [int(re.fullmatch(r"\W", sign) is not None) for sign in every]


def test_every_byte_in_a_pattern() -> None:
    automaton = aho_corasick.build([bytes(range(256)), b"\xff\x00"])
    assert automaton.width == 256
    data = np.frombuffer(bytes(range(256)) + b"\xff\x00", np.uint8)
    assert aho_corasick.find_first(
        np.array([0, 255, 256, 258], np.int32), data, automaton
    ).tolist() == [0, 0, 2]
    assert aho_corasick.find_first(np.array([0, 256], np.int32), data, automaton).tolist() == [1]


def test_no_patterns_and_no_texts() -> None:
    nothing, something = aho_corasick.build([]), aho_corasick.build([b"a", b"a"])
    for find in (aho_corasick.find_first, aho_corasick.find_bounded):
        assert find(*strategies.buffers(["", "abc"]), nothing).tolist() == [0, 0]
        assert find(*strategies.buffers([]), something).tolist() == []
        assert find(*strategies.buffers(["", "-a", "b"]), something).tolist() == [0, 1, 0]


def test_empty_and_too_many_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="empty"):
        aho_corasick.build([b"a", b""])
    monkeypatch.setattr(aho_corasick, "MOST_CELLS", 100)
    with pytest.raises(ValueError, match="too many"):
        aho_corasick.build([b"abcdefgh" * 10])


def test_many_patterns_are_built_in_seconds() -> None:
    """100,000 patterns, each found where it stands and nowhere else."""
    random = np.random.default_rng(1)
    cuts = np.cumsum(random.integers(6, 14, 100_001))
    letters = random.integers(ord("a"), ord("z") + 1, cuts[-1]).astype(np.uint8).tobytes()
    patterns = sorted({letters[start:stop] for start, stop in pairwise(cuts.tolist())})
    automaton = aho_corasick.build(patterns)
    texts = [pattern.decode() for pattern in patterns[::100]]
    found = aho_corasick.find_bounded(
        *strategies.buffers([f"- {text} -" for text in texts]), automaton
    )
    assert found.tolist() == list(range(1, len(patterns) + 1, 100))
    assert not aho_corasick.find_bounded(
        *strategies.buffers([f"- {text}q -" for text in texts]), automaton
    ).any()


def count(text: str, patterns: list[str], bounded: bool) -> int:
    r"""The twin: places behind a pattern that has a \W or an end of the text at both sides."""
    found = set()
    for pattern in patterns:
        form = (
            rf"(?=((?:(?<=\W)|^){re.escape(pattern)}(?=\W|\Z)))"
            if bounded
            else rf"(?=({re.escape(pattern)}))"
        )
        found |= {match.end(1) for match in re.finditer(form, text)}
    return len(found)


@strategies.fuzz(150)
@given(cases(), st.booleans())
def test_fuzz_count(case: tuple[pa.Array, list[str], list[str], bool], bounded: bool) -> None:
    column, texts, patterns, _ = case
    automaton = aho_corasick.build([pattern.encode() for pattern in patterns])
    got = aho_corasick.count(*utf8_buffers(column), automaton, bounded=bounded).tolist()
    assert got == [count(text, patterns, bounded) for text in texts]
