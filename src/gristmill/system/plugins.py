"""Plug-ins: what a name in a recipe or on the command line stands for, of one kind in one room.

    a value of the kind, with its name, in a module of the room's folder, written as

        FORM_FEEDS = SourceFormat(
            name="form_feeds",

    an entry point of an installed package, in the kind's group: `form_feeds = "package:VALUE"`
    code of a user's own: `package.module:VALUE`, found from a folder (own_code.py)

No list names the values of the folder: their modules are searched for these two lines and not
imported, until one is asked for.
"""

import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from gristmill.errors import RecipeError, suggest
from gristmill.system.own_code import USE, OwnFile, find_source, load

Plugin = TypeVar("Plugin")

_VALUE = r'^(\w+)(?:: [^=\n]+)? = (?:{})\(\s*name="([^"\n]+)"'


class Plugins(Generic[Plugin]):
    """The plug-ins of a kind."""

    def __init__(self, package: str, kind: type[Plugin], what: str, group: str = "") -> None:
        """Find values of `kind` and of classes below it in the modules of `package`. `what` is what
        messages call one, `group` the group of entry points; empty: none is found outside.
        """
        self._package, self._kind, self._what, self._group = package, kind, what, group

    @cached_property
    def _built_in(self) -> dict[str, tuple[str, str]]:
        """Return module and attribute of each value of the folder, by name."""
        kinds = "|".join(kind.__name__ for kind in [self._kind, *self._kind.__subclasses__()])
        value = re.compile(_VALUE.format(kinds), re.MULTILINE)
        return {
            name: (module, attribute)
            for module, source in sources(self._package)
            for attribute, name in value.findall(source)
        }

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        found = entry_points(group=self._group) if self._group else ()
        return {entry.name: entry for entry in found if entry.name not in self._built_in}

    def __contains__(self, name: str) -> bool:
        """Return whether there is one of this name; packages are looked up for no built-in one."""
        return name in self._built_in or name in self._installed

    def names(self) -> list[str]:
        """Return the names of the folder and of installed packages; this imports none of them."""
        return [*sorted(self._built_in), *sorted(self._installed)]

    def built_in(self) -> list[Plugin]:
        """Return the values of the folder, by name; this imports their modules."""
        return [self.find(name) for name in sorted(self._built_in)]

    def package(self, name: str) -> str | None:
        """Return the installed package that a name is of; None: it is of no entry point."""
        if not name or name in self._built_in or name not in self._installed:
            return None
        dist = self._installed[name].dist
        return None if dist is None else dist.name

    def file(self, name: str, folder: Path) -> OwnFile | None:
        """Return the file that `module:VALUE` names, searched from a folder, which is not run;
        None: it is a plain name. Raises RecipeError where there is none.
        """
        if not re.match(USE, name):
            return None
        path = find_source(name.partition(":")[0], folder)
        return OwnFile(str(path), sha256(path.read_bytes()).hexdigest())

    def find(self, name: str, file: OwnFile | None = None) -> Plugin:
        """Return the plug-in of a name; `file` holds it where the name is `module:VALUE`.

        Raises RecipeError where there is none, or its module fails.
        """
        if file is not None:
            return self._checked(name, load(name, file))
        if name in self._built_in:
            module, attribute = self._built_in[name]
            return self._checked(name, getattr(import_module(module), attribute))
        if name in self._installed:
            try:
                return self._checked(name, self._installed[name].load())
            except (ImportError, AttributeError) as error:
                raise RecipeError(f"{name}: package {self.package(name)}: {error}") from error
        raise RecipeError(f"{self._what} {name!r}: there is none{suggest(name, self.names())}")

    def _checked(self, name: str, value: Any) -> Plugin:
        if not isinstance(value, self._kind):
            raise RecipeError(f"{name}: it is no {self._kind.__name__}, but {value!r:.100}")
        return value


def sources(package: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each module of a package and of those inside it; none is imported, but
    the packages.
    """
    root = import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not module.ispkg:
            spec = module.module_finder.find_spec(module.name, None)
            yield module.name, spec.loader.get_source(module.name)  # type: ignore[union-attr]
