"""Windows that begin where documents begin."""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, kernel


@kernel(
    *(INT64S, types.int64, types.int64, types.boolean, types.int64[::1], types.int64[::1]),
    returns=types.int64,
)
def _starts(ends, first, limit, keep_rest, state, out):
    """state[0]: where the last window ends."""
    found, start, free = np.int64(0), first, state[0]
    for end in ends:
        if end > start >= free:
            out[found] = start
            found += 1
            free = start + limit
        while keep_rest and end - free >= limit:
            out[found] = free
            found += 1
            free += limit
        start = end
    state[0] = free
    return found


def starts(ends: np.ndarray, first: int, limit: int, state: np.ndarray, *, keep_rest: bool):
    """Return where windows of `limit` tokens begin: at the first document that begins at or behind
    the end of the window before.

    `ends` (n,) int64 are the ends of documents that follow one another from position `first` on;
    `state` (1,) int64 is 0 before the first call, and carries on from call to call. keep_rest: a
    rest of a document that fills a window is a window. The last window may end behind the tokens.
    """
    begin = min(int(state[0]), first)
    room = (int(ends[-1]) - begin) // limit + 1 if len(ends) else 0
    out = np.empty(max(room, 0) + 1, np.int64)
    found = _starts(ends, first, limit, keep_rest, state, out)
    return out[:found]
