"""Slow twin of the HTML tokenizer: WHATWG HTML 13.2.5, state by state, over characters.

A token is ("text" | "raw", text), ("start" | "closed", name, attributes), ("end", name) or
("comment",). Texts are as they stand in the page; attributes are those of the names asked for.
"""

import re

SPACE = "\t\n\f\r "
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
RAW = {"iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp", "plaintext"}
BREAKS_OUT = set(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li "
    "menu meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var font".split()
)
MARKUP = re.compile(r"<(?=[a-zA-Z!?])|<(?=/.)", re.DOTALL)
Token = tuple[object, ...]


def lower(text: str) -> str:
    return "".join(chr(ord(one) + 32) if "A" <= one <= "Z" else one for one in text)


def raw_end(page: str, at: int, name: str) -> int:
    """Where the end tag of raw text starts (13.2.5.8 to 13.2.5.31)."""
    escaped = double = False
    while at < len(page):
        if page.startswith("</", at):
            found = re.compile(r"[a-zA-Z]*").match(page, at + 2)
            word, end = lower(found.group()), found.end()
            if word == name and end < len(page) and page[end] in SPACE + "/>":
                if not double:
                    return at
                double = False
        elif name == "script":
            if page.startswith("<!--", at) and not escaped:
                escaped = True
                at += 2
                continue
            if page.startswith("-->", at) and escaped:
                escaped = double = False
            elif escaped and re.compile(r"<script[\s/>]", re.IGNORECASE | re.ASCII).match(page, at):
                double = True
        at += 1
    return len(page)


def attributes_of(page: str, at: int, wanted: set[str]) -> tuple[int, bool, dict[str, str]] | None:
    """A tag from behind its name: (where it stops, whether by />, attributes); None: it does not
    stop.
    """
    found: dict[str, str] = {}
    slash = False
    while at < len(page):
        if page[at] == ">":
            return at + 1, slash, found
        slash = page[at] == "/"
        if page[at] in SPACE or slash:
            at += 1
            continue
        start = at
        at += 1
        while at < len(page) and page[at] not in SPACE + "/>=":
            at += 1
        name, value = lower(page[start:at]), ""
        while at < len(page) and page[at] in SPACE:
            at += 1
        if at < len(page) and page[at] == "=":
            at += 1
            while at < len(page) and page[at] in SPACE:
                at += 1
            if at < len(page) and page[at] in "\"'":
                end = page.find(page[at], at + 1)
                if end < 0:
                    return None
                value, at = page[at + 1 : end], end + 1
            elif at < len(page) and page[at] != ">":
                start = at
                while at < len(page) and page[at] not in SPACE + ">":
                    at += 1
                value = page[start:at]
        slash = False
        if name in wanted:
            found.setdefault(name, value)
    return None


def comment_end(page: str, at: int) -> int:
    """Where what begins with <! or <? or </ and is no tag stops."""
    if page.startswith("<!--", at):
        if page.startswith(">", at + 4) or page.startswith("->", at + 4):
            return page.index(">", at + 4) + 1
        found = re.compile(r"--!?>").search(page, at + 4)
        return found.end() if found else len(page)
    return (page.find(">", at + 2) + 1) or len(page)


def tokenize(page: str, wanted: set[str], inside: str = "") -> list[Token]:
    """The tokens of a page; `inside`: the element whose text it starts in."""
    tokens: list[Token] = []
    at = foreign = 0
    while at < len(page):
        if inside:
            end = len(page) if inside == "plaintext" else raw_end(page, at, inside)
            if end > at:
                kind = "text" if inside in ("title", "textarea") else "raw"
                tokens.append((kind, page[at:end]))
            at, inside = end, ""
            continue
        start = at
        found_markup = MARKUP.search(page, at)
        at = found_markup.start() if found_markup else len(page)
        if at > start:
            tokens.append(("text", page[start:at]))
        if at >= len(page):
            break
        ends = page[at + 1] == "/"
        first = at + 1 + ends
        if page[first] not in LETTERS:
            if ends and page[first] == ">":
                at += 3
            elif foreign and page.startswith("<![CDATA[", at):
                end = page.find("]]>", at + 9)
                text = page[at + 9 : end if end >= 0 else len(page)]
                at = end + 3 if end >= 0 else len(page)
                if text:
                    tokens.append(("raw", text))
            else:
                at = comment_end(page, at)
                tokens.append(("comment",))
            continue
        at = first
        while at < len(page) and page[at] not in SPACE + "/>":
            at += 1
        name = lower(page[first:at])
        found = attributes_of(page, at, wanted)
        if found is None:
            break
        at, closed, attributes = found
        if ends:
            tokens.append(("end", name))
            foreign -= foreign > 0 and name in ("svg", "math")
            continue
        tokens.append(("closed" if closed else "start", name, attributes))
        if name in ("svg", "math"):
            foreign += not closed
        elif foreign and name in BREAKS_OUT:
            foreign = 0
        elif not foreign and name in RAW:
            inside = name
    return tokens
