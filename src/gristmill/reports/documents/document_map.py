"""A place on a map for each document, from the words of its text alone: no model, no network.

    words and pairs of words -> BUCKETS hashed counts -> log(1 + count), times log(documents / those
    that have the bucket), length 1 -> the two axes along which the documents differ most (principal
    components, Hotelling 1933)

The axes come from at most FITTED documents; numpy alone computes them, so that the same documents
and libraries give the same map.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from gristmill.tables.columns import utf8_buffers

BUCKETS = 512
BITS = 10  # of the kernel's own buckets, the fewest that it makes
FITTED = 10_000  # documents
ROWS = 4_096  # that are placed at once: 16 MB


class DocumentMap:
    """Places texts."""

    def __init__(self, weights: np.ndarray, mean: np.ndarray, axes: np.ndarray) -> None:
        """Use `fitted`. weights and mean (BUCKETS,), axes (BUCKETS, 2), all float64."""
        self._weights, self._mean, self._axes = weights, mean, axes

    @classmethod
    def fitted(cls, texts: Iterable[pa.Array]) -> "DocumentMap":
        """Return a map of documents like these; of batches of texts, the first FITTED that are not
        empty are read.
        """
        held, rows = [np.empty((0, BUCKETS), np.float32)], 0
        for some in texts:
            vectors = _counts(some)
            held.append(vectors[vectors.any(axis=1)][: FITTED - rows])
            rows += len(held[-1])
            if rows >= FITTED:
                break
        counts = np.concatenate(held)
        has = np.count_nonzero(counts, axis=0)
        weights = np.log((1 + rows) / (1 + has)) + 1
        units = _units(counts, weights)
        mean = units.mean(axis=0) if rows else np.zeros(BUCKETS)
        axes = _axes(units - mean)
        # An axis and its opposite are equally good: the largest part points up.
        largest = np.abs(axes).argmax(axis=0)
        return cls(weights, mean, axes * np.sign(axes[largest, np.arange(2)]))

    def of(self, texts: pa.Array) -> np.ndarray:
        """Return the places of n texts: (n, 2) float32; an empty one is in the middle."""
        out = np.zeros((len(texts), 2), np.float32)
        for start in range(0, len(texts), ROWS):
            counts = _counts(texts.slice(start, ROWS))
            some = counts.any(axis=1)
            places = (_units(counts, self._weights) - self._mean) @ self._axes
            out[start : start + ROWS][some] = places[some]
        return out


def _axes(centred: np.ndarray) -> np.ndarray:
    """Return the two directions in which rows (n, BUCKETS) differ most: (BUCKETS, 2), the first one
    more than the second.
    """
    return np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]


def _counts(texts: pa.Array) -> np.ndarray:
    """Return (n, BUCKETS) float32: how often n texts have words of each bucket."""
    # Kernels are loaded when a map is asked for.
    from gristmill.kernels.models.linear_classifier import features
    from gristmill.kernels.unicode.normalised import normalise

    offsets, buckets = features(*normalise(*utf8_buffers(texts.fill_null(""))), bits=BITS)
    rows = np.repeat(np.arange(len(texts)), np.diff(offsets))
    places = rows * BUCKETS + (buckets[: len(rows)] & (BUCKETS - 1))
    counts = np.bincount(places, minlength=len(texts) * BUCKETS)
    return counts.reshape(len(texts), BUCKETS).astype(np.float32)


def _units(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Counts weighted, each row of length 1: (n, BUCKETS) float64."""
    vectors = np.log1p(counts) * weights
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
