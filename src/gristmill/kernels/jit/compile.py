"""How kernels are compiled, and how their machine code is loaded.

    @kernel(BYTES, Words, ...)  ->  numba, one explicit signature, nogil  ->  machine code, from one
        folder a module

A module's folder is named by a hash of everything that its code depends on (jit/keys.py): an edit
compiles the modules that it touches. jit/places.py has the order in which code is looked for,
jit/build.py compiles what is nowhere. numba's own `cache=True` is not used: it writes index before
data and reuses names, so that a stop between the two serves old code for ever, silently (numba
issues 4807 and 10128; docs/adr/0003-kernel-cache.md).

Where code cannot be kept (a read-only home) kernels are compiled in memory: right, but seconds
slower at every start.
"""

import importlib
import os
import pickle
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core import compiler
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from gristmill.kernels.jit import build, keys, places
from gristmill.kernels.jit.groups import numba_type
from gristmill.kernels.jit.inner_code import InnerCompiler

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OFFSETS = types.Array(types.int32, 1, "C", readonly=True)
INT32S = types.Array(types.int32, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
UINT32S = types.Array(types.uint32, 1, "C", readonly=True)
UINT64S = types.Array(types.uint64, 1, "C", readonly=True)

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
        module = _kernel_module(function)
        if not numba.config.DISABLE_JIT and _is_wanted(module):
            if (folder := _folder(module)) is not None:
                dispatcher._cache = _Code(function, module, folder)
            dispatcher.compile(returns(*map(numba_type, signature)))
            dispatcher.disable_compile()
        dispatchers[f"{module}.{function.__name__}"] = dispatcher
        return dispatcher  # type: ignore[no-any-return]

    return wrap


def helper(function: Function) -> Function:
    """Compile a function into each kernel that calls it: without what Python and C would call it
    by, which takes a sixth of the time of compiling, and without machine code of its own.
    """
    return numba.njit(  # type: ignore[no-any-return]
        nogil=True,
        inline="never",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=InnerCompiler,
    )(function)


def _kernel_module(function: Callable[..., Any]) -> str:
    return function.__module__.removeprefix("gristmill.kernels.")


class _Code:
    """One kernel's machine code in one file of a folder: what numba's dispatcher expects of a
    cache.

    (`load_overload` and `save_overload` are numba.core.caching._Cache's interface, 0.61 to 0.68.)
    """

    def __init__(self, function: Callable[..., Any], module: str, folder: Path) -> None:
        self.path, self.module = folder / f"{function.__name__}.code", module
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
        if build.BUILDING in os.environ and self.path.parent == build.being_built(self.module):
            from numba.core.serialize import dumps

            self.path.write_bytes(dumps(result._reduce()))
            build.keep(self.module)


_folders: dict[str, Path | None] = {}  # of every module that was asked for, and its group
_taken: dict[str, bool] = {}  # in a build: whether this process compiles a module


def _folder(module: str) -> Path | None:
    """Return the folder of a module's machine code; None: it is compiled in memory."""
    if numba.config.BOUNDSCHECK == 1:
        return None
    if build.BUILDING in os.environ:
        return build.being_built(module)
    if module not in _folders:
        needed = places.needed(places.group(module))
        _folders.update(
            {module: None} | build.ready([name for name in needed if name not in _folders])
        )
    return _folders[module]


def _is_wanted(module: str) -> bool:
    """Return whether this process compiles or loads a module's kernels: in a build one does for
    all.

    What another process compiles is left alone; a kernel that calls it compiles it for itself.
    """
    if build.BUILDING not in os.environ:
        return module in os.environ.get(places.ONLY, module).split(",")
    if module not in _taken:
        _taken[module] = build.take(module)
    return _taken[module]


def prepare(names: Collection[str] = ()) -> None:
    """Compile what is not compiled yet of what a plain recipe needs and of these rooms and modules,
    and do once what loading a kernel takes: for a process that forks others.
    """
    _folders.update(build.ready(places.needed({*places.PLAIN, *names})))
    rtsys.initialize(cpu_target.target_context)


def import_all() -> None:
    """Import every kernel module, which compiles or loads its kernels."""
    modules = keys.modules()
    prepare(modules)
    for name in modules:
        importlib.import_module(f"gristmill.kernels.{name}")
