"""Elements and blocks of a page: equal to a slow twin, linear, and well formed on anything."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.html import blocks, tokens
from gristmill.kernels.html.names import CUSTOM, ELEMENTS
from tests.support import naive_blocks
from tests.support.real_data import RealData
from tests.support.strategies import fuzz

NAMES = (
    "p div li ul ol dl dt dd table tbody thead tr td th caption h1 h2 h6 pre a b span br hr img "
    "button option select object template svg x-y title script textarea noscript section body html "
    "blockquote iframe math"
).split()
PARTS = [f"<{name}>" for name in NAMES] + [f"</{name}>" for name in NAMES]
PARTS += ["<a href=x>", "<p/>", "<svg/>", "<x-y/>", "<br/>", "word", "two words", " ", "\n", "\t"]
PARTS += ["&amp;", "&nbsp;", "\xa0", "é", "&#10;", "&lt;p&gt;", "日本", "<!-- x -->", "&"]


def blocks_of(page: str) -> list[naive_blocks.Block]:
    data = np.frombuffer(page.encode(), np.uint8)
    found, attributes = tokens.room(len(data))
    work = blocks.room(len(data))
    count = tokens.tokenize(data, found, attributes)
    elements, many, size = blocks.build(data, found, attributes, count, work)
    text = work.text[:size].tobytes()
    assert work.elements.stop[:elements].max() == many
    out = []
    for place in range(many):
        path: list[str] = []
        element = int(work.blocks.elements[place])
        while element:
            number = work.elements.names[element]
            path.append("custom" if number == CUSTOM else ELEMENTS[number - 1])
            element = int(work.elements.parents[element])
        start, stop = work.blocks.starts[place], work.blocks.stops[place]
        out.append(
            naive_blocks.Block(
                text[start:stop].decode(),
                tuple(reversed(path)),
                int(work.blocks.linked[place]),
                int(work.blocks.links[place]),
                int(work.blocks.flags[place]),
            )
        )
    return out


@fuzz(200)
@given(st.lists(st.sampled_from(PARTS), max_size=40).map("".join))
def test_equal_to_the_slow_twin(page: str) -> None:
    assert blocks_of(page) == naive_blocks.build(page)


def test_real_pages_are_the_twin_s(data: RealData) -> None:
    for name in ("bbc-1", "wikipedia", "mozilla-1"):
        page = (data / f"B_html/mozilla-readability/{name}/source.html").read_text("utf-8")
        assert blocks_of(page) == naive_blocks.build(page)


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000,
        "<p>x" * 200_000,
        "</p>" * 500_000,
        "<table><tr><td>" * 50_000,
        "<a href=x><div>" * 100_000,
        "x<br><br>" * 100_000,
        "<li><ul>" * 100_000 + "</li>" * 100_000,
    ],
    ids="nested paragraphs ends tables links breaks lists".split(),
)
def test_hostile_pages_take_linear_time(page: str) -> None:
    data = np.frombuffer(page.encode(), np.uint8)
    found, attributes = tokens.room(len(data))
    work = blocks.room(len(data))
    start = time.process_time()
    count = tokens.tokenize(data, found, attributes)
    blocks.build(data, found, attributes, count, work)
    assert time.process_time() - start < 1
