"""Recipes that come with gristmill: one to start from, and presets, for files without a recipe."""

import os
from pathlib import Path

import msgspec

from gristmill.errors import RecipeError
from gristmill.recipe.packaged import packaged
from gristmill.recipe.recipe import Loaded, load, parse, stored_url
from gristmill.store.parts import machine_errors, write_bytes
from gristmill.user_input import is_scheme, local


def from_folder(tokenizer: str, folder: Path) -> str:
    """Return a tokenizer's file, named from where one stands, as the recipe names it: from its
    folder.
    """
    return (
        Path(os.path.relpath(tokenizer, folder)).as_posix()
        if os.path.isfile(tokenizer)
        else tokenizer
    )


def read_recipe(
    recipe: Path | str | Loaded | list[str],
    tokenizer: str | None,
    settings: dict[str, str] | None,
    preset: str,
) -> Loaded:
    """Return the recipe in a file, or a preset's for a list of files; one that is read already
    stays.
    """
    if isinstance(recipe, Loaded):
        return recipe
    if isinstance(recipe, list):
        return for_files(recipe, tokenizer, settings, preset)[0]
    if tokenizer is not None:
        name = from_folder(tokenizer, Path(recipe).parent)
        settings = {**(settings or {}), "tokens.tokenizer": msgspec.json.encode(name).decode()}
    return load(Path(recipe), settings)


def for_files(
    files: list[str],
    tokenizer: str | None,
    settings: dict[str, str] | None,
    preset: str = "clean-small",
) -> tuple[Loaded, str]:
    """Return a preset over files and URLs: (the recipe, its text). Paths are relative to the files'
    common folder.
    """
    remote = [file for file in files if is_scheme(file)]
    full = [os.path.abspath(file) for file in files if file not in remote]
    for file in full:
        if not os.path.exists(file):
            raise RecipeError(f"{file}: no such file")
    folder = os.path.commonpath([os.path.dirname(file) for file in full]) if full else os.getcwd()
    names = [os.path.relpath(file, folder) for file in full]
    shown = text = (
        packaged(preset).read_text("utf-8").replace("files = []", f"files = {_strings(names)}")
    )
    if remote:
        # What is shown, and stored, is without secrets.
        before = f"files = {_strings(names)}"
        text = text.replace(before, f"{before}\nurls = {_strings(remote)}")
        shown = shown.replace(
            before, f"{before}\nurls = {_strings([stored_url(url) for url in remote])}"
        )
    if tokenizer is not None:
        tokens = (
            "\n[tokens]\ntokenizer = "
            f"{msgspec.json.encode(from_folder(tokenizer, Path(folder))).decode()}\n"
        )
        text, shown = text + tokens, shown + tokens
    name = f"recipes/{preset}.toml"
    return Loaded(parse(text, name, settings, Path(folder)), Path(folder), name, text), shown


def _strings(words: list[str]) -> str:
    """Return a list of strings in TOML."""
    return "[" + ", ".join(msgspec.json.encode(word).decode() for word in words) + "]"


def init(path: Path | str = "recipe.toml", *, preset: str = "start") -> Path:
    """Write a recipe to start from, or a preset; refuses to overwrite."""
    target = local(path, "init")
    if os.path.lexists(target):
        raise RecipeError(f"{target} is there already; choose another name")
    with machine_errors(target):
        write_bytes(target.parent, target.name, packaged(preset).read_bytes())
    return target
