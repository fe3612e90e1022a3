"""exp and log by arithmetic alone, so that a score is the same on every machine.

The C library's own differ between versions and processors in the last bit. Here there are only IEEE
754 additions, multiplications and divisions of float64 in a fixed order (numba fuses none of them
without fastmath), and frexp and ldexp, which are exact. Both stay within 4e-16 of the true value,
relative (tests/kernels/models/test_exp_log.py).
"""

import math

import numpy as np

from gristmill.kernels.jit.compile import helper

LARGEST = 700.0  # exp of more is taken for exp of this
_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = (
    0.693147180369123816490,
    1.90821492927058770002e-10,
)  # their sum is ln 2; the first has zeros at its end
_SQRT_HALF = 0.7071067811865476


@helper
def exp(x):
    """E to the x, x clipped to +-700: 2^k times the Taylor series of what is left, |r| <= ln(2) /
    2.
    """
    x = min(max(np.float64(x), -LARGEST), LARGEST)
    k = math.floor(x * _LOG2E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    total = 1.0
    for n in range(13, 0, -1):
        total = 1.0 + total * r / np.float64(n)
    return math.ldexp(total, np.int32(k))


@helper
def log(x):
    """Return the natural logarithm of a positive number: 2 artanh((m - 1) / (m + 1)) of its
    mantissa m in [sqrt(1/2), sqrt(2)).
    """
    mantissa, k = math.frexp(np.float64(x))
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        k -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = 1.0 / 23.0
    for n in range(21, 0, -2):
        total = 1.0 / np.float64(n) + total * square
    return k * _LN2_HIGH + (k * _LN2_LOW + 2.0 * s * total)


@helper
def logistic(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))
