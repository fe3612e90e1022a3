"""Marked text: the text of a page's blocks with a byte below 0x20 for each mark of what stands
within a line, while it is written.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.html.blocks import BLANK, NONE
from gristmill.kernels.html.elements import ROLES
from gristmill.kernels.html.formulas import MARKS, Marks, holds, put, put_bytes
from gristmill.kernels.html.names import ATTRIBUTE, ELEMENT
from gristmill.kernels.html.references import REFERENCES, References, put_reference
from gristmill.kernels.html.tags import is_space
from gristmill.kernels.html.tokens import TEXT, Attributes, PageTokens
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, ReadBytes, read_only

CODE, CODE_END, MATH, DISPLAY, MATH_END, LINK, LINK_TARGET, LINK_END = range(1, 9)

HREF = ATTRIBUTE["href"]
IS_CODE = 128  # beside the roles of elements

# Places of the state.
TO, DUE, IN_CODE, CODE_ON, IN_LINK, LINK_ON, SKIPPED, AFTER_FORMULA, STARTED, IS_PRE = range(10)
IS_DISPLAY, ENTRY, IS_OPEN, PENDING = range(10, 14)
STATES = 14
CLOSED_NOW, KEPT, ONLY_FORMULAS, LEFT_OUT = range(4)  # of IS_OPEN


class MarkedBlocks(NamedTuple):
    """What is written, in order."""

    blocks: Int32s  # -1: a formula between two blocks
    starts: Int32s  # in the marked text
    stops: Int32s


class PageSource(NamedTuple):
    """A page and its tokens."""

    data: ReadBytes
    tokens: PageTokens
    attributes: Attributes
    many: int  # tokens


class PageReading(NamedTuple):
    """What a page is read with."""

    out: Bytes  # the marked text
    state: Int64s  # (14,)
    stack: Int64s  # (128,) of MathML's open elements
    spare: Bytes  # (16,) for a reference, and for one in a link's target


class MarkTables(NamedTuple):
    """What is known of names."""

    roles: Bytes
    references: References
    marks: Marks


def _roles() -> np.ndarray:
    roles = ROLES.copy()
    for name in "code tt kbd samp".split():
        roles[ELEMENT[name]] |= IS_CODE
    return roles


TABLES = MarkTables(_roles(), REFERENCES, MARKS)


@helper
def attribute_of(page, token, number):
    """The place of a token's attribute, -1 where it has none."""
    for place in range(page.tokens.attributes[token], page.tokens.attributes[token + 1]):
        if page.attributes.names[place] == number:
            return np.int64(place)
    return np.int64(-1)


@helper
def has_word(page, token, number, word):
    """Whether a token's attribute holds a word."""
    place = attribute_of(page, token, number)
    return place >= 0 and holds(
        page.data, page.attributes.starts[place], page.attributes.stops[place], word
    )


@helper
def close_link(page, reading, tables):
    """Write the end of the open link, its target before it."""
    state = reading.state
    to = state[TO]
    if state[CODE_ON]:
        to = put(reading.out, to, np.uint8(CODE_END))
        state[CODE_ON] = 0
    to = put(reading.out, to, np.uint8(LINK_TARGET))
    place = attribute_of(page, state[LINK_ON], HREF)
    if place >= 0:
        at = np.int64(page.attributes.starts[place])
        stop = np.int64(page.attributes.stops[place])
        while at < stop:
            if page.data[at] == 0x26:
                at, stopped = put_reference(
                    page.data, at, stop, True, tables.references, reading.spare, 8
                )
            else:
                reading.spare[8] = page.data[at]
                at += 1
                stopped = np.int64(9)
            if stopped > 9 or reading.spare[8] > 0x20:
                to = put_bytes(reading.spare, 8, stopped, reading.out, to)
    state[TO] = put(reading.out, to, np.uint8(LINK_END))
    state[LINK_ON] = -1


@helper
def flush(page, reading, tables):
    """Write the marks and the white space that are due before more text."""
    state = reading.state
    if state[IS_PRE]:
        return
    if state[LINK_ON] >= 0 and state[LINK_ON] != state[IN_LINK]:
        close_link(page, reading, tables)
    if state[CODE_ON] and state[IN_CODE] == 0:
        state[TO] = put(reading.out, state[TO], np.uint8(CODE_END))
        state[CODE_ON] = 0
    if state[DUE] != NONE and state[TO] > state[STARTED]:
        state[TO] = put(reading.out, state[TO], np.uint8(0x20 if state[DUE] == BLANK else 0x0A))
    state[DUE] = NONE
    if state[IN_LINK] >= 0 and state[LINK_ON] < 0 and state[CODE_ON] == 0:
        state[TO] = put(reading.out, state[TO], np.uint8(LINK))
        state[LINK_ON] = state[IN_LINK]
    if state[IN_CODE] > 0 and state[CODE_ON] == 0:
        state[TO] = put(reading.out, state[TO], np.uint8(CODE))
        state[CODE_ON] = 1


@helper
def put_run(page, token, reading, tables):
    """Write the text of a token."""
    state = reading.state
    spare = reading.spare
    at = np.int64(page.tokens.starts[token])
    stop = np.int64(page.tokens.stops[token])
    decode = page.tokens.kinds[token] == TEXT
    while at < stop:
        byte = page.data[at]
        size = np.int64(1)
        if byte == 0x26 and decode:
            at, size = put_reference(page.data, at, stop, False, tables.references, spare, 0)
            byte = spare[0]
        else:
            spare[0] = byte
            at += 1
            if byte == 0xC2 and at < stop and page.data[at] == 0xA0:
                spare[1] = 0xA0
                at += 1
                size = np.int64(2)
        if size == 2 and byte == 0xC2 and spare[1] == 0xA0:
            byte = np.uint8(0x20)
            size = np.int64(1)
        if size == 1 and byte <= 0x20:
            if state[IS_PRE]:
                if byte == 0x0A or byte == 0x20 or byte == 0x09:
                    state[TO] = put(reading.out, state[TO], byte)
            elif is_space(byte):
                state[DUE] = max(state[DUE], BLANK)
            continue
        flush(page, reading, tables)
        state[TO] = put_bytes(spare, 0, size, reading.out, state[TO])
        state[AFTER_FORMULA] = 0


def source_of(
    data: np.ndarray, tokens: PageTokens, attributes: Attributes, count: int
) -> PageSource:
    """A page (bytes,) uint8 and its `count` tokens."""
    return read_only(PageSource(data, tokens, attributes, count))
