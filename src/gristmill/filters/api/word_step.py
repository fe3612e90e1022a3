"""Steps that count words, by our own words or by a library's."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from msgspec import Meta

from gristmill.filters.api.step import Inputs, Measured, Step
from gristmill.filters.api.texts import BatchTexts, TextMeasure


class WordStep(Step, frozen=True, kw_only=True):
    """A step that measures texts by their words."""

    # What a word is. `own`: what stands between white space, and each character of a script without
    # spaces; `spacy` and `nltk`: a token of this library, as datatrove 0.10 and 0.2 count, which
    # takes far longer. Needs `gristmill[words]`.
    words: Literal["own", "spacy", "nltk"] = "own"
    # The language by whose rules the library divides texts; `by_language` may have it for each.
    word_language: Annotated[str, Meta(pattern=r"^[a-z]{2,3}\Z")] = "en"

    def content(self) -> dict[str, Any]:
        """Return the parameters; those of words only where a library counts them."""
        parameters = super().content()
        if self.words == "own":
            del parameters["words"], parameters["word_language"]
        return parameters

    def inputs(self) -> dict[str, str]:
        """Return the version of the library."""
        if self.words == "own":
            return {}
        return {f"{self.name}.{self.words}": f"version:{self.words}"}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        if self.words != "own":
            from gristmill.filters.api.library_words import divider

            divider(self.words, self.word_language)
        return TextMeasure(self._measure)

    def _measure(self, texts: BatchTexts) -> Measured:
        if self.words == "own":
            bounds = texts.separate_words
        else:
            bounds = texts.library_words(self.words, self.word_language)
        return self.measure(texts.offsets, texts.data, bounds)

    def measure(self, offsets: np.ndarray, data: np.ndarray, bounds: Any) -> Measured:
        """Measure n texts, given their words and lines (kernels.text.words.WordBounds): any rule's
        words.
        """
        raise NotImplementedError(f"{type(self).__name__}.measure")
