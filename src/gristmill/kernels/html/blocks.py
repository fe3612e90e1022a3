"""A page's tokens as elements and blocks of text, in arrays: no tree of objects.

Elements are those that begin on a line of their own, in document order with their parents; what
stands within a line (<b>, <span>, <a>) is no element here, links are counted in bytes.

A block is the text of one element up to the next tag of an element, or two <br>. White space is one
space, or one newline where a <br> was; in <pre> it stays. Each tag is looked at a bounded number of
times, and each element is closed once: linear in the page.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.elements import (
    BLOCK,
    BLOCK_TABLES,
    BLOCKS,
    COUNTERS,
    ELEMENTS,
    FLAGS,
    LINK,
    LINKED,
    LINKS,
    NO_TEXT,
    NO_TEXT_BIT,
    OPEN,
    PRE_BIT,
    SPACE,
    STARTED,
    TEXT_SIZE,
    TOKEN,
    VOID,
    BlockTables,
    Elements,
    Open,
    close_implied,
    close_named,
    close_to,
    has_href,
    open_element,
    scope_place,
)
from gristmill.kernels.html.names import CUSTOM, ELEMENT
from gristmill.kernels.html.references import put_reference
from gristmill.kernels.html.tags import is_space
from gristmill.kernels.html.tokens import CLOSED, END, RAW, START, TEXT, Attributes, PageTokens
from gristmill.kernels.jit.compile import BYTES, helper, kernel
from gristmill.kernels.jit.copies import copy_64
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s
from gristmill.kernels.jit.loads import count_ones, count_trailing_zeros, mask_of_range, valid_in

# Bits of a block's flags.
AFTER_BREAK, CONTINUED, IS_TITLE, AFTER_IMAGE = (1 << k for k in range(4))
ONE, LAST = np.uint64(1), np.uint64(1 << 63)
NONE, BLANK, NEWLINE = range(3)  # white space that is still to be written
P, BR, A, TITLE, SVG, IMG = (ELEMENT[name] for name in ("p br a title svg img").split())


class Blocks(NamedTuple):
    """Blocks of a page's text."""

    starts: Int32s  # in the text
    stops: Int32s
    elements: Int32s
    linked: Int32s  # bytes of the text that are in links, white space not counted
    links: Int32s  # links that begin in it
    firsts: Int32s  # the token that its text begins in
    lasts: Int32s  # the token that ended it
    flags: Bytes


@helper
def _end_block(blocks, counters):
    """Close the block whose text is being written, if it has any."""
    if counters[STARTED] >= 0:
        count = counters[BLOCKS]
        blocks.stops[count] = counters[TEXT_SIZE]
        blocks.linked[count] = counters[LINKED]
        blocks.links[count] = counters[LINKS]
        blocks.lasts[count] = counters[TOKEN]
        blocks.flags[count] = counters[FLAGS]
        counters[BLOCKS] = count + 1
        counters[STARTED] = -1
        counters[FLAGS] = 0
    counters[SPACE] = NONE


@helper
def _begin_text(blocks, element, text, counters):
    """Write the white space that is due, or begin a block."""
    to = counters[TEXT_SIZE]
    if counters[STARTED] < 0:
        counters[STARTED] = to
        count = counters[BLOCKS]
        blocks.starts[count] = to
        blocks.elements[count] = element
        blocks.firsts[count] = counters[TOKEN]
        counters[LINKED] = 0
        counters[LINKS] = counters[LINK]
    elif counters[SPACE] != NONE:
        text[to] = 0x20 if counters[SPACE] == BLANK else 0x0A
        counters[TEXT_SIZE] = to + 1
    counters[SPACE] = NONE


