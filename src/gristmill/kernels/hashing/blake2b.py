"""BLAKE2b (RFC 7693) of many texts, eight side by side: each has a lane of a vector.

A lane whose text has ended takes the next text. So eight texts take about as long as one alone,
whatever their lengths.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.jit.blake2b_rounds import BLOCK, INITIAL, LANES, compress
from gristmill.kernels.jit.compile import BYTES, INT64S, UINT64S, kernel
from gristmill.kernels.jit.groups import Bytes, Int64s, Uint64Rows, Uint64s

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class Lanes(NamedTuple):
    """The texts at hand, a lane each."""

    states: Uint64Rows  # (8, LANES)
    addresses: Int64s  # (LANES,): of the blocks that are next
    hashed: Uint64s  # (LANES,): bytes hashed with them
    last: Uint64s  # (LANES,): all ones where the block is a text's last
    texts: Int64s  # (LANES,): which text; -1: none
    places: Int64s  # (LANES,): where the block starts
    ends: Bytes  # (LANES * BLOCK,): last blocks, with zeros behind them


@kernel(INT64S, BYTES, UINT64S, BYTES, Lanes, Uint64Rows, allocates=True)
def _hash(offsets, data, start, key, lanes, out):
    states, addresses, hashed, last, texts, places, ends = lanes
    start_of_data = np.int64(data.ctypes.data)
    start_of_ends = np.int64(ends.ctypes.data)
    before = np.uint64(len(key))
    for lane in range(LANES):
        texts[lane] = -1
        hashed[lane] = before
        last[lane] = np.uint64(0)
        addresses[lane] = np.int64(key.ctypes.data) if len(key) else start_of_ends
        for word in range(8):
            states[word, lane] = start[word]
    if len(key):
        compress(states, addresses, hashed, last)
    # What every text starts from; the last lane may be taken by a text before others start.
    begin = np.empty(8, np.uint64)
    for word in range(8):
        begin[word] = states[word, 0]
    following = np.int64(0)
    while True:
        busy = False
        for lane in range(LANES):
            if texts[lane] < 0:
                while following < len(out) and offsets[following] == offsets[following + 1]:
                    following += 1
                if following == len(out):
                    continue
                texts[lane] = following
                places[lane] = offsets[following]
                hashed[lane] = before
                last[lane] = np.uint64(0)
                for word in range(8):
                    states[word, lane] = begin[word]
                following += 1
            busy = True
            at = places[lane]
            left = offsets[texts[lane] + 1] - at
            if left > BLOCK:
                addresses[lane] = start_of_data + at
                places[lane] = at + BLOCK
                hashed[lane] += np.uint64(BLOCK)
            else:
                block = lane * BLOCK
                for k in range(left):
                    ends[block + k] = data[at + k]
                ends[block + left : block + BLOCK] = 0
                addresses[lane] = start_of_ends + block
                hashed[lane] += np.uint64(left)
                last[lane] = ALL
        if not busy:
            return
        compress(states, addresses, hashed, last)
        for lane in range(LANES):
            if texts[lane] >= 0 and last[lane]:
                for word in range(8):
                    out[texts[lane], word] = states[word, lane]
                texts[lane] = -1


def hash_texts(offsets: np.ndarray, data: np.ndarray, *, size: int, key: bytes = b"") -> np.ndarray:
    """Return BLAKE2b of n texts: offsets (n + 1,) int64 into data (bytes,) uint8; digests of `size`
    bytes, at most 64, and of a key of at most 64 bytes: (n, size) uint8.

    The digest of an empty text is not computed, and means nothing.
    """
    start = np.array(INITIAL, np.uint64)
    start[0] ^= np.uint64(0x01010000 | len(key) << 8 | size)
    block = np.zeros(BLOCK if key else 0, np.uint8)
    block[: len(key)] = np.frombuffer(key, np.uint8)
    lanes = Lanes(
        np.empty((8, LANES), np.uint64),
        np.empty(LANES, np.int64),
        np.empty(LANES, np.uint64),
        np.empty(LANES, np.uint64),
        np.empty(LANES, np.int64),
        np.empty(LANES, np.int64),
        np.zeros(LANES * BLOCK, np.uint8),
    )
    out = np.empty((len(offsets) - 1, 8), np.uint64)
    _hash(offsets, data, start, block, lanes, out)
    return out.astype("<u8", copy=False).view(np.uint8)[:, :size]
