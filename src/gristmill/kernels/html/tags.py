"""The tags of an HTML page as WHATWG's tokenizer reads them (WHATWG HTML, 13.2.5), for kernels:
names and their kinds, attributes, raw text.
"""

import numpy as np

from gristmill.kernels.hashing.primitives import BASIS, PRIME, fnv_1a
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.loads import count_trailing_zeros, load_u64, mask_of_range

LONGEST = np.int64(16)  # more bytes than any name of a kind has, its < and / counted
CDATA = np.uint64(int.from_bytes(b"<![CDATA", "little"))

VOID, FORMATTING, RAW, FOREIGN, OUTER, TABLE, FORM = (1 << k for k in range(7))
OPTION, UNSURE, BREAKS_OUT, HOLDS_HTML, SCRIPT, COLUMN, TEMPLATE = (1 << k for k in range(7, 14))
PARAGRAPH, ENDS_PARAGRAPH, ITEM, TERM, CELL, ROW, WITHIN_TEXT, BREAK = (
    1 << k for k in range(14, 22)
)
ROOT = SCRIPT  # of an entry of the stack: <svg> or <math> itself
KIND_NAMES = {
    VOID: (
        "area base basefont bgsound br col embed frame hr image img input keygen link meta param "
        "source track wbr"
    ),
    FORMATTING: "a b big code em font i nobr s small strike strong tt u",
    # their content is text up to their end tag
    RAW: "iframe noembed noframes script style textarea title xmp",
    FOREIGN: "math svg",
    OUTER: "body head html",  # there once, whatever the page says
    TABLE: "table template",
    FORM: "form",
    OPTION: "optgroup option",
    UNSURE: "frameset plaintext selectedcontent",
    # Start tags that end SVG or MathML (13.2.6.5).
    BREAKS_OUT: "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 "
    "h6 head "
    "hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var",
    # within SVG or MathML: HTML in them
    HOLDS_HTML: "annotation-xml desc foreignobject mi mn mo ms mtext title",
    SCRIPT: "script",
    COLUMN: "col",
    TEMPLATE: "template",
    PARAGRAPH: "p",
    ENDS_PARAGRAPH: "address article aside blockquote center dd details dir div dl dt fieldset "
    "figcaption "
    "figure footer h1 h2 h3 h4 h5 h6 "
    "header li main menu nav ol p pre section ul",
    ITEM: "li",
    TERM: "dd dt",
    CELL: "td th",
    ROW: "tr",
    WITHIN_TEXT: "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins "
    "kbd label "
    "mark q s samp small span strike strong sub sup "
    "time tt u var wbr",
    BREAK: "br",
}


def _table() -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of all names of a kind, ascending, and their kinds."""
    kinds: dict[int, int] = {}
    for kind, names in KIND_NAMES.items():
        for name in names.split():
            kinds[fnv_1a(name.encode())] = kinds.get(fnv_1a(name.encode()), 0) | kind
    return np.array(sorted(kinds), np.uint64), np.array(
        [kinds[name] for name in sorted(kinds)], np.int64
    )


NAMES, KINDS = _table()


@helper
def is_letter(byte):
    """Return whether a byte is an ASCII letter."""
    return np.uint8((byte | 0x20) - 0x61) < 26


@helper
def is_space(byte):
    """Return whether a byte is white space of HTML's."""
    return byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0C or byte == 0x0D


@helper
def find_byte(data, at, stop, byte):
    """Return the next place of a byte, or the end."""
    while at + 64 <= stop:
        found = mask_of_range(data, at, byte, 0)
        if found:
            return at + count_trailing_zeros(found)
        at += 64
    while at < stop and data[at] != byte:
        at += 1
    return at


@helper
def tag_name(data, at, stop):
    """Return a tag's name, hashed in lower case: (hash, where it stops)."""
    value = BASIS
    while at < stop:
        byte = data[at]
        if is_space(byte) or byte == 0x2F or byte == 0x3E:
            break
        if np.uint8(byte - 0x41) < 26:
            byte |= 0x20
        value = (value ^ np.uint64(byte)) * PRIME
        at += 1
    return value, at


