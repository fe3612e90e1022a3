"""What callers pass as numbers, checked: a wrong type or range is a RecipeError that says so."""

import operator
from typing import Any

from gristmill.errors import RecipeError

MOST_WINDOWS = 1 << 48  # in a stream: more than any run reads, and no sum of tokens overflows
MOST_STEP_TOKENS = 1 << 32  # of a step, of all ranks together


def whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number, as Python's int; numpy's are taken too. Raises RecipeError."""
    expected = "a whole number" if least is None else f"a number of {least} or more"
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        raise RecipeError(f"{name} = {value!r}: it is {expected}")
    if most is not None and number > most:
        raise RecipeError(f"{name} = {number:,}: it is at most {most:,}")
    return number
