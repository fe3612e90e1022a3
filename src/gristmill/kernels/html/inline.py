r"""What stands within a line as Markdown (CommonMark 0.31), from marked text (html/marks.py).

A backslash stands only before what would else be read as a mark: `*` and `_` that may begin or end
emphasis, `<` before what may be a tag, `&` before what may be a reference, what may begin a list, a
heading, a quote, a fence, a rule or a table at the start of a line. TeX that the page has within
its text is copied as it is where the page names MathJax or KaTeX: \( \) and \[ \] become $ $ and
$$ $$.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.html.formulas import is_word, put
from gristmill.kernels.html.marked_text import (
    CODE,
    CODE_END,
    DISPLAY,
    LINK,
    LINK_END,
    LINK_TARGET,
    MATH,
    MATH_END,
)
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int64s

ONE_LINE, HEADING, CELL, RAW_TEX = (1 << k for k in range(4))  # of the settings
MOST_LEVELS = 8  # lists and quotes in one another; what is deeper is written in the eighth

# Places of a line's state.
LEVELS, AT_START, DIGITS, BRACKET, IN_LINK, NO_BACK, NO_BRACKET = range(7)
LINE_STATES = 7


class WrittenLine(NamedTuple):
    """What the lines of a block begin with."""

    state: Int64s  # (7,)
    widths: Int64s  # (8,) of each level: 0 a quote, else the spaces of a list item
    out: Bytes


@helper
def put_prefix(line, blank, to):
    """Write what a further line of a block begins with; of a blank line no spaces at the end."""
    levels = line.state[LEVELS]
    if blank:
        while levels > 0 and line.widths[levels - 1] > 0:
            levels -= 1
    for level in range(levels):
        if line.widths[level] == 0:
            to = put(line.out, to, np.uint8(0x3E))
            if not blank or level + 1 < levels:
                to = put(line.out, to, np.uint8(0x20))
        for _ in range(line.widths[level]):
            to = put(line.out, to, np.uint8(0x20))
    return to


@helper
def put_newline(line, blank, to):
    """Begin a further line of a block."""
    to = put(line.out, to, np.uint8(0x0A))
    return put_prefix(line, blank, to)


@helper
def is_punctuation(byte):
    """Whether a byte is ASCII punctuation."""
    return (
        0x21 <= byte <= 0x2F or 0x3A <= byte <= 0x40 or 0x5B <= byte <= 0x60 or 0x7B <= byte <= 0x7E
    )


@helper
def _is_alnum(byte):
    return np.uint8((byte | 0x20) - 0x61) < 26 or np.uint8(byte - 0x30) < 10


@helper
def _begins_reference(text, at, stop):
    """Whether what follows an & may make it a reference."""
    end = min(stop, at + 40)
    place = at
    while place < end and (_is_alnum(text[place]) or text[place] == 0x23):
        place += 1
    return place > at and place < end and text[place] == 0x3B


@helper
def _begins_heading(text, at, stop):
    place = at
    while place < stop and text[place] == 0x23:
        place += 1
    return place - at <= 6 and (place == stop or text[place] <= 0x20)


@helper
def _ends_in(text, at, stop):
    """Whether nothing but # follows: a heading's mark may be there again."""
    end = min(stop, at + 100)
    while at < end and text[at] == 0x23:
        at += 1
    return at == end


@helper
def _at_line_start(text, at, stop, byte, follow):
    """Whether a byte at the start of a line would begin something."""
    ends = follow <= 0x20
    if byte == 0x23:
        return _begins_heading(text, at, stop)
    if byte == 0x2B or byte == 0x2D:
        return ends or (byte == 0x2D and follow == 0x2D)
    if byte == 0x3D:
        return ends or follow == 0x3D
    return byte == 0x3E or byte == 0x2A or byte == 0x7C or (byte == 0x3A and follow == 0x2D)


