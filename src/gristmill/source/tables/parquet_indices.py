"""How often a page of a Parquet file names each value of a dictionary.

Source: Apache Parquet, Encodings.md, "Dictionary Encoding" and "Run Length Encoding / Bit-Packing
Hybrid"; README.md, "Data Pages".
"""

import numpy as np


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, the lowest first, and the place after it. Raises
    IndexError.
    """
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise IndexError


def count_indices(data: bytes, rows: int, nullable: bool, counts: np.ndarray) -> bool:
    """Add to counts (n,) int64 how often a page of `rows` rows names each value of a dictionary of
    n. False: the page cannot be read so.

    data: the page, decompressed, of version 1. Where there are nulls, up to seven times too many
    may be counted for a value.
    """
    at = 4 + int.from_bytes(data[:4], "little") if nullable else 0
    try:
        width, at = data[at], at + 1
        if not 0 < width <= 32:
            return False
        while rows > 0 and at < len(data):
            head, at = varint(data, at)
            if head & 1:  # groups of eight, bit-packed
                number, stop = (head >> 1) * 8, at + (head >> 1) * width
                packed = np.frombuffer(data[at:stop], np.uint8)
                bits = np.unpackbits(packed, bitorder="little").reshape(-1, width)
                indices = (bits @ (1 << np.arange(width)))[:rows]
                np.add.at(counts, indices, 1)
            else:
                number, stop = head >> 1, at + (width + 7) // 8
                counts[int.from_bytes(data[at:stop], "little")] += min(number, rows)
            if stop > len(data):
                return False
            rows, at = rows - number, stop
    except (IndexError, ValueError):
        return False
    return True
