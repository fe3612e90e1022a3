"""What an HTML page may cost its parser at most, told from its tags alone, in one linear pass.

HTML's rules for building a tree (WHATWG HTML, 13.2.6) are not linear: a tag may walk the whole stack of open elements; formatting
elements left open are made anew in every block that follows, so that 250 KB of source can become 16 million nodes; an attribute is
compared with all others of its tag. So the page is tokenised here first, by the same rules (13.2.5), with a stack that is never smaller
than the parser's: an element leaves it only at an end tag of its own name, or a start tag that ends it, while nothing that was opened after it is
left. Where the parser closes more the bounds are larger than the truth, and never smaller.

    steps = elements open at each tag that is no such end tag, WITHIN times at a start tag
          + CLONE times formatting elements open at each tag
          + attributes of each tag, squared, of <html> and <body> those of the page
          + options of the page, squared

Extractors that work on the finished tree have squares of their own (trafilatura's, measured):

    crowd = elements that follow one another within one paragraph, squared, summed over the paragraphs
    parts = stretches of text between tags that no paragraph goes over, <br><br> among them
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.compile import BYTES, INT64S, OFFSETS, UINT64S, helper, kernel
from gristmill.kernels.loads import count_trailing_zeros, load_u64, mask_of_range

CLONE = np.int64(128)  # what making a node costs, against walking over one while parsing: bytes as well
WITHIN = np.int64(32)  # what an element costs for each that it lies in, when main content is looked for
GATHERED = np.int64(8)  # what an option, or an attribute of <html> and <body>, costs for each before it
LONGEST = np.int64(16)  # more bytes than any name of a kind has, its < and / counted
CDATA = np.uint64(int.from_bytes(b"<![CDATA", "little"))
BASIS, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits

VOID, FORMATTING, RAW, FOREIGN, OUTER, TABLE, FORM = (1 << k for k in range(7))
OPTION, UNSURE, BREAKS_OUT, HOLDS_HTML, SCRIPT, COLUMN, TEMPLATE = (1 << k for k in range(7, 14))
PARAGRAPH, ENDS_PARAGRAPH, ITEM, TERM, CELL, ROW, WITHIN_TEXT, BREAK = (1 << k for k in range(14, 22))
ROOT = SCRIPT  # of an entry of the stack: <svg> or <math> itself
_KINDS = {
    VOID: "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    FORMATTING: "a b big code em font i nobr s small strike strong tt u",
    RAW: "iframe noembed noframes script style textarea title xmp",  # their content is text up to their end tag
    FOREIGN: "math svg",
    OUTER: "body head html",  # there once, whatever the page says
    TABLE: "table template",
    FORM: "form",
    OPTION: "optgroup option",
    UNSURE: "frameset plaintext selectedcontent",
    # Start tags that end SVG or MathML (13.2.6.5).
    BREAKS_OUT: "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 h6 head hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var",
    HOLDS_HTML: "annotation-xml desc foreignobject mi mn mo ms mtext title",  # within SVG or MathML: HTML in them
    SCRIPT: "script",
    COLUMN: "col",
    TEMPLATE: "template",
    PARAGRAPH: "p",
    ENDS_PARAGRAPH: "address article aside blockquote center dd details dir div dl dt fieldset figcaption figure footer h1 h2 h3 h4 h5 h6 "
    "header li main menu nav ol p pre section ul",
    ITEM: "li",
    TERM: "dd dt",
    CELL: "td th",
    ROW: "tr",
    WITHIN_TEXT: "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark q s samp small span strike strong sub sup "
    "time tt u var wbr",
    BREAK: "br",
}  # fmt: skip


class Bounds(NamedTuple):
    """Of each of n pages what its parser may do at most; where that is more than the limit, of the bytes before `cut`."""

    steps: np.ndarray  # (n,) int64
    depth: np.ndarray  # (n,) int64: elements that lie in one another
    tags: np.ndarray  # (n,) int64: start tags
    crowd: np.ndarray  # (n,) int64
    parts: np.ndarray  # (n,) int64
    cut: np.ndarray  # (n,) int64: the bytes whose steps were within the limit, or all


def _hash(name: str) -> int:
    value = int(BASIS)
    for byte in name.encode():
        value = (value ^ byte) * int(PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def _table() -> tuple[np.ndarray, np.ndarray]:
    """The hashes of all names of a kind, ascending, and their kinds."""
    kinds: dict[int, int] = {}
    for kind, names in _KINDS.items():
        for name in names.split():
            kinds[_hash(name)] = kinds.get(_hash(name), 0) | kind
    return np.array(sorted(kinds), np.uint64), np.array([kinds[name] for name in sorted(kinds)], np.int64)


NAMES, KINDS = _table()


@helper
def _is_letter(byte):
    return np.uint8((byte | 0x20) - 0x61) < 26


@helper
def _is_space(byte):
    return byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0C or byte == 0x0D


@helper
def _find(data, at, stop, byte):
    """The next place of a byte, or the end."""
    while at + 64 <= stop:
        found = mask_of_range(data, at, byte, 0)
        if found:
            return at + count_trailing_zeros(found)
        at += 64
    while at < stop and data[at] != byte:
        at += 1
    return at


@helper
def _name(data, at, stop):
    """A tag's name, hashed in lower case: (hash, where it stops)."""
    value = BASIS
    while at < stop:
        byte = data[at]
        if _is_space(byte) or byte == 0x2F or byte == 0x3E:
            break
        if np.uint8(byte - 0x41) < 26:
            byte |= 0x20
        value = (value ^ np.uint64(byte)) * PRIME
        at += 1
    return value, at