@helper
def needs_backslash(text, start, at, stop, settings, line):
    """Whether the byte text[at] of a line's text would be read as a mark."""
    state = line.state
    byte = text[at]
    before = text[at - 1] if at > start else np.uint8(0x0A)
    follow = text[at + 1] if at + 1 < stop else np.uint8(0x0A)
    if state[AT_START] and _at_line_start(text, at, stop, byte, follow):
        return True
    if byte == 0x5C:
        return at + 1 < stop and (is_punctuation(follow) or follow < 0x20)
    if byte == 0x60:
        return True
    if byte == 0x2A or byte == 0x5F:
        if (before == 0x20 or before == 0x0A) and (follow == 0x20 or follow == 0x0A):
            return False
        return byte == 0x2A or not (_is_alnum(before) and _is_alnum(follow))
    if byte == 0x3C:
        return is_punctuation(follow) or np.uint8((follow | 0x20) - 0x61) < 26 or follow < 0x20
    if byte == 0x26:
        return _begins_reference(text, at + 1, stop)
    if byte == 0x5B or byte == 0x5D:
        return state[IN_LINK] > 0
    if byte == 0x28 or byte == 0x3A:
        return before == 0x5D and (byte == 0x28 or state[BRACKET] > 0)
    if byte == 0x21:
        return follow == LINK
    if byte == 0x23:
        return settings & HEADING != 0 and before == 0x20 and _ends_in(text, at, stop)
    if byte == 0x7E:
        return before == 0x7E or follow == 0x7E
    if byte == 0x7C:
        return settings & CELL != 0
    if byte == 0x2E or byte == 0x29:
        return 1 <= state[DIGITS] <= 9 and follow <= 0x20
    return False


@helper
def _find(text, at, stop, mark):
    while at < stop and text[at] != mark:
        at += 1
    return at


@helper
def longest_run(text, start, stop):
    """The longest run of backticks."""
    longest = run = np.int64(0)
    for at in range(start, stop):
        run = run + 1 if text[at] == 0x60 else np.int64(0)
        longest = max(longest, run)
    return longest


@helper
def _put_code(text, start, stop, settings, line, to):
    """Write a code span."""
    ticks = longest_run(text, start, stop) + 1
    padded = stop > start and (text[start] == 0x60 or text[stop - 1] == 0x60)
    for _ in range(ticks):
        to = put(line.out, to, np.uint8(0x60))
    if padded:
        to = put(line.out, to, np.uint8(0x20))
    for at in range(start, stop):
        byte = text[at]
        if byte == 0x0A:
            byte = np.uint8(0x20)
        if byte == 0x7C and settings & CELL:
            to = put(line.out, to, np.uint8(0x5C))
        to = put(line.out, to, byte)
    if padded:
        to = put(line.out, to, np.uint8(0x20))
    for _ in range(ticks):
        to = put(line.out, to, np.uint8(0x60))
    return to


@helper
def _put_tex(text, start, stop, dollars, settings, line, to):
    """Write a formula between dollars."""
    while start < stop and text[start] <= 0x20:
        start += 1
    while start < stop and text[stop - 1] <= 0x20:
        stop -= 1
    for _ in range(dollars):
        to = put(line.out, to, np.uint8(0x24))
    for at in range(start, stop):
        byte = text[at]
        if byte == 0x0A:
            if settings & ONE_LINE or dollars == 1:
                to = put(line.out, to, np.uint8(0x20))
            else:
                to = put_newline(line, False, to)
        elif byte >= 0x20:
            if byte == 0x7C and settings & CELL:
                to = put(line.out, to, np.uint8(0x5C))
            to = put(line.out, to, byte)
    for _ in range(dollars):
        to = put(line.out, to, np.uint8(0x24))
    return to


