"""What an HTML page may cost its parser at most, from its tags alone, in one linear pass.

HTML's rules for building a tree (WHATWG HTML, 13.2.6) are not linear: a tag may walk the whole
stack of open elements; formatting elements left open are made anew in every block that follows, so
that 250 KB of source can become 16 million nodes; an attribute is compared with all others of its
tag. So the page is tokenised here first, by the same rules (13.2.5), with a stack that is never
smaller than the parser's: an element leaves it only at an end tag of its own name, or a start tag
that ends it, while nothing that was opened after it is left. Where the parser closes more the
bounds are larger than the truth, and never smaller.

    steps = elements open at each tag that is no such end tag, WITHIN times at a start tag
          + CLONE times formatting elements open at each tag
          + attributes of each tag, squared, of <html> and <body> those of the page
          + options of the page, squared

Extractors that work on the finished tree have squares of their own (trafilatura's, measured):

    crowd = elements that follow one another within one paragraph, squared, summed over the
    paragraphs parts = stretches of text between tags that no paragraph goes over, <br><br> among
    them
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.tags import (
    BREAK,
    BREAKS_OUT,
    CELL,
    COLUMN,
    ENDS_PARAGRAPH,
    FOREIGN,
    FORM,
    FORMATTING,
    HOLDS_HTML,
    ITEM,
    KINDS,
    LONGEST,
    NAMES,
    OPTION,
    OUTER,
    PARAGRAPH,
    RAW,
    ROOT,
    ROW,
    SCRIPT,
    TABLE,
    TEMPLATE,
    TERM,
    UNSURE,
    VOID,
    WITHIN_TEXT,
    find_byte,
    has_text,
    is_cdata,
    is_letter,
    is_space,
    skip_attributes,
    skip_markup,
    skip_raw,
    tag_kinds,
    tag_name,
)
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Int64s, Uint64s

# Costs, in steps of walking over a node while parsing.
CLONE = np.int64(128)  # of making a node: it takes bytes as well
WITHIN = np.int64(32)  # of an element for each that it lies in: main content is looked for
GATHERED = np.int64(8)  # of an option, or an attribute of <html> and <body>, for each before it


class ParseBounds(NamedTuple):
    """Of each of n pages what its parser may do at most; where that is more than the limit, of the
    bytes before `cut`. Each is (n,) int64.
    """

    steps: Int64s
    depth: Int64s  # elements that lie in one another
    tags: Int64s  # start tags
    crowd: Int64s
    parts: Int64s
    cut: Int64s  # the bytes whose steps were within the limit, or all


class _NameHashes(NamedTuple):
    """The names of a kind, by their hashes (html/tags.py)."""

    hashes: Uint64s  # ascending
    kinds: Int64s


class _Stack(NamedTuple):
    """The open elements."""

    names: Uint64s
    marks: Int64s


@helper
def _unsure(data, at, stop, size, formats, deepest, tags, steps, hashes, kinds):
    """Return the bounds where the rest of a page may be read in more than one way: everything that
    looks like a tag is one.
    """
    parts = np.int64(0)
    while at < stop:
        byte = data[at]
        if byte == 0x3C:
            if at + 1 < stop and is_letter(data[at + 1]):
                name, _ = tag_name(data, at + 1, min(stop, at + LONGEST))
                formats += tag_kinds(name, hashes, kinds) & FORMATTING != 0
                size += 1
                tags += 1
            steps += size * WITHIN + formats * CLONE
        elif is_space(byte) or byte == 0x2F or byte == 0x22 or byte == 0x27:
            parts += 1
        at += 1
    return max(deepest, 3 * size), tags, steps + parts * parts


@helper
def _size_before(kind, marks, size):
    """Return the open elements, at least one, without those that a start tag ends: only the last
    one is looked at, so that nothing else can end before it.
    """
    if kind & ENDS_PARAGRAPH and marks[size - 1] & PARAGRAPH:
        size -= 1
    elif kind & (CELL | ROW) and marks[size - 1] & CELL:
        size -= 1
    if size > 0 and marks[size - 1] & kind & (ITEM | TERM | ROW):
        size -= 1
    return size


@helper
def _stack_mark(kind, inside):
    """Return what the stack says of an element; `inside`: it is in SVG or MathML."""
    mark = kind & (FORMATTING | TABLE | TEMPLATE | PARAGRAPH | ITEM | TERM | CELL | ROW)
    if kind & FOREIGN:
        mark |= FOREIGN | ROOT
    elif inside and kind & (BREAKS_OUT | HOLDS_HTML) == 0:
        mark |= FOREIGN
    return mark


@kernel(OFFSETS, BYTES, _NameHashes, types.int64, types.int64, _Stack, ParseBounds)
def _bound(offsets, data, names, most_bytes, limit, open_elements, out):
    stack, marks = open_elements
    hashes, kinds = names
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        if stop - at > most_bytes:
            continue
        size = np.int64(0)  # of the stack
        trusted = np.int64(0)  # entries from here on are surely open in the parser too
        # of them, of a kind; foreign: svg and math
        formats = foreign = tables = templates = np.int64(0)
        deepest = steps = tags = options = np.int64(0)
        outer = np.int64(0)  # attributes of <html> and <body>, which are gathered in one element
        run = crowd = parts = np.int64(0)  # run: start tags since the last that ends a paragraph
        text = False  # some was seen since the last tag that no paragraph goes over
        broken = False  # no text was seen since the last <br>
        ignoring, sure = False, True
        forms = True  # no </form> was left over
        cut = at
        while at < stop and steps <= limit:
            before = at
            at = find_byte(data, at, stop, 0x3C)
            if at > before and (broken or not text) and has_text(data, before, at):
                text = True
                broken = False
            if at + 1 >= stop:
                break
            cut = at
            # Whether the parser's current node is of SVG or MathML.
            inside = size > trusted and marks[size - 1] & FOREIGN != 0
            ends = data[at + 1] == 0x2F
            if ends and at + 2 < stop and is_letter(data[at + 2]):
                name, at = tag_name(data, at + 2, stop)
                at, count, closed = skip_attributes(data, at, stop)
                kind = tag_kinds(name, hashes, kinds)
                steps += count * count + formats * CLONE
                if kind & (WITHIN_TEXT | RAW) == 0 and text:
                    parts += 1
                    text = False
                if (
                    kind & OUTER == 0
                    and size > 0
                    and stack[size - 1] == name
                    and (forms or kind & FORM == 0)
                ):
                    size -= 1
                    mark = marks[size]
                    formats -= mark & FORMATTING != 0
                    foreign -= mark & ROOT != 0
                    templates -= mark & TEMPLATE != 0
                    tables -= mark & TABLE != 0
                    trusted = min(trusted, size)
                else:
                    steps += size
                    trusted = size
                    if kind & FORM:
                        forms = False
                continue
            if not is_letter(data[at + 1]):
                if ends or data[at + 1] == 0x21 or data[at + 1] == 0x3F:
                    if foreign > 0 and not inside and is_cdata(data, at, stop):
                        sure = False
                        break
                    at = skip_markup(data, at, stop, inside)
                else:
                    at += 1
                continue
            name, at = tag_name(data, at + 1, stop)
            at, count, closed = skip_attributes(data, at, stop)
            kind = tag_kinds(name, hashes, kinds)
            tags += 1
            run += 1
            if kind & (ENDS_PARAGRAPH | ITEM | CELL | ROW):
                crowd += run * run
                run = np.int64(0)
            if text and (kind & (WITHIN_TEXT | RAW | BREAK) == 0 or (broken and kind & BREAK)):
                parts += 1
                text = False
            broken = kind & BREAK != 0
            if kind & OUTER:
                outer += count
                steps += count * outer * GATHERED
            if kind & OPTION:
                options += GATHERED
            steps += count * count + size * WITHIN + formats * CLONE + options
            # Behind <col> in <template>, and in framesets, start tags are ignored: those of raw
            # text as well.
            ignoring = ignoring or (templates > 0 and kind & COLUMN != 0)
            if kind & UNSURE or (kind & RAW and not inside and (foreign > 0 or ignoring)):
                sure = False
                break
            if kind & RAW and not inside:
                at = skip_raw(data, at, stop, name, kind & SCRIPT != 0)
                if at < stop:
                    at, count, closed = skip_attributes(data, tag_name(data, at + 2, stop)[1], stop)
                    steps += count * count
                continue
            if inside and kind & BREAKS_OUT:
                trusted = size
            # /> closes <svg>, <math> and what lies in them, nothing else.
            if closed and (kind & FOREIGN or (inside and kind & BREAKS_OUT == 0)):
                continue
            if kind & (VOID | OUTER) and (foreign == 0 or kind & BREAKS_OUT):
                continue
            if foreign == 0 and size > 0:
                size = _size_before(kind, marks, size)
                trusted = min(trusted, size)
            mark = _stack_mark(kind, inside)
            formats += mark & FORMATTING != 0
            foreign += mark & ROOT != 0
            templates += mark & TEMPLATE != 0
            tables += mark & TABLE != 0
            stack[size] = name
            marks[size] = mark
            size += 1
            # A table may be given a body and a row, or a column group.
            deepest = max(deepest, size + 2 * tables)
        if not sure:
            more = tags
            deepest, tags, steps = _unsure(
                data, at, stop, size, formats, deepest, tags, steps, hashes, kinds
            )
            run += tags - more
            parts += tags - more
        out.steps[i] = steps
        out.crowd[i] = crowd + run * run
        out.parts[i] = parts + text
        # html, body, and what lies there for a while: head's, and raw text
        out.depth[i] = deepest + 3
        out.tags[i] = tags
        out.cut[i] = (cut if steps > limit else stop) - np.int64(offsets[i])


def bound(offsets: np.ndarray, data: np.ndarray, most_bytes: int, most_steps: int) -> ParseBounds:
    """Bound what parsing each of n pages costs: UTF-8, offsets (n + 1,) int32 into data (bytes,)
    uint8.

    Pages of more than most_bytes are not read: all is 0. Reading stops behind the tag that goes
    over most_steps.
    """
    count = len(offsets) - 1
    # A start tag takes three bytes.
    longest = min(int(np.diff(offsets).max(initial=0)), most_bytes) // 3 + 1
    found = ParseBounds(*(np.zeros(count, np.int64) for _ in ParseBounds._fields))
    stack = _Stack(np.empty(longest, np.uint64), np.empty(longest, np.int64))
    _bound(offsets, data, _NameHashes(NAMES, KINDS), most_bytes, most_steps, stack, found)
    return found
