"""Helpers of kernels, for tests that call one by itself."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(helper: Any) -> Callable[..., Any]:
    """A helper as a function that Python can call. It cannot be called as it is: it is compiled
    into kernels alone, without what Python would call it by.
    """
    function: Callable[..., Any] = numba.njit(nogil=True)(helper.py_func)
    return function
