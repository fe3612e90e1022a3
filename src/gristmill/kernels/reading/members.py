"""Gzip members (RFC 1952) that follow each other, inflated by libdeflate.

libdeflate decodes a whole member into a buffer that has room for it, at about twice the speed of
what decodes in steps. It cannot go on with more input, and for a member that is cut off or does not
fit it says the same as for a broken one. So this kernel takes only members that are whole, and
stops before any other.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.calls import call_gzip_decompress
from gristmill.kernels.jit.compile import BYTES, kernel
from gristmill.kernels.jit.groups import Bytes, Int64s

LEAST_MEMBER = 18  # bytes: the header, an empty block, the checksum and the size
# Reserved, and FHCRC: libdeflate does not compare a header's checksum.
_UNUSUAL_FLAGS = np.uint8(0xE2)


@kernel(
    types.int64,
    types.int64,
    BYTES,
    types.UniTuple(types.int64, 2),
    types.boolean,
    Bytes,
    types.int64,
    Int64s,
    Int64s,
    returns=types.UniTuple(types.int64, 3),
)
def _inflate(function, decompressor, data, span, ended, out, room, sizes, ends):
    at, stop = span
    filled = count = np.int64(0)
    while filled + room <= len(out) and at + LEAST_MEMBER <= stop and count < len(ends):
        if data[at] != 0x1F or data[at + 1] != 0x8B or data[at + 2] != 8:
            break
        if data[at + 3] & _UNUSUAL_FLAGS:
            break
        if call_gzip_decompress(function, decompressor, data, (at, stop), out, filled, sizes) != 0:
            break
        following = at + sizes[0]
        # What stands behind a member is part of how it is judged.
        if following == stop:
            if not ended:
                break
        elif following + 1 >= stop or data[following] != 0x1F or data[following + 1] != 0x8B:
            break
        at = following
        filled += sizes[1]
        ends[count] = filled
        count += 1
    return at, filled, count


def inflate(
    function: int,
    decompressor: int,
    data: np.ndarray,
    span: tuple[int, int],
    out: np.ndarray,
    room: int,
    ends: np.ndarray,
    *,
    ended: bool,
) -> tuple[int, int, int]:
    """Inflate the members in data[span[0]:span[1]] until less than `room` is left in `out`, there
    are as many as `ends` has room for, or one is not flawless.

    data (bytes,) uint8; out (room,) uint8; ends (n,) int64 gets where each ends in `out`.
    `function` is the address of libdeflate_gzip_decompress_ex, `decompressor` that of a
    decompressor. `ended`: no bytes follow the span; otherwise a member is taken only if another
    begins behind it.
    Returns the place behind the last member, how many bytes of `out` are filled, and how many
    members there were.
    """
    at, filled, count = _inflate(
        function, decompressor, data, span, ended, out, room, np.empty(2, np.int64), ends
    )
    return int(at), int(filled), int(count)
