"""Divide texts into the words that datatrove counts, by the libraries that it uses (extra `words`).

spacy   the tokenizer of `spacy.blank(language)`, as datatrove 0.10: rules that spaCy ships, and for
        Chinese, Japanese and Vietnamese a package beside it. Tokens are stripped, and empty ones
        are no words (datatrove 0.10.1, utils/word_tokenizers.py).
nltk    `nltk.word_tokenize`, as datatrove 0.2: sentences by Punkt, words by the Treebank's rules.
        Punkt's models are no part of NLTK; the user has them in a folder of NLTK's.

Both take 100 times as long as our own words, or more (docs/filters.md).
"""

import re
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from gristmill.errors import RecipeError

if TYPE_CHECKING:
    from gristmill.filters.api.texts import BatchTexts
    from gristmill.kernels.text.words import WordBounds

Library: TypeAlias = Literal["spacy", "nltk"]
Places: TypeAlias = list[tuple[int, int]]  # where words start and stop, in code points

# Languages that datatrove 0.10 divides by other libraries than spaCy.
OTHERS = {
    "km": "khmer-nltk",
    "ko": "kiwipiepy",
    "lo": "laonlp",
    "my": "pyidaungsu",
    "th": "pythainlp",
}
# What spaCy's tokenizers need beside spaCy, as the package index calls it.
BESIDE = {"ja": "sudachipy sudachidict_core", "vi": "pyvi", "zh": "jieba"}
# The languages of Punkt's models.
PUNKT = {
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "it": "italian",
    "ml": "malayalam",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sl": "slovene",
    "sv": "swedish",
    "tr": "turkish",
}
INSTALL = 'pip install "gristmill[words]"'
CANNOT = "IS_ALPHA"
WORD, SPACE = re.compile(r"\S+"), re.compile(r"\s*")
QUOTES = re.compile("\"|``|''")


@cache
def divider(library: Library, language: str) -> Callable[[str], Places]:
    """Load what divides texts of a language. Raises RecipeError where it is not installed."""
    return _by_spacy(language) if library == "spacy" else _by_nltk(language)


def library_words(texts: "BatchTexts", library: Library, language: str) -> "WordBounds":
    """Divide texts by a library; lines are those of `str.splitlines()`. Raises RecipeError."""
    divide = divider(library, language)
    starts: list[np.ndarray] = []
    stops: list[np.ndarray] = []
    characters = np.zeros(len(texts.column), np.int64)
    bases = texts.offsets.tolist()
    for row, text in enumerate(texts.column.to_pylist()):
        places = np.array(divide(text), np.int64).reshape(-1, 2)
        characters[row] = int((places[:, 1] - places[:, 0]).sum())
        raw = texts.data[bases[row] : bases[row + 1]]
        if len(raw) > len(text):  # where each code point starts, and where the last one ends
            points = np.append(np.flatnonzero((raw & 0xC0) != 0x80), len(raw))
            places = points[places]
        starts.append(places[:, 0] + bases[row])
        stops.append(places[:, 1] + bases[row])
    nothing = np.empty(0, np.int64)
    return texts.words._replace(
        word_offsets=np.cumsum([0, *map(len, starts)], dtype=np.int64),
        starts=np.concatenate([nothing, *starts]).astype(np.int32),
        stops=np.concatenate([nothing, *stops]).astype(np.int32),
        word_characters=characters,
    )


# -- spaCy


def _by_spacy(language: str) -> Callable[[str], Places]:
    """Load spaCy's tokenizer of a language. Raises RecipeError."""
    try:
        import spacy
    except ImportError as error:
        raise RecipeError(f'words = "spacy": spaCy is not installed: {INSTALL}') from error
    if language in OTHERS:
        raise RecipeError(
            f'word_language = "{language}": datatrove divides it by {OTHERS[language]}, and not by '
            'spaCy; words = "own" takes each character of scripts without spaces for a word'
        )
    config: dict[str, Any] = {}
    if language == "zh":
        config = {"nlp": {"tokenizer": {"segmenter": "jieba"}}}
    try:
        if language == "zh":
            _load_jieba()
        return partial(_spacy_places, spacy.blank(language, config=config))
    except (ImportError, ValueError) as error:
        needed = f": pip install {BESIDE[language]}" if language in BESIDE else ""
        raise RecipeError(
            f'word_language = "{language}": spaCy {spacy.__version__} has no tokenizer for it '
            f"without other libraries{needed}. Expected a language of two or three letters, such "
            f"as en, pl or ru ({error})"
        ) from error


def _load_jieba() -> None:
    """Load jieba's dictionary. Not as it does by itself: it unpickles a file in the temporary
    folder, which anybody on the machine may have put there.
    """
    import tempfile

    import jieba

    if not jieba.dt.initialized:
        with tempfile.TemporaryDirectory() as folder:
            jieba.dt.tmp_dir = folder
            jieba.setLogLevel("WARNING")
            jieba.dt.initialize()


def _spacy_places(pipeline: Any, text: str) -> Places:
    with pipeline.memory_zone():  # or the words of all texts would stay
        try:
            return _stripped(pipeline.tokenizer(text))
        except (KeyError, AssertionError):
            pass
        # Words that are names of spaCy's own (spacy.symbols) stop some releases of it. datatrove
        # then leaves this one out, and fails on others; those texts get our words.
        left = [place for place in range(len(text)) if not _is_hidden(text, place)]
        try:
            short = _stripped(pipeline.tokenizer("".join(text[place] for place in left)))
        except (KeyError, AssertionError):
            return [match.span() for match in WORD.finditer(text)]
        return [(left[start], left[stop - 1] + 1) for start, stop in short]


def _is_hidden(text: str, place: int) -> bool:
    """Return whether a character is of a word that is left out."""
    begin = max(place - len(CANNOT) + 1, 0)
    return CANNOT in text[begin : place + len(CANNOT)]


def _stripped(tokens: Any) -> Places:
    """Give the places of tokens, without white space around them."""
    places = []
    for token in tokens:
        word = token.text
        if bare := word.strip():
            start = token.idx + len(word) - len(word.lstrip())
            places.append((start, start + len(bare)))
    return places


# -- NLTK


def _by_nltk(language: str) -> Callable[[str], Places]:
    """Load NLTK's words with Punkt's model of a language. Raises RecipeError."""
    try:
        import nltk
    except ImportError as error:
        raise RecipeError(f'words = "nltk": NLTK is not installed: {INSTALL}') from error
    if language not in PUNKT:
        raise RecipeError(
            f'word_language = "{language}": Punkt has no model for it; it has {", ".join(PUNKT)}'
        )
    tokenize = partial(nltk.word_tokenize, language=PUNKT[language])
    try:
        tokenize("Is it there? It is.")
    except LookupError as error:
        raise RecipeError(
            f'words = "nltk": NLTK {version("nltk")} finds no model of Punkt for '
            f"{PUNKT[language]}: python -m nltk.downloader punkt_tab"
        ) from error
    return partial(_nltk_places, tokenize)


def _nltk_places(tokenize: Callable[[str], list[str]], text: str) -> Places:
    places: Places = []
    at = 0
    for token in tokenize(text):
        start = SPACE.match(text, at).end()  # type: ignore[union-attr]
        at = start + len(token)
        if not text.startswith(token, start):
            # Each kind of quotation marks may have become another.
            mark = QUOTES.match(text, start) if token in ("``", "''") else None
            if mark is None:  # no token of this text: all words are ours
                return [match.span() for match in WORD.finditer(text)]
            at = mark.end()
        places.append((start, at))
    return places
