"""Toxicity: listed words and phrases, and a classifier's score.

    words       places where a listed word or phrase stands, over max_words
    share       these places over words (`str.split()`), over max_share
    score       the classifier's score, over max_score

`lists` are paths or URLs of lists, one word or phrase a line (LDNOOBW's format); text and lists are
compared in small letters. A phrase stands where neither side continues a word; `bounded = false`
finds it anywhere, for languages written without spaces. Of phrases that end at one place one
counts. `model` is what step `classifier` takes: train it with the toxic texts as --good, or name a
fastText model's label.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.filters.api.step import Inputs, Measured, Rule, Step, decide_by, refuse_nan, share
from gristmill.filters.api.texts import BatchTexts, TextMeasure
from gristmill.filters.models.classifier import scorer
from gristmill.tables.columns import utf8_buffers


class Toxicity(Step, frozen=True, kw_only=True):
    """Judge documents by toxic words and a classifier. A null limit is not checked.

    Words and phrases are listed (docs/models.md). Origin: LDNOOBW's lists.
    """

    name: ClassVar[str] = "toxicity"
    version: ClassVar[int] = 2
    example: ClassVar[str] = 'lists = ["bad-words.txt"]\nmax_share = 0.02'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "words > max_words -> words: Listed words are at more than `max_words` places.",
        "share > max_share -> share: Listed words are more than `max_share` of the words.",
        "score > max_score -> score: The classifier's score is above `max_score`.",
    )
    measures: ClassVar[Mapping[str, str]] = {
        "words": "Places with a listed word or phrase.",
        "share": "These places over all words.",
        "score": "The classifier's score.",
    }

    # Files with one word or phrase a line, as paths or URLs.
    lists: list[str] = msgspec.field(default_factory=list)
    # An entry counts as whole words only. False: anywhere, for languages written without spaces.
    bounded: bool = True
    model: str | None = None  # A classifier, by path or URL.
    label: str | None = None  # The label of a fastText model whose probability is the score.
    max_words: int | None = None  # The most places with an entry. Unset: not checked.
    # The most places with an entry, as a share of the words. Unset: not checked.
    max_share: float | None = None
    max_score: float | None = None  # The greatest score. Unset: not checked.

    def __post_init__(self) -> None:
        refuse_nan(msgspec.structs.astuple(self))
        if not self.lists and self.model is None:
            raise ValueError("it needs `lists` of words, or a `model`")
        if not self.lists and (self.max_words is not None or self.max_share is not None):
            raise ValueError("max_words and max_share need `lists`")
        if self.model is None and (self.max_score is not None or self.label is not None):
            raise ValueError("max_score and label need a `model`")

    def inputs(self) -> dict[str, str]:
        named = {
            f"toxicity.lists.{place}": location
            for place, location in enumerate(dict.fromkeys(self.lists))
        }
        return named | ({"toxicity.model": self.model} if self.model is not None else {})

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        count = self._counter(inputs) if self.lists else None
        score = (
            scorer("toxicity", inputs[self.model], self.label) if self.model is not None else None
        )

        def measure(texts: BatchTexts) -> Measured:
            measures: dict[str, pa.Array] = {}
            if count is not None:
                places = count(texts)
                words = np.diff(texts.words.word_offsets)
                measures |= {"words": pa.array(places), "share": pa.array(share(places, words))}
            if score is not None:
                measures["score"] = pa.array(score(texts))
            return Measured(measures)

        return TextMeasure(measure)

    def _counter(self, inputs: Inputs) -> Callable[[BatchTexts], np.ndarray]:
        """Return what counts places of listed phrases in n texts, (n,) int64."""
        from gristmill.filters.lists.lists import read
        from gristmill.kernels.lists import aho_corasick

        entries = {
            entry.decode("utf-8", "replace").lower().encode()
            for name, location in self.inputs().items()
            if name != "toxicity.model"
            for entry in read(name, inputs[location]).all()
        }
        automaton = aho_corasick.build(sorted(entries))

        return lambda texts: aho_corasick.count(
            *utf8_buffers(texts.lower), automaton, bounded=self.bounded
        )
