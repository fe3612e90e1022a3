"""Plug-ins: what a name in a recipe or on the command line stands for, of one kind in one room.

    a value of the kind, with its name, in a module of the room's folder, written as

        FORM_FEEDS = SourceFormat(
            name="form_feeds",

    an entry point of an installed package, in the kind's group: `form_feeds = "package:VALUE"`
    code of a user's own: `package.module:VALUE`, found from a folder (own_code.py)

A kind may also be of classes, each with `name: ClassVar[str] = "form_feeds"`. No list names what is
in the folder: modules are searched for these lines and not imported, until one is asked for.
"""

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

_VALUE = r'^(?P<attribute>\w+)(?:: [^=\n]+)? = (?P<kind>{})\(\s*name="(?P<name>[^"\n]+)"'
_CLASS = r'^class (?P<attribute>\w+)|^    name: ClassVar\[str\] = "(?P<name>[^"\n]+)"'


class Plugins(Generic[Plugin]):
    """The plug-ins of a kind."""

    def __init__(
        self,
        package: str,
        kinds: tuple[str, ...],
        missing: str,
        group: str = "",
        *,
        classes: bool = False,
    ) -> None:
        """Find values of the classes that are called `kinds`, in the modules of `package`; or
        `classes` below them. `missing` is what an error says of a name without one, `{}`, `group`
        the group of entry points; empty: there are none in other packages.
        """
        self._package, self._kinds, self._missing, self._group = package, kinds, missing, group
        pattern = _CLASS if classes else _VALUE.format("|".join(kinds))
        self._declared = re.compile(pattern, re.MULTILINE)
        self._places: dict[str, tuple[str, str, str] | None] = {}  # of names that were asked for

    def _search(self, files: str) -> dict[str, tuple[str, str, str]]:
        """Return module, attribute and kind of each plug-in in files that are called so, by name;
        of a name in a module the first.
        """
        plugins: dict[str, tuple[str, str, str]] = {}
        for module, source in sources(self._package, files):
            attribute = ""
            for given in self._declared.finditer(source):
                attribute = given["attribute"] or attribute
                if given["name"]:
                    kind = given.groupdict().get("kind", self._kinds[0])
                    plugins.setdefault(given["name"], (module, attribute, kind))
        return plugins

    @cached_property
    def _built_in(self) -> dict[str, tuple[str, str, str]]:
        return self._search("*")

    def _place(self, name: str) -> tuple[str, str, str] | None:
        """Return module, attribute and kind of a name; the module of that name is read first."""
        if name not in self._places:
            named = self._search(re.sub(r"\W", "_", name)) if name else {}
            self._places[name] = named.get(name) or self._built_in.get(name)
        return self._places[name]

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        entries = entry_points(group=self._group) if self._group else ()
        return {entry.name: entry for entry in entries if entry.name not in self._built_in}

    def __contains__(self, name: str) -> bool:
        """Return whether there is one of this name; packages are looked up for no built-in one."""
        return self._place(name) is not None or name in self._installed

    def names(self) -> list[str]:
        """Return the names of the folder and of installed packages; this imports none of them."""
        return [*self.built_in_names(), *sorted(self._installed)]

    def built_in_names(self, kind: str | None = None) -> list[str]:
        """Return the names of the folder, of one class or of all; this imports none of them."""
        return sorted(name for name, place in self._built_in.items() if kind in (None, place[2]))

    def built_in(self) -> list[Plugin]:
        """Return the values of the folder, by name; this imports their modules."""
        return [self.find(name) for name in self.built_in_names()]

    def package(self, name: str) -> str | None:
        """Return the installed package that a name is of; None: it is of no entry point."""
        if not name or self._place(name) is not None or name not in self._installed:
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
        if (place := self._place(name)) is not None:
            module, attribute, _ = place
            return self._checked(name, getattr(import_module(module), attribute))
        if name in self._installed:
            try:
                return self._checked(name, self._installed[name].load())
            except (ImportError, AttributeError) as error:
                raise RecipeError(f"{name}: package {self.package(name)}: {error}") from error
        raise RecipeError(self._missing.format(name) + suggest(name, self.names()))

    def _checked(self, name: str, value: Any) -> Plugin:
        kind = value if isinstance(value, type) else type(value)
        if not any(base.__name__ in self._kinds for base in kind.__mro__):
            raise RecipeError(f"{name}: it is no {' or '.join(self._kinds)}, but {value!r:.100}")
        plugin: Plugin = value
        return plugin


def sources(package: str, files: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each module, in a package and those inside it, whose file has a name;
    none is imported but the package.
    """
    for folder in import_module(package).__path__:
        for path in sorted(Path(folder).rglob(f"{files}.py")):
            words = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *words]), path.read_text("utf-8")
