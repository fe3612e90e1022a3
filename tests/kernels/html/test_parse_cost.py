"""The bounds of a page's cost: equal to a slow twin's, and never below what the parser then
does.
"""

import random
import re
import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.html import parse_cost
from gristmill.kernels.html.tags import KIND_NAMES
from gristmill.tables.columns import utf8_buffers
from tests.support.strategies import fuzz

NEVER = 1 << 60
SPACE = " \t\n\f\r"
NAME = re.compile(r"[^ \t\n\f\r/>]*")
KIND_OF = {}
for kind, words in KIND_NAMES.items():
    for word in words.split():
        KIND_OF[word] = KIND_OF.get(word, 0) | kind
CDATA = "<![CDATA["


def bounds(pages: list[str], steps: int = NEVER) -> parse_cost.ParseBounds:
    return parse_cost.bound(
        *utf8_buffers(pa.array(pages, pa.string())), most_bytes=1 << 30, most_steps=steps
    )


def attributes(page: str, at: int) -> tuple[int, int, bool]:
    """Slow twin of a tag's tokens: where the tag stops, its attributes, whether it ends in />."""
    name = re.compile(r".[^ \t\n\f\r/>=]*", re.DOTALL)
    value = re.compile(
        r"""[ \t\n\f\r]*=[ \t\n\f\r]*("""
        r""""[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|(?=>)|[^ \t\n\f\r>"'][^ \t\n\f\r>]*|\Z)"""
    )
    count, last = 0, ""
    while at < len(page):
        if page[at] == ">":
            return at + 1, count, at > 0 and page[at - 1] == "/" and last == "/"
        last = page[at]
        if last in SPACE or last == "/":
            at += 1
            continue
        count += 1
        at = name.match(page, at).end()
        if found := value.match(page, at):
            at = found.end()
        last = ""
    return len(page), count, False


def raw_end(page: str, at: int, name: str) -> int:
    """Slow twin: where the end tag of raw text starts."""
    token = re.compile(rf"</{name}(?=[\s/>])|<{name}(?=[\s/>])|<!--|-->", re.IGNORECASE | re.ASCII)
    commented = nested = False
    while found := token.search(page, at):
        what = found.group().lower()
        at = found.end()
        if what.startswith("</"):
            if not nested:
                return found.start()
            nested = False
        elif what == "<!--":
            if name == "script" and not commented:
                commented = True
                at -= 2
        elif what == "-->":
            commented = nested = False
        elif commented and name == "script":
            nested = True
    return len(page)


def behind(page: str, at: int, inside: bool) -> int:
    """Slow twin: where a comment, or what is taken for one, stops."""
    if page.startswith("<!--", at):
        found = re.compile(r"-?>|.*?--!?>", re.DOTALL).match(page, at + 4)
    elif inside and page.startswith(CDATA, at):
        found = re.compile(r".*?\]\]>", re.DOTALL).match(page, at + 9)
    else:
        found = re.compile(r".*?>", re.DOTALL).match(page, at + 2)
    return found.end() if found else len(page)


