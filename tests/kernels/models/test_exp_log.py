"""exp and log against 50 digits, at the edges of their ranges too; and that no machine may fuse
what they compute.
"""

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.models import exp_log
from tests.support import strategies
from tests.support.helpers import compiled

ROUNDING = 4e-16
exp, log, logistic = map(compiled, (exp_log.exp, exp_log.log, exp_log.logistic))


def error(got: float, exact: Decimal) -> float:
    return abs(float((Decimal(got) - exact) / exact)) if exact else abs(got)


@strategies.fuzz(400)
@example(0.0)
@example(-0.0)
@example(700.0)
@example(-700.0)
@example(math.log(2) / 2)
@example(5e-324)
@given(st.floats(-700, 700))
def test_exp(x: float) -> None:
    with localcontext() as context:
        context.prec = 50
        assert error(exp(x), Decimal(x).exp()) < ROUNDING


@strategies.fuzz(400)
@example(1.0)
@example(math.sqrt(0.5))
@example(math.nextafter(1.0, 0.0))
@example(math.nextafter(1.0, 2.0))
@example(5e-324)
@example(1.7976931348623157e308)
@given(st.floats(min_value=0.0, exclude_min=True, allow_nan=False, allow_infinity=False))
def test_log(x: float) -> None:
    with localcontext() as context:
        context.prec = 50
        assert error(log(x), Decimal(x).ln()) < ROUNDING


@pytest.mark.parametrize("x", [-1e308, -701.0, 701.0, 1e308, math.inf, -math.inf])
def test_exp_is_clipped(x: float) -> None:
    assert exp(x) == exp(math.copysign(700.0, x))
    assert 0.0 <= logistic(x) <= 1.0
