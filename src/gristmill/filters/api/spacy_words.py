"""The words of texts by spaCy's tokenizers, which datatrove 0.10 counts by (extra `words`).

A tokenizer is that of `spacy.blank(language)`: rules that spaCy ships, no model and nothing that is
downloaded. Its tokens are stripped, and empty ones are no words (datatrove 0.10.1,
utils/word_tokenizers.py). It takes 150 to 300 times as long as our own words
(docs/filters.md).
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.errors import RecipeError

if TYPE_CHECKING:
    from gristmill.filters.api.texts import BatchTexts
    from gristmill.kernels.text.words import WordBounds

# Languages that datatrove divides by libraries beside spaCy, or by others than spaCy.
OTHERS = {
    "ja": "SudachiPy",
    "km": "khmer-nltk",
    "ko": "kiwipiepy",
    "lo": "laonlp",
    "my": "pyidaungsu",
    "th": "pythainlp",
    "vi": "pyvi",
    "zh": "jieba",
}
CANNOT = "IS_ALPHA"
WORD = re.compile(r"\S+")


@cache
def tokenizer(language: str) -> Any:
    """The tokenizer of a language, for pipelines' `memory_zone` too. Raises RecipeError."""
    try:
        import spacy
    except ImportError as error:
        raise RecipeError(
            'words = "spacy": spaCy is not installed: pip install "gristmill[words]"'
        ) from error
    if language in OTHERS:
        raise RecipeError(
            f'word_language = "{language}": datatrove divides it by {OTHERS[language]}, and not by '
            'spaCy\'s rules alone; words = "own" takes each character of scripts without spaces '
            "for a word"
        )
    try:
        return spacy.blank(language)
    except (ImportError, ValueError) as error:
        raise RecipeError(
            f'word_language = "{language}": spaCy {spacy.__version__} has no tokenizer for it '
            "without other libraries: expected a language of two or three letters, such as en, "
            f"pl or ru ({error})"
        ) from error


def spacy_words(texts: "BatchTexts", language: str) -> "WordBounds":
    """The words of texts by spaCy, with the lines of `str.splitlines()`. Raises RecipeError."""
    pipeline = tokenizer(language)
    starts: list[np.ndarray] = []
    stops: list[np.ndarray] = []
    characters = np.zeros(len(texts.column), np.int64)
    bases = texts.offsets.tolist()
    for row, text in enumerate(texts.column.to_pylist()):
        places = np.array(_places(pipeline, text), np.int64).reshape(-1, 2)
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


def _places(pipeline: Any, text: str) -> list[tuple[int, int]]:
    """Where the words of a text start and stop, in code points."""
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
    """Whether a character is of a word that is left out."""
    begin = max(place - len(CANNOT) + 1, 0)
    return CANNOT in text[begin : place + len(CANNOT)]


def _stripped(tokens: Any) -> list[tuple[int, int]]:
    """Where tokens start and stop, without white space around them."""
    places = []
    for token in tokens:
        word = token.text
        if bare := word.strip():
            start = token.idx + len(word) - len(word.lstrip())
            places.append((start, start + len(bare)))
    return places
