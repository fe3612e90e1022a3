r"""A page as Markdown: exact cases, and on any page what another parser of Markdown reads is the
page's text.
"""

import html
import re
import time
from collections.abc import Sequence
from html.entities import html5

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gristmill.filters.extract.markdown import page_source, references, writer
from gristmill.kernels.html import blocks, tokens
from tests.support import naive_blocks
from tests.support.strategies import fuzz

READER = MarkdownIt("commonmark").enable("table")
NAMES = (
    "p div li ul ol dd table tr td th caption h1 h3 h6 pre code blockquote a b "
    "span br math mi mfrac"
).split()
PARTS = [f"<{name}>" for name in NAMES] + [f"</{name}>" for name in NAMES] + ["</p>"]
PARTS += ["<a href=x>", "<a href='(y)|'>", "word", " ", "\n", "&amp;", "&lt;b>", "é", "*", "_", "`"]
PARTS += [
    "1.",
    "#",
    "- ",
    "[",
    "](",
    "|",
    "\\",
    "~~",
    "---",
    "&amp;lt;",
    "!",
    "<td colspan=2>",
    "$",
]
MATH_PARTS = ["<mi>", "<mn>2</mn>", "<msup>", "</msup>", "<mroot>", "<mtable><mtr><mtd>", "</math>"]
MATH_PARTS += ["<math>", "<math display=block alttext='a_b'>", "<img class=latex alt='$x$'>"]
MATH_PARTS += ["<script type='math/tex; mode=display'>", "y<z</script>", "<span class=katex-html>"]
MATH_PARTS += [
    "</span>",
    "<annotation encoding='application/x-tex'>",
    "</annotation>",
    "\\(",
    "\\)",
]
PRINTED = st.text(st.sampled_from(list("ab1 \n*_`#>-+=~[](){}!|<&;:.\\'\"$é。")), max_size=30)


def written_of(page: str, kept: Sequence[bool] = (), links: bool = False, tex: bool = False) -> str:
    data = np.frombuffer(page.encode(), np.uint8)
    found, attributes = tokens.room(len(data))
    work = blocks.room(len(data))
    count = tokens.tokenize(data, found, attributes)
    elements, many, _ = blocks.build(data, found, attributes, count, work)
    stays = np.array(kept, bool) if kept else np.ones(many, bool)
    source = page_source.page_source(data, found, attributes, count)
    return writer.write(source, work.elements, elements, work.blocks, stays, links, tex).decode()


CASES = {
    "<h2>A # b #</h2><p>c<br>d": "## A # b \\#\n\nc\nd",
    "<ol start=3><li>a<ul><li>b<li>c</ul><p>d<li>e</ol>f": (
        "3. a\n   - b\n   - c\n\n   d\n4. e\n\nf"
    ),
    "<ul><li><p>a<p>b<li><ol start=9><li>x<li>y</ol></ul>": "- a\n\n  b\n- 9. x\n  10. y",
    "<blockquote><p>a<br>b<ul><li>c</ul></blockquote><p>d": "> a\n> b\n>\n> - c\n\nd",
    "<pre><code class='x language-c++'>\n  a\n\n b\n\n</code></pre>": "```c++\n  a\n\n b\n```",
    "<div class='highlight-python notranslate'><div class=highlight><pre>x": "```python\nx\n```",
    "<pre class='brush: js; toolbar: no'>a```b</pre>": "````js\na```b\n````",
    "<ul><li><pre>a\n b</pre></ul>": "- ```\n  a\n   b\n  ```",
    "<table><tr><th>a<th>b|c<tr><td>1<p>2<td><code>x|y</code></table>": (
        "| a | b\\|c |\n|---|---|\n| 1 2 | `x\\|y` |"
    ),
    "<table><caption>t</caption><tr><th colspan=2>a<tr><td>1<td>2<td>3<tr><td>4</table>": (
        "t\n\n| a | | |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 |"
    ),
    "<table><tr><td>a<td>b</table>": "a\n\nb",
    "<table><tr><td>a<td><ul><li>b</ul><tr><td>c<td>d</table>": "a\n\n- b\n\nc\n\nd",
    "<p>a <code>b`c</code>d<p><kbd>e</kbd>": "a ``b`c``d\n\n`e`",
    "<p>a*b * c_d _e &lt;f> < g &amp;amp; h & i": "a\\*b * c_d \\_e \\<f> < g \\&amp; h & i",
    "<p>1. a<br>- b<br># c<br>+<br>> d<br>=<br>12) e<br>#f": (
        "1\\. a\n\\- b\n\\# c\n\\+\n\\> d\n\\=\n12\\) e\n#f"
    ),
}


