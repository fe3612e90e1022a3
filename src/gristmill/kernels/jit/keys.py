"""The key of a kernel module: a hash of all that its machine code depends on.

That is its source and the sources of the modules of this room that it imports, and that these
import; the data files in their folders; the versions of Python, numba, llvmlite and numpy; and the
processor. Where gristmill is installed is no part of it: environments of one user share the code.
"""

import hashlib
import os
import re
import sys
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding
import numba
import numpy as np

ROOM = Path(__file__).parent.parent
IMPORT = re.compile(
    r"^[ \t]*(?:from (gristmill\.kernels[\w.]*) import (\([^)]*\)|[^\n#]*)"
    r"|import (gristmill\.kernels[\w.]*))",
    re.MULTILINE,
)


@cache
def sources() -> dict[str, str]:
    """The text of every module, named from this room: `text.words`; `text` is the room's own."""
    found = {}
    for path in ROOM.rglob("*.py"):
        parts = path.relative_to(ROOM).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text("utf-8")
    return found


def imports_of(module: str) -> set[str]:
    """The modules of this room that a module names in its imports, and their rooms."""
    named = set()
    for whole, names, plain in IMPORT.findall(sources()[module]):
        base = (whole or plain).removeprefix("gristmill.kernels").removeprefix(".")
        named.add(base)
        named |= {f"{base}.{name}".removeprefix(".") for name in re.findall(r"\w+", names)}
    rooms = {name.rpartition(".")[0] for name in (*named, module)}
    return (named | rooms) & sources().keys() - {module}


def closure_of(module: str) -> set[str]:
    """A module, and all modules of this room that importing it imports."""
    found, left = {module}, [module]
    while left:
        new = imports_of(left.pop()) - found
        found |= new
        left += new
    return found


@cache
def _digest_of(module: str) -> bytes:
    """Of a module's source, and of the data files beside it."""
    digest = hashlib.sha256(sources()[module].encode())
    for path in _data_files().get(module.rpartition(".")[0], ()):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


@cache
def _data_files() -> dict[str, list[Path]]:
    """The data files of each room."""
    found: dict[str, list[Path]] = {}
    for path in sorted(ROOM.glob("*/*.*")):
        if path.suffix not in (".py", ".pyc"):
            found.setdefault(path.parent.name, []).append(path)
    return found


@cache
def _machine() -> str:
    """What all modules depend on."""
    facts = (
        *(sys.version, numba.__version__, llvmlite.__version__, np.__version__),
        llvmlite.binding.get_host_cpu_name(),
        llvmlite.binding.get_host_cpu_features().flatten(),
        os.environ.get("NUMBA_CPU_NAME", ""),
        os.environ.get("NUMBA_CPU_FEATURES", "-"),  # empty: none, where none is named: the host's
    )
    return "\0".join(facts)


@cache
def key(module: str) -> str:
    """The key of a module."""
    digest = hashlib.sha256(_machine().encode())
    for name in sorted(closure_of(module)):
        digest.update(b"\0" + name.encode() + b"\0" + _digest_of(name))
    return digest.hexdigest()[:32]


def folder_name(module: str) -> str:
    """The name of the folder of a module's machine code."""
    return f"{module}-{key(module)}"
