"""Words by spaCy's tokenizers, and the steps that count them."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from gristmill import filters
from gristmill.errors import RecipeError
from gristmill.filters.api import spacy_words
from gristmill.filters.api.texts import BatchTexts
from tests.support import strategies

spacy = pytest.importorskip("spacy")
TEXTS = ["Don't stop: it's (mostly) 3.5 km, e.g. here!\n\n  And 中文 too…", "", " \n ", "x"]


@pytest.fixture(scope="module", autouse=True)
def _no_tokenizer_stays() -> Iterator[None]:
    yield
    spacy_words.tokenizer.cache_clear()


def words_of(batch: pa.Array, language: str) -> list[list[str]]:
    """The words of a column, cut out of its texts' buffer."""
    texts = BatchTexts(batch)
    bounds = texts.spacy_words(language)
    raw = texts.data.tobytes()
    every = [
        raw[start:stop].decode() for start, stop in zip(bounds.starts, bounds.stops, strict=True)
    ]
    offsets = bounds.word_offsets.tolist()
    found = [every[start:stop] for start, stop in itertools.pairwise(offsets)]
    assert [sum(map(len, words)) for words in found] == bounds.word_characters.tolist()
    return found


@strategies.fuzz(60)
@given(strategies.slices())
def test_words_are_spacys_tokens_stripped(drawn: tuple[list[str], pa.Array]) -> None:
    batch, column = drawn
    pipeline = spacy.blank("en")
    assert words_of(column, "en") == [
        [bare for token in pipeline(text) if (bare := token.text.strip())] for text in batch
    ]


@pytest.mark.parametrize("language", ["en", "pl", "ru", "de", "fr"])
def test_languages_have_their_own_rules(language: str) -> None:
    pipeline = spacy.blank(language)
    texts = [*TEXTS, "l'été d'Émile", "z.B. und usw.", "т. е. так-то", "m.in. dr hab."]
    assert words_of(pa.array(texts), language) == [
        [bare for token in pipeline(text) if (bare := token.text.strip())] for text in texts
    ]


def test_steps_count_by_spacys_words_and_divide_a_text_once() -> None:
    text = "It's well-known, isn't it? " * 20
    steps = [
        filters.Gopher(rules="datatrove-0.10", words=words, min_words=1)
        for words in ("own", "spacy")
    ]
    counts = [step([text])["gopher.words"].to_pylist()[0] for step in steps]
    tokens = [token.text for token in spacy.blank("en")(text)]
    plain = [token for token in tokens if not re.fullmatch(r"[\W_]+", token)]
    assert counts == [len(text.split()), len(plain)]
    texts = BatchTexts(pa.array([text]))
    assert texts.spacy_words("en") is texts.spacy_words("en")


@pytest.mark.parametrize("kind", ["Repetition", "FineWeb"])
def test_other_steps_take_the_same_setting(kind: str) -> None:
    step: Any = getattr(filters, kind)(words="spacy", word_language="de")
    assert step.inputs() == {f"{step.name}.spacy": "version:spacy"}
    assert len(step(TEXTS)) == len(TEXTS)


def test_a_step_without_the_setting_is_stored_as_before() -> None:
    step = filters.FineWeb()
    assert not {"words", "word_language"} & step.content().keys()
    assert step.inputs() == {}
    assert filters.FineWeb(words="spacy").content()["words"] == "spacy"


@pytest.mark.parametrize("language", ["zh", "ja", "th", "ko", "vi", "qq"])
def test_languages_that_spacys_rules_alone_do_not_divide_are_refused(language: str) -> None:
    with pytest.raises(RecipeError, match=f'word_language = "{language}"'):
        filters.FineWeb(words="spacy", word_language=language).load({})


def test_without_spacy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    spacy_words.tokenizer.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(RecipeError, match=r"gristmill\[words\]"):
        filters.FineWeb(words="spacy").load({})
    assert len(filters.FineWeb()(TEXTS)) == len(TEXTS)


def test_a_name_of_spacys_own_stops_nothing() -> None:
    texts = ["say IS_ALPHA now", "say ORTH, SENT_START xIS_ALPHAy é"]
    found = words_of(pa.array(texts), "en")
    assert [words[0] for words in found] == ["say", "say"]
    assert found[0][-1] == "now"
    assert found[1][-1] == "é"
