"""libdeflate, which inflates whole gzip members at about twice isal's speed.

It is the library in the wheel of the package `deflate`, or else the system's. Kernels call it by
address, because a call from Python for each member would take an object for each. Where there is
none, members are decoded as all other codecs are (store/codecs.py): the same documents, slower.
"""

import ctypes
import ctypes.util
import weakref
from functools import cache
from importlib.util import find_spec

import numpy as np

from gristmill.kernels.reading import members

FILL = 2 << 20  # bytes decoded at a time, about
MOST_MEMBER = 1 << 20  # bytes of a decoded member that surely fits
MOST_TOGETHER = 1 << 14  # members decoded at a time
_NEEDED = (
    "libdeflate_gzip_decompress_ex",
    "libdeflate_alloc_decompressor",
    "libdeflate_free_decompressor",
)


@cache
def library() -> ctypes.CDLL | None:
    """Return the library; None: there is none on this machine."""
    wheel = find_spec("deflate._deflate") if find_spec("deflate") is not None else None
    for path in (wheel.origin if wheel is not None else None, ctypes.util.find_library("deflate")):
        if path is None:
            continue
        try:
            found = ctypes.CDLL(path)
        except OSError:
            continue
        if all(hasattr(found, name) for name in _NEEDED):
            found.libdeflate_alloc_decompressor.restype = ctypes.c_void_p
            found.libdeflate_free_decompressor.argtypes = [ctypes.c_void_p]
            return found
    return None


class MemberInflater:
    """Inflates the whole gzip members of one file."""

    def __init__(self, found: ctypes.CDLL) -> None:
        decompressor = found.libdeflate_alloc_decompressor()
        if not decompressor:
            raise MemoryError
        weakref.finalize(self, found.libdeflate_free_decompressor, decompressor)
        function = ctypes.cast(found.libdeflate_gzip_decompress_ex, ctypes.c_void_p).value
        assert function is not None
        self.addresses = function, int(decompressor)
        self._out = np.empty(FILL + MOST_MEMBER, np.uint8)
        self._ends = np.empty(MOST_TOGETHER, np.int64)

    def __call__(self, data: bytes, at: int, *, ended: bool) -> tuple[bytes, int, list[int]]:
        """Inflate the members of `data` from a place on, up to about FILL bytes; stop before
        one that is not whole, sound, and followed by another (or by the end: `ended`).

        Returns the decoded bytes, the place behind the last member, and where each member ends in
        the bytes.
        """
        stop, filled, count = members.inflate(
            *self.addresses,
            np.frombuffer(data, np.uint8),
            (at, len(data)),
            self._out,
            MOST_MEMBER,
            self._ends,
            ended=ended,
        )
        return self._out[:filled].tobytes(), stop, self._ends[:count].tolist()


def member_inflater() -> MemberInflater | None:
    """Return what inflates members, for one file; None: there is no libdeflate."""
    found = library()
    return None if found is None else MemberInflater(found)