@helper
def tag_kinds(name, names, kinds):
    """Return the kinds of a tag's name, by its hash."""
    place = np.searchsorted(names, name)
    if place < len(names) and names[place] == name:
        return kinds[place]
    return np.int64(0)


@helper
def skip_attributes(data, at, stop):
    """Return a tag from behind its name: (where the next text starts, how many attributes, 1 where
    it ends in />).
    """
    count = np.int64(0)
    slash = np.int64(0)
    while at < stop:
        byte = data[at]
        if byte == 0x3E:
            return at + 1, count, slash
        slash = np.int64(byte == 0x2F)  # only right before >
        if slash or is_space(byte):
            at += 1
            continue
        count += 1
        at += 1  # the first byte of a name may be =
        while at < stop and not (
            is_space(data[at]) or data[at] == 0x2F or data[at] == 0x3E or data[at] == 0x3D
        ):
            at += 1
        while at < stop and is_space(data[at]):
            at += 1
        if at >= stop or data[at] != 0x3D:
            continue
        at += 1
        while at < stop and is_space(data[at]):
            at += 1
        if at >= stop or data[at] == 0x3E:
            continue
        quote = data[at]
        if quote == 0x22 or quote == 0x27:
            at = find_byte(data, at + 1, stop, quote) + 1
        else:
            while at < stop and not (is_space(data[at]) or data[at] == 0x3E):
                at += 1
    return stop, count, slash


@helper
def _skip_comment(data, at, stop):
    """Return where it goes on behind a comment, from behind its <!--."""
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
def skip_markup(data, at, stop, in_foreign):
    """Return where it goes on behind what starts with <! or <? or </ and is no tag."""
    if data[at + 1] == 0x21:
        if at + 3 < stop and data[at + 2] == 0x2D and data[at + 3] == 0x2D:
            return _skip_comment(data, at + 4, stop)
        if in_foreign and is_cdata(data, at, stop):
            at += 9
            while at + 2 < stop and not (
                data[at] == 0x5D and data[at + 1] == 0x5D and data[at + 2] == 0x3E
            ):
                at += 1
            return at + 3
    return find_byte(data, at + 2, stop, 0x3E) + 1


@helper
def is_cdata(data, at, stop):
    """Return whether <![CDATA[ stands here."""
    return at + 9 <= stop and load_u64(data, at) == CDATA and data[at + 8] == 0x5B


@helper
def skip_raw(data, at, stop, name, is_script):
    """Return where the end tag of raw text starts.

    In a script `<!--` opens a comment and `-->` ends it; in it a `<script` is one more script,
    which takes the next end tag.
    """
    commented = False
    nested = False
    while at + 1 < stop:
        if not commented:
            at = find_byte(data, at, stop, 0x3C)
            if at + 1 >= stop:
                break
        byte = data[at]
        if byte == 0x3C:
            follow = data[at + 1]
            if follow == 0x2F:
                found, behind = tag_name(data, at + 2, min(stop, at + LONGEST))
                if found == name and behind < stop:
                    if not nested:
                        return at
                    nested = False
            elif is_script and follow == 0x21:
                if (
                    not commented
                    and at + 3 < stop
                    and data[at + 2] == 0x2D
                    and data[at + 3] == 0x2D
                ):
                    commented = True
                    at += 1  # its dashes may be those of --> as well
            elif commented and is_letter(follow):
                found, behind = tag_name(data, at + 1, min(stop, at + LONGEST))
                if found == name and behind < stop:
                    nested = True
        elif (
            byte == 0x2D
            and commented
            and at + 2 < stop
            and data[at + 1] == 0x2D
            and data[at + 2] == 0x3E
        ):
            commented = False
            nested = False
        at += 1
    return stop


@helper
def has_text(data, at, stop):
    """Return whether something other than white space stands here."""
    while at < stop and is_space(data[at]):
        at += 1
    return at < stop
