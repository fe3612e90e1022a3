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

from collections.abc import Iterator
from itertools import takewhile

import numpy as np

from gristmill.filters.extract.markdown.code_language import pre_language
from gristmill.filters.extract.markdown.inline import longest_run, write_inline
from gristmill.filters.extract.markdown.marked_text import MarkedBlock, mark
from gristmill.filters.extract.markdown.page_source import BLANKS, PageSource
from gristmill.filters.extract.markdown.places import (
    ElementPlace,
    ListItem,
    PageTable,
    TableCell,
    place_elements,
)
from gristmill.kernels.html.blocks import Blocks
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.html.names import ELEMENT

CAPTION = ELEMENT["caption"]
LONGEST_CELL, MOST_IN_CELL = 2000, 4  # bytes of a block, blocks
MOST_AROUND = 4  # elements whose class may name the language of code
MARKS = bytes(set(BLANKS) - set(b" \t\n"))


def write(
    page: PageSource,
    elements: Elements,
    count: int,
    blocks: Blocks,
    kept: np.ndarray,
    links: bool,
    raw_tex: bool,
) -> bytes:
    """Return the kept blocks (blocks,) bool of a page of `count` elements as Markdown in UTF-8.

    `links`: write their targets; `raw_tex`: the text has TeX between dollars or in brackets.
    """
    marked, openings = mark(page, elements, blocks, kept, links)
    places = place_elements(page, elements, count, openings)
    return _Writer(page, elements, places, openings, marked, raw_tex).write()


