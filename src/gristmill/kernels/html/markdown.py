"""The blocks of a page that are kept as Markdown (CommonMark 0.31, tables as GitHub's).

    <ol start=3><li>a<ul><li>b</ul></ol>           ->  3. a
                                                       - b      (four columns in)
    <pre><code class=language-c>x</code></pre>     ->  ```c  x  ```
    <table><tr><th>a<th>b<tr><td>1<td>2</table>    ->  | a | b |  |---|---|  | 1 | 2 |

A table is one where its kept cells are in two rows and two columns or more, none holds a list,
code or a further table, more than four blocks or 2,000 bytes; others (they lay a page out) are
written as their blocks. Its first row is the header. A cell that spans columns is followed by empty
ones.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import Blocks
from gristmill.kernels.html.code_language import put_language
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.html.formulas import put
from gristmill.kernels.html.inline import (
    CELL,
    HEADING,
    LEVELS,
    LINE_STATES,
    MOST_LEVELS,
    ONE_LINE,
    RAW_TEX,
    WrittenLine,
    longest_run,
    put_inline,
    put_newline,
)
from gristmill.kernels.html.marked_text import MarkedBlocks, PageSource
from gristmill.kernels.html.marks import Marked
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.html.places import Places, place_elements, survey_tables
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s

TR, LI, QUOTE = (ELEMENT[name] for name in "tr li blockquote".split())


@helper
def _chain(element, elements, places, chain):
    """The items and quotes that an element lies in, outermost first: how many."""
    count = np.int64(places.levels[element])
    place = count
    container = places.containers[element]
    while place > 0:
        place -= 1
        chain[place] = container
        container = places.containers[elements.parents[container]]
    return count


@helper
def _width(container, elements, places):
    """The columns of an item's mark; 0: a quote."""
    if elements.names[container] == QUOTE:
        return np.int64(0)
    number = np.int64(places.numbers[container])
    if number < 0:
        return np.int64(2)
    digits = np.int64(1)
    while number >= 10:
        number //= 10
        digits += 1
    return digits + 2