@helper
def _kind(name, names, kinds):
    place = np.searchsorted(names, name)
    if place < len(names) and names[place] == name:
        return kinds[place]
    return np.int64(0)


@helper
def _attributes(data, at, stop):
    """A tag from behind its name: (where the next text starts, how many attributes, 1 where it ends in />)."""
    count = np.int64(0)
    slash = np.int64(0)
    while at < stop:
        byte = data[at]
        if byte == 0x3E:
            return at + 1, count, slash
        slash = np.int64(byte == 0x2F)  # only right before >
        if slash or _is_space(byte):
            at += 1
            continue
        count += 1
        at += 1  # the first byte of a name may be =
        while at < stop and not (_is_space(data[at]) or data[at] == 0x2F or data[at] == 0x3E or data[at] == 0x3D):
            at += 1
        while at < stop and _is_space(data[at]):
            at += 1
        if at >= stop or data[at] != 0x3D:
            continue
        at += 1
        while at < stop and _is_space(data[at]):
            at += 1
        if at >= stop or data[at] == 0x3E:
            continue
        quote = data[at]
        if quote == 0x22 or quote == 0x27:
            at = _find(data, at + 1, stop, quote) + 1
        else:
            while at < stop and not (_is_space(data[at]) or data[at] == 0x3E):
                at += 1
    return stop, count, slash


@helper
def _comment(data, at, stop):
    """Where it goes on behind a comment, from behind its <!--."""
    if at < stop and data[at] == 0x3E:
        return at + 1
    if at + 1 < stop and data[at] == 0x2D and data[at + 1] == 0x3E:
        return at + 2
    while at + 2 < stop:
        if data[at] == 0x2D and data[at + 1] == 0x2D:
            if data[at + 2] == 0x3E:
                return at + 3
            if data[at + 2] == 0x21 and at + 3 < stop and data[at + 3] == 0x3E:
                return at + 4
        at += 1
    return stop


@helper
def _markup(data, at, stop, in_foreign):
    """Where it goes on behind what starts with <! or <? or </ and is no tag."""
    if data[at + 1] == 0x21:
        if at + 3 < stop and data[at + 2] == 0x2D and data[at + 3] == 0x2D:
            return _comment(data, at + 4, stop)
        if in_foreign and _is_cdata(data, at, stop):
            at += 9
            while at + 2 < stop and not (data[at] == 0x5D and data[at + 1] == 0x5D and data[at + 2] == 0x3E):
                at += 1
            return at + 3
    return _find(data, at + 2, stop, 0x3E) + 1