def naive_bound(page: str) -> tuple[int, int, int, int, int]:
    """Slow twin of markup.bound: (steps, depth, tags, crowd, parts)."""
    stack: list[
        tuple[str, int, bool]
    ] = []  # name, kinds, whether its children are SVG's or MathML's
    trusted = at = steps = deepest = tags = options = outer = 0
    forms, ignoring, sure = True, False, True
    runs, parts, text, broken, before = (
        [0],
        0,
        False,
        False,
        0,
    )  # runs: start tags of each paragraph

    def open_of(kind: int) -> int:
        return sum(1 for _, kinds, _ in stack if kinds & kind)

    while sure and at < len(page):
        before, at = at, page.find("<", at) % (len(page) + 1)
        if page[before:at].strip(SPACE):
            text, broken = True, False
        if at + 1 >= len(page):
            break
        inside = len(stack) > trusted and stack[-1][2]
        if tag := re.compile("</?(?=[a-zA-Z])").match(page, at):
            start = NAME.match(page, tag.end())
            name = re.sub("[A-Z]+", lambda found: found.group().lower(), start.group())
            kind = KIND_OF.get(name, 0)
            at, count, closed = attributes(page, start.end())
            steps += count * count + open_of(parse_cost.FORMATTING) * 128
            if text and (
                (
                    not kind & (parse_cost.WITHIN_TEXT | parse_cost.RAW)
                    and (tag.group() == "</" or name != "br")
                )
                or (broken and tag.group() == "<" and name == "br")
            ):
                parts, text = parts + 1, False
            if tag.group() == "</":
                if (
                    not kind & parse_cost.OUTER
                    and stack
                    and stack[-1][0] == name
                    and (forms or name != "form")
                ):
                    stack.pop()
                    trusted = min(trusted, len(stack))
                else:
                    steps += len(stack)
                    trusted = len(stack)
                    forms = forms and name != "form"
                continue
            tags += 1
            runs[-1] += 1
            if kind & (
                parse_cost.ENDS_PARAGRAPH | parse_cost.ITEM | parse_cost.CELL | parse_cost.ROW
            ):
                runs.append(0)
            broken = name == "br"
            outer += count * (kind & parse_cost.OUTER > 0)
            options += 8 * (name in ("option", "optgroup"))
            steps += 8 * count * outer * (kind & parse_cost.OUTER > 0) + options + len(stack) * 32
            foreign = open_of(parse_cost.FOREIGN)
            ignoring = ignoring or (name == "col" and open_of(parse_cost.TEMPLATE) > 0)
            raw = kind & parse_cost.RAW and not inside
            if kind & parse_cost.UNSURE or (raw and (foreign or ignoring)):
                sure = False
            elif raw:
                at = raw_end(page, at, name)
                if at < len(page):
                    at, count, _ = attributes(page, NAME.match(page, at + 2).end())
                    steps += count * count
            else:
                if inside and kind & parse_cost.BREAKS_OUT:
                    trusted = len(stack)
                if closed and (
                    kind & parse_cost.FOREIGN or (inside and not kind & parse_cost.BREAKS_OUT)
                ):
                    continue
                if kind & (parse_cost.VOID | parse_cost.OUTER) and (
                    not foreign or kind & parse_cost.BREAKS_OUT
                ):
                    continue
                if not foreign and stack:
                    last = stack[-1][0]
                    if (kind & parse_cost.ENDS_PARAGRAPH and last == "p") or (
                        name in ("td", "th", "tr") and last in ("td", "th")
                    ):
                        stack.pop()
                    last = stack[-1][0] if stack else ""
                    if any(
                        name in same and last in same for same in (("li",), ("dd", "dt"), ("tr",))
                    ):
                        stack.pop()
                    trusted = min(trusted, len(stack))
                svg = name in ("svg", "math") or bool(
                    inside and not kind & (parse_cost.BREAKS_OUT | parse_cost.HOLDS_HTML)
                )
                stack.append((name, kind, svg))
                deepest = max(deepest, len(stack) + 2 * open_of(parse_cost.TABLE))
        elif page[at + 1] in "!?/":
            if open_of(parse_cost.FOREIGN) and not inside and page.startswith(CDATA, at):
                sure = False
            else:
                at = behind(page, at, inside)
        else:
            at += 1
    if not sure:
        size, formats = len(stack), open_of(parse_cost.FORMATTING)
        rest = page[at:]
        for found in re.finditer("<(?:([a-zA-Z][^ \t\n\f\r/>]*)|)", rest):
            size += found.group(1) is not None
            tags += found.group(1) is not None
            runs[-1] += found.group(1) is not None
            parts += found.group(1) is not None
            steps += size * 32 + formats * 128
        steps += sum(rest.count(sign) for sign in SPACE + "/\"'") ** 2
        deepest = max(deepest, 3 * size)
    return steps, deepest + 3, tags, sum(run * run for run in runs), parts + text


TAGS = (
    "div p span b a i svg math select option table tr td template col title desc style "
    "script foreignObject form li dd button font nobr "
    "path mi frameset textarea h1 ruby rt head body html caption object noscript plaintext "
    "selectedcontent br input"
).split()
SIGNS = (
    "x",
    " ",
    "<!-- x -->",
    "<!---->",
    "<!-->",
    "<!--",
    "-->",
    "--!>",
    "<!x>",
    "<?x?>",
    "</>",
    "</ x>",
    "<![CDATA[",
    "]]>",
    "\0",
    "é",
    "<",
    "<1",
    "'",
    '"',
    "<!--<script>",
    "</SCRIPT>",
    ">",
)
ATTRIBUTES = (
    "",
    "",
    "",
    " a=1",
    " b='>'",
    ' c="<b>"',
    " d=/",
    "/",
    " /",
    " e = 'x' f",
    " =",
    " ==x",
    "/g/h",
    " i='",
)


def soup(pick: random.Random) -> str:
    """Tags that fit together or do not, some of them again and again."""

    def piece() -> str:
        kind = pick.random()
        if kind < 0.5:
            return f"<{pick.choice(names)}{pick.choice(ATTRIBUTES)}>"
        return f"</{pick.choice(names)}>" if kind < 0.82 else pick.choice(SIGNS)

    names = pick.choice([TAGS, pick.sample(TAGS, 2), pick.sample(TAGS, 4)])
    unit = "".join(piece() for _ in range(pick.choice([3, 5, 8, 20])))
    return (
        "".join(piece() for _ in range(pick.randrange(6)))
        + unit * pick.choice([1, 2, 9])
        + piece()
        + piece()
    )


def test_a_last_character_is_text_however_many_bytes_it_has() -> None:
    assert [
        list(bounds([page]).parts) for page in ("<p>é", "<p>x", "<p>", "<p> ", "<p>x<", "é")
    ] == [[1], [1], [0], [0], [1], [1]]


