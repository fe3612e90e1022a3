"""Elements of a page in arrays, in document order with their parents, while its tokens are read.

Only elements that begin on a line of their own are elements here. End tags that HTML leaves out are
implied (WHATWG HTML, 13.2.6.4): of <p>, <li>, <dd>, <dt>, <tr>, <td>, <th>, <tbody>, <option>. An
end tag closes what is open in its scope, or nothing. Of each name the innermost open element is
known, so that nothing is searched for: each element is opened and closed once.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import hash_bytes, mix
from gristmill.kernels.html.names import ATTRIBUTE, CUSTOM, ELEMENT, NameTable
from gristmill.kernels.html.references import REFERENCES, References
from gristmill.kernels.html.words import WORD_TABLE, word_bits
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64s, Uint64s

# What an element name is to the builder, bits of `roles`.
BLOCK, VOID, ENDS_P, NO_TEXT = (1 << k for k in range(4))
_ROLES = {
    BLOCK: (
        "address article aside blockquote body button caption center col colgroup dd details "
        "dialog dir div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
        "hgroup hr iframe legend li main menu nav noscript object ol optgroup option p "
        "picture plaintext pre search section select summary svg table tbody td template "
        "textarea tfoot th thead tr ul video audio canvas applet map"
    ),
    VOID: "area base br col embed hr img input link meta param source track wbr frame",
    ENDS_P: (
        "address article aside blockquote center details dialog dir div dl fieldset figcaption "
        "figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search "
        "section summary table ul li dd dt plaintext"
    ),
    NO_TEXT: (
        "script style iframe noembed noframes noscript select option optgroup textarea svg "
        "template object applet audio video canvas map"
    ),
}
ROLES = np.zeros(256, np.uint8)
for _role, _names in _ROLES.items():
    for _name in _names.split():
        ROLES[ELEMENT[_name]] |= _role
ROLES[CUSTOM] = BLOCK

P, LI, DD, DT, TR, TD, TH, TABLE, OPTION, CAPTION, DL, H1, H6 = (
    ELEMENT[name] for name in ("p li dd dt tr td th table option caption dl h1 h6").split()
)
TBODY, THEAD, TFOOT, TEMPLATE, UL, OL, OBJECT, BUTTON = (
    ELEMENT[name] for name in ("tbody thead tfoot template ul ol object button").split()
)
CLASS, ID, ROLE, ITEMPROP, HREF, HIDDEN, STYLE, ARIA_HIDDEN = (
    ATTRIBUTE[name] for name in ("class id role itemprop href hidden style aria-hidden").split()
)


# Places of the builder's counters.
OPEN, ELEMENTS, BLOCKS, TEXT_SIZE, SPACE, LINK, LINKED, FLAGS, LINKS, STARTED, TOKEN = range(11)
COUNTERS = 11


class Elements(NamedTuple):
    """Elements of a page; number 0 is the page itself."""

    names: Bytes
    parents: Int32s
    depths: Int32s
    first: Int32s  # its blocks, those of the elements in it included
    stop: Int32s
    words: Uint64s  # the bits of its class, id and role (html/words.py)
    above: Uint64s  # of it and of all that it lies in
    inside: Uint64s  # bit k: it is, or lies in, an element of SEMANTIC[k]
    kinds: Uint64s  # a hash of its name and class


class Open(NamedTuple):
    """The open elements."""

    elements: Int32s
    before: Int32s  # the place of the one of the same name below it, or -1
    last: Int64s  # (256,) of each name the place of the last open one, or -1


class BlockTables(NamedTuple):
    """What the builder knows of names."""

    roles: Bytes
    semantic: Uint64s  # (256,) the bit of a name in `inside`
    words: NameTable
    references: References


SEMANTIC = (
    "article main nav header footer aside section form table li ul ol blockquote figure "
    "pre dl td button details address figcaption th hidden no-text custom fieldset p dd "
    "h1 h2 h3 h4 h5 h6"
).split()
INSIDE = {name: np.uint64(1 << place) for place, name in enumerate(SEMANTIC)}
HIDDEN_BIT, NO_TEXT_BIT = INSIDE["hidden"], INSIDE["no-text"]
PRE_BIT = INSIDE["pre"]


def _tables() -> BlockTables:
    semantic = np.zeros(256, np.uint64)
    for name, bit in INSIDE.items():
        if name in ELEMENT:
            semantic[ELEMENT[name]] = bit
    semantic[CUSTOM] = INSIDE["custom"]
    semantic[(ROLES & NO_TEXT) != 0] |= NO_TEXT_BIT
    return BlockTables(ROLES, semantic, WORD_TABLE, REFERENCES)


BLOCK_TABLES = _tables()


@helper
def close_to(size, opened, elements, counters):
    """Close the open elements from a place on."""
    while counters[OPEN] > size:
        counters[OPEN] -= 1
        place = counters[OPEN]
        element = opened.elements[place]
        opened.last[elements.names[element]] = opened.before[place]
        elements.stop[element] = counters[BLOCKS]


@helper
def scope_place(last):
    """Return the place of the innermost open element that no paragraph reaches over."""
    found = max(last[TD], last[TH], last[TABLE], last[CAPTION])
    return max(found, last[TEMPLATE], last[OBJECT], last[BUTTON])


@helper
def close_implied(name, role, opened, elements, counters):
    """Close what the start tag of an element ends."""
    last = opened.last
    if role & ENDS_P and last[P] > scope_place(last):
        close_to(last[P], opened, elements, counters)
    if name == LI:
        if last[LI] > max(scope_place(last), last[UL], last[OL]):
            close_to(last[LI], opened, elements, counters)
    elif name == DD or name == DT:
        if max(last[DD], last[DT]) > max(scope_place(last), last[DL]):
            close_to(max(last[DD], last[DT]), opened, elements, counters)
    elif name == TD or name == TH:
        if max(last[TD], last[TH]) > last[TABLE]:
            close_to(max(last[TD], last[TH]), opened, elements, counters)
    elif name == TR:
        if last[TR] > last[TABLE]:
            close_to(last[TR], opened, elements, counters)
    elif name == TBODY or name == THEAD or name == TFOOT:
        group = max(last[TBODY], last[THEAD], last[TFOOT])
        if group > last[TABLE]:
            close_to(group, opened, elements, counters)
    elif name == OPTION:
        if last[OPTION] >= 0:
            close_to(last[OPTION], opened, elements, counters)
    elif H1 <= name <= H6:
        element = opened.elements[counters[OPEN] - 1]
        if H1 <= elements.names[element] <= H6:
            close_to(counters[OPEN] - 1, opened, elements, counters)


@helper
def close_named(name, opened, elements, counters):
    """Close the element that an end tag names, where it is open in its scope."""
    last = opened.last
    place = last[name]
    if name == TABLE or name == TEMPLATE:
        bound = last[TEMPLATE] if name == TABLE else np.int64(-1)
        place = place if place >= bound else np.int64(-1)
    elif name == TD or name == TH or name == TR or name == TBODY or name == THEAD or name == TFOOT:
        place = place if place > last[TABLE] else np.int64(-1)
    elif H1 <= name <= H6:
        for other in range(H1, H6 + 1):
            place = max(place, last[other])
        place = place if place > scope_place(last) else np.int64(-1)
    else:
        bound = scope_place(last)
        if name == BUTTON or name == OBJECT or name == CAPTION:
            bound = max(last[TD], last[TH], last[TABLE], last[TEMPLATE])
        place = place if place > bound else np.int64(-1)
    if place > 0:
        close_to(place, opened, elements, counters)


@helper
def _hides(data, start, stop):
    """Return whether a style says display:none or visibility:hidden."""
    for at in range(start, stop - 3):
        if (data[at] | 0x20) == 0x6E and (data[at + 1] | 0x20) == 0x6F:
            if (data[at + 2] | 0x20) == 0x6E and (data[at + 3] | 0x20) == 0x65:
                # "none", of "display" with at most one space on each side of the colon
                back = at - 1
                while back > start and (data[back] == 0x20 or data[back] == 0x3A):
                    back -= 1
                if (data[back] | 0x20) == 0x79:
                    return True
    return False


@helper
def open_element(data, name, tables, first, stop, attributes, opened, elements, counters):
    """Open an element with the attributes first..stop."""
    count = counters[ELEMENTS]
    parent = opened.elements[counters[OPEN] - 1]
    words = np.uint64(0)
    inside = tables.semantic[name]
    kind = np.uint64(name)
    for place in range(first, stop):
        attribute = attributes.names[place]
        start = attributes.starts[place]
        end = attributes.stops[place]
        if attribute == CLASS or attribute == ID or attribute == ROLE or attribute == ITEMPROP:
            words |= word_bits(data, start, end, 24, tables.words)
            if attribute == CLASS:
                kind ^= hash_bytes(data, start, end)
        elif attribute == HIDDEN:
            inside |= HIDDEN_BIT
        elif attribute == ARIA_HIDDEN:
            if end > start and data[start] | 0x20 == 0x74:
                inside |= HIDDEN_BIT
        elif attribute == STYLE:
            if _hides(data, start, end):
                inside |= HIDDEN_BIT
    elements.names[count] = name
    elements.parents[count] = parent
    elements.depths[count] = elements.depths[parent] + 1
    elements.first[count] = counters[BLOCKS]
    elements.words[count] = words
    elements.above[count] = elements.above[parent] | words
    elements.inside[count] = elements.inside[parent] | inside
    elements.kinds[count] = mix(kind)
    place = counters[OPEN]
    opened.elements[place] = count
    opened.before[place] = opened.last[name]
    opened.last[name] = place
    counters[OPEN] = place + 1
    counters[ELEMENTS] = count + 1


@helper
def has_href(attributes, first, stop):
    """Return whether one of the attributes first..stop is href."""
    for place in range(first, stop):
        if attributes.names[place] == HREF:
            return True
    return False