@helper
def _put_number(number, digits, out, to):
    for place in range(digits):
        power = np.int64(1)
        for _ in range(digits - 1 - place):
            power *= 10
        to = put(out, to, np.uint8(0x30 + (number // power) % 10))
    return to


@helper
def _put_item(container, width, places, out, to):
    """Write the mark that a quote or an item begins with."""
    if width == 0:
        to = put(out, to, np.uint8(0x3E))
    elif places.numbers[container] < 0:
        to = put(out, to, np.uint8(0x2D))
    else:
        to = _put_number(np.int64(places.numbers[container]), width - 2, out, to)
        to = put(out, to, np.uint8(0x2E))
    return put(out, to, np.uint8(0x20))


@helper
def _is_tight(common, before, now, elements, places):
    """Whether a new item is in the next line: of the list of the one before, or right in it."""
    if common >= now[MOST_LEVELS] or elements.names[now[common]] == QUOTE:
        return False
    if common < before[MOST_LEVELS]:
        old = before[common]
        same = elements.parents[old] == elements.parents[now[common]]
        return same and elements.names[old] == LI
    if common == 0 or elements.names[now[common - 1]] == QUOTE:
        return False
    # only a list that begins with 1 may stand right below a paragraph
    return places.numbers[now[common]] == -1 or places.numbers[now[common]] == 1


@helper
def _begin(begun, element, elements, places, chains, line, to):
    """Write what stands between two blocks, and what the first line of the second begins with."""
    before = chains[0]
    now = chains[1]
    now[MOST_LEVELS] = _chain(element, elements, places, now)
    common = np.int64(0)
    while common < min(before[MOST_LEVELS], now[MOST_LEVELS]) and before[common] == now[common]:
        common += 1
    state = line.state
    if begun:
        state[LEVELS] = common
        if _is_tight(common, before, now, elements, places):
            to = put_newline(line, False, to)
        else:
            to = put_newline(line, True, to)
            to = put_newline(line, False, to)
    for level in range(common, now[MOST_LEVELS]):
        width = _width(now[level], elements, places)
        line.widths[level] = width
        to = _put_item(now[level], width, places, line.out, to)
    state[LEVELS] = now[MOST_LEVELS]
    for level in range(MOST_LEVELS + 1):
        before[level] = now[level]
    return to


@helper
def _put_lines(text, start, stop, line, to):
    """Write text[start:stop] as it is, without blank lines before it and what is blank behind."""
    while stop > start and text[stop - 1] <= 0x20:
        stop -= 1
    at = start
    while at < stop and text[at] <= 0x20:
        if text[at] == 0x0A:
            start = at + 1
        at += 1
    for at in range(start, stop):
        if text[at] == 0x0A:
            to = put_newline(line, text[at + 1] == 0x0A, to)
        elif text[at] >= 0x20 or text[at] == 0x09:  # no mark of a formula before the code
            to = put(line.out, to, text[at])
    return to


@helper
def _put_fence(ticks, line, to):
    for _ in range(ticks):
        to = put(line.out, to, np.uint8(0x60))
    return to


class WrittenPage(NamedTuple):
    """A page that is written."""

    source: PageSource
    elements: Elements
    blocks: Blocks
    entries: MarkedBlocks
    many: int  # entries
    opened: Int32s
    text: Bytes  # marked


@helper
def _put_pre(page, entry, places, line, to):
    """Write the blocks of a <pre> from an entry on: (the entry behind them, to)."""
    entries = page.entries
    pre = places.pres[page.blocks.elements[entries.blocks[entry]]]
    last = entry
    ticks = np.int64(3)
    while last < page.many:
        block = entries.blocks[last]
        if block >= 0 and places.pres[page.blocks.elements[block]] != pre:
            break
        run = longest_run(page.text, entries.starts[last], entries.stops[last])
        ticks = max(ticks, run + 1)
        last += 1
    to = _put_fence(ticks, line, to)
    to = put_language(page.source, pre, page.elements, page.opened, line.out, to)
    for k in range(entry, last):
        to = put_newline(line, False, to)
        to = _put_lines(page.text, entries.starts[k], entries.stops[k], line, to)
    to = put_newline(line, False, to)
    return last, _put_fence(ticks, line, to)


@helper
def _put_table(page, entry, table, places, line, settings, to):
    """Write a table from its first entry on: (the entry behind it, to)."""
    entries = page.entries
    element = np.int64(table) + 1
    first = True
    row = np.int64(-1)
    bar = np.uint8(0x7C)
    blank = np.uint8(0x20)
    places.simple[table] = False
    while element <= len(places.tables):
        inside = element < len(places.tables) and places.tables[element] == table
        if row >= 0 and (not inside or page.elements.names[element] == TR):
            if first:
                for _ in range(places.columns[row], places.columns[table]):
                    to = put(line.out, to, blank)
                    to = put(line.out, to, bar)
                to = put_newline(line, False, to)
                to = put(line.out, to, bar)
                for _ in range(places.columns[table]):
                    to = put(line.out, put(line.out, to, np.uint8(0x2D)), np.uint8(0x2D))
                    to = put(line.out, put(line.out, to, np.uint8(0x2D)), bar)
            first = False
            row = np.int64(-1)
        if not inside:
            break
        if page.elements.names[element] == TR and places.used[element]:
            row = element
            if not first:
                to = put_newline(line, False, to)
            to = put(line.out, to, bar)
        elif row >= 0 and places.cells[element] == element:
            to = put(line.out, to, blank)
            filled = False
            while entry < page.many:
                block = entries.blocks[entry]
                if block >= 0:
                    own = page.blocks.elements[block]
                    if places.tables[own] != table or places.cells[own] > element:
                        break
                if filled:
                    to = put(line.out, to, blank)
                filled = True
                marks = ONE_LINE | CELL | settings
                to = put_inline(
                    page.text, entries.starts[entry], entries.stops[entry], marks, line, to
                )
                entry += 1
            if filled:
                to = put(line.out, to, blank)
            to = put(line.out, to, bar)
            for _ in range(1, places.spans[element]):
                to = put(line.out, to, blank)
                to = put(line.out, to, bar)
        element += 1
    return entry, to


@kernel(
    WrittenPage,
    Places,
    types.int64,
    WrittenLine,
    types.int64[:, ::1],
    returns=types.int64,
    allocates=True,
)
def _write(page, places, settings, line, chains):
    entries = page.entries
    to = np.int64(0)
    entry = np.int64(0)
    chains[:] = 0
    while entry < page.many:
        block = entries.blocks[entry]
        element = np.int64(0)
        if block >= 0:
            element = np.int64(page.blocks.elements[block])
        elif entry > 0 and entry + 1 < page.many:
            # a formula between two blocks: in what holds both
            after = entries.blocks[entry + 1]
            element = np.int64(chains[0][MOST_LEVELS + 1])
            if after >= 0:
                element = min(element, np.int64(page.blocks.elements[after]))
        to = _begin(entry > 0, element, page.elements, places, chains, line, to)
        chains[0][MOST_LEVELS + 1] = element
        table = places.tables[element]
        if block >= 0 and places.pres[element] >= 0:
            entry, to = _put_pre(page, entry, places, line, to)
            continue
        if block >= 0 and table >= 0 and places.simple[table] and places.cells[element] >= 0:
            entry, to = _put_table(page, entry, table, places, line, settings, to)
            continue
        marks = settings
        level = places.headings[element] if block >= 0 else np.int32(0)
        if level > 0:
            marks |= ONE_LINE | HEADING
            for _ in range(level):
                to = put(line.out, to, np.uint8(0x23))
            to = put(line.out, to, np.uint8(0x20))
        to = put_inline(page.text, entries.starts[entry], entries.stops[entry], marks, line, to)
        entry += 1
    return to


def write(
    page: PageSource, elements: Elements, count: int, blocks: Blocks, marked: Marked, raw_tex: bool
) -> bytes:
    """Marked text of a page of `count` elements as Markdown in UTF-8.

    `raw_tex`: the page's text has TeX between dollars or in backslashes and brackets.
    """
    places = Places(
        *(np.zeros(count, np.bool_ if name == "simple" else np.int32) for name in Places._fields)
    )
    place_elements(page, elements, count, marked.opened, places)
    survey_tables(marked.entries, marked.many, elements, blocks, places)
    settings = RAW_TEX if raw_tex else 0
    own = WrittenPage(
        page, elements, blocks, marked.entries, marked.many, marked.opened, marked.text
    )
    simple = places.simple.copy()
    room = 2 * len(marked.text) + 256
    while True:
        line = WrittenLine(
            np.zeros(LINE_STATES, np.int64),
            np.zeros(MOST_LEVELS, np.int64),
            np.empty(room, np.uint8),
        )
        chains = np.zeros((2, MOST_LEVELS + 2), np.int64)
        size = _write(own, places, settings, line, chains)
        if size <= room:
            return line.out[:size].tobytes()
        room = size
        places.simple[:] = simple
