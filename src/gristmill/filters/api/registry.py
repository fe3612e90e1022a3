"""Which steps come with gristmill: found, not listed.

A step's module has the step's name: `use = "gopher"` is the class with `name = "gopher"` of
filters/rules/gopher.py. Walking the packages imports no such module; one is imported when a recipe
names it.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from gristmill import filters
from gristmill.filters.api.step import Step


def built_in(name: str) -> type[Step] | None:
    """The step of that name that comes with gristmill; None: there is none."""
    module = _modules().get(name)
    return None if module is None else _step_of(module, name)


def all_built_in() -> Iterator[type[Step]]:
    """All steps that come with gristmill, by name; this imports their modules."""
    for name in sorted(_modules()):
        step = built_in(name)
        if step is not None:
            yield step


@cache
def _modules() -> dict[str, str]:
    """The modules of filters/, imported or not: last part of the name -> whole name."""
    found = pkgutil.walk_packages(filters.__path__, f"{filters.__name__}.")
    return {module.name.rpartition(".")[2]: module.name for module in found if not module.ispkg}


def _step_of(module: str, name: str) -> type[Step] | None:
    """The first class of a module that is the step of a name; its variants come after it."""
    for value in vars(importlib.import_module(module)).values():
        if (
            isinstance(value, type)
            and issubclass(value, Step)
            and (value.__module__, getattr(value, "name", None)) == (module, name)
        ):
            return value
    return None
