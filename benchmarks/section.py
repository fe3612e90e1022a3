"""A section of RESULTS.md as a value: what it is called, how it is measured, how it is shown."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from harness import Bench

Rows = list[dict[str, Any]]


class Section(NamedTuple):
    """One section; bench.py has the list of them."""

    name: str
    title: str
    remarks: str
    measure: "Callable[[Bench], Rows]"
    table: Callable[[Rows], list[str]]  # lines of Markdown
    large: bool = False  # measured only where it is asked for


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def met(value: float, target: float | None) -> str:
    """Whether a target that is a least value was reached."""
    if target is None:
        return "-"
    return f"{number(target)}: " + ("met" if value >= target else "**not met**")
