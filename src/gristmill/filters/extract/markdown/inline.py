r"""What stands within a line as Markdown (CommonMark 0.31), from marked text (marked_text.py).

A backslash stands only before what would else be read as a mark: `*` and `_` that may begin or end
emphasis, `<` before what may be a tag, `&` before what may be a reference, what may begin a list, a
heading, a quote, a fence, a rule or a table at the start of a line. TeX that the page has within
its text is copied as it is where the page names MathJax or KaTeX: \( \) and \[ \] become $ $ and
$$ $$.
"""

import re
from functools import cache
from typing import Literal

from gristmill.filters.extract.markdown.marked_text import (
    CODE,
    CODE_END,
    DISPLAY,
    LINK,
    LINK_END,
    LINK_TARGET,
    MATH,
    MATH_END,
)
from gristmill.filters.extract.markdown.page_source import BLANKS

Kind = Literal["text", "heading", "cell"]  # a heading and a cell are one line

CONTROLS = bytes(set(BLANKS) - set(b" \n"))

# Bytes that need a backslash: each with what is before it (it is there again) and behind it.
BACKSLASH = (
    rb"\\(?=[\x00-\x1f!-/:-@\[-`{-~])",
    rb"`",
    rb"\*(?:(?<=[^ \n].)|(?=[^ \n]))",
    rb"_(?:(?<=[0-9A-Za-z].)(?![0-9A-Za-z])|(?<=[^ \n0-9A-Za-z].)|(?<![^ \n].)(?=[^ \n]))",
    rb"<(?![ 0-9\x7f-\xff])",
    rb"&(?=[#0-9A-Za-z]{1,39};)",
    rb"\((?<=\].)",
    rb"!(?=\x06)",
    rb"~(?:(?<=~.)|(?=~))",
)
BACKSLASH_AT_START = (
    (rb"#", rb"(?=#{0,5}(?:[\x00- ]|\Z))"),
    (rb"\+", rb"(?=[\x00- ]|\Z)"),
    (rb"-", rb"(?=[\x00- \-]|\Z)"),
    (rb"=", rb"(?=[\x00- =]|\Z)"),
    (rb">", rb""),
    (rb"\*", rb""),
    (rb"\|", rb""),
    (rb":", rb"(?=-)"),
)
BACKSLASH_OF_KIND: dict[Kind, tuple[bytes, ...]] = {
    "text": (),
    "heading": (rb"#(?<= .)(?=#{99}|#*\Z)",),  # its mark may be there again
    "cell": (rb"\|",),
}
# Bytes that take more to judge end in an empty group.
JUDGED = (
    rb"\x01[^\x02]*\x02?()",  # code
    rb"\x03[^\x05]*\x05?()",  # a formula
    rb"\x04[^\x05]*\x05?()",  # a display
    rb"\x06()",  # a link
    rb"\x07[^\x08]*\x08?()",  # its target
    rb"\n()",
    rb"\[()",
    rb"\]()",
    rb":(?<=\].)()",
    rb"\.(?<=[\n\x060-9].)(?=[\x00- ]|\Z)()",
    rb"\)(?<=[\n\x060-9].)(?=[\x00- ]|\Z)()",
)
JUDGED_TEX = (rb"\\(?=[(\[])()", rb"\$()")
# A number before the dot of a list, at the start of a line or of a link that is there.
NUMBER = re.compile(rb"(?:\A|\n)\x06?(?:[0-9]\x06?){1,9}\Z")
NUMBER_IN_ONE_LINE = re.compile(rb"\A\x06?(?:[0-9][\x06\n]*){1,9}\Z")
MOST_BEFORE = 24  # bytes of either

# TeX in the text, by what begins it: up to what ends it, or shows that it is none.
TEX = {
    "(": re.compile(rb"(?:[^\\\x01\x06]|\\[^()])*+", re.DOTALL),
    "[": re.compile(rb"(?:[^\\\x01\x06]|\\[^\[\]])*+", re.DOTALL),
    "$": re.compile(rb"(?:[^\\$\x00-\x1f]|\\.)*+", re.DOTALL),
}
BACKTICKS = re.compile(rb"`+")
REFERENCE = re.compile(rb"&(?=[#0-9A-Za-z]{1,39};)")
IN_TARGET = re.compile(rb"[()<>|\\`]")
NO_TARGETS = (b"#", b"javascript:", b"data:")  # what a target that is not written begins with


@cache
def _pattern(kind: Kind, raw_tex: bool) -> re.Pattern[bytes]:
    """Return what finds the bytes of marked text that are not written as they are."""
    before = rb"^\n" if kind == "text" else rb"\x00-\xff"
    # the byte begins a line, or a link that does
    start = rb"(?:(?<![%b].)|(?<=\x06.)(?<![%b]\x06.))" % (before, before)
    parts = [byte + start + behind for byte, behind in BACKSLASH_AT_START]
    parts += BACKSLASH_OF_KIND[kind]
    parts += JUDGED_TEX if raw_tex else ()
    return re.compile(b"|".join([*parts, *BACKSLASH, *JUDGED]), re.DOTALL)


def write_inline(text: bytes, kind: Kind, raw_tex: bool) -> bytes:
    """Return marked text as Markdown; `raw_tex`: it has TeX between dollars or in brackets."""
    return _Inline(text, kind, raw_tex).write()


def longest_run(text: bytes) -> int:
    """Return the longest run of backticks."""
    return max(map(len, BACKTICKS.findall(text)), default=0)


