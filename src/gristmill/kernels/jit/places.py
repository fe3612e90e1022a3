"""Where the machine code of each kernel module is: in this user's folder, else in the pack that
comes with the package (jit/pack.py), else nowhere yet; and which modules are compiled together.

The files are pickles. Of a user's folder they are loaded only where it belongs to this user and
nobody else may write it (0700).

Environment: GRISTMILL_KERNELS names the folder that holds the modules' folders (default:
$XDG_CACHE_HOME/gristmill/kernels).
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from gristmill.kernels.jit import keys, pack
from gristmill.system.kernels_folder import kernels_folder

ONLY = "GRISTMILL_KERNELS_ONLY"  # for tests: the only modules whose code is compiled and kept
# What a plain recipe needs: text in WET or JSON Lines, in English, no pages, GPT-2's tokens.
PLAIN = (
    "bpe",
    "filters.gopher_lines",
    "filters.gopher_quality",
    "folding",
    "hashing",
    "models.fasttext",
    "pieces.blocks_gpt2",
    "pieces.literals",
    "reading",
    "text.words",
    "unicode.normalised",
    "unicode.script_counts",
)
DEMO = ("bpe_training", "text.ngrams")  # what the demo needs besides
# Others that are needed together; each module besides is compiled by itself.
TOGETHER = (
    ("bpe_training",),
    ("decontaminate",),
    ("html", "models.page_forest", "models.page_types"),
    ("loading", "packing"),
    ("substrings",),
)


def is_named(module: str, names: Iterable[str]) -> bool:
    """Return whether a module is one of these rooms and modules, or in one of them."""
    return any(f"{module}.".startswith(f"{name}.") for name in names)


def group(module: str) -> tuple[str, ...]:
    """Return the rooms and modules that are compiled when a module is first imported."""
    if is_named(module, PLAIN):
        return PLAIN
    return next((names for names in TOGETHER if is_named(module, names)), (module,))


def needed(names: Iterable[str]) -> list[str]:
    """Return the modules with kernels in these rooms and modules, and those that they import."""
    names, modules = tuple(names), keys.modules()
    asked = {name for name in modules if is_named(name, names)}
    imported = {other for name in asked for other in keys.import_closure(name)}
    only = os.environ.get(ONLY)
    return [name for name in (only.split(",") if only else modules) if name in imported]


def user_place(module: str) -> Path:
    """Return where the folder of a module in this user's folder is, or will be."""
    return kernels_folder() / keys.folder_name(module)


def where(module: str) -> Path | None:
    """Return the folder of a module's machine code; None: there is none that may be loaded."""
    place = user_place(module)
    return place if is_private(place) else pack.place(module)


def is_missing(module: str) -> bool:
    """Return whether a module is to be compiled."""
    return not user_place(module).is_dir() and pack.place(module) is None


def is_private(folder: Path) -> bool:
    """Return whether a folder is this user's, and nobody else may write it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    )
