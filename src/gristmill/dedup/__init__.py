"""Duplicates: signatures, candidates as SQL, and the rule that decides; an index for a stream.

`DuplicateIndex` is found here, and not imported before it is asked for.
"""

from typing import Any

__all__ = ["DuplicateIndex", "Verdict"]

_HOMES = {"DuplicateIndex": "index", "Verdict": "store"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"gristmill.dedup.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gristmill.dedup' has no attribute {name!r}")
