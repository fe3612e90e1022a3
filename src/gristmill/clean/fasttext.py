"""fastText model files, as the kernel reads them (format version 12: fastText 0.9.2, src/fasttext.cc and the classes it saves).

The kernel knows supervised models with hierarchical softmax, words alone (no word n-grams), a quantised and pruned input and a plain
output: the lid.176 family. For any other, `read` gives None, and the library predicts.
"""

import struct
from typing import NamedTuple

import numpy as np

from gristmill.kernels.fasttext import BASIS, PRIME, Model

MAGIC, VERSION = 793712314, 12
SUPERVISED, HIERARCHICAL_SOFTMAX = 3, 1


class Known(NamedTuple):
    """A model for the kernel, and what its labels are called."""

    model: Model
    labels: list[str]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self._data, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def string(self) -> bytes:
        end = self._data.index(b"\0", self._at)
        found = self._data[self._at : end]
        self._at = end + 1
        return found

    def array(self, kind: str, count: int) -> np.ndarray:
        found = np.frombuffer(self._data, np.dtype(kind), count, self._at)
        self._at += found.nbytes
        return found


def read(data: bytes) -> Known | None:
    """Read a model file; None where it is no model that the kernel knows."""
    try:
        return _read(_Reader(data))
    except (struct.error, ValueError, IndexError):
        return None


def _read(file: _Reader) -> Known | None:
    if file.take("ii") != (MAGIC, VERSION):
        return None
    dimension, _, _, _, _, word_ngrams, loss, kind, buckets, shortest, longest, _ = file.take("12i")
    file.take("d")
    if kind != SUPERVISED or loss != HIERARCHICAL_SOFTMAX or word_ngrams > 1 or longest < 1:
        return None
    size, words, labels = file.take("3i")
    _, pruned = file.take("2q")
    entries, counts = [], []
    for _ in range(size):
        entries.append(file.string())
        counts.append(file.take("qb")[0])
    if pruned < 0 or b"</s>" not in entries[:words]:
        return None
    pairs = file.array("<i4", 2 * pruned).reshape(-1, 2)
    if not file.take("?")[0]:
        return None
    rows = _quantised(file, dimension)
    if file.take("?")[0]:
        return None
    height, width = file.take("2q")
    output = file.array("<f4", height * width).reshape(height, width)
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum([len(entry) for entry in entries], out=offsets[1:])
    order = np.argsort(pairs[:, 0])
    kept = np.zeros((buckets + 63) // 64, np.uint64)
    np.bitwise_or.at(kept, pairs[:, 0] >> 6, np.uint64(1) << (pairs[:, 0] & 63).astype(np.uint64))
    before = np.zeros(len(kept), np.int32)
    before[1:] = np.cumsum(np.bitwise_count(kept))[:-1]
    left, right = _tree(counts[words:])
    model = Model(
        np.frombuffer(b"".join(entries), np.uint8), offsets, _table(entries), words, entries.index(b"</s>"), shortest, longest,
        buckets, kept, before, np.ascontiguousarray(words + pairs[order, 1]).astype(np.int32), rows,
        np.ascontiguousarray(output[: labels - 1]), left, right,
    )  # fmt: skip
    return Known(model, [entry.decode().removeprefix("__label__") for entry in entries[words:]])


def _quantised(file: _Reader, dimension: int) -> np.ndarray:
    """A product-quantised matrix, its rows written out: float32(norm * centroid)."""
    with_norms = file.take("?")[0]
    height, _ = file.take("2q")
    codes = file.array("u1", file.take("i")[0]).reshape(height, -1)
    centroids = _centroids(file)
    rows = np.empty((height, dimension), np.float32)
    at = 0
    for part, table in enumerate(centroids):
        rows[:, at : at + table.shape[1]] = table[codes[:, part]]
        at += table.shape[1]
    if with_norms:
        norm_codes = file.array("u1", height)
        rows *= _centroids(file)[0][norm_codes]
    return rows


def _centroids(file: _Reader) -> list[np.ndarray]:
    """A product quantiser: for each part of a vector 256 centroids; the last part may be shorter."""
    dimension, parts, size, last = file.take("4i")
    values = file.array("<f4", dimension * 256)
    widths = [size] * (parts - 1) + [last]
    return [values[256 * size * part :][: 256 * width].reshape(256, width) for part, width in enumerate(widths)]


def _table(entries: list[bytes]) -> np.ndarray:
    table = np.full(1 << (2 * len(entries)).bit_length(), -1, np.int32)
    for number, entry in enumerate(entries):
        value = int(BASIS)
        for byte in entry:
            value = ((value ^ (byte | 0xFFFFFF00 if byte >= 0x80 else byte)) * int(PRIME)) & 0xFFFFFFFF
        place = value & (len(table) - 1)
        while table[place] >= 0:
            place = (place + 1) & (len(table) - 1)
        table[place] = number
    return table


def _tree(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """FastText's Huffman tree: labels come sorted by falling count; of equal counts the leaf goes last."""
    labels = len(counts)
    weights = [*counts, *([10**15] * (labels - 1))]
    left, right = np.full(2 * labels - 1, -1, np.int32), np.full(2 * labels - 1, -1, np.int32)
    leaf, node = labels - 1, labels
    for parent in range(labels, 2 * labels - 1):
        children = []
        for _ in range(2):
            if leaf >= 0 and weights[leaf] < weights[node]:
                children.append(leaf)
                leaf -= 1
            else:
                children.append(node)
                node += 1
        left[parent], right[parent] = children
        weights[parent] = weights[children[0]] + weights[children[1]]
    return left, right
