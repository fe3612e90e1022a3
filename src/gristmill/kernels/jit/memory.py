"""Memory for large tables and results.

The first touch of a page costs more than most kernels take for its bytes: 32 MB of new memory took
19 ms in pages of 4 KB and 2.6 ms in pages of 2 MB. Linux gives large pages to those who ask for
them; a table that is read here and there also needs fewer translations of addresses.
"""

import mmap
from typing import Any

import numpy as np

LARGE = 1 << 20  # bytes from which on large pages are asked for
LARGEST = 1 << 21  # bytes of a large page
LINE = 64  # bytes of a line of the processor's cache


def zeros(count: int, kind: Any) -> np.ndarray:
    """Return an array (count,) of zeros whose first element starts a line of the processor's
    cache.
    """
    size = count * np.dtype(kind).itemsize
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None or size < LARGE:
        room = np.zeros(size + LINE, np.uint8)
        start = -room.ctypes.data % LINE
        return room[start : start + size].view(kind)
    # Private: what a forked process writes is its own.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        memory.madvise(advice)
    except OSError:
        pass  # a kernel without large pages
    return np.frombuffer(memory, kind, count)


def together(*sizes: tuple[int, Any]) -> list[np.ndarray]:
    """Return arrays of zeros, each as `zeros` gives it, side by side in memory: small tables that
    are read together share large pages. sizes: (count, kind) of each.
    """
    bytes_of = [-(-count * np.dtype(kind).itemsize // LINE) * LINE for count, kind in sizes]
    # Linux gives large pages only to what fills them.
    whole = -(-sum(bytes_of) // LARGEST) * LARGEST if sum(bytes_of) >= LARGE else sum(bytes_of)
    room = zeros(whole, np.uint8)
    starts = np.cumsum([0, *bytes_of[:-1]]).tolist()
    return [
        room[start : start + count * np.dtype(kind).itemsize].view(kind)
        for start, (count, kind) in zip(starts, sizes, strict=True)
    ]
