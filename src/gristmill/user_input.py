"""What people write: a recipe's file, the keys that `--set` names, and folders.

Wrong words get plain answers.
"""

import os
import re
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError

LARGEST_RECIPE = 16 << 20  # bytes
INIT = "`gristmill init recipe.toml` writes one to start from"
# A path that was read as Path has lost a slash: s3:/bucket. One letter is a folder's name.
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def recipe_text(path: Path) -> str:
    """The text of a recipe's file. Raises RecipeError, which says what is there instead."""
    if str(path) == "-":
        raise RecipeError(
            "-: a recipe is not read from standard input, its paths are relative to its "
            "folder: name a file"
        )
    if is_scheme(path):
        raise RecipeError(
            f"{path}: a recipe is read from a file here, not from a URL: fetch it, read it, "
            "then run it"
        )
    try:
        if path.is_dir():
            raise RecipeError(f"{path}: a folder, and no recipe: name the recipe's file")
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
        raise RecipeError(f"{path}: larger than {LARGEST_RECIPE >> 20} MiB, and no recipe")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RecipeError(f"{path}: UTF-16; a recipe is UTF-8: save it so")
    if not data.strip():
        raise RecipeError(f"{path}: empty; {INIT}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: no text in UTF-8 (byte {error.start}), and so no recipe"
        ) from error
    if "\0" in text:
        raise RecipeError(f"{path}: it holds zero bytes, and is no recipe")
    return text.replace("\r\n", "\n")


def is_scheme(name: Path | str) -> bool:
    """Whether a name looks like a URL, whatever its scheme."""
    return SCHEME.match(os.fspath(name)) is not None


def local(name: Path | str, what: str) -> Path:
    """A path to write to. Raises RecipeError for a URL; `what` is what it was given as."""
    if is_scheme(name):
        scheme, _, rest = os.fspath(name).partition("?")[0].partition(":")
        shown = f"{scheme}://{rest.lstrip('/').rpartition('@')[2]}"  # without a user and password
        raise RecipeError(
            f"{what} {shown}: gristmill writes to folders of this machine, not to URLs: name "
            "a folder, and copy it when it is done "
            "(a folder that is really called so: write ./ before it)"
        )
    return Path(name)


def output(
    out: Path | str | None, recipes: str | None, folder: Path, none: str = "no output"
) -> Path:
    """A corpus' folder: `out`, from where one stands, else the recipe's `output`, from the recipe's
    folder. Raises RecipeError.
    """
    if out:
        return local(out, "--out")
    if recipes is None:
        raise RecipeError(f"{none}: name a folder in the recipe (output = ...) or with --out")
    return folder / local(recipes, "output =")


def set_key(tables: dict[str, Any], key: str, value: Any) -> None:
    """Set one key of a recipe by its path: `tokens.validation`, `step.gopher.min_words`,
    `step[0].min_words`, `source.web.limit`.
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
            raise RecipeError(f"--set {key}: no table there")
    if not isinstance(place, dict):
        raise RecipeError(f"--set {key}: which of them? There are {_named(inside, place)}")
    place[last] = value


def _numbered(key: str, inside: str, tables: list[Any], word: str, again: str | None) -> int:
    """Which of several tables is meant: by its number, by its name, or by its name and a number
    among those of that name.
    """
    if word.isdecimal():
        if int(word) < len(tables):
            return int(word)
        raise RecipeError(
            f"--set {key}: there are {len(tables)} tables at {word!r}, numbered from 0: "
            f"{_named(inside, tables)}"
        )
    found = [number for number, table in enumerate(tables) if _name(table) == word]
    if again is not None:
        found = found[int(again) : int(again) + 1]
    if len(found) == 1:
        return found[0]
    if not found:
        raise RecipeError(
            f"--set {key}: there is no {inside} "
            f"{word!r}{f' number {again}' if again else ''}; there are "
            f"{_named(inside, tables)}"
        )
    ways = " or ".join(
        f"{inside}.{word}[{place}] ({inside}.{number})" for place, number in enumerate(found)
    )
    raise RecipeError(f"--set {key}: {inside} {word!r} stands {len(found)} times: write {ways}")


def _named(inside: str, tables: list[Any]) -> str:
    return (
        ", ".join(f"{inside}.{number} ({_name(table)})" for number, table in enumerate(tables))
        or "none"
    )


def _name(table: Any) -> str | None:
    """A source's name, or what a step uses: of one's own the function."""
    if not isinstance(table, dict):
        return None
    name = table.get("use", table.get("name"))
    return name.rpartition(":")[2] if isinstance(name, str) else None
