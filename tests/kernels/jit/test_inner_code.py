"""Helpers: LLVM code within kernels, no machine code of their own."""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, helper, kernel


@helper
def _square(number):  # type: ignore[no-untyped-def]
    return number * number


@helper
def _sum_of_squares(numbers):  # type: ignore[no-untyped-def]
    total = np.int64(0)
    for number in numbers:
        total += _square(number)
    return total


@kernel(INT64S, returns=types.int64)
def _length(numbers):  # type: ignore[no-untyped-def]
    return _sum_of_squares(numbers)


def test_a_kernel_contains_its_helpers_which_have_no_machine_code() -> None:
    assert _length(np.array([3, 4], np.int64)) == 25
    (compiled,) = _length.overloads.values()
    symbols = compiled.library._codegen._engine._defined_symbols
    assert compiled.fndesc.mangled_name in symbols
    for function in (_square, _sum_of_squares):
        (compiled,) = function.overloads.values()
        assert compiled.fndesc.mangled_name not in symbols