class _Writer:
    """Writes the marked blocks of a page one after another."""

    def __init__(
        self,
        page: PageSource,
        elements: Elements,
        places: list[ElementPlace],
        openings: list[int],
        marked: list[MarkedBlock],
        raw_tex: bool,
    ) -> None:
        self.page, self.elements = page, elements
        self.places, self.openings = places, openings
        self.marked, self.raw_tex = marked, raw_tex
        self.block = 0  # of the marked blocks that is written next
        self.items: tuple[ListItem, ...] = ()  # that it is in
        self.written: list[bytes] = []

    def write(self) -> bytes:
        """Return Markdown."""
        self._survey_tables()
        element = 0
        while self.block < len(self.marked):
            element = self._element(element)
            place = self.places[element]
            is_code = place.pre > 0 and self.marked[self.block].element >= 0
            self._begin(place.items)
            text = self._pre(place.pre) if is_code else self._block(place)
            self.written.append(_indent(text, _margin(place.items), is_code))
        return b"".join(self.written)

    def _survey_tables(self) -> None:
        """Find which tables are written as such."""
        tables = set()
        for element, text in self.marked:
            place = self.places[element]
            table, cell = place.table, place.cell
            if element < 0 or table is None:
                continue
            tables.add(table)
            if cell is None:
                fits = self.elements.names[element] == CAPTION
            else:
                cell.blocks += 1
                table.used.append(cell)
                fits = len(place.items) == table.levels and place.pre == 0
                fits &= len(text) <= LONGEST_CELL and cell.blocks <= MOST_IN_CELL
            table.is_simple = table.is_simple and bool(fits)
        for table in tables:
            rows = {cell.row for cell in table.used}
            columns = {cell.column for cell in table.used}
            table.is_simple = table.is_simple and len(rows) > 1 and len(columns) > 1

    def _element(self, before: int) -> int:
        """Return the element of the next block: of a formula between two what holds both."""
        element = self.marked[self.block].element
        if element >= 0:
            return element
        if not 0 < self.block < len(self.marked) - 1:
            return 0
        behind = self.marked[self.block + 1].element
        return min(before, behind) if behind >= 0 else before

    def _begin(self, items: tuple[ListItem, ...]) -> None:
        """Write what stands between two blocks, and the marks of items that the second begins."""
        pairs = zip(self.items, items, strict=False)
        shared = len(list(takewhile(lambda pair: pair[0] is pair[1], pairs)))
        if self.written:
            margin = _margin(items[:shared])
            if not _is_tight(shared, self.items, items):
                self.written.append(b"\n" + margin.rstrip(b" "))
            self.written.append(b"\n" + margin)
        self.written += [item.mark for item in items[shared:]]
        self.items = items

    def _block(self, place: ElementPlace) -> bytes:
        """Return the next block, or the next table."""
        block = self.marked[self.block]
        if block.element >= 0 and place.cell and place.table and place.table.is_simple:
            return self._table(place.table)
        self.block += 1
        level = place.heading if block.element >= 0 else 0
        text = write_inline(block.text, "heading" if level else "text", self.raw_tex)
        return b"#" * level + b" " * (level > 0) + text

    def _pre(self, pre: int) -> bytes:
        """Return the blocks of a <pre>."""
        texts = []
        while self.block < len(self.marked):
            element, text = self.marked[self.block]
            if element >= 0 and self.places[element].pre != pre:
                break
            texts.append(text)
            self.block += 1
        fence = b"`" * max(3, *(longest_run(text) + 1 for text in texts))
        language = pre_language(self.page, list(self._openings(pre)))
        return b"\n".join([fence + language, *map(_lines, texts), fence])

    def _openings(self, element: int) -> Iterator[int]:
        """Give the tokens that open an element and those around it."""
        for _ in range(MOST_AROUND):
            if element == 0:
                break
            yield self.openings[element]
            element = int(self.elements.parents[element])

    def _table(self, table: PageTable) -> bytes:
        """Return a table."""
        table.is_simple = False  # what comes of it later is no table
        rows = [row for row in table.rows if any(cell.blocks for cell in row.cells)]
        columns = max(row.columns for row in table.rows)
        lines = [b"|" + b"".join(self._cell(table, cell) for cell in row.cells) for row in rows]
        lines[0] += b" |" * (columns - rows[0].columns)
        return b"\n".join([lines[0], b"|" + b"---|" * columns, *lines[1:]])

    def _cell(self, table: PageTable, cell: TableCell) -> bytes:
        """Return a cell with its blocks in one line."""
        texts = []
        while self.block < len(self.marked) and self._is_in(table, cell):
            text = self.marked[self.block].text
            texts.append(write_inline(text, "cell", self.raw_tex))
            self.block += 1
        text = b" " + b" ".join(texts) + b" " if texts else b" "
        return text + b"|" + b" |" * (cell.span - 1)

    def _is_in(self, table: PageTable, cell: TableCell) -> bool:
        """Return whether the next block is in a cell, or nowhere in a later one."""
        element = self.marked[self.block].element
        place = self.places[element]
        in_later = place.cell is not None and place.cell.element > cell.element
        return element < 0 or (place.table is table and not in_later)


def _is_tight(shared: int, before: tuple[ListItem, ...], items: tuple[ListItem, ...]) -> bool:
    """Return whether a new item is in the next line: of the list of the one before, or in it."""
    if shared == len(items) or items[shared].is_quote:
        return False
    if shared < len(before):
        return before[shared].parent == items[shared].parent and not before[shared].is_quote
    if shared == 0 or items[shared - 1].is_quote:
        return False
    # only a list that begins with 1 may stand right below a paragraph
    return items[shared].mark in (b"- ", b"1. ")


def _margin(items: tuple[ListItem, ...]) -> bytes:
    """Return what a further line of a block in these items begins with."""
    return b"".join([item.indent for item in items])


def _indent(text: bytes, margin: bytes, is_code: bool) -> bytes:
    """Return text with a margin before all lines but the first; blank ones of code end without
    spaces.
    """
    if not margin or b"\n" not in text:
        return text
    first, *lines = text.split(b"\n")
    blank = margin.rstrip(b" ") if is_code else margin
    return b"\n".join([first, *(margin + line if line else blank for line in lines)])


def _lines(text: bytes) -> bytes:
    """Return code as it is, without blank lines before it and what is blank behind."""
    text = text.translate(None, MARKS).rstrip(BLANKS)
    blank = len(text) - len(text.lstrip(BLANKS))
    return text[text.rfind(b"\n", 0, blank) + 1 :]
