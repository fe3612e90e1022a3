"""The text of a page's kept blocks: a block a line, the cells of a row in one line."""

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import Blocks
from gristmill.kernels.html.elements import INSIDE, Elements
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bools, Bytes

TD, TH = ELEMENT["td"], ELEMENT["th"]
CELL_BITS = INSIDE["td"] | INSIDE["th"]


@helper
def _find_cell(element, elements):
    """Return the cell that an element is, or lies in at most four steps down; -1: none."""
    for _ in range(5):
        name = elements.names[element]
        if name == TD or name == TH:
            return np.int64(element)
        if element == 0:
            break
        element = np.int64(elements.parents[element])
    return np.int64(-1)


@kernel(Bytes, Elements, Blocks, types.int64, Bools, Bytes, returns=types.int64)
def _write(text, elements, blocks, count, kept, out):
    to = np.int64(0)
    row = np.int64(-1)
    for block in range(count):
        if not kept[block]:
            continue
        element = np.int64(blocks.elements[block])
        cell = (
            _find_cell(element, elements) if elements.inside[element] & CELL_BITS else np.int64(-1)
        )
        own = np.int64(elements.parents[cell]) if cell >= 0 else np.int64(-1)
        if to > 0:
            out[to] = 0x09 if own >= 0 and own == row else 0x0A
            to += 1
        row = own
        for at in range(blocks.starts[block], blocks.stops[block]):
            out[to] = text[at]
            to += 1
    return to


def write(
    text: np.ndarray, elements: Elements, blocks: Blocks, kept: np.ndarray, size: int
) -> bytes:
    """Return the kept blocks (count,) bool of a text of `size` bytes as UTF-8."""
    out = np.empty(size + int(np.count_nonzero(kept)) + 1, np.uint8)
    length = _write(text, elements, blocks, len(kept), kept, out)
    return out[:length].tobytes()
