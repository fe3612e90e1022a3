"""Machine code that comes with the package: a pack, made where the wheel is made (hatch_build.py).

    gristmill/machine_code/pack.json                      versions, and the SHA-256 of each file
    gristmill/machine_code/LEVEL/text.words-KEY/_find.code    a kernel, as in a user's folder

A level is a kind of processor: what every machine of the last ten years has, and what the larger
ones have. A machine uses the highest level whose features it has. The files are pickles. They are
trusted as the rest of the installed package is, whose Python files run with the same rights; the
digests find files that were damaged or cut off, before anything of them is unpickled. What is not
in the pack, or damaged there, is compiled.
"""

import hashlib
import json
import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from gristmill.kernels.jit import keys

PACK = keys.ROOM.parent / "machine_code"
NOTES = "pack.json"
# Set for the processes that fill a pack, and by who asks for a level: its name.
LEVEL = "GRISTMILL_KERNELS_LEVEL"
# Features of each level, as LLVM names them, the highest level first: of x86-64 those of its psABI.
_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3, "aarch64": ("neon",)}
# What changes how numba compiles or what it calls; who sets it gets what he asks for.
_ASKED = ("NUMBA_BOUNDSCHECK", "NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME", "NUMBA_DISABLE_JIT")


def machine_levels() -> list[str]:
    """Return the levels whose features this machine has, the highest first."""
    import llvmlite.binding

    features = llvmlite.binding.get_host_cpu_features()
    return [level for level, names in LEVELS.items() if all(map(features.get, names))]


def compiler_settings(level: str) -> dict[str, str]:
    """Return the environment in which numba compiles for a level."""
    name = "generic" if level == "aarch64" else level
    return {LEVEL: level, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}


def place(module: str) -> Path | None:
    """Return the folder of a module's machine code in the pack; None where there is none for this
    machine and these versions, or its files are not those that were packed.
    """
    if not (level := _level()):
        return None
    folder = PACK / level / keys.folder_name(module, level)
    return folder if folder.is_dir() and _is_whole(folder) else None


@cache
def _notes() -> dict[str, Any]:
    """Return what the pack says of itself; empty where there is no pack."""
    try:
        notes = json.loads((PACK / NOTES).read_bytes())
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


@cache
def _level() -> str:
    """Return the level of the pack that this machine uses; empty: none."""
    if not _notes() or any(name in os.environ for name in _ASKED):
        return ""
    asked = os.environ.get(LEVEL)
    levels = [level for level in machine_levels() if asked in (None, level)]
    return next((level for level in levels if (PACK / level).is_dir()), "")


@cache
def _is_whole(folder: Path) -> bool:
    """Return whether a module's folder holds the files that were packed, byte by byte."""
    prefix = f"{folder.parent.name}/{folder.name}/"
    packed = {
        name.removeprefix(prefix): digest
        for name, digest in _notes().get("sha256", {}).items()
        if name.startswith(prefix)
    }
    if packed and packed == digests(folder):
        return True
    print(
        f"gristmill: {folder}: machine code that is not what was packed is not used: install the "
        "package again",
        file=sys.stderr,
    )
    return False


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder by its path in it."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def difference() -> str:
    """Return why the pack, where there is one, does not serve here, as a person reads it; empty
    where there is none, or versions are not why.
    """
    packed, here = _notes().get("versions", {}), versions()
    if not packed or any(name in os.environ for name in _ASKED):
        return ""
    differing = [name for name in here if packed.get(name) != here[name]]
    if not differing:
        return ""
    its, ours = (
        ", ".join(f"{name} {versions.get(name)}" for name in differing)
        for versions in (packed, here)
    )
    return f"the machine code in the package is for {its}; here is {ours}"


def versions() -> dict[str, str]:
    """Return what a pack serves: the libraries that compile, and Python's binary interface."""
    return {**keys.versions(), "python": EXTENSION_SUFFIXES[0].strip(".")}


def write_notes(folder: Path) -> None:
    """Write what a folder of levels says of itself, with the digests of all files in it."""
    (folder / NOTES).unlink(missing_ok=True)
    notes = {"versions": versions(), "sha256": digests(folder)}
    (folder / NOTES).write_text(json.dumps(notes, indent=0), "utf-8")
