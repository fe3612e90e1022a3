"""Where the elements of a page lie: in which list items, quotes, tables, cells."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gristmill.filters.extract.markdown.page_source import PageSource
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.html.names import ELEMENT

H1, H6, TD, TH, TR, TABLE, LI, OL, QUOTE, PRE = (
    ELEMENT[name]
    for name in ("h1", "h6", "td", "th", "tr", "table", "li", "ol", "blockquote", "pre")
)
MOST_LEVELS = 8  # lists and quotes in one another; what is deeper is written in the eighth
MOST_SPAN = 16


@dataclass(slots=True, eq=False)
class ListItem:
    """A list item or a quote."""

    parent: int  # the element that it is in
    mark: bytes  # what its first line begins with
    indent: bytes  # what its further lines begin with

    @property
    def is_quote(self) -> bool:
        """Return whether it is a quote."""
        return self.mark == self.indent


@dataclass(slots=True, eq=False)
class TableRow:
    """A row of a table."""

    cells: list["TableCell"] = field(default_factory=list)
    columns: int = 0


@dataclass(slots=True, eq=False)
class TableCell:
    """A cell of a table."""

    element: int
    row: TableRow
    column: int  # where it starts
    span: int
    blocks: int = 0  # that are kept


@dataclass(slots=True, eq=False)
class PageTable:
    """A table."""

    levels: int  # items and quotes that it is in
    is_simple: bool = True  # it is written as a table
    rows: list[TableRow] = field(default_factory=list)
    used: list[TableCell] = field(default_factory=list)  # with kept blocks


class ElementPlace(NamedTuple):
    """Where an element lies."""

    items: tuple[ListItem, ...] = ()  # from outside in
    pre: int = 0  # the outermost <pre>
    heading: int = 0  # 1 to 6
    table: PageTable | None = None
    row: TableRow | None = None
    cell: TableCell | None = None


def place_elements(
    page: PageSource, elements: Elements, count: int, openings: list[int]
) -> list[ElementPlace]:
    """Return where each of the `count` elements of a page lies; `openings`: their tokens."""
    names, parents = elements.names[:count].tobytes(), elements.parents[:count].tolist()
    places = [ElementPlace()]
    numbers: dict[int, int] = {}  # of a numbered list that of its next item
    for element in range(1, count):
        name, parent = names[element], parents[element]
        place = places[parent]
        if name in (LI, QUOTE):
            place = _in_item(place, parent, name == QUOTE, numbers)
        elif name in (TABLE, TR, TD, TH):
            place = _in_table(place, element, name, page, openings[element])
        elif name == PRE:
            place = place._replace(pre=place.pre or element)
        elif H1 <= name <= H6:
            place = place._replace(heading=name - H1 + 1)
        elif name == OL:
            numbers[element] = _number(page.other_attribute(openings[element], b"start"))
        places.append(place)
    return places


def _in_item(
    place: ElementPlace, parent: int, is_quote: bool, numbers: dict[int, int]
) -> ElementPlace:
    """Return the place of an item or a quote."""
    if len(place.items) == MOST_LEVELS:
        return place
    mark = b"> " if is_quote else b"- "
    if not is_quote and parent in numbers:
        mark = b"%d. " % numbers[parent]
        numbers[parent] += 1
    indent = mark if is_quote else b" " * len(mark)
    return place._replace(items=(*place.items, ListItem(parent, mark, indent)))


def _in_table(
    place: ElementPlace, element: int, name: int, page: PageSource, token: int
) -> ElementPlace:
    """Return the place of a table, a row or a cell."""
    if name == TABLE:
        if place.table:
            place.table.is_simple = False
        return place._replace(table=PageTable(len(place.items)), row=None, cell=None)
    if name == TR:
        if not place.table:
            return place
        row = TableRow()
        place.table.rows.append(row)
        return place._replace(row=row, cell=None)
    if not place.row:
        return place
    span = min(max(_number(page.other_attribute(token, b"colspan")), 1), MOST_SPAN)
    cell = TableCell(element, place.row, place.row.columns, span)
    place.row.cells.append(cell)
    place.row.columns += span
    return place._replace(cell=cell)


def _number(digits: bytes) -> int:
    """Return a number of at most nine digits, of an attribute that is 1 by default."""
    return int(digits) if digits.isdigit() and len(digits) <= 9 else 1
