"""The tokenizer of HTML: equal to a slow twin and to the standard's own tests, linear, and without
a crash on anything.
"""

import html
import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from gristmill.kernels.html import references, tokens
from gristmill.kernels.html.names import ATTRIBUTE, ATTRIBUTES, CUSTOM, ELEMENT, ELEMENTS
from gristmill.kernels.jit.compile import BYTES, kernel
from gristmill.kernels.jit.groups import Bytes
from tests.support import naive_html
from tests.support.real_data import RealData
from tests.support.strategies import fuzz

KINDS = ("text", "raw", "start", "end", "closed", "comment")
PARTS = (
    "<p> </p> <br/> <a href=x> <DIV class='a b' CLASS=c id> <script> </script> "
    "<script/ > <!-- --> --!> <!--> <!-> <![CDATA[ ]]> <svg> </svg> <svg/> <title> "
    "</TITLE > <textarea > </textarea <style> </style/x> <plaintext> <x-y z> </x-y> < "
    "<! <? </ </> > / = \" ' x é &amp; &#x41; <xmp> <math> <math/> <b> \t \n hidden= "
    "hidden aria-hidden=true aria-hiddeX <a/=b> <h1 itemprop itemprop=c> - -- "
    "blockquote> <blockquote> <blockquotX>"
).split(" ")


def tokens_of(page: bytes, inside: str = "") -> list[tuple[object, ...]]:
    data = np.frombuffer(page, np.uint8)
    work = tokens.room(len(data))
    found, attributes = work
    count = tokens.tokenize(data, *work, inside=ELEMENT.get(inside, 0))
    out: list[tuple[object, ...]] = []
    for place in range(count):
        kind = KINDS[found.kinds[place]]
        text = page[found.starts[place] : found.stops[place]].decode("utf-8", "surrogateescape")
        number = int(found.names[place])
        if kind in ("text", "raw"):
            out.append((kind, text))
        elif kind == "comment":
            out.append((kind,))
        else:
            name = naive_html.lower(re.split(r"[\t\n\f\r />]", text)[0])
            known = CUSTOM if "-" in name and name not in ELEMENT else ELEMENT.get(name, 0)
            assert number == known
            values = {}
            for at in range(found.attributes[place], found.attributes[place + 1]):
                value = page[attributes.starts[at] : attributes.stops[at]]
                values[ATTRIBUTES[attributes.names[at] - 1]] = value.decode(
                    "utf-8", "surrogateescape"
                )
            out.append((kind, name) if kind == "end" else (kind, name, values))
    return out


def naive(page: str, inside: str = "") -> list[tuple[object, ...]]:
    return naive_html.tokenize(page, set(ATTRIBUTE), inside)


@fuzz(200)
@given(
    st.lists(st.sampled_from(PARTS), max_size=30).map(" ".join),
    st.sampled_from(["", "title", "script"]),
)
def test_equal_to_the_slow_twin(page: str, inside: str) -> None:
    for text in (page, page.replace(" ", "")):
        assert tokens_of(text.encode(), inside) == naive(text, inside)


@pytest.mark.parametrize("behind", ["", "<p>", ">", "]>", "]]", "]]>", "a]]>", "a]]>b"])
def test_a_section_that_the_page_ends_in(behind: str) -> None:
    page = f"<svg><![CDATA[{behind}"
    assert tokens_of(page.encode()) == naive(page)


@fuzz(100)
@given(st.binary(max_size=300))
def test_no_bytes_break_it(page: bytes) -> None:
    text = page.decode("utf-8", "surrogateescape")
    assert tokens_of(page) == naive(text)


def test_names_have_numbers() -> None:
    assert len(set(ELEMENTS)) == len(ELEMENTS) < CUSTOM
    for name in ELEMENTS:
        if name not in tokens.NAME_TABLES.raw:
            assert tokens_of(f"<{name.upper()} x>".encode())[0][:2] == ("start", name)


def test_real_pages_and_every_cut(data: RealData) -> None:
    path = data / "B_html/mozilla-readability/bbc-1/source.html"
    page = path.read_bytes()
    for stop in [*range(0, len(page), 1000), len(page)]:
        part = page[:stop].decode("utf-8", "ignore").encode()
        assert stop % 10_000 or tokens_of(part) == naive(part.decode())
        tokens.tokenize(np.frombuffer(part, np.uint8), *tokens.room(len(part)))


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 100_000,
        b"<p title='" + b"x" * 10_000_000 + b"'>x",
        b"<!--" * 1_000_000,
        b"<script><!--<script>" * 100_000,
        b"<" * 1_000_000,
        b"<p " + b"a=1 " * 1_000_000 + b">",
        b"<![CDATA[" * 500_000,
        b"&" * 1_000_000,
    ],
    ids="nested attribute comments scripts less attributes cdata ampersands".split(),
)
def test_hostile_pages_take_linear_time(page: bytes) -> None:
    data = np.frombuffer(page, np.uint8)
    work = tokens.room(len(data))
    start = time.process_time()
    tokens.tokenize(data, *work)
    assert time.process_time() - start < 1


