"""Compile helpers as code that only kernels contain.

numba optimises each function that is called and makes machine code of it, although a kernel is
linked from the functions' LLVM code and optimised whole: machine code of a helper is never run. The
library here stops at LLVM code, which takes a third less time for all kernels (ADR 51).

(`pipeline_class` is numba's interface for other compilers; the methods of the library are
internal, the same from numba 0.62 to 0.68.)
"""

from typing import Any

from numba.core import compiler
from numba.core.codegen import JITCodeLibrary


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of one helper, ready to be linked into a kernel."""

    @property
    def codegen(self) -> "InnerLibrary":
        """Return what holds the helper's environment, which only object code has."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Hold no environment: it is for calls from Python."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, as numba does for a function without a wrapper for Python."""
        return 0

    def _optimize_final_module(self) -> None:
        """Leave it to the kernel, which is optimised with all that it contains."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class InnerCompiler(compiler.Compiler):  # type: ignore[misc]
    """numba's compiler with that library."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, library, *rest)
        self.state.library = InnerLibrary(target.codegen(), "helper")
