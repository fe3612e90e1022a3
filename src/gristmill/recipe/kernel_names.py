"""Which kernels a recipe needs besides those of a plain one, so that they are compiled before its
first phase begins.
"""

import re
from pathlib import Path

from gristmill.kernels.jit import keys
from gristmill.recipe.recipe import Recipe, is_custom, make_step

TYPES_ALONE = re.compile(r"^if TYPE_CHECKING:\n(?: .*\n|\n)+", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*from gristmill\.([\w.]+) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
# Tokenizers whose pattern is a plain recipe's, and files, which say their pattern when they are
# read.
PLAIN_TOKENIZER = re.compile(r"gpt2|[rp]50k_base|.*[./].*")


def kernel_names(recipe: Recipe) -> set[str]:
    """Return the rooms and modules of kernels/ that a recipe's steps and phases import: a step's by
    its module and what that imports of its own room.
    """
    names: set[str] = set()
    for place, table in enumerate(recipe.step):
        if not is_custom(table):
            step = make_step(place, table)
            names |= _imported(type(step).__module__.removeprefix("gristmill."))
    if recipe.deduplicate and recipe.deduplicate.substrings:
        names.add("substrings")
    if recipe.deduplicate and recipe.deduplicate.lines:
        names |= {"text.lines", "filters.sentences"}
    if recipe.tokens and not PLAIN_TOKENIZER.fullmatch(recipe.tokens.tokenizer):
        names |= {f"pieces.blocks_{pattern}" for pattern in ("cl100k", "deepseek", "o200k")}
    return names


def _imported(module: str) -> set[str]:
    """Return the modules of kernels/ that a module and those of its room that it imports name."""
    room, known, left, names = module.rpartition(".")[0], {module}, [module], set()
    while left:
        for base, listed in IMPORT.findall(TYPES_ALONE.sub("", _source(left.pop()))):
            named = {base, *(f"{base}.{name}" for name in re.findall(r"\w+", listed))}
            beside = {name for name in named - known if name.rpartition(".")[0] == room}
            beside = {name for name in beside if _file(name) is not None}
            known |= beside
            left += beside
            names |= {name.removeprefix("kernels.") for name in named}
    rooms = {name.rpartition(".")[0] for name in keys.sources()}
    return names & keys.sources().keys() - rooms


def _file(module: str) -> Path | None:
    """Return the file of a module of gristmill, or None."""
    file = keys.ROOM.parent / f"{module.replace('.', '/')}.py"
    return file if file.is_file() else None


def _source(module: str) -> str:
    file = _file(module)
    return file.read_text("utf-8") if file else ""
