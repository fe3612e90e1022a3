"""A page's bytes and tokens (kernels/html/tokens.py), for code in Python: views of the kernels'
arrays, which give ints.
"""

import re
from typing import NamedTuple

import numpy as np

from gristmill.kernels.html.tokens import Attributes, PageTokens

SPACES = b" \t\n\f\r"  # white space of HTML's
BLANKS = bytes(range(0x21))  # and controls
WORD = re.compile(rb"[^ \t\n\f\r]+")
NAME = re.compile(rb"[^ \t\n\f\r]*")
ATTRIBUTE = re.compile(
    rb"[ \t\n\f\r/]*([^ \t\n\f\r/][^ \t\n\f\r/=]*+)[ \t\n\f\r]*+"
    rb"(?:=[ \t\n\f\r]*+(?:\"([^\"]*)|'([^']*)|([^ \t\n\f\r]*))[\"']?)?"
)


class PageSource(NamedTuple):
    """A page and its tokens."""

    data: bytes
    many: int  # tokens
    kinds: memoryview
    names: memoryview
    starts: memoryview
    stops: memoryview
    first: memoryview  # of each token's attributes
    attribute_names: memoryview
    attribute_starts: memoryview
    attribute_stops: memoryview

    def kind(self, token: int) -> int | None:
        """Return the kind of a token; None: the page has no such token."""
        return self.kinds[token] if token < self.many else None

    def span(self, token: int) -> bytes:
        """Return a text, or what is between the < and > of a tag."""
        return self.data[self.starts[token] : self.stops[token]]

    def attribute(self, token: int, number: int) -> bytes | None:
        """Return the value of a token's attribute by its number (kernels/html/names.py)."""
        for place in range(self.first[token], self.first[token + 1]):
            if self.attribute_names[place] == number:
                return self.data[self.attribute_starts[place] : self.attribute_stops[place]]
        return None

    def has_word(self, token: int, number: int, word: bytes) -> bool:
        """Return whether a token's attribute holds a word, in any case."""
        return word in (self.attribute(token, number) or b"").lower()

    def other_attribute(self, token: int, name: bytes) -> bytes:
        """Return the value of a token's attribute that has no number."""
        tag = self.span(token)
        at = NAME.match(tag).end()  # type: ignore[union-attr]
        while match := ATTRIBUTE.match(tag, at):
            if match[1].lower() == name:
                return match[2] or match[3] or match[4] or b""
            at = match.end()
        return b""


def page_source(
    data: np.ndarray, tokens: PageTokens, attributes: Attributes, count: int
) -> PageSource:
    """Return a page (bytes,) uint8 and its `count` tokens."""
    return PageSource(data.tobytes(), count, *(column.data for column in (*tokens, *attributes)))


def words(value: bytes) -> list[bytes]:
    """Return the words of an attribute's value."""
    return WORD.findall(value)
