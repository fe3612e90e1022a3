"""Which steps come with gristmill or with installed packages: found, not listed.

`use = "gopher"` is the first class with `name = "gopher"` of filters/rules/gopher.py, or the class
of an entry point `gopher` of the group `gristmill.steps`.
"""

import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

from gristmill.filters.api.custom_class import as_named
from gristmill.filters.api.step import Step
from gristmill.system.plugins import Plugins

STEPS: Plugins[type[Step]] = Plugins(
    "gristmill.filters", ("Step",), "step {!r}: there is none", "gristmill.steps", classes=True
)


def find_step(name: str) -> type[Step] | None:
    """Return the step of that name, of gristmill or an installed package; None: there is none."""
    if name not in STEPS:
        return None
    package = STEPS.package(name)
    step = STEPS.find(name)
    return step if package is None else as_named(name, f"version:{package}", step)


def all_built_in() -> Iterator[type[Step]]:
    """Yield all steps that come with gristmill, by name; this imports their modules."""
    yield from STEPS.built_in()


def public_names() -> list[str]:
    """Return the names of `gristmill.filters` for steps; this imports their modules."""
    return [public_name(step) for step in all_built_in()]


def public(name: str) -> Any:
    """Return what `gristmill.filters` has under a name: the class of a step, or, where parameters
    choose among classes, a function with those of the default. None: there is none.
    """
    words = {word.replace("_", ""): word for word in STEPS.built_in_names()}
    word = words.get(name.lower())
    step = None if word is None else STEPS.find(word)
    if step is None or public_name(step) != name:
        return None
    return _function(step) if has_variants(step) else step


def public_name(step: type[Step]) -> str:
    """Return the name of a step in Python: `fineweb` is FineWeb, as its class is; `gopher` is
    Gopher.
    """
    plain = step.name.replace("_", "")
    same = step.__name__.lower() == plain
    return step.__name__ if same else step.name.title().replace("_", "")


def variants(step: type[Step]) -> list[type[Step]]:
    """Return the classes that `use` may mean, the default first."""
    module = importlib.import_module(step.__module__)
    classes = [value for value in vars(module).values() if is_variant(value, step)]
    return sorted(classes, key=lambda value: value is not step) if has_variants(step) else [step]


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
