"""How often each token occurs, in all documents or in those of each group; one pass.

A token that is not in the vocabulary counts as the entry behind the last one, so that a damaged
shard is noticed and nothing outside an array is read or written.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, INT64S, UINT32S, kernel

UINT16S = types.Array(types.uint16, 1, "C", readonly=True)


@kernel(UINT16S, types.int64[::1])
def _count_16(tokens, counts):
    beyond = np.uint32(len(counts) - 1)
    for i in range(len(tokens)):
        counts[min(np.uint32(tokens[i]), beyond)] += 1


@kernel(UINT32S, types.int64[::1])
def _count_32(tokens, counts):
    beyond = np.uint32(len(counts) - 1)
    for i in range(len(tokens)):
        counts[min(tokens[i], beyond)] += 1


@kernel(UINT16S, INT64S, BYTES, types.int64[:, ::1])
def _count_groups_16(tokens, ends, groups, counts):
    beyond = np.uint32(counts.shape[1] - 1)
    at = np.int64(0)
    for i in range(len(ends)):
        row = counts[groups[i]]
        for j in range(at, ends[i]):
            row[min(np.uint32(tokens[j]), beyond)] += 1
        at = ends[i]


@kernel(UINT32S, INT64S, BYTES, types.int64[:, ::1])
def _count_groups_32(tokens, ends, groups, counts):
    beyond = np.uint32(counts.shape[1] - 1)
    at = np.int64(0)
    for i in range(len(ends)):
        row = counts[groups[i]]
        for j in range(at, ends[i]):
            row[min(tokens[j], beyond)] += 1
        at = ends[i]


def add_counts(tokens: np.ndarray, counts: np.ndarray) -> None:
    """Add to `counts` how often each token occurs.

    tokens (n,) uint16 or uint32; counts (vocabulary + 1,) int64, the last entry for tokens that are
    not below the vocabulary.
    """
    (_count_16 if tokens.dtype.itemsize == 2 else _count_32)(tokens, counts)


def add_counts_by_group(
    tokens: np.ndarray, ends: np.ndarray, groups: np.ndarray, counts: np.ndarray
) -> None:
    """Add to counts[group] how often each token occurs in the documents of a group.

    tokens (m,) uint16 or uint32; document i is tokens[ends[i - 1]:ends[i]], ends (n,) int64, sorted
    and not above m; groups (n,) uint8; counts (groups, vocabulary + 1) int64, the last column as in
    `add_counts`. Raises IndexError for ends or groups that do not fit.
    """
    if len(ends) and (ends[0] < 0 or ends[-1] > len(tokens) or (np.diff(ends) < 0).any()):
        raise IndexError(f"ends of documents that are not sorted, or beyond {len(tokens):,} tokens")
    if len(groups) != len(ends) or int(groups.max(initial=0)) >= len(counts):
        raise IndexError(f"{len(groups):,} groups for {len(ends):,} documents")
    (_count_groups_16 if tokens.dtype.itemsize == 2 else _count_groups_32)(
        tokens, ends, groups, counts
    )
