"""The text of a page's kept blocks."""

import re
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.html import blocks, tokens, written
from tests.support import naive_blocks
from tests.support.strategies import fuzz

NAMES = "p div li ul ol dd table tr td th caption h1 pre code blockquote a b span br".split()
PARTS = [f"<{name}>" for name in NAMES] + [f"</{name}>" for name in NAMES]
PARTS += ["word", " ", "\n", "&amp;", "&lt;b>", "é", "1."]


def written_of(page: str, kept: Sequence[bool] = ()) -> str:
    data = np.frombuffer(page.encode(), np.uint8)
    found, attributes = tokens.room(len(data))
    work = blocks.room(len(data))
    count = tokens.tokenize(data, found, attributes)
    _, many, size = blocks.build(data, found, attributes, count, work)
    stays = np.array(kept, bool) if kept else np.ones(many, bool)
    return written.write(work.text, work.elements, work.blocks, stays, size).decode()


def test_plain_text_has_a_block_a_line() -> None:
    page = (
        "<h2>Head</h2><p>One<br>two<ul><li>a<li>b</ul><table><tr><th>x<th>y<tr><td>1<td>2</table>"
        "<pre>\n  code\n    more</pre><blockquote>said</blockquote>"
    )
    assert written_of(page) == "Head\nOne\ntwo\na\nb\nx\ty\n1\t2\ncode\n    more\nsaid"
    assert written_of("<p>a<p>b<p>c", [True, False, True]) == "a\nc"


def test_a_sign_is_no_digit_of_a_reference() -> None:
    assert written_of("<p>&#1`2;a &#x`1;") == "`2;a &#x`1;"
    assert written_of("<p>&#x4A;&#x4a;&#74:") == "JJJ:"


@fuzz(50)
@given(st.lists(st.sampled_from(PARTS), max_size=40).map("".join))
def test_plain_text_has_the_kept_blocks(page: str) -> None:
    true = "\n".join(block.text for block in naive_blocks.build(page) if not block.flags & 4)
    assert re.split(r"[\n\t]", written_of(page)) == re.split(r"[\n\t]", true)
