"""How kernels are compiled, and where their machine code rests.

    @kernel("void(...)")  ->  numba, one explicit signature, nogil  ->  machine code from one
        private folder a key

The folder's key is a hash of everything that the code depends on: all kernel sources, the versions
of Python, numba, llvmlite and numpy, the processor, and where gristmill is installed. A folder is
built once, under a lock, beside its place, by as many processes as there are processors; it is
loaded on trial in another, renamed, and never written again. numba's own `cache=True` is not used:
it writes index before data and reuses names, so that a stop between the two serves old code for
ever, silently (numba issues 4807 and 10128; docs/adr/0003-kernel-cache.md).

The files are pickles. They are loaded only from a folder that belongs to this user and that nobody
else may write (0700). Where there is no such folder (a read-only home) kernels are compiled in
memory: right, but seconds slower at every start.

Environment: GRISTMILL_KERNELS names the folder that holds the keyed folders (default:
$XDG_CACHE_HOME/gristmill/kernels).
"""

import fcntl
import hashlib
import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba import types
from numba.core import compiler

from gristmill import interpreter
from gristmill.kernels.jit.groups import type_of

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OFFSETS = types.Array(types.int32, 1, "C", readonly=True)
INT32S = types.Array(types.int32, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
UINT32S = types.Array(types.uint32, 1, "C", readonly=True)
UINT64S = types.Array(types.uint64, 1, "C", readonly=True)

BUILDING = "GRISTMILL_KERNELS_BUILDING"  # set for the processes that fill a folder: which
# ... and the modules that one of them compiles (tests: that are built at all)
ONLY = "GRISTMILL_KERNELS_ONLY"
MOST_BUILDERS = 8  # each takes some 300 MB
ROOM = Path(__file__).parent.parent

Function = TypeVar("Function", bound=Callable[..., Any])
dispatchers: dict[
    str, Any
] = {}  # every kernel by module and name, for the tests that read their options


def kernel(*signature: Any, returns: Any = types.void) -> Callable[[Function], Function]:
    """Compile a function for one signature, of numba's types and of groups (jit/groups.py).

    Its machine code comes from the keyed folder where there is one.
    """

    def wrap(function: Function) -> Function:
        dispatcher = numba.njit(nogil=True)(function)
        module = _name(function)
        # In a build, what another process compiles is left alone (a kernel that calls it compiles
        # it for itself).
        if not numba.config.DISABLE_JIT and module in os.environ.get(ONLY, module).split(","):
            if numba.config.BOUNDSCHECK != 1 and (folder := _folder()) is not None:
                dispatcher._cache = _Code(function, folder)
            dispatcher.compile(returns(*map(type_of, signature)))
            dispatcher.disable_compile()
        dispatchers[f"{module}.{function.__name__}"] = dispatcher
        return dispatcher  # type: ignore[no-any-return]

    return wrap


def _name(function: Callable[..., Any]) -> str:
    """A kernel's module, from this room: `text.words`."""
    return function.__module__.removeprefix("gristmill.kernels.")


def modules() -> list[str]:
    """The modules that have kernels, from this room: `text.words`."""
    paths = sorted(path for path in ROOM.glob("*/*.py") if "\n@kernel(" in path.read_text("utf-8"))
    return [f"{path.parent.name}.{path.stem}" for path in paths]


def helper(function: Function) -> Function:
    """A function that kernels call; compiled into each of them."""
    return numba.njit(nogil=True, inline="never")(function)  # type: ignore[no-any-return]


class _Code:
    """One kernel's machine code in one file of a keyed folder: what numba's dispatcher expects of a
    cache.

    (`load_overload` and `save_overload` are numba.core.caching._Cache's interface, 0.61 to 0.68.)
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self.path = folder / f"{_name(function)}.{function.__name__}.code"
        self.cache_path = str(folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        target_context.refresh()
        try:
            payload = self.path.read_bytes()
        except OSError:
            return None
        try:
            return compiler.CompileResult._rebuild(target_context, *pickle.loads(payload))
        except Exception:
            return None  # a damaged file costs the compilation, not the start

    def save_overload(self, signature: Any, result: Any) -> None:
        if os.environ.get(BUILDING) == self.cache_path:
            from numba.core.serialize import dumps

            self.path.write_bytes(dumps(result._reduce()))


_memo: list[Path | None] = []


def _folder() -> Path | None:
    if not _memo:
        building = os.environ.get(BUILDING)
        _memo.append(Path(building) if building else _ready_folder())
    return _memo[0]


def key() -> str:
    """The hash of all that machine code depends on."""
    digest = hashlib.sha256()
    for path in sorted(ROOM.rglob("*.py")):
        digest.update(
            str(path.relative_to(ROOM)).encode()
            + b"\0"
            + hashlib.sha256(path.read_bytes()).digest()
        )
    features = llvmlite.binding.get_host_cpu_features().flatten()
    facts = (sys.version, numba.__version__, llvmlite.__version__, np.__version__, str(ROOM))
    for fact in (
        *facts,
        llvmlite.binding.get_host_cpu_name(),
        features,
        os.environ.get("NUMBA_CPU_NAME", ""),
    ):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:32]


def root() -> Path:
    """The folder that holds the keyed folders."""
    if named := os.environ.get("GRISTMILL_KERNELS"):
        return Path(named)
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill" / "kernels"
    )


def _ours(folder: Path) -> bool:
    """Whether a folder is this user's, and nobody else's to write."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    )


def _ready_folder() -> Path | None:
    place = root() / key()
    if place.is_dir():
        return place if _ours(place) else None
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _ours(place.parent):
            return None
        with open(place.parent / f"{place.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_dir():
                _build(place)
    except OSError:
        return None
    return place if _ours(place) else None


def _build(place: Path) -> None:
    """Fill a folder beside its place in several processes, load it in another, rename it."""
    # What an earlier build left when it was killed; the lock says that none is at work.
    for left in place.parent.glob(f"{place.name}.building-*"):
        shutil.rmtree(left, ignore_errors=True)
    print(
        "gristmill: compiling kernels, once for this version and processor ...",
        file=sys.stderr,
        flush=True,
    )
    folder = Path(tempfile.mkdtemp(prefix=f"{place.name}.building-", dir=place.parent))
    environment = {**os.environ, BUILDING: str(folder)}
    builders = [{ONLY: ",".join(share)} for share in _shares(min(processors(), MOST_BUILDERS))]
    trial: list[dict[str, str]] = [{}]  # loads what they compiled
    for step in (builders, trial):
        complaints = _import_all_in([environment | share for share in step])
        if complaints:
            shutil.rmtree(folder, ignore_errors=True)
            raise OSError(f"building kernels failed:\n{complaints}")
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    folder.chmod(0o700)
    folder.rename(place)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shares(count: int) -> list[list[str]]:
    """The modules in so many parts, whose sources are about as long."""
    wanted = named.split(",") if (named := os.environ.get(ONLY)) else modules()
    sizes = {module: (ROOM / f"{module.replace('.', '/')}.py").stat().st_size for module in wanted}
    shares: list[list[str]] = [[] for _ in range(count)]
    for module in sorted(sizes, key=lambda module: -sizes[module]):
        min(shares, key=lambda share: sum(sizes[member] for member in share)).append(module)
    return shares


def _import_all_in(environments: list[dict[str, str]]) -> str:
    """Import every kernel module in processes side by side; what those said that failed."""
    command = interpreter.command("gristmill.kernels.jit.compile:import_all")
    running = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for environment in environments
    ]
    said = [builder.communicate()[1] for builder in running]
    return "".join(
        f"ended with {builder.returncode}\n{text}"
        for builder, text in zip(running, said, strict=True)
        if builder.returncode
    )


def import_all() -> None:
    """Import every kernel module, which compiles or loads its kernels."""
    import importlib

    for module in modules():
        importlib.import_module(f"gristmill.kernels.{module}")
