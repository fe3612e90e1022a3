"""What a report of an error should name: the versions of gristmill, of Python and of the libraries,
the machine, and where things are kept.
"""

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from gristmill import __version__
from gristmill.store.cache import default_cache
from gristmill.system.kernels_folder import kernels_folder


def installation() -> dict[str, Any]:
    """Return `gristmill`, `python`, `platform`, `processors`, `kernels`, `cache`; `libraries` and
    `extras`: versions by name, null where one is not installed. No name of a user or a host is in
    it, but for what the paths of the folders say.
    """
    needed, optional = _named()
    return {
        "gristmill": __version__,
        "installed_in": str(Path(__file__).parent.parent),
        "python": sys.version.split()[0],
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "kernels": str(kernels_folder()),
        "cache": str(default_cache()),
        "libraries": {name: _version(name) for name in needed},
        "extras": {name: _version(name) for name in optional},
    }


def lines(found: dict[str, Any]) -> list[str]:
    """Return the same as lines; extras that are not installed are left out."""
    said = [f"{name:<15}{found[name]}" for name in found if name not in ("libraries", "extras")]
    for group in ("libraries", "extras"):
        there = {
            name: release
            for name, release in found[group].items()
            if release or group == "libraries"
        }
        said.append(f"{group}:")
        said += [f"  {name:<25}{release or 'not installed'}" for name, release in there.items()]
    return said


def _named() -> tuple[list[str], list[str]]:
    """Return the packages that gristmill needs, and those of its extras."""
    try:
        requirements = requires("gristmill") or []
    except PackageNotFoundError:  # it runs from its sources
        return [], []
    needed: dict[str, None] = {}
    optional: dict[str, None] = {}
    for line in requirements:
        name = re.match(r"[\w.-]+", line)
        if name is not None and name[0].lower() != "gristmill":
            (optional if "extra ==" in line else needed)[name[0]] = None
    return sorted(needed), sorted(optional.keys() - needed.keys())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