@pytest.mark.parametrize("page", CASES)
def test_markdown(page: str) -> None:
    assert written_of(page) == CASES[page]


KATEX = (
    "<span class=katex-display><span class='katex'><span class='katex-mathml'><math><semantics>"
    "<mrow><mi>x</mi></mrow><annotation encoding='application/x-tex'>x &lt; 1</annotation>"
    "</semantics></math></span><span class='katex-html' aria-hidden=true><span>x</span>1</span>"
    "</span></span>"
)
FORMULAS = {
    f"<p>so {KATEX} holds": "so $$x < 1$$ holds",
    "a <math><mfrac><mi>b</mi><msqrt><mn>2</mn></msqrt></mfrac></math>": r"a $\frac{b}{\sqrt{2}}$",
    "a <math><mroot><mi>b</mi><mn>3</mn></mroot><mo>&amp;</mo></math>": r"a ${(b)}^{1/(3)}\&$",
    "a <math><munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><mi>sin</mi></math>": (
        r"a ${∑}_{i}^{n}\mathrm{sin}$"
    ),
    "a <math><mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd></mtr></mtable></math>": (
        r"a $\begin{matrix} 1 & 2 \\ 3 \end{matrix}$"
    ),
    "a <math alttext='x_{1}'><mi>x</mi></math>b": "a $x_{1}$b",
    "<p>a <script type='math/tex'>x_1</script>.<p>b": "a $x_1$.\n\nb",
    "<p>a</p><script type='math/tex; mode=display'>% <![CDATA[\ny<z %]]></script><p>b": (
        "a\n\n$$y<z$$\n\nb"
    ),
    "<p><script type='math/tex'>x</script> is a": "$x$ is a",
    "<p>a <img class='latex' alt='$\\alpha*$'> b <img alt=no>": "a $\\alpha*$ b",
    "a <span><math><annotation encoding='application/x-tex'>{\\displaystyle x}</annotation></math>"
    "</span><img class='mwe-math-fallback-image-inline' alt='{\\displaystyle x}'>.": "a $x$.",
    "a <script type=text/javascript>x</script><span class=MathJax_Preview>y</span>b": "a b",
}


@pytest.mark.parametrize("page", FORMULAS)
def test_formulas_are_kept_as_tex(page: str) -> None:
    assert written_of(page) == FORMULAS[page]


def test_formulas_between_blocks_are_kept_where_both_are() -> None:
    page = "<p>a<p><math><mi>x</mi></math><p>b<p>c<script type='math/tex'>y</script>"
    assert written_of(page, [True, False, True, False]) == "a\n\n$x$\n\nb"
    assert written_of(page, [True, False, False, True]) == "a\n\nc $y$".replace("c $", "c$")


def test_tex_in_the_text_is_copied_where_it_is_asked_for() -> None:
    page = r"<p>a \(x_1*y\) and \[z\] or $k*l*m$ for $5 and $6, $$n_1$$ \{ \(o"
    assert written_of(page, tex=True) == (
        r"a $x_1*y$ and $$z$$ or $k*l*m$ for $5 and $6, $$n_1$$ \\{ \\(o"
    )
    assert written_of("<p>a \\(b\\)") == "a \\\\(b\\\\)"


def test_links_are_text_or_have_their_targets() -> None:
    page = (
        "<p>see <a href='/a(b) c?x&amp;y'>the <code>d</code></a> <a href='#e'>f</a>!<a href=g>h</a>"
    )
    assert written_of(page) == "see the `d` f!h"
    assert written_of(page, links=True) == "see [the `d`](/a%28b%29c?x&y) f\\![h](g)"
    assert written_of("<p><a href='JavaScript:x'>a</a>", links=True) == "a"


