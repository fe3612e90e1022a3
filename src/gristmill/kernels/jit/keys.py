"""The key of a kernel module: a hash of all that its machine code depends on.

That is its source and the sources of the modules of this room that it imports, and that these
import; the data files in their folders; the versions of Python, numba, llvmlite and numpy; and the
processor, or in a pack its level (jit/levels.py). Where gristmill is installed is no part of it:
environments of one user share the code.
"""

import hashlib
import os
import re
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path

ROOM = Path(__file__).parent.parent
# What compile.py imports to find, keep and pack machine code: no code depends on it.
KEEPERS = frozenset(("jit.build", "jit.keys", "jit.pack", "jit.places"))
IMPORT = re.compile(
    r"^[ \t]*(?:from (gristmill\.kernels[\w.]*) import (\([^)]*\)|[^\n#]*)"
    r"|import (gristmill\.kernels[\w.]*))",
    re.MULTILINE,
)


@cache
def sources() -> dict[str, str]:
    """Return the text of every module, named from this room: `text.words`; `text` is the room's
    own.
    """
    found = {}
    for path in ROOM.rglob("*.py"):
        parts = path.relative_to(ROOM).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text("utf-8")
    return found


@cache
def module_imports(module: str) -> frozenset[str]:
    """Return the modules of this room that a module names in its imports, and their rooms."""
    named = set()
    for whole, names, plain in IMPORT.findall(sources()[module]):
        base = (whole or plain).removeprefix("gristmill.kernels").removeprefix(".")
        named.add(base)
        named |= {f"{base}.{name}".removeprefix(".") for name in re.findall(r"\w+", names)}
    rooms = {name.rpartition(".")[0] for name in (*named, module)}
    return frozenset((named | rooms) & sources().keys() - {module})


def modules() -> list[str]:
    """Return the modules that have kernels, named from this room: `text.words`."""
    return sorted(name for name in sources() if kernel_count(name))


def kernel_count(module: str) -> int:
    """Return how many kernels a module has."""
    return sources()[module].count("\n@kernel(")


def import_closure(module: str) -> set[str]:
    """Return a module, and all modules of this room that importing it imports, but for KEEPERS."""
    found, left = {module}, [module]
    while left:
        new = module_imports(left.pop()) - found - KEEPERS
        found |= new
        left += new
    return found


@cache
def _source_digest(module: str) -> bytes:
    """Of a module's source, and of the data files beside it."""
    digest = hashlib.sha256(sources()[module].encode())
    for path in _data_files().get(module.rpartition(".")[0], ()):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


@cache
def _data_files() -> dict[str, list[Path]]:
    """Return the data files of each room."""
    found: dict[str, list[Path]] = {}
    for path in sorted(ROOM.glob("*/*.*")):
        if path.suffix not in (".py", ".pyc"):
            found.setdefault(path.parent.name, []).append(path)
    return found


@cache
def versions() -> dict[str, str]:
    """Return the versions of the libraries that compile, by name."""
    return {name: version(name) for name in ("llvmlite", "numba", "numpy")}


@cache
def _machine() -> str:
    """Return what all modules depend on where they are compiled for this processor."""
    import llvmlite.binding  # 0.1 s: packs need no name of the processor

    facts = (
        *(sys.version, versions()["numba"], versions()["llvmlite"], versions()["numpy"]),
        llvmlite.binding.get_host_cpu_name(),
        llvmlite.binding.get_host_cpu_features().flatten(),
        os.environ.get("NUMBA_CPU_NAME", ""),
        os.environ.get("NUMBA_CPU_FEATURES", "-"),  # empty: none, where none is named: the host's
    )
    return "\0".join(facts)


def _level(level: str) -> str:
    """Return what all modules depend on in a pack: Python's binary interface in place of its
    version (the suffix of extension modules: `.cpython-311-x86_64-linux-gnu.so`), and the level.
    """
    return "\0".join((EXTENSION_SUFFIXES[0], *map("=".join, versions().items()), level))


@cache
def key(module: str, level: str = "") -> str:
    """Return the key of a module; `level`: in a pack for this level of processors."""
    digest = hashlib.sha256((_level(level) if level else _machine()).encode())
    for name in sorted(import_closure(module)):
        digest.update(b"\0" + name.encode() + b"\0" + _source_digest(name))
    return digest.hexdigest()[:32]


def folder_name(module: str, level: str = "") -> str:
    """Return the name of the folder of a module's machine code."""
    return f"{module}-{key(module, level)}"
