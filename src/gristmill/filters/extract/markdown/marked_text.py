"""The text of the blocks of a page that are kept, with the marks of what stands within a line.

    <p>a <code>b</code> <img class=latex alt=x>  ->  a CODE b CODE_END MATH x MATH_END

The page's tokens are read once more. A mark is one byte below 0x20; there is none in the text but
the newline of a <br>. A formula that stands between two blocks is kept where both are, and so is a
block that is nothing but formulas.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gristmill.filters.extract.markdown.formulas import (
    math_tex,
    one_space,
    picture,
    script_tex,
    trim,
)
from gristmill.filters.extract.markdown.page_source import BLANKS, PageSource
from gristmill.filters.extract.markdown.references import NBSP, decode, decode_attribute
from gristmill.kernels.html.blocks import Blocks
from gristmill.kernels.html.elements import BLOCK, NO_TEXT, PRE_BIT, ROLES, VOID, Elements
from gristmill.kernels.html.names import ATTRIBUTE, CUSTOM, ELEMENT
from gristmill.kernels.html.tokens import CLOSED, END, RAW, START, TEXT

CODE, CODE_END, MATH, DISPLAY, MATH_END, LINK, LINK_TARGET, LINK_END = (
    bytes([mark]) for mark in range(1, 9)
)

A, BR, SPAN, SVG, MATHML, TITLE, IMG, SCRIPT = (
    ELEMENT[name] for name in ("a", "br", "span", "svg", "math", "title", "img", "script")
)
CODES = [ELEMENT[name] for name in ("code", "tt", "kbd", "samp")]
CLASS, HREF, TYPE, SHOWN = (ATTRIBUTE[name] for name in ("class", "href", "type", "display"))

CONTROLS = bytes(set(BLANKS) - set(b" \t\n\f\r"))
NOT_IN_PRE = bytes(set(BLANKS) - set(b" \t\n"))

# What a token is to the reader, by its kind and name.
WORDS, INLINE, FORMULA, LINE_END, ELEMENT_START = range(1, 6)
UNREAD, KEPT, ONLY_FORMULAS, LEFT_OUT = range(4)  # what becomes of the block that is read


def _uses() -> np.ndarray:
    uses = np.zeros((6, 256), np.uint8)
    uses[[TEXT, RAW]] = np.where(ROLES & NO_TEXT, 0, WORDS)
    is_block = ROLES & BLOCK != 0
    for kind in (START, CLOSED, END):
        uses[kind, [A, BR, SPAN, *CODES]] = INLINE
        uses[kind, is_block] = LINE_END
    for kind in (START, CLOSED):
        uses[kind, is_block & (ROLES & VOID == 0)] = ELEMENT_START
        uses[kind, IMG] = FORMULA
    uses[CLOSED, [SVG, CUSTOM]] = LINE_END
    uses[START, [MATHML, SCRIPT]] = FORMULA
    return uses


USES = _uses()


class MarkedBlock(NamedTuple):
    """What is written of a block."""

    element: int  # -1: a formula between two blocks
    text: bytes  # marked


def mark(
    page: PageSource, elements: Elements, blocks: Blocks, kept: np.ndarray, links: bool
) -> tuple[list[MarkedBlock], list[int]]:
    """Return the kept blocks (count,) bool, marked, and of each element the token that opened it,
    -1: the page itself.
    """
    kinds, names = np.asarray(page.kinds)[: page.many], np.asarray(page.names)[: page.many]
    uses = USES[kinds, names]
    openings = [-1, *np.flatnonzero(uses == ELEMENT_START).tolist()]
    formulas = dict(_formulas(page, np.flatnonzero(uses == FORMULA).tolist()))
    reader = _BlockMarker(page, elements, blocks, kept, links, formulas)
    if not formulas:
        uses[~_is_near(uses, blocks, kept) & ~(links & (names == A))] = 0
    tokens = np.flatnonzero(uses)
    reader.read(zip(tokens.tolist(), uses[tokens].tolist(), strict=True))
    return reader.marked, openings


def _formulas(page: PageSource, tokens: list[int]) -> Iterator[tuple[int, int]]:
    """Give each token that begins a formula, and the token behind the formula."""
    kinds, names = np.asarray(page.kinds)[: page.many], np.asarray(page.names)[: page.many]
    is_block = (kinds != TEXT) & (ROLES[names] & BLOCK != 0)
    is_end = (kinds == END) & (names == MATHML)
    stops = np.append(np.flatnonzero(is_block | is_end), page.many)
    for token in tokens:
        name = page.names[token]
        if name == MATHML:
            stop = int(stops[np.searchsorted(stops, token, "right")])
            yield token, stop + (stop < page.many and bool(is_end[stop]))
        elif name == IMG:
            if picture(page.attribute(token, CLASS) or b""):
                yield token, token + 1
        elif page.has_word(token, TYPE, b"math/tex") and page.kind(token + 1) == RAW:
            yield token, token + 2


def _is_near(uses: np.ndarray, blocks: Blocks, kept: np.ndarray) -> np.ndarray:
    """Return which tokens are in kept blocks, or before them in one line."""
    lines = np.maximum.accumulate(np.where(uses >= LINE_END, np.arange(len(uses)), 0))
    count = len(kept)
    change = np.zeros(len(uses) + 1, np.int32)
    np.add.at(change, lines[blocks.firsts[:count][kept]], 1)
    np.add.at(change, blocks.lasts[:count][kept], -1)
    return np.cumsum(change[:-1]) > 0


class _BlockMarker:
    """Reads the tokens of a page, and writes the kept blocks with marks."""

    def __init__(
        self,
        page: PageSource,
        elements: Elements,
        blocks: Blocks,
        kept: np.ndarray,
        links: bool,
        formulas: dict[int, int],
    ) -> None:
        self.page, self.links, self.formulas = page, links, formulas
        self.count, self.kept = len(kept), kept.tolist()
        self.firsts, self.lasts = blocks.firsts.data, blocks.lasts.data
        self.elements, self.inside = blocks.elements.data, elements.inside
        self.marked: list[MarkedBlock] = []
        self.block = 0  # that is read, or comes next
        self.state = UNREAD
        self.parts: list[bytes] = []  # of its text
        self.due = b""  # the white space before what comes next
        self.is_pre = self.is_code_marked = self.is_display = self.is_after_formula = False
        self.code = self.skipped = 0  # elements of code, and of what is not shown, that are open
        self.link = self.marked_link = -1  # the token of the <a> that is open

    def read(self, uses: Iterator[tuple[int, int]]) -> None:
        """Read tokens, each with its use."""
        behind = 0
        for token, use in uses:
            if token < behind:
                continue  # it was part of a formula
            while self.block < self.count and self.lasts[self.block] <= token:
                self._close()
            if use >= LINE_END:
                self._end_line()
                continue
            stop = self.formulas.get(token, token + 1)
            # <math> is read whole: the text that a block begins with may lie in it
            may_open = use == WORDS or self.page.names[token] == MATHML
            if self.state == UNREAD and may_open and self._begins_before(stop):
                self._open()
            if use == WORDS:
                self._read_text(token)
            elif use == INLINE:
                self._read_tag(token)
            elif token in self.formulas and not self.is_pre and not self.code:
                self._read_formula(token)
                behind = stop
        while self.block < self.count:
            self._close()
        self._end_line()

    def _begins_before(self, token: int) -> bool:
        return self.block < self.count and self.firsts[self.block] < token

    def _open(self) -> None:
        """Begin a block: a formula right before it is its first part."""
        block, last = self.block, self.count - 1
        self.is_pre = bool(self.inside[self.elements[block]] & PRE_BIT)
        if self.kept[block]:
            self.state = KEPT
        elif block > 0 and self.kept[block - 1] and (block == last or self.kept[block + 1]):
            self.state = ONLY_FORMULAS
        else:
            self._leave_out()

    def _leave_out(self) -> None:
        self.state = LEFT_OUT
        self.parts.clear()

    def _close(self) -> None:
        """End a block."""
        if self.state != UNREAD:
            if self.marked_link >= 0:
                self._close_link()
            self._close_code()
            if self.state != LEFT_OUT:
                self._enter(self.elements[self.block])
            self.parts.clear()
            self.state, self.due = UNREAD, b""
            self.is_after_formula = self.is_pre = False
        self.block += 1

    def _enter(self, element: int) -> None:
        if self.parts:
            self.marked.append(MarkedBlock(element, b"".join(self.parts)))

    def _end_line(self) -> None:
        """End a line: a formula in it before which no block began stands by itself."""
        self.code, self.skipped, self.is_display = 0, 0, False
        if self.state == UNREAD and self.parts:
            block = self.block
            if block > 0 and self.kept[block - 1] and (block >= self.count or self.kept[block]):
                self._enter(-1)
            self.parts.clear()
            self.is_after_formula = False

    def _read_text(self, token: int) -> None:
        """Add a text to the block that it is in."""
        if self.page.names[token] == TITLE or self.skipped:
            return
        text = self.page.span(token)
        if self.state == KEPT:
            text = decode(text) if self.page.kinds[token] == TEXT else text
            text = text.replace(NBSP, b" ")
            if self.is_pre:
                self.parts += filter(None, [text.translate(None, NOT_IN_PRE)])
            else:
                self._add(text.translate(None, CONTROLS))
        elif self.state == ONLY_FORMULAS and text.translate(None, BLANKS):
            self._leave_out()

    def _add(self, text: bytes) -> None:
        """Add words with one space between them."""
        words = text.split()
        if text[:1].isspace():
            self.due = self.due or b" "
        if words:
            self._flush()
            self.parts.append(b" ".join(words))
            self.is_after_formula = False
            self.due = b" " if text[-1:].isspace() else b""

    def _flush(self) -> None:
        """Write the marks and the white space that are due before more text."""
        if self.marked_link not in (-1, self.link):
            self._close_link()
        if not self.code:
            self._close_code()
        if self.due and self.parts:
            self.parts.append(self.due)
        self.due = b""
        if self.link >= 0 and self.marked_link < 0 and not self.is_code_marked:
            self.parts.append(LINK)
            self.marked_link = self.link
        if self.code and not self.is_code_marked:
            self.parts.append(CODE)
            self.is_code_marked = True

    def _close_code(self) -> None:
        if self.is_code_marked:
            self.parts.append(CODE_END)
            self.is_code_marked = False

    def _close_link(self) -> None:
        """Write the end of the open link, its target before it."""
        self._close_code()
        target = decode_attribute(self.page.attribute(self.marked_link, HREF) or b"")
        self.parts.append(LINK_TARGET + target.translate(None, BLANKS) + LINK_END)
        self.marked_link = -1

    def _read_tag(self, token: int) -> None:
        """Read a tag that begins no line."""
        name = self.page.names[token]
        ends = self.page.kinds[token] == END
        if name == SPAN:
            self._read_span(token, ends)
        elif name == A:
            has_target = not ends and self.page.attribute(token, HREF) is not None
            self.link = token if self.links and has_target else -1
        elif name != BR:
            self.code = max(self.code + (-1 if ends else 1), 0)
        elif not self.is_pre:
            self.due = b"\n"
        elif self.parts:
            self.parts.append(b"\n")

    def _read_span(self, token: int, ends: bool) -> None:
        """Skip what scripts wrote beside a formula: MathJax's preview, KaTeX's letters."""
        if self.skipped:
            self.skipped += -1 if ends else 1
        elif not ends:
            kind = (self.page.attribute(token, CLASS) or b"").lower()
            is_katex = kind.startswith(b"katex")
            if kind.startswith(b"mathjax") or (is_katex and len(kind) == len("katex-html")):
                self.skipped = 1
            elif is_katex and len(kind) == len("katex-display"):
                self.is_display = True

    def _read_formula(self, token: int) -> None:
        """Add the formula that begins with a token."""
        page = self.page
        if self.state == LEFT_OUT or self.skipped:
            return
        name = page.names[token]
        if name == MATHML:
            tex = math_tex(page, token, self.formulas[token])
            self._add_formula(tex, page.has_word(token, SHOWN, b"block"))
        elif name == SCRIPT:
            tex = script_tex(page.span(token + 1))
            self._add_formula(tex, page.has_word(token, TYPE, b"display"))
        elif not self.is_after_formula and (alt := page.other_attribute(token, b"alt")):
            shown = picture(page.attribute(token, CLASS) or b"")
            self._add_formula(one_space(alt), shown == 2)

    def _add_formula(self, tex: bytes, is_display: bool) -> None:
        if self.is_after_formula:
            self.due = self.due or b" "  # two formulas side by side would be one
        if self.state == UNREAD:
            self.parts += [b" "] if self.parts else []
            self.due = b""
        else:
            self._flush()
        mark = DISPLAY if is_display or self.is_display else MATH
        self.is_display = False
        if tex := trim(tex):
            self.parts.append(mark + tex + MATH_END)
            self.is_after_formula = True