@kernel(BYTES, references.References, Bytes, returns=types.int64)
def _decode(data, table, out):
    at = to = np.int64(0)
    while at < len(data):
        if data[at] == 0x26:
            at, to = references.put_reference(data, at, len(data), table, out, to)
        else:
            out[to] = data[at]
            to += 1
            at += 1
    return to


def decoded(text: str) -> str:
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    out = np.zeros(2 * len(data) + 16, np.uint8)
    size = _decode(data, references.REFERENCES, out)
    assert size <= 6 * len(data) / 5
    return out[:size].tobytes().decode("utf-8", "surrogatepass")


def unescaped(text: str) -> str:
    """The standard library's, which drops some code points that the standard keeps, and does not
    stop a name at 32 bytes.
    """
    return html.unescape(text)


def test_every_named_reference() -> None:
    for name in html.entities.html5:
        for text in (f"&{name}", f"a&{name}b", f"&{name};", f"&{name} &amp"):
            assert decoded(text) == unescaped(text)


@fuzz(200)
@given(
    st.lists(
        st.sampled_from(
            "& &# &#x ; amp lt not notin in 65 x41 128 1114112 55296 0 é = ` @ 9999999999".split()
        ),
        max_size=12,
    ).map("".join)
)
def test_references_are_the_standard_library_s(text: str) -> None:
    # U+0081 and its like, which windows-1252 does not have, stay.
    assert decoded(text) == unescaped(text)


INITIAL = {
    "Data state": ("",),
    "PLAINTEXT state": ("plaintext",),
    "RCDATA state": ("title", "textarea"),
    "RAWTEXT state": ("xmp", "style", "noembed", "noframes", "iframe"),
    "Script data state": ("script",),
}


def expected_of(output: list[list[object]]) -> list[tuple[object, ...]]:
    """A test's expected tokens as ours: texts joined, declarations as comments."""
    out: list[tuple[object, ...]] = []
    for kind, *rest in output:
        if kind == "Character":
            if out and out[-1][0] == "text":
                out[-1] = ("text", str(out[-1][1]) + str(rest[0]))
            else:
                out.append(("text", str(rest[0])))
        elif kind in ("Comment", "DOCTYPE"):
            out.append(("comment",))
        else:
            out.append(("start" if kind == "StartTag" else "end", rest[0]))
    return out


def found_of(page: str, inside: str) -> list[tuple[object, ...]]:
    out: list[tuple[object, ...]] = []
    for kind, *rest in tokens_of(page.encode(), inside):
        if kind in ("text", "raw"):
            text = decoded(str(rest[0])) if kind == "text" else str(rest[0])
            text = re.sub("\r\n?", "\n", text) if "&" not in page else text
            if out and out[-1][0] == "text":
                out[-1] = ("text", str(out[-1][1]) + text)
            else:
                out.append(("text", text))
        elif kind == "comment":
            out.append((kind,))
        else:
            out.append(("end" if kind == "end" else "start", rest[0]))
    return out


def test_the_standard_s_own_tests() -> None:
    """html5lib-tests' tokenizer folder, where GRISTMILL_HTML5LIB names it."""
    folder = os.environ.get("GRISTMILL_HTML5LIB")
    if folder is None:
        pytest.skip("GRISTMILL_HTML5LIB names no copy of html5lib-tests/tokenizer")
    count = 0
    wrong = []
    for path in sorted(Path(folder).glob("*.test")):
        if path.stem == "xmlViolation":  # of another parser
            continue
        for test in json.loads(path.read_text()).get("tests", []):
            page = test["input"]
            if test.get("doubleEscaped") or "\0" in page or "\r" in page:
                continue
            for state in test.get("initialStates", ["Data state"]):
                inside = test.get("lastStartTag", "")
                if inside not in INITIAL.get(state, ()) or (state != "Data state" and not inside):
                    continue
                count += 1
                if found_of(page, inside) != expected_of(test["output"]):
                    wrong.append((path.stem, page, inside, found_of(page, inside), test["output"]))
    assert count > 5_000
    assert not wrong, (len(wrong), wrong[:5])
