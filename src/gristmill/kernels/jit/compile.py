"""How kernels are compiled, and where their machine code is kept.

    @kernel(BYTES, Words, ...)  ->  numba, one explicit signature, nogil  ->  machine code, from one
        private folder a module

A module's folder is named by a hash of everything that its code depends on: its own source and
those of all modules of this room that it imports, the versions of Python, numba, llvmlite and
numpy, and the processor. So an edit compiles the modules that it touches. Folders are filled under
a lock, beside their place, by as many processes as there are processors; they are loaded on trial
in another, renamed, and never written again. numba's own `cache=True` is not used: it writes index
before data and reuses names, so that a stop between the two serves old code for ever, silently
(numba issues 4807 and 10128; docs/adr/0003-kernel-cache.md).

The files are pickles. They are loaded only from a folder that belongs to this user and that nobody
else may write (0700). Where there is no such folder (a read-only home) kernels are compiled in
memory: right, but seconds slower at every start.

Most modules are compiled together, when the first of them is imported. Those that few runs need
(ON_DEMAND) are compiled when one of their group is imported, or with the others where a run knows
that it needs them (`prepare`): half of the time of a first start.

Environment: GRISTMILL_KERNELS names the folder that holds the modules' folders (default:
$XDG_CACHE_HOME/gristmill/kernels).
"""

