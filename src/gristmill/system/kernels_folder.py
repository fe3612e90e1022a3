"""Where compiled kernels are kept: what asks for it need not load what compiles them."""

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from gristmill.errors import MachineError
from gristmill.system.ownership import foreign

NAMED = "GRISTMILL_KERNELS"  # the environment variable that names the folder
BUILT = re.compile(r"[\w.]+-[0-9a-f]{32}")  # of a module
LOCK, BEING_BUILT = "building.lock", re.compile(r"building-[a-z0-9_]{8}")
READY = re.compile(r"ready-[0-9a-f]{32}")  # an empty file: what it stands for is compiled


def kernels_folder() -> Path:
    """Return the folder that holds the modules' folders (kernels/jit/places.py)."""
    if named := os.environ.get(NAMED):
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "gristmill" / "kernels"


def is_ready(names: Iterable[str]) -> bool:
    """Return whether `note_ready` was called here for these rooms and modules of kernels/.

    It costs 10 ms where the keys of the modules and what they are made of cost 200; if another
    processor uses the folder, kernels are compiled later, in the process that asks for them.
    """
    return os.path.exists(_ready_file(names))  # false for a folder that may not be read


def note_ready(names: Iterable[str]) -> None:
    """Note that the machine code of what a plain recipe and these names need is there."""
    file = _ready_file(names)
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch()


def _ready_file(names: Iterable[str]) -> Path:
    room = Path(__file__).parent / "kernels"
    stats = [(path, path.stat()) for path in sorted(room.rglob("*.*")) if path.suffix != ".pyc"]
    facts = [
        *(sys.version, platform.node(), *map(version, ("llvmlite", "numba", "numpy"))),
        *(f"{path} {status.st_size} {status.st_mtime_ns}" for path, status in stats),
        *sorted(names),
    ]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    return kernels_folder() / f"ready-{digest[:32]}"


def refuse_foreign_kernels() -> None:
    """Raise MachineError where the folder that a user named for compiled kernels holds anything
    else.
    """
    try:
        names = set(os.listdir(os.environ.get(NAMED) or os.devnull))
    except OSError:
        return  # not named, or not there
    ours = {
        name for name in names if BUILT.fullmatch(name) or READY.fullmatch(name) or name == LOCK
    }
    if LOCK in names:
        ours |= {name for name in names if BEING_BUILT.fullmatch(name)}
    if names - ours:
        raise MachineError(foreign(os.environ[NAMED], "kernels", names - ours))
