"""Listed phrases, as Python's re finds them in the paragraphs of a text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill import filters
from gristmill.errors import ArgumentError
from tests.support import naive_lines

PHRASES = ["Sit amet", "amet", "é b"]
PARTS = st.sampled_from(["sit", "Amet", "amet", " ", " ", "É", "b", ".", "\n", "\n\n"])


@settings(max_examples=100, deadline=None)
@given(st.lists(PARTS, max_size=25).map("".join), st.booleans())
def test_places_and_paragraphs(text: str, bounded: bool) -> None:
    verdict = filters.Phrases(phrases=PHRASES, bounded=bounded, max_places=None)(text)
    counts = []
    for paragraph in naive_lines.find(text, paragraphs=True):
        if not paragraph.text.strip():
            continue
        ends = set()
        for phrase in PHRASES:
            sides = (r"(?<![^\W_])", r"(?![^\W_])") if bounded else ("", "")
            pattern = f"(?=({sides[0]}{re.escape(phrase.lower())}{sides[1]}))"
            ends |= {match.end(1) for match in re.finditer(pattern, paragraph.text.lower())}
        counts.append(len(ends))
    assert verdict.measures["phrases.places"] == sum(counts)
    share = sum(count > 0 for count in counts) / max(len(counts), 1)
    assert verdict.measures["phrases.share"] == share


def test_filler_is_found_without_a_list() -> None:
    filler = "A page.\n\nLorem ipsum, dolor sit amet.\n\nThe end."
    assert filters.Phrases()(filler).reason == "phrases.places"
    assert filters.Phrases()("Lorems of ipsum").reason is None
    step = filters.Phrases(max_places=None, max_share=0.3)
    assert step(filler).value == pytest.approx(1 / 3)
    assert step(filler + "\n\nMore.").reason is None


@pytest.mark.parametrize("phrases", [[""], [" "], ["a\nb"], "a"])
def test_what_is_no_phrase_is_refused(phrases: object) -> None:
    with pytest.raises(ArgumentError):
        filters.Phrases(phrases=phrases)
