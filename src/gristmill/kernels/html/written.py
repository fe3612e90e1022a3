"""The text of the blocks of a page that are kept, plain or as Markdown (CommonMark 0.31, tables as
GitHub's).
"""

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import CONTINUED, Blocks
from gristmill.kernels.html.elements import INSIDE, Elements
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bools, Bytes

H1, H6, TD, TH, LI = (ELEMENT[name] for name in ("h1", "h6", "td", "th", "li"))
PRE_BIT, LI_BIT, QUOTE_BIT = INSIDE["pre"], INSIDE["li"], INSIDE["blockquote"]
CELL_BITS = INSIDE["td"] | INSIDE["th"]
MOST_MARKS = 16  # bytes beside a block's own text


@helper
def _cell_of(element, elements):
    """The cell that an element is, or lies in at most four steps down; -1: none."""
    for _ in range(5):
        name = elements.names[element]
        if name == TD or name == TH:
            return np.int64(element)
        if element == 0:
            break
        element = np.int64(elements.parents[element])
    return np.int64(-1)


@helper
def _put(out, to, byte, times):
    for _ in range(times):
        out[to] = byte
        to += 1
    return to


@helper
def _put_fence(out, to):
    return _put(out, to, np.uint8(0x60), 3)


@kernel(Bytes, Elements, Blocks, types.int64, Bools, types.boolean, Bytes, returns=types.int64)
def _write(text, elements, blocks, count, kept, markdown, out):
    to = np.int64(0)
    row = np.int64(-1)
    item = np.int64(-1)
    fenced = np.int64(-1)
    for block in range(count):
        if not kept[block]:
            continue
        element = np.int64(blocks.elements[block])
        name = elements.names[element]
        inside = elements.inside[element]
        cell = _cell_of(element, elements) if inside & CELL_BITS else np.int64(-1)
        own = np.int64(elements.parents[cell]) if cell >= 0 else np.int64(-1)
        same_row = own >= 0 and own == row
        pre = element if markdown and inside & PRE_BIT else np.int64(-1)
        if fenced >= 0 and pre < 0:
            to = _put(out, to, np.uint8(0x0A), 1)
            to = _put_fence(out, to)
            fenced = np.int64(-1)
        if to > 0:
            if same_row:
                if markdown:
                    to = _put(out, to, np.uint8(0x20), 1)
                    to = _put(out, to, np.uint8(0x7C), 1)
                    to = _put(out, to, np.uint8(0x20), 1)
                else:
                    to = _put(out, to, np.uint8(0x09), 1)
            else:
                tight = not markdown or fenced >= 0 or (own >= 0 and row >= 0)
                tight = tight or (inside & LI_BIT != 0 and item >= 0)
                to = _put(out, to, np.uint8(0x0A), 1 if tight else 2)
        item = element if inside & LI_BIT else np.int64(-1)
        row = own
        if markdown and not same_row:
            if pre >= 0 and fenced < 0:
                to = _put_fence(out, to)
                to = _put(out, to, np.uint8(0x0A), 1)
                fenced = pre
            elif H1 <= name <= H6:
                to = _put(out, to, np.uint8(0x23), np.int64(name) - H1 + 1)
                to = _put(out, to, np.uint8(0x20), 1)
            elif name == LI and blocks.flags[block] & CONTINUED == 0:
                to = _put(out, to, np.uint8(0x2D), 1)
                to = _put(out, to, np.uint8(0x20), 1)
            elif inside & QUOTE_BIT:
                to = _put(out, to, np.uint8(0x3E), 1)
                to = _put(out, to, np.uint8(0x20), 1)
        for at in range(blocks.starts[block], blocks.stops[block]):
            out[to] = text[at]
            to += 1
    if fenced >= 0:
        to = _put(out, to, np.uint8(0x0A), 1)
        to = _put_fence(out, to)
    return to


def write(
    text: np.ndarray,
    elements: Elements,
    blocks: Blocks,
    kept: np.ndarray,
    markdown: bool,
    size: int,
) -> bytes:
    """The kept blocks (count,) bool of a text of `size` bytes as UTF-8: a block a line, the cells
    of a row in one line; as Markdown with marks for headings, items, quotes, code and cells.
    """
    out = np.empty(size + MOST_MARKS * (int(np.count_nonzero(kept)) + 1), np.uint8)
    length = _write(text, elements, blocks, len(kept), kept, markdown, out)
    return out[:length].tobytes()
