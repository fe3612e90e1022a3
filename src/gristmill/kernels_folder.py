"""Where compiled kernels are kept: what asks for it need not load what compiles them."""

import os
from pathlib import Path


def kernels_folder() -> Path:
    """The folder that holds the modules' folders (kernels/jit/compile.py)."""
    if named := os.environ.get("GRISTMILL_KERNELS"):
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
