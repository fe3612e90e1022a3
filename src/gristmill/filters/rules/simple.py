"""The plainest rules, as an introduction to pretraining pipelines teaches them. In this order:

few_words       words (str.split) below min_words
upper_case      words that are str.isupper over all > max_upper
special         characters that are neither str.isalnum nor str.isspace over all characters >
max_special
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

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


class Simple(Step, frozen=True, kw_only=True):
    """Judge documents by the plainest rules. A null limit is not checked.

    Few words, capitals, special characters. Origin: three checks of an introduction.
    """

    name: ClassVar[str] = "simple"
    version: ClassVar[int] = 1
    example: ClassVar[str] = "min_words = 30"
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "words < min_words -> few_words: The words are fewer than `min_words`.",
        "upper > max_upper -> upper_case: Words in capitals are more than `max_upper`.",
        "special > max_special -> special: Special characters are more than `max_special`.",
    )
    measures: ClassVar[Mapping[str, str]] = {
        "words": "Words.",
        "upper": "Words in capitals, over all.",
        "special": "Characters that are neither letters, digits nor white space, over all.",
    }

    min_words: int | None = 50  # The least words.
    max_upper: float | None = 0.3  # The most words in capitals, as a share.
    # The most characters that are neither letters, digits nor white space, as a share.
    max_special: float | None = 0.1

    def __post_init__(self) -> None:
        refuse_nan(msgspec.structs.astuple(self))

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        return TextMeasure(self._measure)

    def _measure(self, texts: BatchTexts) -> Measured:
        from gristmill.kernels.filters import simple_counts

        bounds = texts.words
        capitals, special = simple_counts.count(texts.data, bounds)
        n_words = np.diff(bounds.word_offsets)
        values = {
            "words": n_words,
            "upper": share(capitals, n_words),
            "special": share(special, bounds.characters),
        }
        return Measured(measured(values))