@helper
def _is_cdata(data, at, stop):
    """Whether <![CDATA[ stands here."""
    return at + 9 <= stop and load_u64(data, at) == CDATA and data[at + 8] == 0x5B


@helper
def _raw(data, at, stop, name, is_script):
    """Where the end tag of raw text starts.

    In a script `<!--` opens a comment and `-->` ends it; in it a `<script` is one more script, which takes the next end tag.
    """
    commented = False
    nested = False
    while at + 1 < stop:
        if not commented:
            at = _find(data, at, stop, 0x3C)
            if at + 1 >= stop:
                break
        byte = data[at]
        if byte == 0x3C:
            follow = data[at + 1]
            if follow == 0x2F:
                found, behind = _name(data, at + 2, min(stop, at + LONGEST))
                if found == name and behind < stop:
                    if not nested:
                        return at
                    nested = False
            elif is_script and follow == 0x21:
                if not commented and at + 3 < stop and data[at + 2] == 0x2D and data[at + 3] == 0x2D:
                    commented = True
                    at += 1  # its dashes may be those of --> as well
            elif commented and _is_letter(follow):
                found, behind = _name(data, at + 1, min(stop, at + LONGEST))
                if found == name and behind < stop:
                    nested = True
        elif byte == 0x2D and commented and at + 2 < stop and data[at + 1] == 0x2D and data[at + 2] == 0x3E:
            commented = False
            nested = False
        at += 1
    return stop


@helper
def _has_text(data, at, stop):
    """Whether something other than white space stands here."""
    while at < stop and _is_space(data[at]):
        at += 1
    return at < stop


@helper
def _unsure(data, at, stop, size, formats, deepest, tags, steps, names, kinds):
    """The bounds where the rest of a page may be read in more than one way: everything that looks like a tag is one."""
    parts = np.int64(0)
    while at < stop:
        byte = data[at]
        if byte == 0x3C:
            if at + 1 < stop and _is_letter(data[at + 1]):
                name, _ = _name(data, at + 1, min(stop, at + LONGEST))
                formats += _kind(name, names, kinds) & FORMATTING != 0
                size += 1
                tags += 1
            steps += size * WITHIN + formats * CLONE
        elif _is_space(byte) or byte == 0x2F or byte == 0x22 or byte == 0x27:
            parts += 1
        at += 1
    return max(deepest, 3 * size), tags, steps + parts * parts


