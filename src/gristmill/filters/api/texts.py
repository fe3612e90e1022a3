"""The texts of a batch, and what is found in them for several steps.

Gopher's, C4's and FineWeb's rules, word lists and others look at the same words and lines; models
and lists of phrases at the same normalised text. Each is found when the first step asks for it, and
is kept for the steps after it while the texts are the same: filters.api.judge makes new BatchTexts
where a step rewrites them or rows are taken out.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.tables.columns import utf8_buffers

if TYPE_CHECKING:
    from gristmill.filters.api.library_words import Library
    from gristmill.filters.api.step import Measured
    from gristmill.kernels.text.words import WordBounds

Buffers = tuple[np.ndarray, np.ndarray]  # offsets (n + 1,) and data (bytes,) uint8


class BatchTexts:
    """n texts, and what is found in them."""

    def __init__(self, column: pa.Array) -> None:
        """`column` (n,) string has no nulls."""
        self.column = column
        self.offsets, self.data = utf8_buffers(column)
        self._words: WordBounds | None = None
        self._separate: WordBounds | None = None
        self._by_library: dict[tuple[Library, str], WordBounds] = {}  # by language
        self._normalised: Buffers | None = None
        self._lower: pa.Array | None = None
        # (n,) string: their languages, for a step whose parameters differ by them
        self.labels: pa.Array | None = None

    @property
    def words(self) -> "WordBounds":
        """Return the words of `str.split()` and the lines of `str.splitlines()`."""
        if self._words is None:
            from gristmill.kernels.text import words

            self._words = words.find(self.offsets, self.data)
        return self._words

    @property
    def separate_words(self) -> "WordBounds":
        """Return the same, each character of a script without spaces being a word."""
        if self._separate is None:
            from gristmill.kernels.text import words

            self._separate = words.separate(self.offsets, self.data, self.words)
        return self._separate

    def library_words(self, library: "Library", language: str) -> "WordBounds":
        """Divide the texts by spaCy or NLTK, with the same lines. Raises RecipeError."""
        if (library, language) not in self._by_library:
            from gristmill.filters.api.library_words import library_words

            self._by_library[library, language] = library_words(self, library, language)
        return self._by_library[library, language]

    @property
    def normalised(self) -> Buffers:
        """Return the texts in normal form (kernels.unicode.normalised), offsets (n + 1,) int64."""
        if self._normalised is None:
            from gristmill.kernels.unicode.normalised import normalise

            self._normalised = normalise(self.offsets, self.data)
        return self._normalised

    @property
    def lower(self) -> pa.Array:
        """Return the texts in small letters, (n,) string."""
        if self._lower is None:
            self._lower = pc.utf8_lower(self.column)
        return self._lower


class TextMeasure:
    """What measures a batch by its texts alone: called with a batch, or with texts in which other
    steps have found something already.
    """

    def __init__(self, measure: "Callable[[BatchTexts], Measured]") -> None:
        self.measure = measure

    def __call__(self, batch: pa.RecordBatch) -> "Measured":
        return self.measure(BatchTexts(batch["text"]))


class BatchMeasure:
    """What measures a batch by its rows and by what is known of their texts."""

    def __init__(
        self,
        measure: "Callable[[pa.RecordBatch, BatchTexts], Measured]",
        reads: str,
        *,
        texts_only: bool,
    ) -> None:
        """`reads` is the measure of an earlier step that BatchTexts.labels must hold; `texts_only`
        is whether it looks at nothing but texts.
        """
        self.measure, self.reads, self.texts_only = measure, reads, texts_only

    def __call__(self, batch: pa.RecordBatch) -> "Measured":
        return self.measure(batch, BatchTexts(batch["text"]))