import fcntl
import os
import pickle
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numba
from numba import types
from numba.core import compiler
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from gristmill import interpreter
from gristmill.kernels.jit import keys
from gristmill.kernels.jit.groups import type_of
from gristmill.progress_line import ProgressLine, seconds_text

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OFFSETS = types.Array(types.int32, 1, "C", readonly=True)
INT32S = types.Array(types.int32, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
UINT32S = types.Array(types.uint32, 1, "C", readonly=True)
UINT64S = types.Array(types.uint64, 1, "C", readonly=True)

# Set for the processes that fill folders: the folder beside their place; and for the one that loads
# them on trial.
BUILDING, TRIAL = "GRISTMILL_KERNELS_BUILDING", "GRISTMILL_KERNELS_TRIAL"
ONLY = "GRISTMILL_KERNELS_ONLY"  # for tests: the only modules whose code is compiled and kept
# Groups of rooms and modules that few runs need: each is compiled when it is first imported.
ON_DEMAND = (
    ("bpe_training",),
    ("decontaminate",),
    ("html.markdown",),
    ("loading", "packing"),
    ("pii",),
    ("substrings",),
)
MOST_BUILDERS = 8  # each takes some 300 MB
MOST_NAMED = 3  # modules that are named while they are compiled
FEW = 50  # kernels, which take less than a minute
SECONDS_BETWEEN_LOOKS = 0.05

Function = TypeVar("Function", bound=Callable[..., Any])
# every kernel by module and name, for the tests that read their options
dispatchers: dict[str, Any] = {}


def kernel(
    *signature: Any, returns: Any = types.void, allocates: bool = False
) -> Callable[[Function], Function]:
    """Compile a function for one signature, of numba's types and of groups (jit/groups.py).

    Its machine code comes from its module's folder where there is one. `allocates`: it makes
    arrays or views of them. Others count no references to arrays: for a group of ten that goes to
    a helper numba counts up and down ten times, which took two thirds of the time of a page's
    blocks. The caller holds the arrays.
    """

    def wrap(function: Function) -> Function:
        dispatcher = numba.njit(nogil=True, _nrt=allocates)(function)
        module = _module_of(function)
        if not numba.config.DISABLE_JIT and _is_wanted(module):
            if (folder := _folder(module)) is not None:
                dispatcher._cache = _Code(function, folder)
            dispatcher.compile(returns(*map(type_of, signature)))
            dispatcher.disable_compile()
        dispatchers[f"{module}.{function.__name__}"] = dispatcher
        return dispatcher  # type: ignore[no-any-return]

    return wrap


def helper(function: Function) -> Function:
    """A function that kernels call; compiled into each of them, and without what Python and C would
    call it by, which takes a sixth of the time of compiling.
    """
    return numba.njit(  # type: ignore[no-any-return]
        nogil=True, inline="never", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)


def _module_of(function: Callable[..., Any]) -> str:
    return function.__module__.removeprefix("gristmill.kernels.")


def modules() -> list[str]:
    """The modules that have kernels, named from this room: `text.words`."""
    return sorted(name for name in keys.sources() if "\n@kernel(" in keys.sources()[name])


class _Code:
    """One kernel's machine code in one file of a folder: what numba's dispatcher expects of a
    cache.

    (`load_overload` and `save_overload` are numba.core.caching._Cache's interface, 0.61 to 0.68.)
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self.path = folder / f"{function.__name__}.code"
        self.cache_path = str(folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        # All that loading takes. Compiling takes numba's registries as well, and loads them itself.
        rtsys.initialize(target_context)
        try:
            payload = self.path.read_bytes()
        except OSError:
            return None
        try:
            return compiler.CompileResult._rebuild(target_context, *pickle.loads(payload))
        except Exception:
            return None  # a damaged file costs the compilation, not the start

    def save_overload(self, signature: Any, result: Any) -> None:
        if os.environ.get(BUILDING) == str(self.path.parent.parent):
            from numba.core.serialize import dumps

            self.path.write_bytes(dumps(result._reduce()))


_folders: dict[str, Path | None] = {}  # of every module, once any was asked for
_claimed: dict[str, bool] = {}  # in a build: whether this process compiles a module


def _folder(module: str) -> Path | None:
    """The folder of a module's machine code; None: it is compiled in memory."""
    if numba.config.BOUNDSCHECK == 1:
        return None
    if building := os.environ.get(BUILDING):
        return Path(building) / keys.folder_name(module)
    if module not in _folders:
        _folders.update({module: None} | _ready_folders([_group(module)]))
    return _folders[module]


def _group(module: str) -> tuple[str, ...]:
    """The group of ON_DEMAND that a module is of; (): it is compiled with most others."""
    names = {module, module.partition(".")[0]}
    return next((group for group in ON_DEMAND if names & set(group)), ())


def _is_wanted(module: str) -> bool:
    """Whether this process compiles or loads a module's kernels: in a build one does for all.

    What another process compiles is left alone; a kernel that calls it compiles it for itself.
    """
    if (building := os.environ.get(BUILDING)) is None:
        return module in os.environ.get(ONLY, module).split(",")
    folder = Path(building) / keys.folder_name(module)
    if TRIAL in os.environ:
        return folder.is_dir()
    if module not in _claimed:
        _claimed[module] = module in os.environ[ONLY].split(",")
        if _claimed[module]:
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                _claimed[module] = False
    return _claimed[module]


def root() -> Path:
    """The folder that holds the modules' folders."""
    if named := os.environ.get("GRISTMILL_KERNELS"):
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "gristmill" / "kernels"


def _is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and nobody else may write it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    )


def _places(groups: Collection[tuple[str, ...]]) -> dict[str, Path]:
    """Where the folder of each module of these groups is, or will be."""
    wanted = named.split(",") if (named := os.environ.get(ONLY)) else modules()
    return {name: root() / keys.folder_name(name) for name in wanted if _group(name) in groups}


def _missing(groups: Collection[tuple[str, ...]]) -> list[str]:
    """The modules of these groups whose kernels are not compiled yet."""
    return [module for module, place in _places(groups).items() if not place.is_dir()]


def _ready_folders(groups: Collection[tuple[str, ...]]) -> dict[str, Path | None]:
    """The folder of each module of these groups, built where it is not there; None where there can
    be none.
    """
    try:
        if _missing(groups):
            root().mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(root()):
                with open(root() / "building.lock", "w") as lock:
                    _hold(lock)
                    if lacking := _missing(groups):
                        _build(lacking)
    except OSError:
        pass
    places = _places(groups).items()
    return {module: place if _is_private(place) else None for module, place in places}