@fuzz(60)
@given(st.randoms(use_true_random=False))
def test_equal_to_the_slow_twin(pick: random.Random) -> None:
    pages = [soup(pick) for _ in range(5)]
    got = bounds(pages)
    for row, page in enumerate(pages):
        steps, *others = naive_bound(page)
        assert [got.depth[row], got.tags[row], got.crowd[row], got.parts[row]] == others, page
        if not re.search(
            "(?i)<(frameset|plaintext|selectedcontent|svg|math|col)", page
        ):  # where it is not sure, names count
            assert got.steps[row] == steps, page


def measure(page: str) -> tuple[int, int]:
    """What resiliparse makes of a page: (depth, elements)."""
    parse = pytest.importorskip("resiliparse.parse.html")
    root = parse.HTMLTree.parse(page).document
    if root is None or root.document_element is None:
        return 0, 0
    node, depth, deepest, elements = root.document_element, 1, 1, 1
    while True:
        if (below := node.first_element_child) is not None:
            node, depth, elements = below, depth + 1, elements + 1
            deepest = max(deepest, depth)
            continue
        while (beside := node.next_element_sibling) is None:
            node, depth = node.parent_element, depth - 1
            if depth < 1 or node is None:
                return deepest, elements
        node, elements = beside, elements + 1


@fuzz(120)
@given(st.randoms(use_true_random=False))
def test_no_page_is_deeper_or_larger_than_its_bound(pick: random.Random) -> None:
    page = soup(pick)
    got = bounds([page])
    depth, elements = measure(page)
    assert depth <= got.depth[0], page
    assert elements <= 10 + 3 * page.count("<") + got.steps[0] // 128, page


def test_the_bound_of_plain_pages_is_small_and_nearly_exact() -> None:
    page = (
        "<!doctype html><html lang=en><head><title>a < b</title></head><body>"
        + "<div><p>one <b>two</b><br></p></div>" * 500
    )
    assert (measure(page)[0], bounds([page]).depth[0]) == (5, 6)
    # A <p> that </div> ends leaves both on the stack till the end: more than the truth.
    assert bounds([page.replace("</p>", "")]).depth[0] == 500 + 2 + 3
    # What start tags end is known.
    rows = (
        "<table>"
        + "<tr><td>1<td>2<th>3" * 500
        + "</table><ul>"
        + "<li>x" * 500
        + "</ul><dl>"
        + "<dt>x<dd>y" * 500
    )
    assert bounds([rows]).depth[0] < 20


HOSTILE = {
    "formatting made anew": "<p>" + "".join(f"<b a{n}>" for n in range(900)) + "<p>x" * 5000,
    "end tags on a deep stack": "<span>" * 30_000 + "</x>" * 30_000,
    "attributes": "<div " + "".join(f"a{n} " for n in range(30_000)) + ">",
    "attributes of html": "".join(f"<html a{n}>" for n in range(30_000)),
    "options": "<select>" + "<option>x</option>" * 30_000,
    "anchors": "<a><div>" * 30_000,
}


@pytest.mark.parametrize("page", HOSTILE.values(), ids=list(HOSTILE))
def test_what_is_quadratic_is_seen(page: str) -> None:
    assert bounds([page]).steps[0] > 1 << 28
    got = bounds([page, "<p>plain</p>"], steps=1 << 22)
    assert (
        1 << 22 < got.steps[0] < (1 << 22) + (1 << 20)
        or "attributes" in page
        or page.startswith("<div ")
    )
    # What stands before the cut is within the limit.
    assert got.cut[0] < len(page) and bounds([page[: got.cut[0]]]).steps[0] <= 1 << 22
    assert (got.cut[1], got.steps[1]) == (len("<p>plain</p>"), 0)


@pytest.mark.parametrize(
    "unit",
    [
        "<!--",
        "<script><!--<a",
        "<a b='",
        "<![CDATA[",
        "<svg><![CDATA[",
        "</",
        "<a ",
        "<plaintext><a",
        "<title></",
        "<a<",
    ],
)
def test_reading_is_linear_whatever_is_left_open(unit: str) -> None:
    """Four times the page takes about four times the time; where every opening is searched to the
    end of the page, it would take sixteen times as long.
    """
    times = []
    for size in (500_000, 2_000_000):
        columns = utf8_buffers(pa.array([unit * (size // len(unit))], pa.string()))
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            parse_cost.bound(*columns, most_bytes=1 << 30, most_steps=NEVER)
            best = min(best, time.process_time() - start)
        times.append(best)
    assert times[1] < 10 * times[0] + 0.02
    assert times[1] < 1


def test_pages_over_the_size_are_not_read() -> None:
    got = parse_cost.bound(
        *utf8_buffers(pa.array(["<div>" * 10, "<div>"])), most_bytes=20, most_steps=NEVER
    )
    assert got.tags.tolist() == [0, 1]
