"""What stands alone in a text, as patterns; a find, and the text between finds.

No ASCII letter, digit or `_` touches what stands alone, and no hyphen or `.` joins it to one, nor a
character that is not seen (a soft hyphen, a space of no width), nor a digit in full width. The same
rule holds at both sides, so that what was refused for its neighbour is still refused when the
neighbour is gone.

A judge sees two pieces of a text: what stands before a candidate, up to what was found before it,
and the candidate with what follows. LEFT and RIGHT characters are more than any rule reads, so that
a text of candidates alone takes linear time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

LEFT, RIGHT = 128, 192
# Of classes of characters what is between the brackets.
HIDDEN = "\u00ad\u200b-\u200d\u2060\ufeff"
BLANKS = "\u00a0\u2000-\u200a\u202f\u205f"
HYPHENS = "\u2010\u2011\uff0d"
DASHES = "\u2012\u2013\u2212"  # for numbers, an en dash, a minus
WIDE_DIGITS = "\uff10-\uff19"
SEPARATOR = f"[- .{BLANKS}{HYPHENS}{DASHES}]"  # between groups of a number
BEGIN = f"(?<![A-Za-z0-9_+{WIDE_DIGITS}])(?<![A-Za-z0-9][-.{HIDDEN}{HYPHENS}])"
END = f"(?![A-Za-z0-9_{WIDE_DIGITS}]|[-.{HIDDEN}{HYPHENS}][A-Za-z0-9])"


class PiiSpan(NamedTuple):
    """A find; places are characters of its text."""

    kind: str
    start: int
    stop: int


Finder = Callable[[str], list[PiiSpan]]


def gaps(text: str, spans: Iterable[PiiSpan]) -> Iterator[tuple[int, str]]:
    """Yield what no span covers, and where it starts."""
    at = 0
    for span in spans:
        yield at, text[at : span.start]
        at = span.stop
    yield at, text[at:]