def _hold(lock: TextIO) -> None:
    """Wait for the lock of a build, and say what is waited for."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        ProgressLine().end("gristmill: waiting for another process, which builds the kernels")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _build(lacking: list[str]) -> None:
    """Fill the folders of modules beside their place in several processes, load them in another,
    rename them.
    """
    # What an earlier build left when it was killed; the lock says that none is at work.
    for left in root().glob("building-*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="building-", dir=root()))
    progress = _BuildProgress(folder, lacking)
    environment = {**os.environ, BUILDING: str(folder), ONLY: ",".join(lacking)}
    builders = [environment] * min(processors(), MOST_BUILDERS, len(lacking))
    try:
        for step in (builders, [{**environment, TRIAL: "1"}]):
            if complaints := _import_all_in(step, progress.show):
                raise OSError(f"building kernels failed:\n{complaints}")
        for path in folder.glob("*/*.code"):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        for place in folder.iterdir():
            place.rename(root() / place.name)
        progress.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _BuildProgress:
    """Shows how many kernels are compiled, and about how long the rest takes.

    Time is expected to be in proportion to the length of source; long modules come first.
    """

    def __init__(self, folder: Path, lacking: list[str]) -> None:
        self._folder, self._start = folder, time.monotonic()
        # By the name of a module's folder: its length for each of its kernels.
        self._weights: dict[str, float] = {}
        self._kernels = 0
        for module in lacking:
            count = keys.sources()[module].count("\n@kernel(")
            self._weights[keys.folder_name(module)] = len(keys.sources()[module]) / count
            self._kernels += count
        self._all = sum(len(keys.sources()[module]) for module in lacking)
        names = f" of {', '.join(lacking)}" if len(lacking) <= MOST_NAMED else ""
        self._what = f"gristmill: compiling kernels{names} (once on this machine)"
        self._line = ProgressLine()

    def show(self) -> None:
        """Look which kernels are compiled, and show it."""
        done = [path.parent.name for path in self._folder.glob("*/*.code")]
        text = f"{self._what}: {len(done)} of {self._kernels}"
        weight = sum(self._weights.get(name, 0.0) for name in done)
        seconds = time.monotonic() - self._start
        if weight > self._all / 20:
            left = seconds * (self._all - weight) / weight
            text += f", about {seconds_text(left)} left"
        elif self._kernels > FEW:
            text += ", one or two minutes in all"
        self._line.show(text)

    def end(self) -> None:
        """Show that all are compiled."""
        took = seconds_text(time.monotonic() - self._start)
        self._line.end(f"gristmill: {self._kernels} kernels compiled in {took}, kept in {root()}")


def prepare(rooms: Collection[str] = ()) -> bool:
    """Compile what is not compiled yet, and do once what loading a kernel takes: for a process that
    forks others. Whether machine code can be kept.

    `rooms`: of ON_DEMAND, those that are needed besides.
    """
    groups = [(), *(group for group in ON_DEMAND if set(rooms) & set(group))]
    _folders.update(_ready_folders(groups))
    rtsys.initialize(cpu_target.target_context)
    return not _missing(groups)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _import_all_in(environments: list[dict[str, str]], look: Callable[[], None]) -> str:
    """Import every kernel module in processes side by side; what those said that failed. `look` is
    called again and again meanwhile.
    """
    command = interpreter.command("gristmill.kernels.jit.compile:import_all")
    said = [tempfile.TemporaryFile("w+") for _ in environments]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=file)
        for environment, file in zip(environments, said, strict=True)
    ]
    while any(builder.poll() is None for builder in running):
        look()
        time.sleep(SECONDS_BETWEEN_LOOKS)
    complaints = ""
    for builder, file in zip(running, said, strict=True):
        file.seek(0)
        if builder.returncode:
            complaints += f"ended with {builder.returncode}\n{file.read()}"
        file.close()
    return complaints


def import_all() -> None:
    """Import every kernel module, which compiles or loads its kernels.

    In a build the long ones first, and of each one what it imports: the processes end together.
    """
    import importlib

    if BUILDING in os.environ:
        names = os.environ[ONLY].split(",")
        names.sort(key=lambda name: -len(keys.sources()[name]))
    else:
        names = modules()
        prepare([room for group in ON_DEMAND for room in group])
    for name in names:
        importlib.import_module(f"gristmill.kernels.{name}")
