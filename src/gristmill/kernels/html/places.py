"""Where the elements of a page lie: in which list items, quotes, tables, cells; and which tables
are written as such (html/markdown.py).
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import Blocks
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.html.formulas import value_of
from gristmill.kernels.html.inline import MOST_LEVELS
from gristmill.kernels.html.marked_text import MarkedBlocks, PageSource
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bools, Int32s

H1, H6, TD, TH, TR, TABLE, LI, OL, QUOTE, PRE, CAPTION = (
    ELEMENT[name] for name in "h1 h6 td th tr table li ol blockquote pre caption".split()
)
LONGEST_CELL, MOST_IN_CELL, MOST_SPAN = 2000, 4, 16
START_WORD, COLSPAN = (np.frombuffer(word, np.uint8) for word in (b"start", b"colspan"))


class Places(NamedTuple):
    """Of each element what it is, or lies in; -1: in none."""

    containers: Int32s  # list item or quote
    levels: Int32s  # how many of them
    pres: Int32s  # the outermost <pre>
    headings: Int32s  # 1 to 6, 0: none
    cells: Int32s
    rows: Int32s
    tables: Int32s
    numbers: Int32s  # of a list item, -1 where it has none; of a list that of the next item
    columns: Int32s  # of a cell where it starts; of a row and of a table how many
    spans: Int32s  # of a cell
    used: Int32s  # of a cell its kept blocks; of a row whether it has any
    simple: Bools  # whether it is a table that is written as one
    first: Int32s  # of a table the first column, then the first row that is used
    last: Int32s


@helper
def _number(data, start, stop, otherwise):
    """The number data[start:stop], of at most nine digits."""
    if stop <= start or stop - start > 9:
        return np.int64(otherwise)
    value = np.int64(0)
    for at in range(start, stop):
        if np.uint8(data[at] - 0x30) > 9:
            return np.int64(otherwise)
        value = 10 * value + data[at] - 0x30
    return value


@helper
def _attribute_number(page, token, word, otherwise):
    """The number that a token's attribute has."""
    if token < 0:
        return np.int64(otherwise)
    tokens = page.tokens
    start, stop = value_of(page.data, tokens.starts[token], tokens.stops[token], word)
    return _number(page.data, start, stop, otherwise)


@kernel(PageSource, Elements, types.int64, Int32s, Places)
def place_elements(page, elements, count, opened, places):
    """Where each element lies. Parents come before their children."""
    places.containers[0] = places.pres[0] = places.cells[0] = places.rows[0] = -1
    places.tables[0] = places.numbers[0] = -1
    places.levels[0] = places.headings[0] = places.columns[0] = places.used[0] = 0
    places.simple[0] = False
    for k in range(1, count):
        name = elements.names[k]
        parent = elements.parents[k]
        places.containers[k] = places.containers[parent]
        places.levels[k] = places.levels[parent]
        places.pres[k] = places.pres[parent]
        places.headings[k] = places.headings[parent]
        places.cells[k] = places.cells[parent]
        places.rows[k] = places.rows[parent]
        places.tables[k] = places.tables[parent]
        places.numbers[k] = -1
        places.columns[k] = places.used[k] = places.spans[k] = 0
        places.simple[k] = False
        if name == PRE:
            if places.pres[k] < 0:
                places.pres[k] = k
        elif H1 <= name <= H6:
            places.headings[k] = np.int32(name) - H1 + 1
        elif name == TABLE:
            if places.tables[parent] >= 0:
                places.simple[places.tables[parent]] = False
            places.tables[k] = k
            places.cells[k] = places.rows[k] = places.first[k] = -1
            places.simple[k] = True
        elif name == TR and places.tables[k] >= 0:
            places.rows[k] = k
            places.cells[k] = -1
        elif (name == TD or name == TH) and places.rows[k] >= 0:
            row = places.rows[k]
            table = places.tables[k]
            span = _attribute_number(page, opened[k], COLSPAN, 1)
            span = min(max(span, np.int64(1)), np.int64(MOST_SPAN))
            places.cells[k] = k
            places.spans[k] = span
            places.columns[k] = places.columns[row]
            places.columns[row] += span
            places.columns[table] = max(places.columns[table], places.columns[row])
        elif name == OL:
            places.numbers[k] = _attribute_number(page, opened[k], START_WORD, 1)
        elif (name == LI or name == QUOTE) and places.levels[k] < MOST_LEVELS:
            places.containers[k] = k
            places.levels[k] += 1
            if name == LI and elements.names[parent] == OL:
                places.numbers[k] = places.numbers[parent]
                places.numbers[parent] += 1


@kernel(MarkedBlocks, types.int64, Elements, Blocks, Places)
def survey_tables(entries, count, elements, blocks, places):
    """Which tables are written as such."""
    for entry in range(count):
        block = entries.blocks[entry]
        if block < 0:
            continue
        element = blocks.elements[block]
        table = places.tables[element]
        if table < 0:
            continue
        cell = places.cells[element]
        if cell < 0:
            if elements.names[element] != CAPTION:
                places.simple[table] = False
            continue
        row = places.rows[cell]
        size = entries.stops[entry] - entries.starts[entry]
        places.used[row] = 1
        places.used[cell] += 1
        inside = places.containers[element] > table or places.pres[element] >= 0
        if inside or size > LONGEST_CELL or places.used[cell] > MOST_IN_CELL:
            places.simple[table] = False
        # both bounds of columns in one number, so that two of them differ where one does
        place = places.columns[cell]
        if places.first[table] < 0:
            places.first[table] = places.last[table] = place
            places.spans[table] = row
        places.first[table] = min(places.first[table], place)
        places.last[table] = max(places.last[table], place)
        if row != places.spans[table]:
            places.numbers[table] = 1  # a second row
    for k in range(len(places.tables)):
        if places.simple[k]:
            places.simple[k] = places.first[k] < places.last[k] and places.numbers[k] == 1
