"""What a process keeps loaded from one task to the next: models, lists of millions, tokenizers.

Of each kind only what the last task used is kept. No other module of phases/ or corpus/ holds
state.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")

_kept: dict[str, dict[str, Any]] = {}


def loaded(kind: str, wanted: Mapping[str, Callable[[], Value]]) -> dict[str, Value]:
    """Return values by key: those of the last call of this kind where a key is the same, else made.

    A key must say all that its value depends on.
    """
    before = _kept.get(kind, {})
    now = {key: before[key] if key in before else make() for key, make in wanted.items()}
    _kept[kind] = now
    return now
