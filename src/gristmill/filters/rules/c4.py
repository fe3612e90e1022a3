r"""C4's rules (Raffel 2020, section 2.2), as the C4 code and datatrove's C4QualityFilter state
them.

First lines are cut, then documents are dropped:

    a line is cut       with a word over longest_word characters; not ending in . ? ! " or ', or
                        ending in ... (line_stops); with fewer than min_line_words words; with
                        `javascript`; with a phrase of a policy (`use of cookies`, ...)
    lorem_ipsum         a line that is not cut has `lorem ipsum`
    curly_bracket       a line that is not cut has `{`
    too_few_sentences   sentences of the lines that are left, below min_sentences
    bad_word            an entry of the list bad_words stands in the text of these lines, in small
                        letters, as a word of its own

Citations (`[1]`, `[edit]`, `[citation needed]`) are cut out of lines first. Words are
`str.split()`, lines `str.splitlines()`; the stripped lines that are left are joined by `\n`. A
sentence ends with a word whose last character, closing signs aside, ends a sentence
(kernels.unicode.tables's SENTENCE); datatrove asks spaCy's or NLTK's tokenizer. The step rewrites
the text of what it keeps.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.filters.api.step import Inputs, Measured, Rule, Step, decide_by, measured
from gristmill.filters.api.texts import BatchTexts, TextMeasure
from gristmill.tables.columns import utf8_buffers, view_strings


class C4(Step, frozen=True, kw_only=True):
    """Cut lines and judge documents by C4's rules. A null limit is not checked.

    Origin: Raffel 2020, section 2.2.
    """

    name: ClassVar[str] = "c4"
    version: ClassVar[int] = 1
    example: ClassVar[str] = "min_sentences = 3"
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "lorem_ipsum > 0 -> lorem_ipsum: A line has `lorem ipsum`; `lorem_ipsum` switches this "
        "off.",
        "curly_bracket > 0 -> curly_bracket: A line has `{`, as code does; `curly_bracket` "
        "switches this off.",
        "sentences < min_sentences -> too_few_sentences: The lines that are left have fewer "
        "sentences than `min_sentences`.",
        "bad_word > most_bad_words -> bad_word: The text has an entry of `bad_words`.",
    )
    reasons: ClassVar[Mapping[str, str]] = {"empty": "No line is left."}
    measures: ClassVar[Mapping[str, str]] = {
        "lorem_ipsum": "1: a line has `lorem ipsum`.",
        "curly_bracket": "1: a line has `{`.",
        "sentences": "Sentences in the lines that are left.",
        "lines": "Lines that are left.",
        "lines_long_word": "Lines cut for a word over `longest_word`.",
        "lines_no_stop": "Lines cut for their end.",
        "lines_few_words": "Lines cut for fewer words than `min_line_words`.",
        "lines_javascript": "Lines cut for `javascript`.",
        "lines_policy": "Lines cut for a phrase of a policy.",
        "bad_word": "1: the text has an entry of `bad_words`.",
    }

    # Cut lines that do not end in `.`, `?`, `!` or a quote, or that end in `...`.
    line_stops: bool = True
    citations: bool = True  # Cut citations such as `[1]` and `[edit]` out of lines.
    # Cut lines with fewer words.
    min_line_words: Annotated[int, Meta(ge=1)] | None = 3
    # Cut lines with a longer word, in characters.
    longest_word: Annotated[int, Meta(ge=1)] | None = 1000
    lorem_ipsum: bool = True  # Drop documents with `lorem ipsum`.
    javascript: bool = True  # Cut lines with `javascript`.
    curly_bracket: bool = True  # Drop documents with `{`.
    policy: bool = True  # Cut lines with a phrase of a policy, such as `use of cookies`.
    # The least sentences in the lines that are left.
    min_sentences: int | None = 5
    bad_words: str | None = None  # A list of bad words, one a line, by path or URL.
    # A bad word counts as a whole word only. False: anywhere, for languages written without spaces.
    bad_words_bounded: bool = True

    def inputs(self) -> dict[str, str]:
        return {"c4.bad_words": self.bad_words} if self.bad_words else {}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        from gristmill.filters.lists.lists import read
        from gristmill.kernels.filters.sentences import count_sentences
        from gristmill.kernels.lists import aho_corasick

        automaton = None
        if self.bad_words:
            entries = read("c4.bad_words", inputs[self.bad_words]).all()
            automaton = aho_corasick.build(
                [entry.decode("utf-8", "replace").lower().encode() for entry in entries]
            )

        def measure(texts: BatchTexts) -> Measured:
            lines = self.cut(texts)
            left = BatchTexts(view_strings(lines.offsets, lines.data))
            sentences = count_sentences(left.data, left.separate_words, whole_words=False)
            result = self.measure(lines, left.words, sentences, automaton)
            same = result.text is not None and len(utf8_buffers(result.text)[1]) == len(left.data)
            return result._replace(texts=left) if same else result

        return TextMeasure(measure)

    def cut(self, texts: BatchTexts) -> Any:
        """Return the texts as the line rules leave them (kernels.filters.c4_lines.KeptLines)."""
        from gristmill.kernels.filters import c4_lines

        switches = (
            (self.lorem_ipsum, c4_lines.LOREM_CODE),
            (self.javascript, c4_lines.SCRIPT_CODE),
            (self.curly_bracket, c4_lines.CURLY_CODE),
            (self.policy, c4_lines.POLICY_CODE),
        )
        rules = c4_lines.C4Rules(
            self.citations,
            self.line_stops,
            -1 if self.min_line_words is None else self.min_line_words,
            -1 if self.longest_word is None else self.longest_word,
            sum(code for on, code in switches if on),
        )
        return c4_lines.cut(texts.offsets, texts.data, texts.words, rules)

    def measure(
        self, lines: Any, bounds: Any, sentences: np.ndarray, automaton: Any = None
    ) -> Measured:
        """Measure n texts, given what `cut` left, its words and lines, and the sentences in these
        lines.
        """
        from gristmill.kernels.filters import c4_lines
        from gristmill.kernels.lists import aho_corasick

        kept = lines.fates[c4_lines.KEPT]
        # An empty line at a text's end is none to str.splitlines, and yet one that stays, of one
        # sentence.
        sentences = sentences + kept - np.diff(bounds.line_offsets)
        ended = lines.ended
        values = {
            "lorem_ipsum": ended == c4_lines.LOREM_CODE,
            "curly_bracket": ended == c4_lines.CURLY_CODE,
            "sentences": np.where(ended == 0, sentences.astype(np.float64), math.nan),
            "lines": kept,
            "lines_long_word": lines.fates[c4_lines.LONG_WORD],
            "lines_no_stop": lines.fates[c4_lines.NO_STOP],
            "lines_few_words": lines.fates[c4_lines.FEW_WORDS],
            "lines_javascript": lines.fates[c4_lines.WITH_SCRIPT],
            "lines_policy": lines.fates[c4_lines.WITH_POLICY],
        }
        text = view_strings(*_stripped(lines, bounds))
        measures = measured({name: array.astype(np.float64) for name, array in values.items()})
        if automaton is not None:
            find = aho_corasick.find_bounded if self.bad_words_bounded else aho_corasick.find_first
            places = find(*utf8_buffers(pc.utf8_lower(text)), automaton)
            measures["bad_word"] = pa.array((places > 0).astype(np.float64))
        return Measured(measures, text)

    @property
    def most_bad_words(self) -> int | None:
        """Return 0 if bad words are looked for."""
        return 0 if self.bad_words else None


def _stripped(lines: Any, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Without white space at the texts' ends, which only a citation that went leaves there."""
    offsets, data = lines.offsets, lines.data
    first, last = bounds.word_offsets[:-1], bounds.word_offsets[1:] - 1
    some = last >= first
    begins, stops = offsets[:-1].copy(), offsets[:-1].copy()
    begins[some], stops[some] = bounds.starts[first[some]], bounds.stops[last[some]]
    if np.array_equal(begins, offsets[:-1]) and np.array_equal(stops, offsets[1:]):
        return offsets, data
    pieces = [data[begin:stop] for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)]
    return np.cumsum([0, *map(len, pieces)], dtype=np.int32), np.concatenate(
        [*pieces, np.empty(0, np.uint8)]
    )