@kernel(
    OFFSETS, BYTES, UINT64S, INT64S, types.int64, types.int64, types.uint64[::1], types.int64[::1],
    types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1],
)  # fmt: skip
def _bound(
    offsets, data, names, kinds, most_bytes, limit, stack, marks, steps_out, depth_out, tags_out, crowd_out, parts_out, cut_out
):  # fmt: skip
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        if stop - at > most_bytes:
            continue
        size = np.int64(0)  # of the stack
        trusted = np.int64(0)  # entries from here on are surely open in the parser too
        formats = np.int64(0)  # of them, formatting elements
        foreign = np.int64(0)  # svg and math
        tables = np.int64(0)
        templates = np.int64(0)
        ignoring = False
        deepest = np.int64(0)
        steps = np.int64(0)
        tags = np.int64(0)
        options = np.int64(0)
        outer = np.int64(0)  # attributes of <html> and <body>, which are gathered in one element
        run = np.int64(0)  # start tags since the last that ends a paragraph
        crowd = np.int64(0)
        parts = np.int64(0)
        text = False  # some was seen since the last tag that no paragraph goes over
        broken = False  # no text was seen since the last <br>
        forms = True  # no </form> was left over
        sure = True
        cut = at
        while at + 1 < stop and steps <= limit:
            before = at
            at = _find(data, at, stop, 0x3C)
            if at > before and (broken or not text) and _has_text(data, before, at):
                text = True
                broken = False
            if at + 1 >= stop:
                break
            cut = at
            # Whether the parser's current node is of SVG or MathML.
            inside = size > trusted and marks[size - 1] & FOREIGN != 0
            ends = data[at + 1] == 0x2F
            if ends and at + 2 < stop and _is_letter(data[at + 2]):
                name, at = _name(data, at + 2, stop)
                at, count, closed = _attributes(data, at, stop)
                kind = _kind(name, names, kinds)
                steps += count * count + formats * CLONE
                if kind & (WITHIN_TEXT | RAW) == 0 and text:
                    parts += 1
                    text = False
                if kind & OUTER == 0 and size > 0 and stack[size - 1] == name and (forms or kind & FORM == 0):
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
            if not _is_letter(data[at + 1]):
                if ends or data[at + 1] == 0x21 or data[at + 1] == 0x3F:
                    if foreign > 0 and not inside and _is_cdata(data, at, stop):
                        sure = False
                        break
                    at = _markup(data, at, stop, inside)
                else:
                    at += 1
                continue
            name, at = _name(data, at + 1, stop)
            at, count, closed = _attributes(data, at, stop)
            kind = _kind(name, names, kinds)
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
            # Behind <col> in <template>, and in framesets, start tags are ignored: those of raw text as well.
            ignoring = ignoring or (templates > 0 and kind & COLUMN != 0)
            if kind & UNSURE or (kind & RAW and not inside and (foreign > 0 or ignoring)):
                sure = False
                break
            if kind & RAW and not inside:
                at = _raw(data, at, stop, name, kind & SCRIPT != 0)
                if at < stop:
                    at, count, closed = _attributes(data, _name(data, at + 2, stop)[1], stop)
                    steps += count * count
                continue
            if inside and kind & BREAKS_OUT:
                trusted = size
            # /> closes <svg>, <math> and what lies in them, nothing else.
            if closed and (kind & FOREIGN or (inside and kind & BREAKS_OUT == 0)):
                continue
            if kind & (VOID | OUTER) and (foreign == 0 or kind & BREAKS_OUT):
                continue
            # What the start tag ends: only what was opened last is asked for, so that nothing else can end before it.
            if foreign == 0 and size > 0:
                if kind & ENDS_PARAGRAPH and marks[size - 1] & PARAGRAPH:
                    size -= 1
                elif kind & (CELL | ROW) and marks[size - 1] & CELL:
                    size -= 1
                if size > 0 and marks[size - 1] & kind & (ITEM | TERM | ROW):
                    size -= 1
                trusted = min(trusted, size)
            mark = kind & (FORMATTING | TABLE | TEMPLATE | PARAGRAPH | ITEM | TERM | CELL | ROW)
            if kind & FOREIGN:
                mark |= FOREIGN | ROOT
            elif inside and kind & (BREAKS_OUT | HOLDS_HTML) == 0:
                mark |= FOREIGN
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
            deepest, tags, steps = _unsure(data, at, stop, size, formats, deepest, tags, steps, names, kinds)
            run += tags - more
            parts += tags - more
        steps_out[i] = steps
        crowd_out[i] = crowd + run * run
        parts_out[i] = parts + text
        depth_out[i] = deepest + 3  # html, body, and what lies there for a while: head's, and raw text
        tags_out[i] = tags
        cut_out[i] = (cut if steps > limit else stop) - np.int64(offsets[i])


def bound(offsets: np.ndarray, data: np.ndarray, most_bytes: int, most_steps: int) -> Bounds:
    """Bound what parsing each of n pages costs: UTF-8, offsets (n + 1,) int32 into data (bytes,) uint8.

    Pages of more than most_bytes are not read: all is 0. Reading stops behind the tag that goes over most_steps.
    """
    count = len(offsets) - 1
    longest = min(int(np.diff(offsets).max(initial=0)), most_bytes) // 3 + 1  # a start tag takes three bytes
    found = Bounds(*(np.zeros(count, np.int64) for _ in Bounds._fields))
    room = (np.empty(longest, np.uint64), np.empty(longest, np.int64))
    _bound(offsets, data, NAMES, KINDS, most_bytes, most_steps, *room, *found)
    return found
