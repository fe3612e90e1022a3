"""Listed phrases: filler that stands where a text was to be, boilerplate, anything that a list
names.

    places      places where a phrase stands, over max_places
    share       paragraphs with a phrase over paragraphs that are not blank, over max_share

C4 drops pages with "lorem ipsum" (Raffel 2020, section 2.2); NeMo Curator's BoilerPlateStringFilter
drops a document with a listed string in more than 40 % of its paragraphs. Without `lists` and
`phrases` the usual Latin filler is looked for, whose words come from Cicero's De finibus, 1.32.

`lists` are paths or URLs, one phrase a line; text and phrases are compared in small letters. A
phrase stands where neither side continues a word, within one paragraph; `bounded = false` finds it
anywhere. Of phrases that end at one place one counts.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta

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
from gristmill.tables.columns import utf8_buffers

FILLER = (
    "lorem ipsum",
    "dolor sit amet",
    "consectetur adipiscing elit",
    "sed do eiusmod tempor",
    "ut labore et dolore magna",
    "duis aute irure dolor",
    "excepteur sint occaecat",
)


class ListedPhrases(Step, frozen=True, kw_only=True):
    """Drop documents with listed phrases. A null limit is not checked.

    They are such as filler and boilerplate; without a list the usual Latin filler. Origin: C4's
    lorem ipsum; NeMo Curator's BoilerPlateStringFilter.
    """

    name: ClassVar[str] = "phrases"
    version: ClassVar[int] = 1
    example: ClassVar[str] = 'phrases = ["all rights reserved"]\nmax_places = 2'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "places > max_places -> places: Phrases are at more than `max_places` places.",
        "share > max_share -> share: More than `max_share` of the paragraphs have a phrase.",
    )
    measures: ClassVar[Mapping[str, str]] = {
        "places": "Places with a phrase.",
        "share": "Paragraphs with a phrase over all that are not blank.",
    }

    # Files with one phrase a line, as paths or URLs.
    lists: list[str] = msgspec.field(default_factory=list)
    # Phrases. Without these and `lists`: the usual Latin filler.
    phrases: list[Annotated[str, Meta(min_length=1)]] = msgspec.field(default_factory=list)
    # A phrase counts as whole words only. False: anywhere, for languages written without spaces.
    bounded: bool = True
    # The most places with a phrase.
    max_places: Annotated[int, Meta(ge=0)] | None = 0
    # The most paragraphs with a phrase, as a share of all. Unset: not checked.
    max_share: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None

    def __post_init__(self) -> None:
        refuse_nan([self.max_share])
        for phrase in self.phrases:
            if not phrase.strip() or "\n" in phrase:
                raise ValueError(f"{phrase!r} is no phrase of one line")

    def inputs(self) -> dict[str, str]:
        return {
            f"phrases.lists.{place}": location
            for place, location in enumerate(dict.fromkeys(self.lists))
        }

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        from gristmill.filters.lists.lists import read
        from gristmill.kernels.lists import aho_corasick
        from gristmill.kernels.text import lines

        entries = set(self.phrases)
        for name, location in self.inputs().items():
            entries |= {
                entry.decode("utf-8", "replace") for entry in read(name, inputs[location]).all()
            }
        lowered = {entry.strip().lower().encode() for entry in entries or FILLER}
        automaton = aho_corasick.build(sorted(lowered))

        def measure(texts: BatchTexts) -> Measured:
            offsets, data = utf8_buffers(texts.lower)
            spans = lines.find(offsets, data, paragraphs=True)
            places = aho_corasick.count(spans.starts, data, automaton, bounded=self.bounded)
            sums = [
                np.append(0, np.cumsum(column))[spans.offsets]
                for column in (places, places > 0, ~spans.blank)
            ]
            counts, holding, solid = (np.diff(total) for total in sums)
            values = {"places": counts.astype(np.int64), "share": share(holding, solid)}
            return Measured(measured(values))

        return TextMeasure(measure)
