"""A heap of pairs of tokens: rows (count, left << 32 | right, number of the pair). On top is the
pair with the highest count; of equal ones that with the smaller left token, then right token.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper


@helper
def push(heap, size, count, sides, pair):
    """Add an entry to a heap of `size` entries."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap[above, 0] > count or (heap[above, 0] == count and heap[above, 1] < sides):
            break
        heap[at, 0] = heap[above, 0]
        heap[at, 1] = heap[above, 1]
        heap[at, 2] = heap[above, 2]
        at = above
    heap[at, 0] = count
    heap[at, 1] = sides
    heap[at, 2] = pair


@helper
def replace_top(heap, size, count, sides, pair):
    """Put an entry in the place of the top, of a heap of `size` entries."""
    at = np.int64(0)
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        other = below + 1
        if other < size and (
            heap[other, 0] > heap[below, 0]
            or (heap[other, 0] == heap[below, 0] and heap[other, 1] < heap[below, 1])
        ):
            below = other
        if count > heap[below, 0] or (count == heap[below, 0] and sides < heap[below, 1]):
            break
        heap[at, 0] = heap[below, 0]
        heap[at, 1] = heap[below, 1]
        heap[at, 2] = heap[below, 2]
        at = below
    heap[at, 0] = count
    heap[at, 1] = sides
    heap[at, 2] = pair


@helper
def pop(heap, size):
    """Take the top away from a heap of `size` entries; it has one less after that."""
    last = size - 1
    if last > 0:
        replace_top(heap, last, heap[last, 0], heap[last, 1], heap[last, 2])
