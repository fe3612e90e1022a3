"""Names of a package whose modules are imported when a name is first used."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package; `places` are `room.module:name`, below gristmill."""

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, there = places[name].partition(":")
        return getattr(importlib.import_module(f"gristmill.{module}"), there)

    return find
