"""Starts another Python process: the same version, its own sys.path, and nothing of the caller's
program.

The caller may be a script without a `__main__` guard, a notebook, a pipe, a thread, or a C program
with an embedded interpreter: its main module is never imported in the new process. Nor is a file
that happens to be in the current folder: the interpreter starts with `-P`, and gets its sys.path
from here, with the folder of the caller's script and the current folder last, so that no file there
can replace a library.

Run as a script, this file is the first thing in the new process: it sets sys.path, loads gristmill
from the same files as the caller, and then calls the given function.
"""

import os
import sys

HERE = os.path.abspath(__file__)


def current_folder() -> str:
    """Return the current folder of this process; the root folder if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


FIRST_FOLDER = current_folder()  # the current folder when this module was loaded


def command(call: str, *arguments: str) -> list[str]:
    """Return the command that starts a Python process which calls `package.module:function` with
    these strings. Raises MachineError if no interpreter of this version is found.
    """
    import subprocess

    # The function that multiprocessing uses as well.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    places = path()
    package = os.path.join(os.path.dirname(os.path.dirname(HERE)), "__init__.py")
    return [python(), *flags, "-P", HERE, package, call, str(len(places)), *places, *arguments]


def _absolute(place: str) -> str:
    """Return an absolute path with one slash at its start; POSIX also allows two."""
    return os.sep + os.path.normpath(os.path.join(current_folder(), place)).lstrip(os.sep)


def path() -> list[str]:
    """sys.path of the new process: absolute; the folder of the caller's script and the current
    folder are last.
    """
    last = {FIRST_FOLDER, current_folder()}
    if script := getattr(sys.modules.get("__main__"), "__file__", None):
        last.add(os.path.dirname(_absolute(script)))
    places = list(dict.fromkeys(_absolute(place) for place in sys.path if isinstance(place, str)))
    # Python's own modules keep their place, even if their folder is the current one.
    last.discard(os.path.dirname(os.path.abspath(getattr(os, "__file__", HERE))))
    return [place for place in places if place not in last] + [
        place for place in places if place in last
    ]


def python() -> str:
    """Return the path of an interpreter of this version.

    sys.executable is not always one: it may be empty, another Python, or a program with an embedded
    Python.
    """
    spawn = sys.modules.get("multiprocessing.spawn")
    chosen = os.fsdecode(spawn.get_executable() or "") if spawn else ""
    if chosen and chosen != sys.executable:
        return chosen  # set by the caller with multiprocessing.set_executable
    homes = [os.path.join(prefix, "bin") for prefix in (sys.exec_prefix, sys.base_exec_prefix)]
    if (
        sys.executable
        and os.path.dirname(sys.executable) in homes
        and _is_named_python(sys.executable)
    ):
        return sys.executable
    return _search(homes)


def _is_named_python(file: str) -> bool:
    """Return whether a file has the name of a Python interpreter; other files are never
    executed.
    """
    import re

    return bool(re.fullmatch(r"python[\d.]*[a-z]*", os.path.basename(file))) and os.access(
        file, os.X_OK
    )


def _search(homes: list[str]) -> str:
    """Return an interpreter of exactly this version, from these folders or PATH. Raises
    MachineError.
    """
    import shutil
    import subprocess

    from gristmill.errors import MachineError

    names = [
        f"python{sys.version_info[0]}.{sys.version_info[1]}{sys.abiflags}",
        "python3",
        "python",
    ]
    tried = [os.path.join(home, name) for home in homes for name in names]
    tried += [
        sys.executable or "",
        getattr(sys, "_base_executable", None) or "",
        *(shutil.which(name) or "" for name in names),
    ]
    for file in dict.fromkeys(filter(_is_named_python, tried)):
        ask = [file, "-I", "-S", "-c", "import sys; print(sys.version)"]
        said = subprocess.run(
            ask, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if said.stdout.strip() == sys.version.strip():
            return file
    raise MachineError(
        f"no interpreter of Python {sys.version.split()[0]} was found to start workers with "
        f"(sys.executable is {sys.executable!r}): name one with "
        "multiprocessing.set_executable(path)"
    )


def _begin() -> None:
    """Set sys.path, load the caller's gristmill, and call the given function."""
    _, package, call, count, *rest = sys.argv
    sys.path[:] = rest[: int(count)]
    import importlib
    from importlib.util import module_from_spec, spec_from_file_location

    # By its file: another gristmill may come earlier in sys.path.
    spec = spec_from_file_location(
        "gristmill", package, submodule_search_locations=[os.path.dirname(package)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["gristmill"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["gristmill"])
    module, _, function = call.partition(":")
    sys.argv = [call]
    getattr(importlib.import_module(module), function)(*rest[int(count) :])


if __name__ == "__main__":
    _begin()