def test_references_are_those_of_html() -> None:
    numbers = ["#65", "#x41;", "#X41", "#0", "#128;", "#129", "#xD800;", "#x110000", "#99999999999"]
    assert references.decode(b"&#1`2;&#x`1;&#;&;&nosuch;") == b"\x01`2;&#x`1;&#;&;&nosuch;"
    for name in [*html5, *numbers, "notit;", "ampx"]:
        text = f"a&{name}b &{name}= &{name};"
        assert references.decode(text.encode()).decode() == html.unescape(text)
    assert references.decode_attribute(b"?a&lt=b&ltc&lt;&lt d&#38&lt") == b"?a&lt=b&ltc<< d&<"


def text_of(parsed: list[Token]) -> str:
    """What a reader of Markdown sees."""
    seen = []
    for token in parsed:
        if token.type == "inline":
            seen.append(text_of(token.children or []))
        elif token.type in ("fence", "text", "code_inline", "text_special"):
            seen.append(token.content)
    return "".join(seen)


def letters(text: str) -> str:
    """Text without white space, and without U+0000, which Markdown has no sign for."""
    return re.sub(r"\s+", "", text)


@fuzz(150)
@given(st.lists(st.sampled_from(PARTS), max_size=40).map("".join), st.booleans())
def test_a_reader_of_markdown_sees_the_page_s_text(page: str, links: bool) -> None:
    page = re.sub("</?m(ath|i|frac)>", "", page)
    text = "".join(block.text for block in naive_blocks.build(page) if not block.flags & 4)
    assert letters(text_of(READER.parse(written_of(page, links=links)))) == letters(text)


@fuzz(150)
@given(PRINTED)
def test_plain_text_has_no_marks(text: str) -> None:
    source = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", "<br>")
    parsed = READER.parse(written_of(f"<p>{source}<p>x"))
    assert {token.type for token in parsed} <= {"paragraph_open", "inline", "paragraph_close"}
    kinds = {child.type for token in parsed for child in token.children or []}
    assert kinds <= {"text", "softbreak", "text_special"}


@fuzz(150)
@given(
    st.lists(st.sampled_from(PARTS + MATH_PARTS), max_size=40),
    st.lists(st.booleans(), max_size=40),
    st.booleans(),
)
def test_any_page_is_written(parts: list[str], kept: list[bool], tex: bool) -> None:
    page = "".join(parts)
    many = len(naive_blocks.build(page))
    stays = (kept + [True] * many)[:many]
    text = written_of(page, stays, links=True, tex=tex)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", text)


@pytest.mark.parametrize(
    ("before", "unit", "behind"),
    [
        ("", "<ul><li>", "x"),
        ("", "<ul><li>x", ""),
        ("", "<blockquote>x<br>y", ""),
        ("", "<table><tr><td>x<td>y", ""),
        ("<table>", "<tr><td colspan=9999>x<td>y", ""),
        ("", "<p>\\(", ""),
        ("", "\\(", "$" * 9999),
        ("", "\\($", ""),
        ("", "$ \\$", " $"),
        ("\\(", "\\\\(", "<code>x"),
        ("", "<math><mfrac>", "x"),
        ("<math>", "<mrow>", "x" + "</mi>" * 9999),
        ("<code>", "<math>x", ""),
        ("<pre>", "\n`", ""),
        ("", "<span class=katex-html>", "x"),
        ("", "<a href=x>y</a>", ""),
        ("<ol><li><blockquote>" * 8 + "<pre>", "x\n", ""),
        ("<img class=latex ", "a=b ", "alt=x>y"),
    ],
)
def test_hostile_pages_take_linear_time(before: str, unit: str, behind: str) -> None:
    times = []
    for count in (5_000, 20_000):
        page = before + unit * count + behind
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            written_of(page, links=True, tex=True)
            best = min(best, time.process_time() - start)
        times.append(best)
    assert times[1] < 10 * times[0] + 0.02
    assert times[1] < 3
