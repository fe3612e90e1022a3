"""Which steps come with gristmill: found, not listed.

A step's module has the step's name: `use = "gopher"` is the class with `name = "gopher"` of
filters/rules/gopher.py. Walking the packages imports no such module; one is imported when a recipe
names it.
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from gristmill.filters.api.step import Step


def built_in(name: str) -> type[Step] | None:
    """Return the step of that name that comes with gristmill; None: there is none."""
    module = _modules().get(name)
    return None if module is None else _find_step(module, name)


def all_built_in() -> Iterator[type[Step]]:
    """Yield all steps that come with gristmill, by name; this imports their modules."""
    for name in sorted(_modules()):
        step = built_in(name)
        if step is not None:
            yield step


@cache
def _modules() -> dict[str, str]:
    """Return the modules of filters/, imported or not: last part of the name -> whole name."""
    filters = sys.modules["gristmill.filters"]  # which imports this module
    found = pkgutil.walk_packages(filters.__path__, f"{filters.__name__}.")
    return {module.name.rpartition(".")[2]: module.name for module in found if not module.ispkg}


def _find_step(module: str, name: str) -> type[Step] | None:
    """Return the first class of a module that is the step of a name; its variants come after it."""
    for value in vars(importlib.import_module(module)).values():
        if (
            isinstance(value, type)
            and issubclass(value, Step)
            and (value.__module__, getattr(value, "name", None)) == (module, name)
        ):
            return value
    return None


def public_names() -> list[str]:
    """Return the names of `gristmill.filters` for steps; this imports their modules."""
    return [public_name(step) for step in all_built_in()]


def public(name: str) -> Any:
    """Return what `gristmill.filters` has under a name: the class of a step, or, where parameters
    choose among classes, a function with those of the default. None: there is none.
    """
    modules = {module.replace("_", ""): module for module in _modules()}
    step = built_in(modules.get(name.lower(), ""))
    if step is None or public_name(step) != name:
        return None
    return _function(step) if has_variants(step) else step


def public_name(step: type[Step]) -> str:
    """Return the name of a step in Python: `fineweb` is FineWeb, as its class; `gopher` Gopher."""
    plain = step.name.replace("_", "")
    same = step.__name__.lower() == plain
    return step.__name__ if same else step.name.title().replace("_", "")


def variants(step: type[Step]) -> list[type[Step]]:
    """Return the classes that `use` may mean, the default first."""
    module = importlib.import_module(step.__module__)
    found = [value for value in vars(module).values() if is_variant(value, step)]
    return sorted(found, key=lambda value: value is not step) if has_variants(step) else [step]


def is_variant(value: Any, step: type[Step]) -> bool:
    """Return whether a value of a step's module is one of its classes."""
    return (
        isinstance(value, type)
        and issubclass(value, Step)
        and (value.__module__, getattr(value, "name", None)) == (step.__module__, step.name)
    )


def has_variants(step: type[Step]) -> bool:
    """Return whether parameters choose the step's class."""
    return step.variant.__func__ is not Step.variant.__func__  # type: ignore[attr-defined]


@cache
def _function(step: type[Step]) -> Any:
    def make(**parameters: Any) -> Step:
        return step.variant(parameters)(**parameters)

    make.__name__ = make.__qualname__ = public_name(step)
    make.__doc__ = step.__doc__
    make.__signature__ = inspect.signature(step)  # type: ignore[attr-defined]
    return make
