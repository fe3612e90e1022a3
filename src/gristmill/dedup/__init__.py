"""Duplicates: signatures, candidates by SQL, and the rule that decides; an index for a stream; the
curve of bands and rows.

`DuplicateIndex`, `Near`, `Verdict` and `curve` are public. Their modules are imported when they are
first used.
"""

from typing import Any

__all__ = ["DuplicateIndex", "Near", "Verdict", "curve"]

_MODULES = {
    "DuplicateIndex": "stream.duplicate_index",
    "Near": "settings",
    "Verdict": "stream.sqlite_store",
    "curve": "banding",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(f"gristmill.dedup.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'gristmill.dedup' has no attribute {name!r}")
