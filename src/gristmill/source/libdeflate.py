"""libdeflate, which inflates whole gzip members at about twice isal's speed.

It is the library in the wheel of the package `deflate`, or else the system's. The package itself
does not say where a member ends, so its library is called here. Where there is none, members are
decoded as all other codecs are (store/codecs.py): the same documents, slower.

libdeflate decodes a whole member into a buffer that has room for it. It cannot go on with more
input, and for a member that is cut off or does not fit it says the same as for a broken one. So
only members that are whole are taken, and nothing behind any other.
"""

import ctypes
import ctypes.util
import weakref
from functools import cache
from importlib.util import find_spec

import numpy as np

FILL = 2 << 20  # bytes decoded at a time, about
MOST_MEMBER = 1 << 20  # bytes of a decoded member that surely fits
MOST_TOGETHER = 1 << 14  # members decoded at a time
LEAST_MEMBER = 18  # bytes: the header, an empty block, the checksum and the size
_MAGIC = b"\x1f\x8b"
# Reserved, and FHCRC: libdeflate does not compare a header's checksum.
_UNUSUAL_FLAGS = 0xE2
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
            handle = ctypes.CDLL(path)
        except OSError:
            continue
        if all(hasattr(handle, name) for name in _NEEDED):
            size = ctypes.c_size_t
            handle.libdeflate_alloc_decompressor.restype = ctypes.c_void_p
            handle.libdeflate_free_decompressor.argtypes = [ctypes.c_void_p]
            handle.libdeflate_gzip_decompress_ex.argtypes = [
                *(ctypes.c_void_p, ctypes.c_void_p, size, ctypes.c_void_p, size),
                *(ctypes.c_void_p, ctypes.c_void_p),
            ]
            return handle
    return None


class MemberInflater:
    """Inflates the whole gzip members of one file."""

    def __init__(self, found: ctypes.CDLL) -> None:
        decompressor = found.libdeflate_alloc_decompressor()
        if not decompressor:
            raise MemoryError
        weakref.finalize(self, found.libdeflate_free_decompressor, decompressor)
        self._decompressor = int(decompressor)
        self._inflate = found.libdeflate_gzip_decompress_ex
        self._out = np.empty(FILL + MOST_MEMBER, np.uint8)
        self._sizes = (ctypes.c_size_t * 2)()  # bytes that were read, and written

    def __call__(self, data: bytes, at: int, *, ended: bool) -> tuple[bytes, int, list[int]]:
        """Inflate the members of `data` from a place on, up to about FILL bytes; stop before
        one that is not whole, sound, and followed by another (or by the end: `ended`).

        Returns the decoded bytes, the place behind the last member, and where each member ends in
        the bytes.
        """
        # An address that a member of `data` is read from; `data` is alive while it is.
        source = np.frombuffer(data, np.uint8).ctypes.data if data else 0
        target, stop, room = self._out.ctypes.data, len(data), len(self._out)
        sizes = self._sizes
        read = ctypes.addressof(sizes)
        written = read + ctypes.sizeof(ctypes.c_size_t)
        ends: list[int] = []
        filled = 0
        while (
            filled + MOST_MEMBER <= room
            and at + LEAST_MEMBER <= stop
            and len(ends) < MOST_TOGETHER
            and data[at : at + 3] == b"\x1f\x8b\x08"
            and not data[at + 3] & _UNUSUAL_FLAGS
            and not self._inflate(
                *(self._decompressor, source + at, stop - at),
                *(target + filled, room - filled, read, written),
            )
        ):
            after = at + sizes[0]
            # What follows a member is part of how it is judged.
            if not (ended if after == stop else data[after : after + 2] == _MAGIC):
                break
            at = after
            filled += sizes[1]
            ends.append(filled)
        return self._out[:filled].tobytes(), at, ends


def member_inflater() -> MemberInflater | None:
    """Return what inflates members, for one file; None: there is no libdeflate."""
    handle = library()
    return None if handle is None else MemberInflater(handle)
