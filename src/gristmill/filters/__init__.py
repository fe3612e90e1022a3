"""Filters as values: `filters.Gopher(min_words=50)(texts)`, `filters.keep(texts, [...])`.

    >>> from gristmill import filters
    >>> filters.Simple(min_words=3)("Too short.").reason
    'simple.few_words'

The rooms below this one hold the steps, one subject a module. The recipe's `use = "gopher"` is the
module `gopher`, and `filters.Gopher` here; a new module is here by itself. __init__.pyi says the
same to type checkers (tests/filters/test_library.py writes it). docs/library.md shows the use.
"""

from typing import Any

FUNCTIONS = ("TextVerdict", "judge", "keep", "mask")
# What a filter of your own is made of.
OF_A_STEP = (
    "Check",
    "Decision",
    "Inputs",
    "Measured",
    "Rank",
    "Rule",
    "Step",
    "check",
    "decide_by",
    "refuse_nan",
)


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        from gristmill.filters.api import in_memory

        return getattr(in_memory, name)
    if name in OF_A_STEP:
        from gristmill.filters.api import step

        return getattr(step, name)
    if not name.startswith("_") and name[0].isupper():
        from gristmill.filters.api.registry import public

        if (filter_class := public(name)) is not None:
            return filter_class
    raise AttributeError(f"module 'gristmill.filters' has no attribute {name!r}")


def __dir__() -> list[str]:
    from gristmill.filters.api.registry import public_names

    return sorted([*FUNCTIONS, *OF_A_STEP, *public_names()])
