"""Parts of a page that are asked for or left out: equal to plain Python over the elements."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.html import blocks, counts, elements, parts, tokens, words
from gristmill.kernels.html.names import ELEMENTS
from tests.support.strategies import fuzz

BODY = "<p>" + "A sentence of seven words in all. " * 4
PIECES = (
    "<p>A sentence of seven words in all.",
    "<p>Short",
    "<h2>A heading",
    "<div>",
    "</div>",
    "<div class='comment-list'>",
    "<article>" + BODY,
    "</article>",
    "<ul><li>An item of six words here",
    "</ul>",
    "<ol id=comments><li>A comment of six words here.",
    "</ol>",
    "<table><tr><td>A cell of six words here",
    "</table>",
    "<a href=x>all of it is a link.</a>",
)
pages = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


class Work:
    """Elements, blocks and counts of a page."""

    def __init__(self, page: str) -> None:
        data = np.frombuffer(page.encode(), np.uint8)
        found, attributes = tokens.room(len(data))
        self.work, counted = blocks.room(len(data)), counts.room(len(data))
        count = tokens.tokenize(data, found, attributes)
        self.many, self.count, _ = blocks.build(data, found, attributes, count, self.work)
        sizes = (self.many, self.count)
        counts.count(self.work.text, self.work.elements, self.work.blocks, sizes, counted)
        self.counts = counted.counts
        self.elements, self.blocks = self.work.elements, self.work.blocks

    def text(self, kept: np.ndarray) -> str:
        return " ".join(
            self.work.text[self.blocks.starts[k] : self.blocks.stops[k]].tobytes().decode()
            for k in np.flatnonzero(kept)
        )

    def without(self, what: int) -> str:
        kept = np.ones(self.count, bool)
        return self.text(
            parts.leave_out(self.elements, self.many, self.blocks, self.counts, kept, what)
        )


def line(found: Work, block: int) -> list[int]:
    """The elements that a block lies in, the outermost first; the page itself is none of them."""
    up = []
    element = int(found.blocks.elements[block])
    while element:
        up.append(element)
        element = int(found.elements.parents[element])
    return up[::-1]


def marked_blocks(found: Work, weights: list[int], what: int) -> list[bool]:
    """Of each block whether it lies in a part."""
    lines = [line(found, block) for block in range(found.count)]
    held = {
        element: sum(n for n, up in zip(weights, lines, strict=True) if element in up)
        for up in lines
        for element in up
    }
    names = {e: ELEMENTS[found.elements.names[e] - 1] for e in held if found.elements.names[e]}
    long = [e for e in sorted(held) if names.get(e) == "article" and held[e] >= 40]
    if what & parts.LATER:
        # Articles in a part that is left out are none.
        before = marked_blocks(found, weights, what & ~parts.LATER)
        gone = {e for up, out in zip(lines, before, strict=True) for e in up if out}
        free = {e for up, out in zip(lines, before, strict=True) for e in up if not out}
        long = [e for e in long if e in free or e not in gone]

    def is_part(element: int) -> bool:
        name = names.get(element, "")
        if what & parts.LATER and element in long:
            inner = any(long[0] in up[: up.index(element)] for up in lines if element in up)
            if element != long[0] and not inner:
                return True
        if what & parts.HEADINGS and name in ("h1", "h2", "h3", "h4", "h5", "h6"):
            return True
        if 2 * held[element] > sum(weights):
            return False
        comment = int(found.elements.words[element]) >> words.BITS["comment"] & 1
        return (
            (what & parts.TABLES > 0 and name == "table")
            or (what & parts.LISTS > 0 and name in ("ul", "ol", "dl"))
            or (what & parts.COMMENTS > 0 and bool(comment))
        )

    return [any(map(is_part, up)) for up in lines]


@fuzz(100)
@given(pages, st.integers(0, 31), st.integers(0, 1 << 30))
def test_what_is_left_out(page: str, what: int, seed: int) -> None:
    found, rng = Work(page), random.Random(seed)
    kept = np.array([rng.random() < 0.8 for _ in range(found.count)], bool)
    size = [int(n) * bool(k) for n, k in zip(found.counts.words, kept, strict=False)]
    stays = parts.leave_out(found.elements, found.many, found.blocks, found.counts, kept, what)
    out = marked_blocks(found, size, what)
    assert stays.tolist() == [k and not o for k, o in zip(kept.tolist(), out, strict=True)]


@fuzz(100)
@given(pages, st.integers(0, 1 << 30))
def test_comments_that_are_added(page: str, seed: int) -> None:
    found, rng = Work(page), random.Random(seed)
    kept = np.array([rng.random() < 0.3 for _ in range(found.count)], bool)
    counted = found.counts
    prose = [int(n) * bool(g) for n, g in zip(counted.words, counted.good, strict=True)]
    inside = marked_blocks(found, prose[: found.count], parts.COMMENTS)
    more = parts.add_comments(found.elements, found.many, found.blocks, counted, kept)
    for k in range(found.count):
        text = found.text(np.arange(found.count) == k)
        size = len(text.replace(" ", ""))
        said = inside[k] and len(text.split()) >= 3 and "." in text
        assert more[k] == (kept[k] or (said and 3 * found.blocks.linked[k] < size))


@pytest.mark.parametrize(
    ("what", "gone"),
    [
        (parts.COMMENTS, "Well said."),
        (parts.TABLES, "A cell"),
        (parts.LISTS, "An item"),
        (parts.HEADINGS, "The heading"),
        (parts.LATER, "Another article"),
    ],
    ids="comments tables lists headings later".split(),
)
def test_each_part_goes_alone(what: int, gone: str) -> None:
    found = Work(
        f"<article><h1>The heading</h1>{BODY * 5}<ul><li>An item</ul><table><tr><td>A cell</table>"
        f"<div class=comments><p>Well said.</div></article><article><p>Another article{BODY * 2}"
        "</article>"
    )
    phrases = ["Well said.", "A cell", "An item", "The heading", "Another article"]
    assert [p for p in phrases if p not in found.without(what)] == [gone]
    assert "A sentence" in found.without(what)


def test_what_a_page_is_laid_out_in_is_no_part() -> None:
    found = Work(f"<body class=comments-open><table><tr><td><ul><li>{BODY}</ul></table>")
    every = parts.COMMENTS | parts.TABLES | parts.LISTS | parts.HEADINGS | parts.LATER
    assert found.without(every) == found.without(0)
    assert elements.INSIDE and words.BITS["comment"] < 63
