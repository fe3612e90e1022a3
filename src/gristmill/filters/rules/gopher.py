"""Gopher's quality rules (Rae 2021, appendix A), as three origins state them.

Each checks in the order written here.

`rules = "lab"` (words are `str.split()`, lines `str.splitlines()`):

    length          words outside min_words..max_words
    word_len        mean word length outside min_word_length..max_word_length, in characters
    symbol_ratio    `#`, and `...` and `…` as one symbol each, over all characters >
                    max_symbol_ratio
    too_bulleted    lines that start with `•`, `-` or `*` over all lines > max_bullet_lines
    too_truncated   lines that end in `...` or `…` over all lines > max_ellipsis_lines
    repeat_2gram    count of the commonest 2-gram over all 2-grams > max_top_2gram
    repeat_3gram    the same for 3-grams > max_top_3gram

`rules = "datatrove-0.10"` (huggingface/datatrove 0.10.1, GopherQualityFilter) and `"datatrove-0.2"`
(0.2.0, which made FineWeb). A symbol word holds only characters of kernels.unicode.tables's
PUNCTUATION (0.10: or TERMINAL); the words are ours, or with `words = "spacy"` or `"nltk"` those
of datatrove 0.10 or 0.2:

    short_doc, long_doc        words that are no symbol words, outside min_words..max_words
    below_avg_threshold, above_avg_threshold    their mean length outside
                                                min_word_length..max_word_length
    too_many_hashes            `#` over words > max_symbol_ratio
    too_many_ellipsis          `...` and `…` over words > max_symbol_ratio
    too_many_bullets           lines that start with `•` or `-` over all lines > max_bullet_lines
    too_many_end_ellipsis      lines that end in `...` or `…` over all lines > max_ellipsis_lines
    below_alpha_threshold      words with a letter over all words < min_letter_words
    enough_stop_words          of stop_words fewer than min_stop_words different ones (0.2:
                               occurrences of any)

Every value is measured, whatever the verdict; the lab's n-grams of documents over max_words are not
(null).
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.filters.api.step import (
    Inputs,
    Measured,
    Rule,
    Step,
    decide_by,
    measured,
    refuse_nan,
    share,
)
from gristmill.filters.api.texts import BatchTexts, TextMeasure
from gristmill.filters.api.word_step import WordStep

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")


class Lab(Step, frozen=True, kw_only=True):
    """Judge documents by Gopher's quality rules as the lab states them.

    Origin: Rae 2021, appendix A.
    """

    name: ClassVar[str] = "gopher"
    version: ClassVar[int] = 3
    example: ClassVar[str] = "min_words = 30"
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "words < min_words -> length: The words are fewer than `min_words` or more than "
        "`max_words`.",
        "words > max_words -> length",
        "word_length < min_word_length -> word_len: The mean length of a word is outside "
        "`min_word_length` to `max_word_length`.",
        "word_length > max_word_length -> word_len",
        "symbol_ratio > max_symbol_ratio -> symbol_ratio: Symbols are more than "
        "`max_symbol_ratio` of the characters.",
        "bullet_lines > max_bullet_lines -> too_bulleted: More lines than `max_bullet_lines` "
        "begin with a bullet.",
        "ellipsis_lines > max_ellipsis_lines -> too_truncated: More lines than "
        "`max_ellipsis_lines` end in an ellipsis.",
        "top_2gram > max_top_2gram -> repeat_2gram: One pair of words is more than "
        "`max_top_2gram` of all pairs.",
        "top_3gram > max_top_3gram -> repeat_3gram: One row of three words is more than "
        "`max_top_3gram` of all.",
    )
    fixed: ClassVar[frozenset[str]] = frozenset({"max_words"})
    measures: ClassVar[Mapping[str, str]] = {
        "words": "Words.",
        "word_length": "Mean length of a word, in characters.",
        "symbol_ratio": "Symbols over characters.",
        "bullet_lines": "Lines that begin with a bullet, over all.",
        "ellipsis_lines": "Lines that end in an ellipsis, over all.",
        "top_2gram": "The commonest pair of words over all pairs; null: over `max_words`.",
        "top_3gram": "The same of three words.",
    }

    rules: Literal["lab"] = "lab"  # The rules as the lab states them.
    min_words: int = 50  # The least words.
    max_words: int = 100_000  # The most words.
    min_word_length: float = 3.0  # The least mean length of a word, in characters.
    max_word_length: float = 10.0  # The greatest mean length of a word, in characters.
    # The most symbols (`#`, `...`, `…`), as a share of the characters.
    max_symbol_ratio: float = 0.10
    max_bullet_lines: float = 0.90  # The most lines that begin with a bullet, as a share of all.
    max_ellipsis_lines: float = 0.30  # The most lines that end in an ellipsis, as a share of all.
    max_top_2gram: float = 0.20  # The commonest pair of words, as a share of all pairs.
    max_top_3gram: float = 0.18  # The commonest three words in a row, as a share of all.

    def __post_init__(self) -> None:
        _check_limits(self)

    @classmethod
    def variant(cls, table: Mapping[str, Any]) -> type[Step]:
        """Return the lab's rules, or datatrove's."""
        return cls if table.get("rules", "lab") == "lab" else Quality

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        return TextMeasure(self._measure)

    def _measure(self, texts: BatchTexts) -> Measured:
        from gristmill.kernels.filters import gopher_lines, gopher_quality

        bounds = texts.words
        counts = gopher_lines.count(texts.data, bounds, most_words=self.max_words)
        hashes, dotted = gopher_quality.count_signs(texts.offsets, texts.data)
        n_words, n_lines = np.diff(bounds.word_offsets), np.diff(bounds.line_offsets)
        counted = counts.top_2_gram >= 0
        values = {
            "words": n_words,
            "word_length": share(bounds.word_characters, n_words),
            "symbol_ratio": share(hashes + dotted, bounds.characters),
            "bullet_lines": share(counts.bullets, n_lines),
            "ellipsis_lines": share(counts.ellipses, n_lines),
            "top_2gram": np.where(counted, share(counts.top_2_gram, n_words - 1), np.nan),
            "top_3gram": np.where(counted, share(counts.top_3_gram, n_words - 2), np.nan),
        }
        return Measured(measured(values))


class Quality(WordStep, frozen=True, kw_only=True):
    """Judge documents by Gopher's quality rules as datatrove states them.

    A null limit is not checked.
    """

    name: ClassVar[str] = "gopher"
    version: ClassVar[int] = 2
    example: ClassVar[str] = 'rules = "datatrove-0.10"'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "words < min_words -> short_doc: The words are fewer than `min_words`.",
        "words > max_words -> long_doc: The words are more than `max_words`.",
        "word_length < min_word_length -> below_avg_threshold: The mean length of a word is "
        "below `min_word_length`.",
        "word_length > max_word_length -> above_avg_threshold: The mean length of a word is "
        "above `max_word_length`.",
        "hash_ratio > max_symbol_ratio -> too_many_hashes: `#` for each word are more than "
        "`max_symbol_ratio`.",
        "ellipsis_ratio > max_symbol_ratio -> too_many_ellipsis: Ellipses for each word are more "
        "than `max_symbol_ratio`.",
        "bullet_lines > max_bullet_lines -> too_many_bullets: More lines than `max_bullet_lines` "
        "begin with a bullet.",
        "ellipsis_lines > max_ellipsis_lines -> too_many_end_ellipsis: More lines than "
        "`max_ellipsis_lines` end in an ellipsis.",
        "letter_words < min_letter_words -> below_alpha_threshold: Fewer words than "
        "`min_letter_words` have a letter.",
        "stop_words < min_stop_words -> enough_stop_words: The text has fewer stop words than "
        "`min_stop_words`.",
    )
    measures: ClassVar[Mapping[str, str]] = {
        "words": "Words that are no symbols.",
        "word_length": "Their mean length, in characters.",
        "hash_ratio": "`#` over words.",
        "ellipsis_ratio": "Ellipses over words.",
        "bullet_lines": "Lines that begin with a bullet, over all.",
        "ellipsis_lines": "Lines that end in an ellipsis, over all.",
        "letter_words": "Words with a letter, over all.",
        "stop_words": "Different stop words (0.2: occurrences).",
    }

    # The release of datatrove whose rules are followed; 0.2 made FineWeb.
    rules: Literal["datatrove-0.10", "datatrove-0.2"]
    min_words: int | None = 50  # The least words.
    max_words: int | None = 100_000  # The most words.
    # The least mean length of a word, in characters.
    min_word_length: float | None = 3.0
    # The greatest mean length of a word, in characters.
    max_word_length: float | None = 10.0
    # The most `#`, and the most ellipses, for each word.
    max_symbol_ratio: float | None = 0.1
    # The most lines that begin with a bullet, as a share of all.
    max_bullet_lines: float | None = 0.9
    # The most lines that end in an ellipsis, as a share of all.
    max_ellipsis_lines: float | None = 0.3
    # The least words with a letter, as a share of all.
    min_letter_words: float | None = 0.8
    # The least different stop words (0.2: occurrences).
    min_stop_words: int | None = 2
    stop_words: tuple[str, ...] = STOP_WORDS  # The stop words.

    def __post_init__(self) -> None:
        _check_limits(self)

    def measure(self, offsets: np.ndarray, data: np.ndarray, bounds: Any) -> Measured:
        """Measure n texts, given their words and lines (kernels.text.words.WordBounds): any rule's
        words.
        """
        from gristmill.kernels.filters import gopher_lines, gopher_quality

        table = gopher_quality.stop_table(self.stop_words)
        counts = gopher_quality.count(
            offsets, data, bounds, symbols=gopher_quality.SYMBOLS[self.rules], stop_words=table
        )
        bullets, ellipses = gopher_lines.count_lines(data, bounds, asterisk=False)
        n_words, n_lines = np.diff(bounds.word_offsets), np.diff(bounds.line_offsets)
        values = {
            "words": counts.plain_words,
            # Of no words there is no mean, and it breaks no limit.
            "word_length": np.where(
                counts.plain_words > 0, share(counts.plain_characters, counts.plain_words), np.nan
            ),
            "hash_ratio": share(counts.hashes, n_words),
            "ellipsis_ratio": share(counts.ellipses, n_words),
            "bullet_lines": share(bullets, n_lines),
            "ellipsis_lines": share(ellipses, n_lines),
            "letter_words": share(counts.letter_words, n_words),
            "stop_words": counts.stop_words
            if self.rules == "datatrove-0.10"
            else counts.stop_occurrences,
        }
        return Measured(measured(values))


def _check_limits(step: Lab | Quality) -> None:
    for low, high in (
        (step.min_words, step.max_words),
        (step.min_word_length, step.max_word_length),
    ):
        if low is not None and high is not None and low > high:
            raise ValueError("a least that is over its most would drop every document")
    refuse_nan(msgspec.structs.astuple(step))
