r"""FineWeb's rules (Penedo 2024, section 3.6), as datatrove's FineWebQualityFilter states them.

Lines are what `\n` parts. In this order:

    empty               no line but blank ones
    line_punct_ratio    lines whose last character ends a sentence, over all, below
                        min_stopped_lines
    short_line_ratio    lines of at most short_line characters, over all, above max_short_lines
    char_dup_ratio      characters of lines that repeat an earlier one, over characters that are no
                        \n, above max_repeated
    list_ratio          \n over words > max_newlines

`rules = "datatrove-0.10"`: blank lines do not count, a line is stopped by kernels.unicode.tables's
TERMINAL, and a limit itself is within. `rules = "datatrove-0.2"`, which made FineWeb: lines count
blank or not (but for the repeated ones), a line is stopped by one of `. ' " ! ?`, and a limit
itself is out (but for list_ratio's). Words are ours unless `words` names datatrove's library. A
null limit is not checked.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.filters.api.step import (
    Check,
    Comparison,
    Decision,
    Measured,
    Rule,
    check,
    decide_by,
    measured,
    refuse_nan,
    share,
)
from gristmill.filters.api.word_step import WordStep


class FineWeb(WordStep, frozen=True, kw_only=True):
    """Judge documents by FineWeb's rules.

    They are about lines that end in a stop sign, short lines, repeated lines and lists. Origin:
    Penedo 2024, section 3.6.
    """

    name: ClassVar[str] = "fineweb"
    version: ClassVar[int] = 1
    thresholds: ClassVar[frozenset[str]] = frozenset({"keep_without_stops"})
    example: ClassVar[str] = "max_newlines = 0.5"
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "lines < 1 -> empty: The text has blank lines only.",
        "stopped_lines < min_stopped_lines -> line_punct_ratio: Fewer lines than "
        "`min_stopped_lines` end a sentence.",
        "short_lines > max_short_lines -> short_line_ratio: More lines than `max_short_lines` "
        "are short.",
        "repeated > max_repeated -> char_dup_ratio: More characters than `max_repeated` are in "
        "lines that repeat an earlier one.",
        "newlines > max_newlines -> list_ratio: The text has more line breaks for each word than "
        "`max_newlines`.",
    )
    measures: ClassVar[Mapping[str, str]] = {
        "lines": "Lines that are not blank.",
        "stopped_lines": "Lines that end a sentence, over all.",
        "short_lines": "Lines of at most `short_line` characters, over all.",
        "repeated": "Characters in lines that repeat an earlier one, over all.",
        "newlines": "Line breaks over words.",
    }

    # The release of datatrove whose rules are followed; 0.2 made FineWeb.
    rules: Literal["datatrove-0.10", "datatrove-0.2"] = "datatrove-0.10"
    # The least lines that end a sentence, as a share of all.
    min_stopped_lines: float | None = 0.12
    # A text in which no line ends a sentence is not judged by that.
    keep_without_stops: bool = False
    # The most short lines, as a share of all.
    max_short_lines: float | None = 0.67
    short_line: int = 30  # The characters that a short line has at most.
    # The most characters in lines that repeat an earlier one, as a share.
    max_repeated: float | None = 0.01
    max_newlines: float | None = 0.3  # The most line breaks for each word.

    def __post_init__(self) -> None:
        refuse_nan(msgspec.structs.astuple(self))

    def measure(self, offsets: np.ndarray, data: np.ndarray, bounds: Any) -> Measured:
        """Measure n texts, given their words and lines (kernels.text.words.WordBounds): any rule's
        words.
        """
        from gristmill.kernels.filters import fineweb_counts

        old = self.rules == "datatrove-0.2"
        counts = fineweb_counts.count(offsets, data, bounds, short=self.short_line, ascii_stops=old)
        full = counts.lines - counts.blank_lines
        lines = counts.lines if old else full
        stopped = share(counts.stopped_lines, lines)
        short = share(
            counts.short_lines if old else counts.short_lines - counts.short_blank_lines, lines
        )
        newlines = counts.lines - 1
        values = {
            "lines": full,
            "stopped_lines": stopped,
            "short_lines": short,
            "repeated": share(counts.repeated_characters, bounds.characters - newlines),
            "newlines": share(newlines, np.diff(bounds.word_offsets)),
        }
        return Measured(measured(values))

    @property
    def comparisons(self) -> Sequence[Check]:
        """Return the rules; datatrove 0.2 also dropped what was at a limit of a share of lines."""
        at = ("stopped_lines", "short_lines", "repeated") if self.rules == "datatrove-0.2" else ()
        rows = [row.check(self) for row in self.checks]
        also: dict[str, Comparison] = {"<": "<=", ">": ">="}
        return [row._replace(broken=also[row.broken]) if row.measure in at else row for row in rows]

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        if self.keep_without_stops:
            stopped = measures["stopped_lines"].to_numpy(zero_copy_only=False)
            measures = {
                **measures,
                "stopped_lines": pa.array(np.where(stopped == 0.0, np.inf, stopped)),
            }
        return check(self.comparisons, measures)