@helper
def _run(data, at, stop, decode):
    """Return how many of the next 64 bytes are words with one space between them, as they are
    written: (bytes, spaces).
    """
    spaces = mask_of_range(data, at, 0x20, 0)
    ends = mask_of_range(data, at, 0, 0x1F) | mask_of_range(data, at, 0xC2, 0)
    ends |= ~valid_in(at, stop)
    if decode:
        ends |= mask_of_range(data, at, 0x26, 0)
    # A space before one of these, before another or at the end is no part of the run.
    ends |= spaces & (((ends | spaces) >> ONE) | LAST)
    run = count_trailing_zeros(ends)
    return run, count_ones(spaces & (ends - ONE) & ~ends)


@helper
def _put_text(data, start, stop, decode, keep, references, blocks, element, text, counters):
    """Append data[start:stop] to the text of the open block."""
    at = start
    while at < stop:
        byte = data[at]
        if byte <= 0x20:
            if keep and (byte == 0x0A or (byte == 0x20 or byte == 0x09)):
                if counters[STARTED] >= 0:
                    text[counters[TEXT_SIZE]] = byte
                    counters[TEXT_SIZE] += 1
            elif is_space(byte):
                counters[SPACE] = max(counters[SPACE], BLANK)
            at += 1
            continue
        if byte == 0xC2 and at + 1 < stop and data[at + 1] == 0xA0:
            counters[SPACE] = max(counters[SPACE], BLANK)
            at += 2
            continue
        if byte == 0x26 and decode:
            due = counters[SPACE]
            begun = counters[STARTED]
            flagged = counters[TEXT_SIZE]
            _begin_text(blocks, element, text, counters)
            to = counters[TEXT_SIZE]
            at, end = put_reference(data, at, stop, references, text, to)
            blank = end - to == 1 and (text[to] <= 0x20)
            blank |= end - to == 2 and text[to] == 0xC2 and text[to + 1] == 0xA0
            if blank:
                counters[STARTED] = begun
                counters[TEXT_SIZE] = flagged
                counters[SPACE] = max(due, BLANK)
                continue
            counters[TEXT_SIZE] = end
            counters[LINKED] += counters[LINK] * (end - to)
            continue
        if counters[STARTED] < 0 or counters[SPACE] != NONE:
            _begin_text(blocks, element, text, counters)
        to = counters[TEXT_SIZE]
        if at + 64 <= len(data):
            run, spaces = _run(data, at, stop, decode)
            if run > 0:
                copy_64(text, to, data, at)
                at += run
                counters[TEXT_SIZE] = to + run
                counters[LINKED] += counters[LINK] * (run - spaces)
                continue
        first = to
        while byte > 0x20 and byte != 0xC2 and (byte != 0x26 or not decode):
            text[to] = byte
            to += 1
            at += 1
            if at >= stop:
                break
            byte = data[at]
        if to == first:
            text[to] = byte  # the first byte of a character
            to += 1
            at += 1
        counters[TEXT_SIZE] = to
        counters[LINKED] += counters[LINK] * (to - first)


@helper
def _break(data, keep, text, blocks, counters):
    """A <br>: a newline, or behind another the end of the block."""
    if counters[STARTED] >= 0 and keep:
        text[counters[TEXT_SIZE]] = 0x0A
        counters[TEXT_SIZE] += 1
    elif counters[SPACE] == NEWLINE:
        _end_block(blocks, counters)
        counters[FLAGS] = AFTER_BREAK | CONTINUED
    elif counters[STARTED] >= 0:
        counters[SPACE] = NEWLINE