class _Inline:
    """Marked text that is written, and what is known of what was before."""

    def __init__(self, text: bytes, kind: Kind, raw_tex: bool) -> None:
        self.text, self.search = text, _pattern(kind, raw_tex).search
        self.is_one_line, self.is_cell = kind != "text", kind == "cell"
        self.at = 0  # what is before is written
        self.is_in_link = False
        self.has_bracket = False  # the line begins with one
        self.stops: dict[str, int] = {}  # of TeX by what begins it, up to where that is known

    def write(self) -> bytes:
        """Return Markdown."""
        written = []
        while match := self.search(self.text, self.at):
            written.append(self.text[self.at : match.start()])
            self.at = match.end()
            is_judged = match.lastindex is not None
            sign = match[0]
            written.append(JUDGES[sign[:1]](self, sign) if is_judged else b"\\" + sign)
        return b"".join([*written, self.text[self.at :]])

    def _code(self, sign: bytes) -> bytes:
        """Return a span of code."""
        code = sign[1:].removesuffix(CODE_END).replace(b"\n", b" ")
        fence = b"`" * (longest_run(code) + 1)
        space = b" " if code.startswith(b"`") or code.endswith(b"`") else b""
        return b"".join([fence, space, self._in_cell(code), space, fence])

    def _in_cell(self, text: bytes) -> bytes:
        """Return text without what ends a cell."""
        return text.replace(b"|", rb"\|") if self.is_cell else text

    def _formula(self, sign: bytes) -> bytes:
        return self._tex(sign[1:].removesuffix(MATH_END), b"$" if sign[:1] == MATH else b"$$")

    def _tex(self, tex: bytes, dollars: bytes) -> bytes:
        """Return a formula between dollars."""
        tex = tex.strip(BLANKS).translate(None, CONTROLS)
        if self.is_one_line or dollars == b"$":
            tex = tex.replace(b"\n", b" ")
        return dollars + self._in_cell(tex) + dollars

    def _link(self, _: bytes) -> bytes:
        """Return what a link begins with, if its target is elsewhere."""
        first = self.text.find(LINK_TARGET, self.at) + 1
        target = self.text[first : self.text.find(LINK_END, first)].lower()
        if not target or target.startswith(NO_TARGETS):
            return b""
        self.is_in_link = True
        return b"["

    def _target(self, sign: bytes) -> bytes:
        """Return the target of a link; brackets and backslashes by their numbers."""
        if not self.is_in_link:
            return b""
        self.is_in_link = False
        target = IN_TARGET.sub(lambda byte: b"%%%02X" % ord(byte[0]), sign[1:-1])
        return b"](" + REFERENCE.sub(rb"\\&", target) + b")"

    def _newline(self, _: bytes) -> bytes:
        if self.is_one_line:
            return b" "
        self.has_bracket = False
        return b"\n"

    def _bracket(self, sign: bytes) -> bytes:
        self.has_bracket |= sign == b"[" and self._is_at_start(self.at - 1)
        return b"\\" * self.is_in_link + sign

    def _is_at_start(self, at: int) -> bool:
        """Return whether a byte begins a line, or a link that does."""
        at -= self.text.startswith(LINK, at - 1, at)
        return at == 0 or (not self.is_one_line and self.text[at - 1] == ord("\n"))

    def _colon(self, _: bytes) -> bytes:
        """Return a colon behind a bracket: it may name a link's target."""
        return b"\\" * self.has_bracket + b":"

    def _dot(self, sign: bytes) -> bytes:
        number = NUMBER_IN_ONE_LINE if self.is_one_line else NUMBER
        is_item = number.search(self.text, max(0, self.at - 1 - MOST_BEFORE), self.at - 1)
        return b"\\" * bool(is_item) + sign

    def _backslash(self, _: bytes) -> bytes:
        r"""Return the formula that \( or \[ begins, or the backslash with another one."""
        is_display = self.text[self.at] == ord("[")
        first = self.at + 1
        last = self._tex_stop("[" if is_display else "(", first)
        if not self.text.startswith(rb"\]" if is_display else rb"\)", last):
            return rb"\\"
        self.at = last + 2
        return self._tex(self.text[first:last], b"$$" if is_display else b"$")

    def _dollar(self, _: bytes) -> bytes:
        """Return the formula that a dollar begins, or the dollar."""
        text, first = self.text, self.at
        dollars = b"$$" if text.startswith(b"$", first) else b"$"
        first += len(dollars) - 1
        last = self._tex_stop("$", first)
        if first == last or not text.startswith(dollars, last):
            return b"$"
        # pandoc's rule for one dollar: no space within, no digit behind
        is_apart = text[first] == 0x20 or text[last - 1] == 0x20
        if dollars == b"$" and (is_apart or text[last + 1 : last + 2].isdigit()):
            return b"$"
        self.at = last + len(dollars)
        return self._tex(text[first:last], dollars)

    def _tex_stop(self, opening: str, first: int) -> int:
        """Return where TeX from `first` on stops; no byte is looked at twice."""
        if first > self.stops.get(opening, 0):
            self.stops[opening] = TEX[opening].match(self.text, first).end()  # type: ignore[union-attr]
        return self.stops[opening]


JUDGES = {
    CODE: _Inline._code,
    MATH: _Inline._formula,
    DISPLAY: _Inline._formula,
    LINK: _Inline._link,
    LINK_TARGET: _Inline._target,
    b"\n": _Inline._newline,
    b"[": _Inline._bracket,
    b"]": _Inline._bracket,
    b":": _Inline._colon,
    b".": _Inline._dot,
    b")": _Inline._dot,
    b"\\": _Inline._backslash,
    b"$": _Inline._dollar,
}