@helper
def _raw_formula(text, start, at, stop, state):
    r"""Whether \( or \[ or $ begins a formula of the page's own text: (where its TeX starts, where
    it stops, where the text goes on, dollars), or zeros.
    """
    nothing = (np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    if text[at] == 0x5C:
        opening = text[at + 1] if at + 1 < stop else np.uint8(0)
        if opening == 0x28:
            closing = np.uint8(0x29)
            place = NO_BACK
        elif opening == 0x5B:
            closing = np.uint8(0x5D)
            place = NO_BRACKET
        else:
            return nothing
        if state[place]:
            return nothing
        end = at + 2
        while end + 1 < stop:
            if text[end] == 0x5C:
                if text[end + 1] == closing:
                    return at + 2, end, end + 2, np.int64(1 if opening == 0x28 else 2)
                if text[end + 1] == opening:
                    return nothing  # the next one begins here: each is looked for once
                end += 1
            elif text[end] == CODE or text[end] == LINK:
                return nothing
            end += 1
        state[place] = 1  # there is no other one
        return nothing
    dollars = np.int64(2 if at + 1 < stop and text[at + 1] == 0x24 else 1)
    first = at + dollars
    end = first
    while end < stop and text[end] != 0x24 and text[end] >= 0x20:
        end += 2 if text[end] == 0x5C else 1
    if end >= stop or text[end] != 0x24 or end == first:
        return nothing
    if dollars == 2:
        if end + 1 < stop and text[end + 1] == 0x24:
            return first, end, end + 2, dollars
        return nothing
    # pandoc's rule for one dollar: no space behind the first and before the last, no digit behind
    if text[first] == 0x20 or text[end - 1] == 0x20:
        return nothing
    if end + 1 < stop and np.uint8(text[end + 1] - 0x30) < 10:
        return nothing
    return first, end, end + 1, dollars


@helper
def _is_target(text, start, stop):
    """Whether the target of a link is one to follow elsewhere."""
    if start >= stop or text[start] == 0x23:
        return False
    return not (
        is_word(text, start, min(start + 11, stop), JAVASCRIPT)
        or is_word(text, start, min(start + 5, stop), DATA)
    )


JAVASCRIPT, DATA = (np.frombuffer(word, np.uint8) for word in (b"javascript:", b"data:"))
HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@helper
def _put_target(text, start, stop, line, to):
    """Write the target of a link; brackets and backslashes by their numbers."""
    to = put(line.out, to, np.uint8(0x5D))
    to = put(line.out, to, np.uint8(0x28))
    for at in range(start, stop):
        byte = text[at]
        marks = byte == 0x28 or byte == 0x29 or byte == 0x3C or byte == 0x3E or byte == 0x7C
        if marks or byte == 0x5C or byte == 0x60:
            to = put(line.out, to, np.uint8(0x25))
            to = put(line.out, to, HEX[byte >> 4])
            to = put(line.out, to, HEX[byte & 15])
        else:
            if byte == 0x26 and _begins_reference(text, at + 1, stop):
                to = put(line.out, to, np.uint8(0x5C))
            to = put(line.out, to, byte)
    return put(line.out, to, np.uint8(0x29))


@helper
def put_inline(text, start, stop, settings, line, to):
    """Write the marked text[start:stop] as Markdown; where it stops."""
    state = line.state
    state[AT_START] = 1
    state[DIGITS] = state[BRACKET] = state[IN_LINK] = state[NO_BACK] = state[NO_BRACKET] = 0
    at = start
    while at < stop:
        byte = text[at]
        if byte == CODE:
            end = _find(text, at + 1, stop, CODE_END)
            to = _put_code(text, at + 1, end, settings, line, to)
            at = end + 1
        elif byte == MATH or byte == DISPLAY:
            end = _find(text, at + 1, stop, MATH_END)
            dollars = np.int64(1 if byte == MATH else 2)
            to = _put_tex(text, at + 1, end, dollars, settings, line, to)
            at = end + 1
        elif byte == LINK:
            target = _find(text, at + 1, stop, LINK_TARGET) + 1
            if _is_target(text, target, _find(text, target, stop, LINK_END)):
                state[IN_LINK] = 1
                to = put(line.out, to, np.uint8(0x5B))
            at += 1
            continue
        elif byte == LINK_TARGET:
            end = _find(text, at + 1, stop, LINK_END)
            if state[IN_LINK]:
                to = _put_target(text, at + 1, end, line, to)
            state[IN_LINK] = 0
            at = end + 1
        elif byte == 0x0A:
            at += 1
            if settings & ONE_LINE:
                to = put(line.out, to, np.uint8(0x20))
            else:
                to = put_newline(line, False, to)
                state[AT_START] = 1
                state[DIGITS] = state[BRACKET] = 0
            continue
        else:
            if settings & RAW_TEX and (byte == 0x5C or byte == 0x24):
                first, end, behind, dollars = _raw_formula(text, start, at, stop, state)
                if behind > 0:
                    to = _put_tex(text, first, end, dollars, settings, line, to)
                    at = behind
                    state[AT_START] = state[DIGITS] = 0
                    continue
            if needs_backslash(text, start, at, stop, settings, line):
                to = put(line.out, to, np.uint8(0x5C))
            to = put(line.out, to, byte)
            at += 1
            digit = np.uint8(byte - 0x30) < 10
            if state[AT_START] or state[DIGITS] > 0:
                state[DIGITS] = state[DIGITS] + 1 if digit else 0
            if state[AT_START] and byte == 0x5B:
                state[BRACKET] = 1
            state[AT_START] = 0
            continue
        state[AT_START] = state[DIGITS] = 0
    return to
