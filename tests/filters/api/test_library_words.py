"""Words by spaCy's and NLTK's tokenizers, and the steps that count them."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from gristmill import filters
from gristmill.errors import RecipeError
from gristmill.filters.api import library_words
from gristmill.filters.api.texts import BatchTexts
from tests.support import strategies

spacy = pytest.importorskip("spacy")
TEXTS = ["Don't stop: it's (mostly) 3.5 km, e.g. here!\n\n  And 中文 too…", "", " \n ", "x"]


@pytest.fixture(scope="module", autouse=True)
def _no_tokenizer_stays() -> Iterator[None]:
    yield
    library_words.divider.cache_clear()


def words_of(batch: pa.Array, language: str, library: Any = "spacy") -> list[list[str]]:
    """The words of a column, cut out of its texts' buffer."""
    texts = BatchTexts(batch)
    bounds = texts.library_words(library, language)
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
    assert texts.library_words("spacy", "en") is texts.library_words("spacy", "en")


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


@pytest.mark.parametrize("language", ["ja", "th", "ko", "vi", "qq"])
def test_languages_that_spacys_rules_alone_do_not_divide_are_refused(language: str) -> None:
    with pytest.raises(RecipeError, match=f'word_language = "{language}"'):
        filters.FineWeb(words="spacy", word_language=language).load({})


def test_without_spacy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    library_words.divider.cache_clear()
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


@pytest.fixture(scope="module")
def punkt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """NLTK, with models of Punkt for English and German that know one abbreviation each."""
    nltk = pytest.importorskip("nltk")
    folder = tmp_path_factory.mktemp("nltk")
    for language, known in {"english": "dr\n", "german": "usw\n"}.items():
        model = folder / "tokenizers/punkt_tab" / language
        model.mkdir(parents=True)
        (model / "abbrev_types.txt").write_text(known)
        for name in ("collocations.tab", "sent_starters.txt", "ortho_context.tab"):
            (model / name).write_text("")
    before = list(nltk.data.path)
    nltk.data.path[:] = [str(folder)]
    yield nltk
    nltk.data.path[:] = before


def as_in_text(tokens: list[str], words: list[str]) -> list[str]:
    """NLTK's tokens, quotation marks as the text has them."""
    quotes = ("``", "''")
    return [
        word if token in quotes and word in ('"', *quotes) else token
        for token, word in zip(tokens, words, strict=True)
    ]


@strategies.fuzz(60)
@given(strategies.slices())
def test_words_are_nltks_tokens(punkt: Any, drawn: tuple[list[str], pa.Array]) -> None:
    batch, column = drawn
    for words, text in zip(words_of(column, "en", "nltk"), batch, strict=True):
        assert words == as_in_text(punkt.word_tokenize(text), words), text


def test_quotation_marks_and_languages_of_nltk(punkt: Any) -> None:
    texts = [
        *TEXTS,
        'He said "no" \'\'twice\'\' and ``once``, "cannot" to Dr. No. "',
        '"' * 9,
        "z.B. Bücher usw. und mehr. «Ja», „nein“...",
    ]
    for language, name in (("en", "english"), ("de", "german")):
        found = words_of(pa.array(texts), language, "nltk")
        for words, text in zip(found, texts, strict=True):
            assert words == as_in_text(punkt.word_tokenize(text, name), words), text
    assert "can" in found[4]
    step = filters.Gopher(rules="datatrove-0.2", words="nltk", word_language="de")
    assert step.inputs() == {"gopher.nltk": "version:nltk"}
    assert len(filters.Repetition(words="nltk")(texts)) == len(texts)


def test_what_nltk_lacks_is_said(punkt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RecipeError, match="Punkt has no model for it; it has cs, "):
        filters.FineWeb(words="nltk", word_language="zh").load({})
    with pytest.raises(RecipeError, match=r"for french: python -m nltk.downloader punkt_tab"):
        filters.FineWeb(words="nltk", word_language="fr").load({})
    library_words.divider.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "nltk", None)
    with pytest.raises(RecipeError, match=r"gristmill\[words\]"):
        filters.FineWeb(words="nltk").load({})


def test_chinese_is_divided_by_spacy_with_jieba(tmp_path: Path) -> None:
    pytest.importorskip("jieba")
    divide = library_words.divider("spacy", "zh")
    config = {"nlp": {"tokenizer": {"segmenter": "jieba"}}}
    text = "我来到北京清华大学, and 2 more。"
    assert [text[start:stop] for start, stop in divide(text)] == [
        bare for token in spacy.blank("zh", config=config)(text) if (bare := token.text.strip())
    ]


def test_without_jieba_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    library_words.divider.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "jieba", None)
    with pytest.raises(RecipeError, match="zh.*: pip install jieba"):
        filters.FineWeb(words="spacy", word_language="zh").load({})
