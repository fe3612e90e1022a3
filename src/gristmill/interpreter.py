"""How gristmill starts another Python: the same version, a path of its own, and nothing of the
caller's program.

The caller may be a script without a guard, a notebook, a pipe, a thread, or a C program with an
interpreter inside: its main module is never imported in what is started here. Nor is a file that
happens to lie where one stands: the interpreter starts with `-P`, and its sys.path is given from
here, with the folder of the caller's script and the current one last, so that no file there can
stand for a library.

Run as a script, this file is the first thing in such a process: it takes over sys.path, then
gristmill from the very files that the caller has, then calls what it was told to.
"""

import os
import sys

HERE = os.path.abspath(__file__)


def stands() -> str:
    """Where this process stands; the root where its folder is gone."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


STOOD = stands()  # when this was loaded


def command(call: str, *arguments: str) -> list[str]:
    """The words that start a Python which calls `package.module:function` with these strings.

    Raises MachineError where there is no Python.
    """
    import subprocess

    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing asks for them
    places = path()
    package = os.path.join(os.path.dirname(HERE), "__init__.py")
    return [python(), *flags, "-P", HERE, package, call, str(len(places)), *places, *arguments]


def _absolute(place: str) -> str:
    """A path with one slash at its start: POSIX, and Python in the root folder, know of two."""
    return os.sep + os.path.normpath(os.path.join(stands(), place)).lstrip(os.sep)


def path() -> list[str]:
    """sys.path for what is started: absolute, the folder of the caller's script and the current one
    behind all others.
    """
    last = {STOOD, stands()}
    if script := getattr(sys.modules.get("__main__"), "__file__", None):
        last.add(os.path.dirname(_absolute(script)))
    places = list(dict.fromkeys(_absolute(place) for place in sys.path if isinstance(place, str)))
    # Python's own modules stay where they are, wherever one stands.
    last.discard(os.path.dirname(os.path.abspath(getattr(os, "__file__", HERE))))
    return [place for place in places if place not in last] + [
        place for place in places if place in last
    ]


def python() -> str:
    """An interpreter of this version.

    sys.executable may be empty, another Python's, or a program of the caller's with Python inside.
    """
    spawn = sys.modules.get("multiprocessing.spawn")
    chosen = os.fsdecode(spawn.get_executable() or "") if spawn else ""
    if chosen and chosen != sys.executable:
        return chosen  # the caller has set it by multiprocessing.set_executable
    homes = [os.path.join(prefix, "bin") for prefix in (sys.exec_prefix, sys.base_exec_prefix)]
    if (
        sys.executable
        and os.path.dirname(sys.executable) in homes
        and _is_named_python(sys.executable)
    ):
        return sys.executable
    return _searched(homes)


def _is_named_python(file: str) -> bool:
    """Whether a file may be asked whether it is Python: any other program might do anything."""
    import re

    return bool(re.fullmatch(r"python[\d.]*[a-z]*", os.path.basename(file))) and os.access(
        file, os.X_OK
    )


def _searched(homes: list[str]) -> str:
    """An interpreter that says that it is of this version, from these folders or PATH."""
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
        f"there is no interpreter of Python {sys.version.split()[0]} to start workers with "
        f"(sys.executable is {sys.executable!r}): "
        "name one with multiprocessing.set_executable(path)"
    )


def _begin() -> None:
    """Take over sys.path, load the caller's gristmill, and call what is asked for."""
    _, package, call, count, *rest = sys.argv
    sys.path[:] = rest[: int(count)]
    import importlib
    from importlib.util import module_from_spec, spec_from_file_location

    # By its file: another gristmill may stand earlier on the path.
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
