"""Cutting a long piece where no token can cross: its parts are merged alone, and are met again.

Text without spaces makes long pieces that nobody meets twice: sentences of Chinese or Japanese. But
few pairs of their characters stand side by side in any token. Where two do not, no merge can join
what is left of them with what is right of them, so that the parts on both sides merge as they do
alone. Which pairs do is in a bitmap, `joints`, by a hash: a pair that shares its bit with another
one is merely not cut.

Tokens are of whole characters, or not. In well-formed text the first kind has both characters of
every place inside it. Of the others `joints` has the two bytes on both sides of such a place.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Int64s, Uint64s
from gristmill.kernels.jit.loads import ONE
from gristmill.kernels.jit.vectors import address_of
from gristmill.kernels.unicode.tables import lead_width

BITS = 19  # joints has 2 ** BITS bits: o200k sets 12,000 of them
WORDS = (1 << BITS) >> 6
WIDE = 3  # bytes of a character from which on places beside it are looked up
MOST = 64  # parts that are found together
OF_BYTES = ONE << np.uint64(63)  # of a place between bytes, not characters


class Cuts(NamedTuple):
    """Parts of a long piece."""

    starts: Int64s  # (MOST + 2,)
    keys: Uint64s  # (2 * MOST,)
    places: Int64s  # (MOST,)

    @classmethod
    def empty(cls) -> "Cuts":
        """Room for MOST parts."""
        return cls(
            np.zeros(MOST + 2, np.int64), np.zeros(2 * MOST, np.uint64), np.zeros(MOST, np.int64)
        )


@helper
def addresses_of_cuts(cuts):
    """Return the addresses of the arrays."""
    return address_of(cuts.starts), address_of(cuts.keys), address_of(cuts.places)


@helper
def _joint_bit(joint):
    """Return the number of a joint's bit."""
    return (joint * GOLDEN) >> np.uint64(64 - BITS)


@helper
def _character(data, at, stop):
    """Return a character's bytes as a number, and how many they are; none is at `stop` or
    behind.
    """
    width = min(np.int64(lead_width(data[at])), stop - at)
    value = np.uint64(data[at])
    for j in range(1, width):
        value = (value << np.uint64(8)) | np.uint64(data[at + j])
    return value, width


@helper
def _between_bytes(left, right):
    """Return the joint of two bytes."""
    return OF_BYTES | (np.uint64(left) << np.uint64(8)) | np.uint64(right)


@helper
def _has(joints, joint):
    bit = _joint_bit(joint)
    return (joints[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & ONE != 0


@helper
def _add(joints, joint):
    bit = _joint_bit(joint)
    joints[bit >> np.uint64(6)] |= ONE << (bit & np.uint64(63))


@helper
def _is_whole(data, start, stop):
    """Return whether bytes are whole characters."""
    at = start
    while at < stop:
        if data[at] & 0xC0 == 0x80:
            return False
        width = lead_width(data[at])
        if at + width > stop:
            return False
        for j in range(1, width):
            if data[at + j] & 0xC0 != 0x80:
                return False
        at += width
    return True


@helper
def add_joints(data, start, stop, joints):
    """Add the places inside a token."""
    if not _is_whole(data, start, stop):
        for at in range(start + 1, stop):
            if data[at] & 0xC0 != 0x80:
                _add(joints, _between_bytes(data[at - 1], data[at]))
        return
    left, width = _character(data, start, stop)
    at = start + width
    while at < stop:
        right, following = _character(data, at, stop)
        if max(width, following) >= WIDE:
            _add(joints, (left << np.uint64(32)) | right)
        at += following
        left = right
        width = following


@helper
def find_cuts(data, start, stop, joints, starts):
    """Write where parts start, up to MOST, and where the last of them stops; how many there are."""
    count = np.int64(0)
    starts[0] = start
    left, width = _character(data, start, stop)
    at = start + width
    while at < stop:
        right, following = _character(data, at, stop)
        if max(width, following) >= WIDE:
            if not _has(joints, (left << np.uint64(32)) | right):
                if not _has(joints, _between_bytes(data[at - 1], data[at])):
                    count += 1
                    starts[count] = at
                    if count == MOST:
                        return count
        at += following
        left = right
        width = following
    starts[count + 1] = stop
    return count + 1
