"""Duplicates: signatures, candidates as SQL, and the rule that decides; an index for a stream; the
curve of bands and rows.

`DuplicateIndex` and `curve` are found here; neither is imported before it is asked for.
"""

from typing import Any

__all__ = ["DuplicateIndex", "Verdict", "curve"]

_HOMES = {"DuplicateIndex": "stream.index", "Verdict": "stream.tables", "curve": "banding"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"gristmill.dedup.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gristmill.dedup' has no attribute {name!r}")
