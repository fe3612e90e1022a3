"""A page's bytes as tokens in arrays: text, start tags, end tags, comments (WHATWG HTML, 13.2.5).

    <p class=a>x &amp; y<br></p>  ->  START p, TEXT "x &amp; y", START br, END p
                                      and of the first token the attribute class, "a"

Spans are bytes of the page. Nothing is decoded here: a text has references where it says TEXT, none
where it says RAW. Names are numbers (html/names.py); of attributes only those that have a number
are written, and of two of one name the first.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import fnv_1a
from gristmill.kernels.html.names import (
    ATTRIBUTE_TABLE,
    CUSTOM,
    ELEMENT,
    ELEMENT_TABLE,
    ELEMENTS,
    NameTable,
    name_key,
    name_number,
)
from gristmill.kernels.html.tags import (
    BREAKS_OUT,
    KIND_NAMES,
    find_byte,
    is_cdata,
    is_letter,
    is_space,
    skip_markup,
    skip_raw,
)
from gristmill.kernels.jit.compile import BYTES, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Uint64s

TEXT, RAW, START, END, CLOSED, COMMENT = range(6)  # CLOSED: a start tag that ends in />

_RAW_ELEMENTS = ("iframe noembed noframes script style textarea title xmp plaintext").split()
TITLE, TEXTAREA, SCRIPT, PLAINTEXT = (
    ELEMENT[name] for name in ("title", "textarea", "script", "plaintext")
)
SVG, MATH = ELEMENT["svg"], ELEMENT["math"]


class PageTokens(NamedTuple):
    """Tokens of a page."""

    kinds: Bytes
    names: Bytes  # of tags
    starts: Int32s  # a text, or what is between the < and > of a tag
    stops: Int32s
    attributes: Int32s  # the first of a token's attributes


class Attributes(NamedTuple):
    """Attributes of a page's tags, in order."""

    names: Bytes
    starts: Int32s  # of the value, without its quotes
    stops: Int32s


class NameTables(NamedTuple):
    """What the tokenizer knows of names."""

    elements: NameTable
    attributes: NameTable
    raw: Uint64s  # (256,) FNV-1a of the names of elements whose content is text, else 0
    breaks_out: Bytes  # (256,) whether a start tag ends SVG and MathML


def _tables() -> NameTables:
    raw = np.zeros(256, np.uint64)
    for name in _RAW_ELEMENTS:
        raw[ELEMENT[name]] = fnv_1a(name.encode())
    breaks_out = np.zeros(256, np.uint8)
    for name in KIND_NAMES[BREAKS_OUT].split():
        breaks_out[ELEMENT.get(name, 0)] = 1
    breaks_out[0] = 0
    return NameTables(ELEMENT_TABLE, ATTRIBUTE_TABLE, raw, breaks_out)


NAME_TABLES = _tables()
assert len(ELEMENTS) < CUSTOM


@helper
def _value(data, at, stop):
    """Return an attribute's value from behind its =: (its start, its stop, where the tag goes
    on).
    """
    while at < stop and is_space(data[at]):
        at += 1
    if at >= stop or data[at] == 0x3E:
        return at, at, at
    quote = data[at]
    if quote == 0x22 or quote == 0x27:
        end = find_byte(data, at + 1, stop, quote)
        return at + 1, end, end + 1
    start = at
    while at < stop and not (is_space(data[at]) or data[at] == 0x3E):
        at += 1
    return start, at, at


@helper
def _read_attributes(data, at, stop, table, attributes, first):
    """Return a tag from behind its name: (where the next token starts, or 0 where the page ends in
    the tag; whether it ends in />; its attributes' stop).
    """
    filled = first
    seen = np.uint64(0)
    slash = False
    while at < stop:
        byte = data[at]
        if byte == 0x3E:
            return at + 1, slash, filled
        slash = byte == 0x2F  # only right before >
        if slash or is_space(byte):
            at += 1
            continue
        start = at
        at += 1  # the first byte of a name may be =
        while at < stop:
            byte = data[at]
            if byte <= 0x3E and (byte >= 0x3D or byte == 0x2F or is_space(byte)):
                break
            at += 1
        number = np.int64(0)
        if at - start <= 11:
            number = name_number(name_key(data, start, at - start), table)
        while at < stop and is_space(data[at]):
            at += 1
        start = end = at
        if at < stop and data[at] == 0x3D:
            start, end, at = _value(data, at + 1, stop)
        bit = np.uint64(1) << np.uint64(number)
        if number > 0 and seen & bit == 0:
            seen |= bit
            attributes.names[filled] = number
            attributes.starts[filled] = start
            attributes.stops[filled] = end
            filled += 1
    return np.int64(0), False, first


