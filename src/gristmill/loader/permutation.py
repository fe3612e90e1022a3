"""The order of an epoch: a permutation that a key decides, in constant memory.

The key comes from what decides the order and from nothing else: the corpus' manifest, the seed,
the source, the epoch, and what is permuted. Neither ranks, workers nor clocks are in it.
"""

import hashlib

import numpy as np

from gristmill.kernels.loading.feistel import ROUNDS, permute


def derive_keys(
    corpus: str, seed: int, source: str, epoch: int, what: str = "windows"
) -> np.ndarray:
    """Return (ROUNDS,) uint64: independent keys for each corpus (sha256 of its manifest), seed,
    source, epoch and purpose; by BLAKE2b (RFC 7693).
    """
    text = "\0".join(("gristmill order 1", corpus, str(seed), source, str(epoch), what))
    digest = hashlib.blake2b(text.encode(), digest_size=8 * ROUNDS).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


class Permutation:
    """A permutation of 0..count - 1."""

    def __init__(self, count: int, keys: np.ndarray) -> None:
        """`keys` of `derive_keys`."""
        self.count, self.keys = count, keys

    def forward(self, indices: np.ndarray) -> np.ndarray:
        """Return which of 0..count - 1 comes at each of these places, (k,) int64."""
        return permute(np.ascontiguousarray(indices, np.int64), self.count, self.keys)

    def inverse(self, items: np.ndarray) -> np.ndarray:
        """At which place each of these comes, (k,) int64."""
        return permute(np.ascontiguousarray(items, np.int64), self.count, self.keys, inverse=True)
