"""Names of a package whose modules are imported when a name is first used."""

import importlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^    from gristmill\.?([\w.]*) import (\w+) as (\w+)$", re.MULTILINE)


def typed_imports(file: str) -> dict[str, str]:
    """Return what the source of a package imports for type checkers, by name: `room.module:name`;
    of a room itself `room`.
    """
    imports = _IMPORT.findall(Path(file).read_text("utf-8"))
    return {name: f"{module}:{there}" if module else there for module, there, name in imports}


def lazy(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package; `places` are as typed_imports gives them."""

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, there = places[name].partition(":")
        target = importlib.import_module(f"gristmill.{module}")
        return getattr(target, there) if there else target

    return find