@kernel(
    BYTES, PageTokens, Attributes, types.int64, BlockTables, Open, Elements, Blocks, Bytes, Int64s
)
def _build(data, tokens, attributes, count, tables, opened, elements, blocks, text, counters):
    counters[:] = 0
    counters[STARTED] = -1
    opened.last[:] = -1
    elements.names[0] = 0
    elements.parents[0] = elements.depths[0] = elements.first[0] = 0
    elements.words[0] = elements.above[0] = elements.inside[0] = 0
    elements.kinds[0] = 1
    counters[ELEMENTS] = counters[OPEN] = 1
    opened.elements[0] = 0
    titled = False
    for token in range(count):
        counters[TOKEN] = token
        kind = tokens.kinds[token]
        name = tokens.names[token]
        element = opened.elements[counters[OPEN] - 1]
        keep = elements.inside[element] & PRE_BIT != 0
        if kind == TEXT or kind == RAW:
            if name == TITLE:
                # The first title is a block, which is never kept: others are compared with it.
                if titled or elements.inside[element] & NO_TEXT_BIT != 0:
                    continue
                titled = True
                _end_block(blocks, counters)
                counters[FLAGS] = IS_TITLE
                element = np.int32(0)
            elif tables.roles[name] & NO_TEXT or elements.inside[element] & NO_TEXT_BIT:
                continue
            start = tokens.starts[token]
            stop = tokens.stops[token]
            _put_text(
                data,
                start,
                stop,
                kind == TEXT,
                keep,
                tables.references,
                blocks,
                element,
                text,
                counters,
            )
            if name == TITLE:
                _end_block(blocks, counters)
                counters[FLAGS] = 0
            continue
        role = tables.roles[name]
        if kind == END:
            if name == A:
                counters[LINK] = 0
            elif name == P and opened.last[P] <= scope_place(opened.last):
                _end_block(blocks, counters)
            elif role & BLOCK and role & VOID == 0:
                _end_block(blocks, counters)
                close_named(name, opened, elements, counters)
                counters[FLAGS] = CONTINUED
            elif name == BR:
                _break(data, keep, text, blocks, counters)
        elif kind == START or kind == CLOSED:
            first = tokens.attributes[token]
            last = tokens.attributes[token + 1]
            if name == A:
                counters[LINK] = has_href(attributes, first, last)
                counters[LINKS] += counters[LINK]
            elif name == BR:
                _break(data, keep, text, blocks, counters)
            elif name == IMG:
                counters[FLAGS] |= AFTER_IMAGE
            elif role & BLOCK:
                _end_block(blocks, counters)
                counters[FLAGS] &= AFTER_IMAGE
                close_implied(name, role, opened, elements, counters)
                if role & VOID == 0 and not (kind == CLOSED and (name == SVG or name == CUSTOM)):
                    open_element(
                        data, name, tables, first, last, attributes, opened, elements, counters
                    )
    counters[TOKEN] = count
    _end_block(blocks, counters)
    close_to(np.int64(0), opened, elements, counters)


class Workspace(NamedTuple):
    """Arrays for one page at a time."""

    opened: Open
    elements: Elements
    blocks: Blocks
    text: np.ndarray  # (bytes,) uint8
    counters: np.ndarray  # (11,) int64


def room(longest: int) -> Workspace:
    """Return arrays for a page of at most `longest` bytes."""
    most = longest // 3 + 2  # elements
    parts = longest // 4 + 3  # blocks: a tag and a byte of text each
    return Workspace(
        Open(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(256, np.int64)),
        Elements(
            np.empty(most, np.uint8),
            *(np.empty(most, np.int32) for _ in range(4)),
            *(np.empty(most, np.uint64) for _ in range(4)),
        ),
        Blocks(*[np.empty(parts, kind) for kind in [np.int32] * 7 + [np.uint8]]),
        np.empty(longest * 6 // 5 + 64, np.uint8),
        np.zeros(COUNTERS, np.int64),
    )


def build(
    data: np.ndarray, tokens: PageTokens, attributes: Attributes, count: int, work: Workspace
) -> tuple[int, int, int]:
    """Build elements, blocks and text of a page from its tokens: how many there are of each."""
    _build(
        data,
        tokens,
        attributes,
        count,
        BLOCK_TABLES,
        work.opened,
        work.elements,
        work.blocks,
        work.text,
        work.counters,
    )
    return tuple(int(work.counters[place]) for place in (ELEMENTS, BLOCKS, TEXT_SIZE))  # type: ignore[return-value]
