"""Exponentials of sixteen numbers: the float32 next to the C library's double, or said to be
unknown.
"""

import math

import numba
import numpy as np

from gristmill.kernels.jit.exponentials import exponentials_of_16, largest


@numba.njit
def found(values, most, out, unknown):  # type: ignore[no-untyped-def]
    for k in range(0, len(values), 16):
        unknown[k // 16] = exponentials_of_16(values, np.int64(k), most, out)
    return largest(values, np.int64(len(values)))


# their exponentials are within 100 units of a double's last place of the middle of two float32
NEAR = -6.908473014831543, -1.3931255340576172, -6.354768753051758
EDGES = 0.0, -0.0, -1e-30, -1e-7, -87.0, -87.1, -103.9, -104.0, -104.1, -1e30, -np.inf


def test_exponentials() -> None:
    pick = np.random.default_rng(5)
    parts = pick.uniform(-90, 0, 60_000), pick.uniform(-1, 0, 4_000), EDGES, NEAR
    values = np.resize(np.concatenate(parts).astype(np.float32), 64_032)
    out, unknown = np.empty(len(values), np.float32), np.empty(len(values) // 16, np.uint64)
    assert found(values, np.float32(0), out, unknown) == 0
    asked = np.unpackbits(unknown.view(np.uint8).reshape(-1, 8)[:, :2], axis=1, bitorder="little")
    expected = np.float32([math.exp(value) for value in values.tolist()])
    known = asked.reshape(-1) == 0
    assert (out[known] == expected[known]).all()
    # below -87 a float32 has fewer bits
    assert (np.isin(values, np.float32(NEAR)) | (values < -87))[~known].all()
    assert not known[np.isin(values, np.float32(NEAR))].any()
    assert known.mean() > 0.9


def test_what_is_taken_away() -> None:
    values = np.arange(32, dtype=np.float32) / np.float32(3) - np.float32(5)
    out, unknown = np.empty(32, np.float32), np.empty(2, np.uint64)
    assert found(values, values[-1], out, unknown) == values[-1]
    assert not unknown.any()
    assert out.tolist() == [float(np.float32(math.exp(value - values[-1]))) for value in values]
