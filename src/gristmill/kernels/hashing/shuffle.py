"""The order of documents in token shards: a keyed hash of the document's number, and the copying
that it asks for.
"""

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import mix
from gristmill.kernels.jit.compile import INT64S, kernel

UINT16S = types.Array(types.uint16, 1, "C", readonly=True)
UINT32S = types.Array(types.uint32, 1, "C", readonly=True)


@kernel(INT64S, types.uint64, types.uint64[::1])
def _order_keys(documents, key, out):
    for i in range(len(documents)):
        out[i] = mix(np.uint64(documents[i]) ^ key)


@kernel(UINT16S, INT64S, INT64S, INT64S, types.uint16[::1])
def _gather_16(tokens, starts, stops, order, out):
    end = np.int64(0)
    for i in order:
        for j in range(starts[i], stops[i]):
            out[end] = tokens[j]
            end += 1


@kernel(UINT32S, INT64S, INT64S, INT64S, types.uint32[::1])
def _gather_32(tokens, starts, stops, order, out):
    end = np.int64(0)
    for i in order:
        for j in range(starts[i], stops[i]):
            out[end] = tokens[j]
            end += 1


def order_keys(documents: np.ndarray, key: int) -> np.ndarray:
    """Return where documents (n,) int64 come in the shuffled order: (n,) uint64, no two equal (the
    hash is a permutation).
    """
    out = np.empty(len(documents), np.uint64)
    _order_keys(documents, np.uint64(key), out)
    return out


def gather(
    tokens: np.ndarray, starts: np.ndarray, stops: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Return the runs tokens[starts[i]:stops[i]] for i in order, one after another; tokens are
    uint16 or uint32.
    """
    out = np.empty(int((stops[order] - starts[order]).sum()), tokens.dtype)
    (_gather_16 if tokens.dtype.itemsize == 2 else _gather_32)(tokens, starts, stops, order, out)
    return out
