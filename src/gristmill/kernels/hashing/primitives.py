"""Hash functions that kernels share: FNV-1a, MurmurHash3's finaliser, a wide hash of bytes, and
splitmix64.

All are of 64 bits; arithmetic is modulo 2^64.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import load_u64, load_up_to_8

BASIS, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
# 2^64 over the golden ratio, odd: the base of rolling polynomials, and a multiplier
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
OTHER_MULTIPLIER = np.uint64(0xC2B2AE3D27D4EB4F)  # xxHash64's second prime


@helper
def mix(value):
    """Return the finaliser of MurmurHash3: a permutation of the 64-bit integers."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    value ^= value >> np.uint64(33)
    return value


@helper
def hash_bytes(data, start, stop):
    """Return a hash of data[start:stop]: multiply and fold, 8 bytes at a time in two lanes.

    (The way of wyhash, without its seeds.)
    """
    one = np.uint64(stop - start) * GOLDEN
    two = np.uint64(0x165667B19E3779F9)
    at = start
    while stop - at >= 16:
        one = (one ^ load_u64(data, at)) * OTHER_MULTIPLIER
        two = (two ^ load_u64(data, at + 8)) * np.uint64(0x9FB21C651E98DF25)
        one ^= one >> np.uint64(29)
        two ^= two >> np.uint64(32)
        at += 16
    while at < stop:
        one = (one ^ load_up_to_8(data, at, stop - at)) * OTHER_MULTIPLIER
        one ^= one >> np.uint64(29)
        at += 8
    one = (one ^ (two * GOLDEN)) * OTHER_MULTIPLIER
    return one ^ (one >> np.uint64(32))


def fnv_1a(name: bytes) -> int:
    """FNV-1a of a few bytes, in Python: what kernels compute with BASIS and PRIME."""
    value = int(BASIS)
    for byte in name:
        value = (value ^ byte) * int(PRIME) % (1 << 64)
    return value


def splitmix64(seed: int, count: int) -> list[int]:
    """Return the next `count` outputs of the generator splitmix64 (Steele 2014) from a state."""
    state = seed % (1 << 64)
    outputs = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        outputs.append(word ^ (word >> 31))
    return outputs
