"""Bytes that are no UTF-8, and numbers that JSON cannot say: what is put in their place is counted
or kept, never left out in silence.
"""

import codecs
import math
import re
from typing import Any

SURROGATES = re.compile("[\ud800-\udfff]")


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Return a lone surrogate for each maximal ill-formed part, so that it differs from a U+FFFD
    that the text has itself.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


MARKED = "gristmill.marked"  # decodes as "replace" does, with lone surrogates in place of U+FFFD
codecs.register_error(MARKED, _mark)


def marks(text: str) -> int:
    """Return how many parts of a text decoded as MARKED are ill-formed; lone surrogates of JSON
    are.
    """
    return 0 if text.isascii() else len(SURROGATES.findall(text))


def finite(number: str) -> float | str:
    """Return a number of JSON; one that no float can hold stays as it is written."""
    value = float(number)
    return value if math.isfinite(value) else number


def in_words(value: Any) -> Any:
    """Return a value in which NaN and infinities are strings, as JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, dict):
        return {key: in_words(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [in_words(inner) for inner in value]
    return value
