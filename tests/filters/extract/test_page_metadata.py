"""What a page says of itself: the order of its sources, hostile values, and real pages."""

import gzip
import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.filters.extract import page_metadata
from gristmill.filters.extract.page_metadata import PageMetadata
from gristmill.kernels.html import tokens
from tests.support.real_data import RealData
from tests.support.strategies import fuzz, nasty_texts


def read(page: str, title: str | None = None) -> PageMetadata:
    data = np.frombuffer(page.encode(), np.uint8)
    found, attributes = tokens.room(len(data))
    count = tokens.tokenize(data, found, attributes)
    return page_metadata.read(data, found, attributes, count, title)


def linked(value: object) -> str:
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


def test_each_field_has_its_sources_in_order() -> None:
    page = (
        '<html lang="pt-BR"><meta property="og:title" content=" A &amp; B "><meta name=Author '
        'content="Ann"><meta name=author content="Ben"><meta property="article:published_time" '
        'content="2024-02-30T1"><meta name=date content="on 2024/3/9">'
        "<meta property='og:site_name' content='The Site'>"
    )
    assert read(page, "T") == PageMetadata("A & B", "Ann; Ben", "2024-03-09", "The Site", "pt")
    article = {
        "@graph": [
            {"@type": "WebSite", "name": "x"},
            {
                "headline": "H",
                "author": [{"name": "Cy"}, "Di"],
                "datePublished": "2021-01-02T03:04:05Z",
                "publisher": {"name": "P"},
                "inLanguage": "de-AT",
            },
        ]
    }
    assert read(linked(article)) == PageMetadata("H", "Cy; Di", "2021-01-02", "P", "de")
    assert read(page + linked(article)).author == "Cy; Di"
    assert read("<time datetime=2020-05-06>x</time>", " t ") == PageMetadata(
        "t", None, "2020-05-06", None, None
    )
    assert read("<p>x") == PageMetadata(None, None, None, None, None)
    assert read("<meta property=article:author content=https://a.b/c>").author is None


BYLINES = {
    "<p class='post-author'>By <a href=/a>Ann Smith</a>": "Ann Smith",
    "<a rel=author href=/x>Jos\u00e9 de la Cruz</a>": "Jos\u00e9 de la Cruz",
    "<span itemprop='author'><span itemprop=name>Ann Smith</span></span>": "Ann Smith",
    "<a href='/authors/ann'>Ann Smith</a> <a href='/authors/ben'>Ben Roe</a>": "Ann Smith",
    "<p class=byline>Written by Ann Smith and Ben van Roe, Editor": "Ann Smith; Ben van Roe",
    "<DIV CLASS=AUTHOR>Ann O\u2019Neil-Smith</DIV>": "Ann O\u2019Neil-Smith",
    "<div class=author-box><h3>About the Author</h3><p>Ann Smith</p></div>": "Ann Smith",
    "<meta name='twitter:label1' content='Written by'>"
    "<meta name='twitter:data1' content='Ann Smith'>": "Ann Smith",
    "<meta name='twitter:label1' content='Reading time'>"
    "<meta name='twitter:data1' content='3 minutes'>": None,
    "<div class=author>3 minutes ago</div>": None,
    "<div class=author>the miller</div>": None,
    "<p>The author is Ann Smith</p>": None,
    "<!-- author --><p>Ann Smith": None,
    "<script>author = 'x'</script><p>Ann Smith": None,
    "<div class=author>": None,
}


@pytest.mark.parametrize("page", BYLINES)
def test_a_byline_whose_text_is_a_name_is_the_author(page: str) -> None:
    assert read(f"<p>x</p>{page}").author == BYLINES[page]
    assert read(f"<meta name=author content='Cy Day'>{page}").author == "Cy Day"


def test_hostile_values_are_bounded_and_no_control_characters_stay() -> None:
    page = f"<meta name=author content='a\x1b[31m\u202eb&#7;c{'x' * 9999}'>"
    author = read(page).author
    assert author is not None and author.startswith("a [31m bc")
    assert len(author) <= page_metadata.LONGEST
    assert read(linked([[[[{"headline": {"name": 1}, "author": [3, None]}]]]])).title is None
    assert read("<script type=application/ld+json>" + "[" * 100_000 + "</script>").title is None


@pytest.mark.parametrize(
    "page",
    [
        "<meta name=author content=x>" * 100_000,
        linked({"headline": "x"}) * 20_000,
        linked([{"headline": "x", "author": [[]] * 50}] * 2000),
        "<time datetime=" + "2" * 1_000_000 + ">",
    ],
)
def test_it_takes_a_bounded_time(page: str) -> None:
    read("<p>")
    start = time.process_time()
    read(page)
    assert time.process_time() - start < 1


@fuzz(60)
@given(st.lists(st.sampled_from(["<meta name='date' content='", "'>", "<script type=ld+json>"])))
def test_nothing_breaks_it(parts: list[str]) -> None:
    read("".join(parts))


@fuzz(60)
@given(nasty_texts(), nasty_texts())
def test_any_value_becomes_json(author: str, extra: str) -> None:
    found = read(f'<meta name="author" content="{author}">' + linked({"headline": author}))
    before = json.dumps({"a": extra})
    after = json.loads(page_metadata.with_fields(before, found) or "")
    assert after["a"] == extra
    for value in found:
        assert value is None or (value.isprintable() or "\n" not in value)
    assert page_metadata.with_fields(None, PageMetadata(*[None] * 5)) is None


def test_real_pages_have_titles_and_dates(data: RealData) -> None:
    paths = sorted((data / "B_html/article-extraction-benchmark/html").glob("*.gz"))[:30]
    found = [read(gzip.decompress(path.read_bytes()).decode("utf-8", "replace")) for path in paths]
    assert sum(one.title is not None for one in found) > 20
    assert sum(one.date is not None for one in found) > 12
    assert sum(one.site is not None for one in found) > 12
