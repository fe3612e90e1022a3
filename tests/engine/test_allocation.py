"""Memory that workers free: kept during a task, given back after it."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gristmill.engine import allocation
from gristmill.engine.engine import Job
from gristmill.engine.local import LocalEngine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only glibc is asked")


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def use_memory(size: int, _: Callable[[int], None]) -> tuple[int, int, str]:
    """(resident bytes before anything is taken, more of them after it is freed, Arrow's pool)."""
    before = resident()
    arrays = [np.ones(size // 8, np.uint8) for _ in range(8)]
    pin = pa.array([1])  # something behind them that stays
    del arrays
    return before, resident() - before, pa.default_memory_pool().backend_name + str(len(pin))[:0]


def test_freed_memory_is_kept_until_the_task_ends() -> None:
    if allocation._glibc() is None:
        pytest.skip("the C library is not glibc")
    size = 64 << 20
    with LocalEngine(1) as engine:
        found = [
            event.result
            for _ in range(2)
            for event in engine.run([Job("one", use_memory, size)])
            if event.result
        ]
    (first, kept, pool), (second, _, _) = found
    assert pool in (pa.supported_memory_backends()[0], "system")
    assert kept > size // 2
    assert second - first < size // 2
