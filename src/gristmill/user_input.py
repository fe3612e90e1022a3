"""Input from users: a recipe's file, the keys of `--set`, and folders. Its errors say what to
write.
"""

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from gristmill.errors import RecipeError

LARGEST_RECIPE = 16 << 20  # bytes
INIT = "`gristmill init recipe.toml` writes one to start from"
# Path removes a slash: s3:/bucket. One letter before the colon is a folder's name.
# of object stores, which obstore reads
STORE_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

P = ParamSpec("P")
R = TypeVar("R")


def one_or_more(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: these parameters of a function, which are lists, may be given as one
    string or path, which would else be taken for a list of its letters. Values of a mapping are
    lists too.
    """

    def decorator(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        assert set(names) <= signature.parameters.keys()

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return function(*args, **kwargs)  # which says what is missing
            for name in bound.arguments.keys() & set(names):
                bound.arguments[name] = _listed(bound.arguments[name])
            return function(*bound.args, **bound.kwargs)

        wrapper.__dict__["one_or_more"] = frozenset(names)
        return wrapper

    return decorator


def _listed(value: Any) -> Any:
    if isinstance(value, str | os.PathLike):
        return [value]
    if isinstance(value, Mapping):
        return {key: _listed(entry) for key, entry in value.items()}
    return value


def recipe_text(path: Path) -> str:
    """Return the text of a recipe's file. Raises RecipeError if it cannot be read or is not
    text.
    """
    if str(path) == "-":
        raise RecipeError(
            "-: a recipe cannot be read from standard input, because its paths are relative to "
            "its folder: name a file"
        )
    if is_scheme(path):
        raise RecipeError(
            f"{path}: a recipe must be a local file, not a URL: download it, read it, then run it"
        )
    try:
        if path.is_dir():
            raise RecipeError(f"{path}: a folder, not a recipe: name the recipe's file")
        with open(path, "rb") as file:
            data = file.read(LARGEST_RECIPE + 1)
    except FileNotFoundError as error:
        raise RecipeError(f"{path}: there is no such file; {INIT}") from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise RecipeError(
            f"{str(path)!r}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    return _decoded(path, data)


def _decoded(path: Path, data: bytes) -> str:
    if len(data) > LARGEST_RECIPE:
        raise RecipeError(f"{path}: larger than {LARGEST_RECIPE >> 20} MiB: not a recipe")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RecipeError(f"{path}: UTF-16 text; save it as UTF-8")
    if not data.strip():
        raise RecipeError(f"{path}: empty; {INIT}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: not UTF-8 text (byte {error.start}), so not a recipe"
        ) from error
    if "\0" in text:
        raise RecipeError(f"{path}: it contains zero bytes, so it is not a recipe")
    return text.replace("\r\n", "\n")


def is_scheme(name: Path | str) -> bool:
    """Return whether a name looks like a URL, whatever its scheme."""
    return SCHEME.match(os.fspath(name)) is not None


def store_url(name: Path | str | None) -> str | None:
    """Return the URL of a corpus in an object store; None: it is another name."""
    match = re.match(r"([a-z0-9]+):/+(.*)", os.fspath(name or ""), re.DOTALL)
    if match is None or match[1] not in STORE_SCHEMES:
        return None
    return f"{match[1]}://{match[2]}"


def refuse_store(name: Path | str) -> None:
    """Raise RecipeError for a corpus in an object store, where a folder is read."""
    if (url := store_url(name)) is not None:
        raise RecipeError(
            f"{url}: in an object store, and this reads a folder. Bring it into one first: "
            f"`gristmill pull {url} FOLDER`"
        )


def local(name: Path | str, what: str) -> Path:
    """Return a path to write to. Raises RecipeError for a URL; `what` names the option in the
    message.
    """
    if is_scheme(name):
        scheme, _, rest = os.fspath(name).partition("?")[0].partition(":")
        shown = f"{scheme}://{rest.lstrip('/').rpartition('@')[2]}"  # without a user and password
        raise RecipeError(
            f"{what} {shown}: gristmill writes to local folders, not to URLs: name a folder, and "
            "bring it to a store afterwards: `gristmill publish CORPUS s3://BUCKET/PREFIX` for a "
            "corpus, a copy for other files (if a local folder has this name, write ./ before it)"
        )
    return Path(name)


def output(
    out: Path | str | None, recipes: str | None, folder: Path, none: str = "no output"
) -> Path:
    """Return the folder of a corpus: `out`, relative to the current folder, or else the recipe's
    `output`, relative to the recipe's folder.

    Raises RecipeError if there is neither, or it is a URL; `none` begins the first message.
    """
    if out:
        return local(out, "--out")
    if recipes is None:
        raise RecipeError(f"{none}: name a folder in the recipe (output = ...) or with --out")
    return folder / local(recipes, "output =")


def set_key(tables: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of a recipe by its path: `tokens.validation`, `step.gopher.min_words`,
    `step[0].min_words`, `source.web.limit`. Raises RecipeError if the path is not there.
    """
    *folders, last = re.sub(r"\[(\d+)\]", r".\1", key).split(".")
    place: Any = tables
    inside = ""
    while folders:
        folder = folders.pop(0)
        if isinstance(place, list):
            again = (
                folders.pop(0)
                if folders and folders[0].isdecimal() and not folder.isdecimal()
                else None
            )
            place = place[_numbered(key, inside, place, folder, again)]
        elif isinstance(place, dict):
            place = place.setdefault(folder, {})
        inside = folder
        if not isinstance(place, dict | list):
            raise RecipeError(f"--set {key}: there is no such table in the recipe")
    if not isinstance(place, dict):
        raise RecipeError(f"--set {key}: name one of several tables: {_named(inside, place)}")
    place[last] = value


def _numbered(key: str, inside: str, tables: list[Any], word: str, again: str | None) -> int:
    """Return the place of a table among several: by its number, by its name, or by its name and a
    number among those of that name.
    """
    if word.isdecimal():
        if int(word) < len(tables):
            return int(word)
        raise RecipeError(
            f"--set {key}: there are {len(tables)} tables at {word!r}, numbered from 0: "
            f"{_named(inside, tables)}"
        )
    numbers = [number for number, table in enumerate(tables) if _name(table) == word]
    if again is not None:
        numbers = numbers[int(again) : int(again) + 1]
    if len(numbers) == 1:
        return numbers[0]
    if not numbers:
        raise RecipeError(
            f"--set {key}: there is no {inside} "
            f"{word!r}{f' number {again}' if again else ''}; there are "
            f"{_named(inside, tables)}"
        )
    ways = " or ".join(
        f"{inside}.{word}[{place}] ({inside}.{number})" for place, number in enumerate(numbers)
    )
    raise RecipeError(f"--set {key}: there are {len(numbers)} {inside} {word!r}: write {ways}")


def _named(inside: str, tables: list[Any]) -> str:
    return (
        ", ".join(f"{inside}.{number} ({_name(table)})" for number, table in enumerate(tables))
        or "none"
    )


def _name(table: Any) -> str | None:
    """Return the name of a source, or of a step's filter; of a custom filter, its function's
    name.
    """
    if not isinstance(table, dict):
        return None
    name = table.get("use", table.get("name"))
    return name.rpartition(":")[2] if isinstance(name, str) else None
