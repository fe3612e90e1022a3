r"""Gopher's repetition rules (Rae 2021, table A1), as datatrove's GopherRepetitionFilter states
them. In this order:

    dup_para_frac, dup_para_char_frac    paragraphs that repeat an earlier one over all; their
                                         characters over the text's
    dup_line_frac, dup_line_char_frac    the same of lines
    top_2_gram, top_3_gram, top_4_gram   characters of the commonest n-gram times its count, over
                                         the text's characters
    duplicated_5_n_grams .. duplicated_10_n_grams    characters of n-grams that repeat an earlier
                                                     one, over the text's

Paragraphs are what `\n{2,}` parts in the stripped text. `rules = "datatrove-0.10"`: lines are what
`\n+` parts; `"datatrove-0.2"`: lines are `str.splitlines()`, so that blank lines repeat each other.
Words are ours unless `words` names datatrove's library. A null limit is not checked. Every value is
measured and exact, whatever the verdict.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from gristmill.filters.api.step import Measured, Rule, decide_by, measured, refuse_nan, share
from gristmill.filters.api.word_step import WordStep


class Repetition(WordStep, frozen=True, kw_only=True):
    """Judge documents by Gopher's repetition rules.

    Origin: Rae 2021, table A1.
    """

    name: ClassVar[str] = "repetition"
    version: ClassVar[int] = 1
    example: ClassVar[str] = "max_lines = 0.25"
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "paragraphs > max_paragraphs -> dup_para_frac: More paragraphs than `max_paragraphs` "
        "repeat an earlier one.",
        "paragraph_characters > max_paragraph_characters -> dup_para_char_frac: They have more "
        "than `max_paragraph_characters` of the characters.",
        "lines > max_lines -> dup_line_frac: More lines than `max_lines` repeat an earlier one.",
        "line_characters > max_line_characters -> dup_line_char_frac: They have more than "
        "`max_line_characters` of the characters.",
        *(f"top_{n} > max_top[{n - 2}] -> top_{n}_gram" for n in range(2, 5)),
        *(f"repeated_{n} > max_repeated[{n - 5}] -> duplicated_{n}_n_grams" for n in range(5, 11)),
    )
    reasons: ClassVar[Mapping[str, str]] = {
        "top_N_gram": (
            "The commonest N-gram, N from 2 to 4, has more characters than `max_top` says."
        ),
        "duplicated_N_n_grams": (
            "Repeated N-grams, N from 5 to 10, have more characters than `max_repeated` says."
        ),
    }
    measures: ClassVar[Mapping[str, str]] = {
        "paragraphs": "Paragraphs that repeat an earlier one, over all.",
        "paragraph_characters": "Their characters over the text's.",
        "lines": "Lines that repeat an earlier one, over all.",
        "line_characters": "Their characters over the text's.",
        "top_N": "Characters of the commonest N-gram of words times its count, over the text's.",
        "repeated_N": "Characters of N-grams that repeat an earlier one, over the text's.",
    }

    # The release of datatrove whose rules are followed; 0.2 made FineWeb.
    rules: Literal["datatrove-0.10", "datatrove-0.2"] = "datatrove-0.10"
    # The most paragraphs that repeat an earlier one, as a share of all.
    max_paragraphs: float | None = 0.3
    # The most characters in such paragraphs, as a share.
    max_paragraph_characters: float | None = 0.2
    # The most lines that repeat an earlier one, as a share of all.
    max_lines: float | None = 0.3
    # The most characters in such lines, as a share.
    max_line_characters: float | None = 0.2
    # The most characters in the commonest 2-gram, 3-gram and 4-gram of words, as shares.
    max_top: tuple[float | None, float | None, float | None] = (0.20, 0.18, 0.16)
    # The most characters in repeated n-grams of 5, 6, 7, 8, 9 and 10 words, as shares.
    max_repeated: tuple[float | None, ...] = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)

    def __post_init__(self) -> None:
        if len(self.max_repeated) != 6:
            raise ValueError("max_repeated is for 5- to 10-grams: six numbers")
        refuse_nan((*msgspec.structs.astuple(self), *self.max_top, *self.max_repeated))

    def measure(self, offsets: np.ndarray, data: np.ndarray, bounds: Any) -> Measured:
        """Measure n texts, given their words and lines (kernels.text.words.WordBounds): any rule's
        words.
        """
        from gristmill.kernels.filters import gopher_repetition

        counts = gopher_repetition.count(
            offsets, data, bounds, by_newlines=self.rules == "datatrove-0.10"
        )
        characters = bounds.characters
        values = {
            "paragraphs": share(counts.repeated_paragraphs, counts.paragraphs),
            "paragraph_characters": share(counts.repeated_paragraph_characters, characters),
            "lines": share(counts.repeated_lines, counts.lines),
            "line_characters": share(counts.repeated_line_characters, characters),
        }
        values |= {f"top_{place + 2}": share(counts.top[place], characters) for place in range(3)}
        values |= {
            f"repeated_{place + 5}": share(counts.repeated[place], characters) for place in range(6)
        }
        return Measured(measured(values))
