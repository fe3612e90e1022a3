"""Code of a user's own, `package.module:NAME`: found as `import` does, run as it was hashed."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.errors import RecipeError

USE = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]{0,63}\Z"


class OwnFile(NamedTuple):
    """The file that holds code of a user's own."""

    path: str
    sha256: str


def find_source(module: str, folder: Path) -> Path:
    """Return the file of a module, found as `import` would with `folder` before all of sys.path.

    Nothing is imported, parents neither.
    """
    importlib.invalidate_caches()
    places: list[str] = [str(folder), *sys.path]
    words = module.split(".")
    for number in range(1, len(words) + 1):
        name = ".".join(words[:number])
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            raise RecipeError(
                f"{module}: there is no module {name} in {folder}, nor where Python looks "
                "for modules"
            )
        if number < len(words):
            if spec.submodule_search_locations is None:
                raise RecipeError(f"{module}: {name} is no package: {spec.origin}")
            places = list(spec.submodule_search_locations)
    if (
        spec is None
        or spec.origin is None
        or not spec.origin.endswith(".py")
        or not Path(spec.origin).is_file()
    ):
        raise RecipeError(f"{module}: it has no Python source that could be hashed")
    return Path(spec.origin).absolute()


def load(use: str, file: OwnFile) -> Any:
    """Import what `module:NAME` names, a function or a value, from exactly this file, of these
    bytes.

    While the module is imported, the folder that holds it (of `a.b:f` the one that holds `a`)
    stands first on sys.path, so that helpers beside it are found.
    """
    name, _, wanted = use.partition(":")
    path = Path(file.path)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise RecipeError(f"{use}: {path}: {error.strerror}") from error
    if sha256(source).hexdigest() != file.sha256:
        raise RecipeError(f"{use}: {path} has changed since it was planned: run again")
    taken = getattr(sys.modules.get(name), "__file__", None)
    if name in sys.modules and (taken is None or Path(taken).resolve() != path.resolve()):
        raise RecipeError(
            f"{use}: Python has loaded another module {name} ({taken}): give the file another name"
        )
    is_package = path.name == "__init__.py"
    spec = spec_from_file_location(
        name, path, submodule_search_locations=[str(path.parent)] if is_package else None
    )
    if spec is None:
        raise RecipeError(f"{use}: {path} is no Python source")
    module = module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    with _first_on_path(path.parents[name.count(".") + is_package]):
        try:
            # Compiled from the bytes that were hashed: a stored .pyc may be of others.
            code = compile(source, str(path), "exec", dont_inherit=True)
            exec(code, module.__dict__)  # noqa: S102 - what --allow-code allows
        except (Exception, SystemExit) as error:
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
            raise RecipeError(
                f"{use}: importing {path} failed: {type(error).__name__}: {error}"
            ) from error
    if not hasattr(module, wanted):
        raise RecipeError(f"{use}: {path} has no {wanted}")
    return getattr(module, wanted)


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
