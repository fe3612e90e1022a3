"""Make src/gristmill/kernels/html/references.npz, the named character references of HTML that
kernels read (WHATWG HTML, 13.5).

Run on any Python: `html.entities.html5` of the standard library is the standard's table, which does
not change any more. The file is committed.

    python scripts/html_references.py
"""

from html.entities import html5
from pathlib import Path

import numpy as np

SLOTS, SHIFT = 8192, 51
BASIS, PRIME, GOLDEN = 0xCBF29CE484222325, 0x100000001B3, 0x9E3779B97F4A7C15


def fnv_1a(name: bytes) -> int:
    value = BASIS
    for byte in name:
        value = (value ^ byte) * PRIME % (1 << 64)
    return value


def table() -> dict[str, np.ndarray]:
    keys = np.zeros(SLOTS, np.uint64)
    starts = np.zeros(SLOTS, np.int32)
    stops = np.zeros(SLOTS, np.int32)
    data = bytearray()
    for name in sorted(html5):
        key = fnv_1a(name.encode())
        slot = (key * GOLDEN % (1 << 64)) >> SHIFT
        while keys[slot]:
            assert int(keys[slot]) != key
            slot = (slot + 1) % SLOTS
        value = html5[name].encode()
        keys[slot], starts[slot], stops[slot] = key, len(data), len(data) + len(value)
        data += value
        # What is written is at most a fifth longer than what it was read from.
        assert 5 * len(value) <= 6 * (len(name) + 1), name
    return {"keys": keys, "starts": starts, "stops": stops, "data": np.frombuffer(data, np.uint8)}


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "src/gristmill/kernels/html/references.npz"
    np.savez_compressed(target, **table())
    print(target, target.stat().st_size, len(html5))
