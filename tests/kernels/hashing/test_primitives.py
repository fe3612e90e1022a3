"""Hash functions that kernels share, against published values and plain Python."""

import pytest

from gristmill.kernels.hashing import primitives
from tests.support import naive


def fnv(name: bytes) -> int:
    """FNV-1a of 64 bits, step by step."""
    value = naive.FNV_BASIS
    for byte in name:
        value = (value ^ byte) * naive.FNV_PRIME & naive.MASK_64
    return value


@pytest.mark.parametrize("name", [b"", b"a", b"foobar", bytes(range(256))])
def test_fnv_1a(name: bytes) -> None:
    assert primitives.fnv_1a(name) == fnv(name)


def test_published_values() -> None:
    """The authors' test vectors: of FNV (test_fnv.c), and of splitmix64 from the state 1234567."""
    assert primitives.fnv_1a(b"a") == 0xAF63DC4C8601EC8C
    assert primitives.fnv_1a(b"foobar") == 0x85944171F73967E8
    assert primitives.splitmix64(1234567, 2) == [6457827717110365317, 3203168211198807973]
