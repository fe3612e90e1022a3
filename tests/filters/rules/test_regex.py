"""Regular expressions by RE2, beside Python's re where both mean the same."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill import filters
from gristmill.errors import ArgumentError, RecipeError
from tests.support.skips import missing

try:
    import re2  # noqa: F401
except ImportError:
    missing("re2", "google-re2 is not installed")

PATTERNS = ["a", "a+b?", r"\ba", r"^a", r"(?m)^a", "(a)(é|b)", "é$", "[^ab]", r"a\b|b", "(a|(b))c?"]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PATTERNS), st.text("aAbé水 \nc😀", max_size=12), st.integers(1, 5))
def test_matches_are_those_of_python(pattern: str, text: str, most: int) -> None:
    if "$" in pattern and text.endswith("\n"):
        text += "a"  # Python's $ matches before a last line break, RE2's does not
    expected = len(re.findall(pattern, text, re.ASCII))  # as RE2, whose \b and \w are of ASCII
    verdict = filters.Regex(pattern=pattern, max_matches=0, most=most)(text)
    assert verdict.measures["regex.matches"] == min(expected, most + 1)
    assert verdict.reason == ("regex.many" if expected else None)
    group = r"\1" if "(" in pattern.replace("(?m)", "") else r"\0"
    replaced = filters.Regex(pattern=pattern, replacement=f"<{group}>\\\\", most=most)(text)
    if expected > most:
        assert replaced.reason == "regex.too_many"
        return
    said = re.sub(
        pattern, lambda match: f"<{(match.group(int(group[1])) or '')}>\\", text, flags=re.ASCII
    )
    assert replaced.reason == (None if said else "regex.empty") or said == text
    if replaced.reason is None:
        assert replaced.text == said


def test_a_text_must_match() -> None:
    step = filters.Regex(pattern="licen[cs]e", min_matches=2, ignore_case=True)
    assert step("License and LICENCE").reason is None
    assert step("License").reason == "regex.few"


def test_no_pattern_is_slow() -> None:
    """Of 2^30 steps for an engine that goes back."""
    start = time.process_time()
    assert filters.Regex(pattern="(a+)+b", max_matches=0)("a" * 100_000).reason is None
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"pattern": "("}, "missing"),
        ({"pattern": "(?=a)"}, "look-around"),
        ({"pattern": r"(a)\1"}, "references back"),
        ({"pattern": "a*"}, "empty text"),
        ({"pattern": "((a{1,100}){1,10}){1,10}"}, "repetition"),
        ({"pattern": "a", "replacement": r"\2"}, "no group"),
        ({"pattern": "a", "replacement": "\\"}, "no group"),
    ],
)
def test_what_is_no_pattern_is_refused(parameters: dict[str, str], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        filters.Regex(**{"max_matches": 1, **parameters})("text")


@pytest.mark.parametrize(
    "parameters",
    [
        {"pattern": ""},
        {"pattern": "a"},
        {"pattern": "a", "max_matches": 2000},
        {"pattern": "a", "max_matches": 1, "after_dedup": True},
    ],
)
def test_what_decides_nothing_is_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        filters.Regex(**parameters)
