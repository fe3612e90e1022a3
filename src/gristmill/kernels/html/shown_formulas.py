"""Where a page has formulas: <math>, scripts of MathJax's, images of TeX; as marked text."""

import numpy as np

from gristmill.kernels.html.blocks import BLANK, NONE
from gristmill.kernels.html.elements import BLOCK
from gristmill.kernels.html.formulas import (
    holds,
    is_word,
    put,
    put_decoded,
    put_script,
    translate,
    trim,
    value_of,
)
from gristmill.kernels.html.marked_text import (
    AFTER_FORMULA,
    CLOSED_NOW,
    DISPLAY,
    DUE,
    IS_DISPLAY,
    IS_OPEN,
    LEFT_OUT,
    MATH,
    MATH_END,
    PENDING,
    SKIPPED,
    STARTED,
    TO,
    attribute_of,
    flush,
    has_word,
)
from gristmill.kernels.html.names import ATTRIBUTE, ELEMENT
from gristmill.kernels.html.tags import is_space
from gristmill.kernels.html.tokens import END, RAW, START, TEXT
from gristmill.kernels.jit.compile import helper

IMG, SCRIPT, MATHML, ANNOTATION = (ELEMENT[name] for name in "img script math annotation".split())
CLASS, TYPE, ENCODING, SHOWN, ALTTEXT = (
    ATTRIBUTE[name] for name in "class type encoding display alttext".split()
)
ALT, LATEX, TEX, EEIMG, FALLBACK, BLOCK_WORD, MATH_TEX, IN_DISPLAY = (
    np.frombuffer(word, np.uint8)
    for word in b"alt latex tex eeimg mwe-math-fallback block math/tex display".split()
)


@helper
def math_stop(page, token, tables):
    """The token behind a <math>."""
    for place in range(token + 1, page.many):
        name = page.tokens.names[place]
        if page.tokens.kinds[place] == END and name == MATHML:
            return np.int64(place + 1)
        if page.tokens.kinds[place] != TEXT and tables.roles[name] & BLOCK:
            return np.int64(place)
    return np.int64(page.many)


@helper
def _put_math(page, token, stop, reading, tables, to):
    """Write the TeX of the <math> of the tokens token..stop."""
    for place in range(token + 1, stop):
        if page.tokens.kinds[place] == START and page.tokens.names[place] == ANNOTATION:
            if has_word(page, place, ENCODING, TEX) and place + 1 < stop:
                text = place + 1
                if page.tokens.kinds[text] == TEXT or page.tokens.kinds[text] == RAW:
                    decode = page.tokens.kinds[text] == TEXT
                    start = page.tokens.starts[text]
                    end = page.tokens.stops[text]
                    spare = reading.spare
                    return put_decoded(
                        page.data, start, end, decode, tables.references, spare, reading.out, to
                    )
    place = attribute_of(page, token, ALTTEXT)
    if place >= 0 and page.attributes.stops[place] > page.attributes.starts[place]:
        start = page.attributes.starts[place]
        end = page.attributes.stops[place]
        return put_decoded(
            page.data, start, end, True, tables.references, reading.spare, reading.out, to
        )
    return translate(page.data, page.tokens, token + 1, stop, tables, reading, reading.out, to)


@helper
def _is_picture(page, token):
    """Whether an <img> shows TeX: 1 in a line, 2 as a display."""
    place = attribute_of(page, token, CLASS)
    if place < 0:
        return np.int64(0)
    at = np.int64(page.attributes.starts[place])
    stop = np.int64(page.attributes.stops[place])
    while at < stop:
        while at < stop and is_space(page.data[at]):
            at += 1
        start = at
        while at < stop and not is_space(page.data[at]):
            at += 1
        if is_word(page.data, start, at, LATEX) or is_word(page.data, start, at, TEX):
            return np.int64(1)
        if is_word(page.data, start, at, EEIMG) or holds(page.data, start, at, FALLBACK):
            return np.int64(2 if holds(page.data, start, at, IN_DISPLAY) else 1)
    return np.int64(0)


@helper
def _begin_formula(page, shown, reading, tables):
    """Write the mark of a formula; where its TeX starts."""
    state = reading.state
    if state[IS_OPEN] == CLOSED_NOW and state[PENDING] < 0:
        state[PENDING] = state[STARTED] = state[TO]
    if state[AFTER_FORMULA] and state[DUE] == NONE:
        state[DUE] = BLANK  # two formulas side by side would be one
    if state[IS_OPEN] == CLOSED_NOW:
        if state[TO] > state[PENDING]:
            state[TO] = put(reading.out, state[TO], np.uint8(0x20))
        state[DUE] = NONE
    else:
        flush(page, reading, tables)
    shown = shown or state[IS_DISPLAY]
    state[IS_DISPLAY] = 0
    return put(reading.out, state[TO], np.uint8(DISPLAY if shown else MATH))


@helper
def _end_formula(first, to, reading):
    """Write a formula's end behind its TeX out[first:to], or nothing where there is none."""
    state = reading.state
    to = trim(reading.out, first, to)
    if to > first:
        state[TO] = put(reading.out, to, np.uint8(MATH_END))
        state[AFTER_FORMULA] = 1
    elif state[PENDING] >= 0 and state[TO] == state[PENDING]:
        state[PENDING] = -1


@helper
def put_formula(page, token, reading, tables):
    """Write the formula that begins with a token: the token to go on with, or 0 where it begins
    none.
    """
    state = reading.state
    name = page.tokens.names[token]
    kind = page.tokens.kinds[token]
    left = state[IS_OPEN] == LEFT_OUT or state[SKIPPED] > 0
    if name == MATHML and kind == START:
        stop = math_stop(page, token, tables)
        if not left:
            shown = has_word(page, token, SHOWN, BLOCK_WORD)
            first = _begin_formula(page, shown, reading, tables)
            to = _put_math(page, token, stop, reading, tables, first)
            _end_formula(first, to, reading)
        return stop
    if name == SCRIPT and kind == START:
        if not has_word(page, token, TYPE, MATH_TEX):
            return np.int64(0)
        if left or token + 1 >= page.many or page.tokens.kinds[token + 1] != RAW:
            return np.int64(token + 1)
        shown = has_word(page, token, TYPE, IN_DISPLAY)
        first = _begin_formula(page, shown, reading, tables)
        start = page.tokens.starts[token + 1]
        stop = page.tokens.stops[token + 1]
        to = put_script(
            page.data, start, stop, tables.references, reading.spare, reading.out, first
        )
        _end_formula(first, to, reading)
        return np.int64(token + 2)
    if name == IMG and not left and state[AFTER_FORMULA] == 0:
        shown = _is_picture(page, token)
        if shown > 0:
            start, stop = value_of(
                page.data, page.tokens.starts[token], page.tokens.stops[token], ALT
            )
            if stop > start:
                first = _begin_formula(page, shown == 2, reading, tables)
                spare = reading.spare
                to = put_decoded(
                    page.data, start, stop, True, tables.references, spare, reading.out, first
                )
                _end_formula(first, to, reading)
    return np.int64(0)
