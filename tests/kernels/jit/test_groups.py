"""Arguments of kernels in groups."""

import ast
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba import typeof, types

from gristmill.kernels.jit import groups, keys
from gristmill.kernels.jit.groups import Bytes, Int64s, ReadInt32s, Uint64

MOST = 10


@pytest.mark.parametrize("path", sorted(keys.ROOM.rglob("*.py")), ids=lambda path: path.stem)
def test_no_kernel_takes_many_arguments(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            if any(mark.startswith(("kernel(", "helper")) for mark in marks):
                assert len(node.args.args) <= MOST, node.name


class Group(NamedTuple):
    """One field of each sort."""

    data: Bytes
    offsets: ReadInt32s
    count: int
    share: float
    on: bool
    mask: Uint64


class Inner(NamedTuple):
    """Fields of one type."""

    first: Int64s
    last: Int64s


class Outer(NamedTuple):
    """A group in a group."""

    inner: Inner
    count: int


def test_types_are_those_of_values() -> None:
    one = groups.read_only(
        Group(np.zeros(1, np.uint8), np.zeros(1, np.int32), 1, 0.5, True, np.uint64(1))
    )
    one = one._replace(data=np.zeros(1, np.uint8))
    assert groups.numba_type(Group) == typeof(one)
    inner = Inner(np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert groups.numba_type(Inner) == typeof(inner)
    assert groups.numba_type(Outer) == typeof(Outer(inner, 1))
    assert groups.numba_type(int) == groups.numba_type(types.int64) == types.int64
    assert groups.numba_type(Bytes) == types.uint8[::1]


def test_read_only_copies_nothing() -> None:
    data = np.zeros(3, np.int64)
    view = groups.read_only(Inner(data, data))
    assert np.shares_memory(view.first, data)
    assert not view.first.flags.writeable and data.flags.writeable
