"""One text through steps: what a list of one text gets."""

import math
import re

import pytest

from gristmill import filters
from gristmill.demonstration.texts import OTHER_LANGUAGES
from gristmill.errors import ArgumentError
from tests.support.corpora import article

STEPS = [
    filters.Gopher(),
    filters.Gopher(rules="datatrove-0.10"),
    filters.Repetition(),
    filters.C4(min_sentences=2),
    filters.FineWeb(),
    filters.Simple(),
    filters.Normalise(form="NFKC", entities="all"),
    filters.Private(),
    filters.Language(keep=["en"]),
    filters.Phrases(),
    filters.Sample(share=0.5),
    filters.Extract(),
]
TEXTS = [
    article(1, 20),
    article(2, 2),
    "",
    " ",
    "\ud800 and a lone surrogate",
    "…\n…\n• one\n- two ... # # #",
    "Write to me@example.org or https://a.example/?x=1, ﬁne.\n" * 9,
    "<html><body><p>A page.</p></body></html>",
    *list(OTHER_LANGUAGES.values())[:3],
]


def rows(said: dict) -> dict:
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in said.items()
    }


@pytest.mark.parametrize("place", range(len(STEPS)))
def test_each_step(place: int) -> None:
    compare([STEPS[place]])


def test_several_steps() -> None:
    compare([STEPS[6], STEPS[7], STEPS[3], STEPS[0], STEPS[5]])
    compare([short, STEPS[0]])


def short(text: str) -> str | None:
    """A custom function."""
    return "short" if len(text) < 30 else None


def compare(steps: list) -> None:
    for text in TEXTS:
        said = filters.judge(text, steps)
        (row,) = filters.judge([text], steps).to_pylist()
        assert (said.reason, said.value, said.threshold) == (
            row.pop("reason"),
            row.pop("value"),
            row.pop("threshold"),
        )
        left = row.pop("text", text)
        assert said.text == (left if said.reason is None else None)
        measures = {name: value for name, value in row.items() if "." in name}
        assert rows(said.measures) == rows(measures)
        assert {name: type(value) for name, value in said.measures.items()} == {
            name: type(value) for name, value in measures.items()
        }


def test_types_are_checked_before_what_a_step_checks_itself() -> None:
    for step, parameters, message in (
        (filters.Scores, {"files": "x"}, "Expected `array`, got `str` - at `files`"),
        (filters.Language, {"keep": 5}, "Expected `str | array`, got `int` - at `keep`"),
        (filters.Repetition, {"max_repeated": 0.5}, "Expected `array`, got `float`"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(message)):
            step(**parameters)
