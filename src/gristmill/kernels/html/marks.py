"""The text of the blocks of a page that are kept, with the marks of what stands within a line.

    <p>a <code>b</code> <img class=latex alt=x>  ->  a CODE b CODE_END MATH x MATH_END

The page's tokens are read once more. A mark is one byte below 0x20; there is none in the text but
the newline of a <br>. A formula that stands between two blocks is kept where both are, and so is a
block that is nothing but formulas.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import NEWLINE, NONE, Blocks
from gristmill.kernels.html.elements import BLOCK, NO_TEXT, PRE_BIT, VOID, Elements
from gristmill.kernels.html.formulas import is_word, put
from gristmill.kernels.html.marked_text import (
    AFTER_FORMULA,
    CLOSED_NOW,
    CODE_END,
    CODE_ON,
    DUE,
    ENTRY,
    IN_CODE,
    IN_LINK,
    IS_CODE,
    IS_DISPLAY,
    IS_OPEN,
    IS_PRE,
    KEPT,
    LEFT_OUT,
    LINK_ON,
    ONLY_FORMULAS,
    PENDING,
    SKIPPED,
    STARTED,
    STATES,
    TABLES,
    TO,
    MarkedBlocks,
    MarkTables,
    PageReading,
    PageSource,
    attribute_of,
    close_link,
    put_run,
)
from gristmill.kernels.html.names import ATTRIBUTE, CUSTOM, ELEMENT
from gristmill.kernels.html.shown_formulas import math_stop, put_formula
from gristmill.kernels.html.tokens import CLOSED, COMMENT, END, RAW, START, TEXT
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bools, Int32s

A, BR, SPAN, SVG, MATHML, TITLE = (ELEMENT[name] for name in "a br span svg math title".split())
CLASS, HREF = ATTRIBUTE["class"], ATTRIBUTE["href"]
KATEX, MATHJAX = np.frombuffer(b"katex", np.uint8), np.frombuffer(b"mathjax", np.uint8)


@helper
def _open(block, kept, count, blocks, elements, state):
    """Begin a block: what becomes of it."""
    state[STARTED] = state[PENDING] if state[PENDING] >= 0 else state[TO]
    state[PENDING] = -1
    state[IS_PRE] = elements.inside[blocks.elements[block]] & PRE_BIT != 0
    if kept[block]:
        state[IS_OPEN] = KEPT
    elif block > 0 and kept[block - 1] and (block + 1 >= count or kept[block + 1]):
        state[IS_OPEN] = ONLY_FORMULAS
    else:
        state[IS_OPEN] = LEFT_OUT
        state[TO] = state[STARTED]


@helper
def _enter(block, state, entries):
    """Write an entry of what was written since STARTED."""
    entry = state[ENTRY]
    entries.blocks[entry] = block
    entries.starts[entry] = state[STARTED]
    entries.stops[entry] = state[TO]
    state[ENTRY] = entry + 1


@helper
def _close(block, page, reading, tables, entries):
    """End the open block."""
    state = reading.state
    if state[LINK_ON] >= 0:
        close_link(page, reading, tables)
    if state[CODE_ON]:
        state[TO] = put(reading.out, state[TO], np.uint8(CODE_END))
        state[CODE_ON] = 0
    if state[IS_OPEN] != LEFT_OUT and state[TO] > state[STARTED]:
        _enter(block, state, entries)
    state[IS_OPEN] = CLOSED_NOW
    state[DUE] = NONE
    state[AFTER_FORMULA] = state[IS_PRE] = 0


@helper
def _inline_tag(page, token, links, reading, tables):
    """What a tag that begins no line does to what follows it."""
    state = reading.state
    name = page.tokens.names[token]
    ends = page.tokens.kinds[token] == END
    if name == SPAN:
        if state[SKIPPED] > 0:
            state[SKIPPED] += -1 if ends else 1
        elif not ends:
            place = attribute_of(page, token, CLASS)
            if place >= 0:
                start = page.attributes.starts[place]
                stop = page.attributes.stops[place]
                if is_word(page.data, start, min(start + 7, stop), MATHJAX):
                    state[SKIPPED] = 1
                elif is_word(page.data, start, min(start + 5, stop), KATEX):
                    if stop - start == 10:  # katex-html
                        state[SKIPPED] = 1
                    elif stop - start == 13:  # katex-display
                        state[IS_DISPLAY] = 1
    elif name == A:
        state[IN_LINK] = -1
        if links and not ends and attribute_of(page, token, HREF) >= 0:
            state[IN_LINK] = token
    elif name == BR:
        if not state[IS_PRE]:
            state[DUE] = NEWLINE
        elif state[TO] > state[STARTED]:
            state[TO] = put(reading.out, state[TO], np.uint8(0x0A))
    elif tables.roles[name] & IS_CODE:
        state[IN_CODE] = max(state[IN_CODE] + (-1 if ends else 1), np.int64(0))


@helper
def _text(page, token, reading, tables):
    """What a token of text adds to the block that it is in."""
    state = reading.state
    name = page.tokens.names[token]
    if tables.roles[name] & NO_TEXT or name == TITLE or state[SKIPPED] > 0:
        return
    if state[IS_OPEN] == KEPT:
        put_run(page, token, reading, tables)
    elif state[IS_OPEN] == ONLY_FORMULAS:
        for at in range(page.tokens.starts[token], page.tokens.stops[token]):
            if page.data[at] > 0x20:
                state[IS_OPEN] = LEFT_OUT
                state[TO] = state[STARTED]
                break


@helper
def _between(block, count, kept, reading, entries):
    """The end of a line where no block is open: a formula before it stands by itself."""
    state = reading.state
    if state[PENDING] >= 0:
        if block > 0 and kept[block - 1] and (block >= count or kept[block]):
            _enter(np.int64(-1), state, entries)
        else:
            state[TO] = state[PENDING]
        state[PENDING] = -1
        state[AFTER_FORMULA] = 0


@kernel(
    PageSource,
    Elements,
    Blocks,
    types.int64,
    Bools,
    types.boolean,
    PageReading,
    MarkTables,
    MarkedBlocks,
    Int32s,
)
def _mark_page(page, elements, blocks, count, kept, links, reading, tables, entries, opened):
    state = reading.state
    state[:] = 0
    state[IN_LINK] = state[LINK_ON] = state[PENDING] = -1
    block = element = token = np.int64(0)
    while token < page.many:
        while block < count and blocks.lasts[block] <= token:
            if state[IS_OPEN] != CLOSED_NOW:
                _close(block, page, reading, tables, entries)
            block += 1
        kind = page.tokens.kinds[token]
        name = page.tokens.names[token]
        role = tables.roles[name]
        is_text = kind == TEXT or kind == RAW
        if not is_text and kind != COMMENT and role & BLOCK:
            _between(block, count, kept, reading, entries)
            state[IN_CODE] = state[SKIPPED] = state[IS_DISPLAY] = 0
            closed = kind == CLOSED and (name == SVG or name == CUSTOM)
            if kind != END and role & VOID == 0 and not closed:
                element += 1
                if element < len(opened):
                    opened[element] = token
            token += 1
            continue
        # <math> is read whole: the text that a block begins with may lie in it
        reach = token
        if name == MATHML and kind == START:
            reach = math_stop(page, token, tables) - 1
        if state[IS_OPEN] == CLOSED_NOW and block < count and blocks.firsts[block] <= reach:
            if is_text or reach > token:
                _open(block, kept, count, blocks, elements, state)
        if is_text:
            if state[IS_OPEN] != CLOSED_NOW:
                _text(page, token, reading, tables)
        elif kind == START or kind == CLOSED or kind == END:
            _inline_tag(page, token, links, reading, tables)
            if kind != END and state[IS_PRE] == 0 and state[IN_CODE] == 0:
                behind = put_formula(page, token, reading, tables)
                if behind > token:
                    token = behind
                    continue
        token += 1
    while block < count:
        if state[IS_OPEN] != CLOSED_NOW:
            _close(block, page, reading, tables, entries)
        block += 1
    _between(count, count, kept, reading, entries)
    opened[0] = -1


class Marked(NamedTuple):
    """The marked text of a page."""

    text: np.ndarray  # (bytes,) uint8
    entries: MarkedBlocks
    many: int  # entries
    opened: np.ndarray  # (elements,) int32, the token that opened an element; -1: the page itself


def mark(
    page: PageSource,
    elements: Elements,
    blocks: Blocks,
    sizes: tuple[int, int],
    kept: np.ndarray,
    links: bool,
) -> Marked:
    """The marked text of the kept blocks (count,) bool; `sizes`: of elements and blocks."""
    opened = np.empty(sizes[0], np.int32)
    entries = MarkedBlocks(*(np.empty(sizes[1] + page.many + 2, np.int32) for _ in range(3)))
    room = len(page.data) + 256
    while True:
        out = np.empty(room, np.uint8)
        reading = PageReading(
            out, np.zeros(STATES, np.int64), np.zeros(128, np.int64), np.zeros(16, np.uint8)
        )
        _mark_page(page, elements, blocks, sizes[1], kept, links, reading, TABLES, entries, opened)
        if (written := int(reading.state[TO])) <= room:
            return Marked(out[:written], entries, int(reading.state[ENTRY]), opened)
        room = written
