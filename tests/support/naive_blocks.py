"""Slow twin of the builder of elements and blocks: lists and strings, searched from the top."""

import html
from typing import NamedTuple

from tests.support import naive_html

BLOCK = set(
    "address article aside blockquote body button caption center col colgroup dd details dialog "
    "dir div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr "
    "iframe legend li main menu nav noscript object ol optgroup option p picture plaintext pre "
    "search section select summary svg table tbody td template textarea tfoot th thead tr ul "
    "video audio canvas applet map custom".split()
)
VOID = {"col", "hr"}
ENDS_P = set(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section summary "
    "table ul li dd dt plaintext".split()
)
NO_TEXT = set(
    "script style iframe noembed noframes noscript select option optgroup textarea svg template "
    "object applet audio video canvas map".split()
)
SCOPE = ("td", "th", "table", "caption", "template", "object", "button")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
BREAK, CONTINUED, TITLE, IMAGE = 1, 2, 4, 8


class Block(NamedTuple):
    """A block of text."""

    text: str
    path: tuple[str, ...]  # the names of the elements that it lies in
    linked: int
    links: int
    flags: int


class Builder:
    """What is open, and what was found."""

    def __init__(self) -> None:
        self.stack = [""]
        self.blocks: list[Block] = []
        self.text = ""
        self.space = ""
        self.link = False
        self.linked = self.links = self.flags = 0

    def last(self, *names: str) -> int:
        return max((k for k, name in enumerate(self.stack) if name in names), default=-1)

    def close(self, place: int) -> None:
        del self.stack[place:]

    def end_block(self) -> None:
        if self.text:
            path = () if self.flags & TITLE else tuple(self.path[1:])
            self.blocks.append(Block(self.text, path, self.linked, self.links, self.flags))
            self.flags = 0
        self.text = self.space = ""

    def put(self, source: str, decode: bool) -> None:
        keep = "pre" in self.stack
        text = html.unescape(source) if decode else source
        plain = source.replace("\xa0", " ")
        for one in text if decode else plain:
            if one in " \t\n\f\r\xa0":
                # In <pre> white space stays, but what a reference wrote.
                if keep and one in " \t\n" and one in source:
                    if self.text:
                        self.text += one
                elif not self.space:
                    self.space = " "
                continue
            if ord(one) <= 32:
                continue
            if not self.text:
                self.path = list(self.stack)
                self.linked, self.links = 0, int(self.link)
                self.space = ""
            self.text += self.space + one
            self.space = ""
            self.linked += len(one.encode()) * self.link

    def line_break(self) -> None:
        if self.text and "pre" in self.stack:
            self.text += "\n"
        elif self.space == "\n":
            self.end_block()
            self.flags = BREAK | CONTINUED
        elif self.text:
            self.space = "\n"

    def implied(self, name: str) -> None:
        scope = self.last(*SCOPE)
        if name in ENDS_P and self.last("p") > scope:
            self.close(self.last("p"))
        scope = self.last(*SCOPE)
        table = self.last("table")
        for names, bound in (
            (("li",), max(scope, self.last("ul", "ol"))),
            (("dd", "dt"), max(scope, self.last("dl"))),
            (("td", "th"), table),
            (("tr",), table),
            (("tbody", "thead", "tfoot"), table),
            (("option",), -1),
        ):
            if name in names and self.last(*names) > bound:
                self.close(self.last(*names))
        if name in HEADINGS and self.stack[-1] in HEADINGS:
            self.close(len(self.stack) - 1)

    def end(self, name: str) -> None:
        place, bound = self.last(name), self.last(*SCOPE)
        if name == "table":
            bound = self.last("template") - 1
        elif name == "template":
            bound = -1
        elif name in ("td", "th", "tr", "tbody", "thead", "tfoot"):
            bound = self.last("table")
        elif name in HEADINGS:
            place = self.last(*HEADINGS)
        elif name in ("button", "object", "caption"):
            bound = self.last("td", "th", "table", "template")
        if place > bound and place > 0:
            self.close(place)


def build(page: str) -> list[Block]:
    """The blocks of a page."""
    builder = Builder()
    titled = False
    inside = ""  # the element whose text comes next
    for kind, *rest in naive_html.tokenize(page, {"href"}):
        if kind in ("text", "raw"):
            if inside == "title":
                if titled or NO_TEXT & set(builder.stack):
                    continue
                titled = True
                builder.end_block()
                builder.flags = TITLE
                builder.put(str(rest[0]), decode=True)
                builder.end_block()
                builder.flags = 0
            elif inside not in NO_TEXT and not NO_TEXT & set(builder.stack):
                builder.put(str(rest[0]), decode=kind == "text")
            continue
        if kind == "comment":
            continue
        name = str(rest[0])
        inside = name if name in naive_html.RAW and kind != "end" else ""
        if "-" in name:
            name = "custom"
        if kind == "end":
            if name == "a":
                builder.link = False
            elif name == "p" and builder.last("p") <= builder.last(*SCOPE):
                builder.end_block()
            elif name in BLOCK and name not in VOID:
                builder.end_block()
                builder.end(name)
                builder.flags = CONTINUED
            elif name == "br":
                builder.line_break()
        elif name == "a":
            builder.link = "href" in rest[1]  # type: ignore[operator]
            builder.links += builder.link
        elif name == "br":
            builder.line_break()
        elif name == "img":
            builder.flags |= IMAGE
        elif name in BLOCK:
            builder.end_block()
            builder.flags &= IMAGE
            builder.implied(name)
            if name not in VOID and not (kind == "closed" and name in ("svg", "custom")):
                builder.stack.append(name)
    builder.end_block()
    return builder.blocks