@helper
def _next_markup(data, at, stop):
    """Return where the next token that is no text starts, or the end."""
    while at < stop:
        at = find_byte(data, at, stop, 0x3C)
        if at + 1 >= stop:
            return stop
        byte = data[at + 1]
        if is_letter(byte) or byte == 0x21 or byte == 0x3F or (byte == 0x2F and at + 2 < stop):
            return at
        at += 1
    return stop


@helper
def _put(tokens, count, kind, name, start, stop, attribute):
    tokens.kinds[count] = kind
    tokens.names[count] = name
    tokens.starts[count] = start
    tokens.stops[count] = stop
    tokens.attributes[count] = attribute
    return count + 1


@helper
def _element_at(data, at, stop, table):
    """Return a tag's name: (its number, where it stops)."""
    start = at
    hyphen = False
    while at < stop:
        byte = data[at]
        if byte <= 0x3E and (byte == 0x3E or byte == 0x2F or is_space(byte)):
            break
        hyphen |= byte == 0x2D
        at += 1
    if at - start > 16:
        return np.int64(CUSTOM if hyphen else 0), at
    number = name_number(name_key(data, start, at - start), table)
    if number == 0 and hyphen:
        number = np.int64(CUSTOM)
    return number, at


@kernel(BYTES, types.int64, NameTables, PageTokens, Attributes, returns=types.int64)
def _tokenize(data, inside, tables, tokens, attributes):
    stop = np.int64(len(data))
    at = count = filled = foreign = np.int64(0)
    while at < stop:
        if inside > 0:
            end = stop
            if inside != PLAINTEXT:
                end = skip_raw(data, at, stop, tables.raw[inside], inside == SCRIPT)
            if end > at:
                kind = TEXT if inside == TITLE or inside == TEXTAREA else RAW
                count = _put(tokens, count, kind, inside, at, end, filled)
            at = end
            inside = np.int64(0)
            if at >= stop:
                break
        else:
            start = at
            at = _next_markup(data, at, stop)
            if at > start:
                count = _put(tokens, count, TEXT, 0, start, at, filled)
            if at >= stop:
                break
        byte = data[at + 1]
        ends = byte == 0x2F
        if not is_letter(data[at + 2] if ends else byte):
            start = at
            if ends and data[at + 2] == 0x3E:
                at += 3
                continue
            raw = foreign > 0 and is_cdata(data, at, stop)
            behind = skip_markup(data, at, stop, raw)
            at = min(behind, stop)
            if raw:
                end = behind - 3 if behind <= stop else stop  # of the page, where no ]]> comes
                if end > start + 9:
                    count = _put(tokens, count, RAW, 0, start + 9, end, filled)
            else:
                count = _put(tokens, count, COMMENT, 0, start, at, filled)
            continue
        start = at + 2 if ends else at + 1
        name, at = _element_at(data, start, stop, tables.elements)
        behind, closed, more = _read_attributes(
            data, at, stop, tables.attributes, attributes, filled
        )
        if behind == 0:
            break  # a tag that the page ends in is none
        at = behind
        if ends:
            count = _put(tokens, count, END, name, start, at - 1, filled)
            if foreign > 0 and (name == SVG or name == MATH):
                foreign -= 1
            continue
        kind = CLOSED if closed else START
        count = _put(tokens, count, kind, name, start, at - 1, filled)
        filled = more
        if name == SVG or name == MATH:
            foreign += not closed
        elif foreign > 0 and tables.breaks_out[name]:
            foreign = np.int64(0)
        elif foreign == 0 and tables.raw[name] != 0:
            inside = name
    tokens.attributes[count] = filled
    return count


def room(longest: int) -> tuple[PageTokens, Attributes]:
    """Return arrays for the tokens of a page of at most `longest` bytes."""
    # A tag takes three bytes, and a text before it one; an attribute takes three.
    most = longest // 2 + 3
    return (
        PageTokens(
            np.empty(most, np.uint8),
            np.empty(most, np.uint8),
            np.empty(most, np.int32),
            np.empty(most, np.int32),
            np.empty(most, np.int32),
        ),
        Attributes(np.empty(most, np.uint8), np.empty(most, np.int32), np.empty(most, np.int32)),
    )


def tokenize(data: np.ndarray, tokens: PageTokens, attributes: Attributes, inside: int = 0) -> int:
    """Tokenize a page (bytes,) uint8 in UTF-8 into `room`; how many tokens there are.

    `inside`: the element whose text the page starts in, as the standard's tests have it.
    """
    return int(_tokenize(data, inside, NAME_TABLES, tokens, attributes))
