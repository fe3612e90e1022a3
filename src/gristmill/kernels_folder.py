"""Where compiled kernels are kept: what asks for it need not load what compiles them."""

import os
import re
from pathlib import Path

from gristmill.errors import MachineError
from gristmill.ownership import foreign

NAMED = "GRISTMILL_KERNELS"  # the environment variable that names the folder
BUILT = re.compile(r"[\w.]+-[0-9a-f]{32}")  # of a module
LOCK, BEING_BUILT = "building.lock", re.compile(r"building-[a-z0-9_]{8}")


def kernels_folder() -> Path:
    """The folder that holds the modules' folders (kernels/jit/compile.py)."""
    if named := os.environ.get(NAMED):
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "gristmill" / "kernels"


def is_first_run() -> bool:
    """Whether no kernel was ever compiled here."""
    try:
        with os.scandir(kernels_folder()) as found:
            return not any(entry.is_dir() for entry in found)
    except OSError:
        return True


def refuse_foreign_kernels() -> None:
    """Raise MachineError where the folder that a user named for compiled kernels holds anything
    else.
    """
    try:
        names = set(os.listdir(os.environ.get(NAMED) or os.devnull))
    except OSError:
        return  # not named, or not there
    ours = {name for name in names if BUILT.fullmatch(name) or name == LOCK}
    if LOCK in names:
        ours |= {name for name in names if BEING_BUILT.fullmatch(name)}
    if names - ours:
        raise MachineError(foreign(os.environ[NAMED], "kernels", names - ours))
