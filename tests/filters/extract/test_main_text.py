"""Main text by our own kernels: what the step gives, its reasons, hostile pages, and its F1."""

import gzip
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import schema
from gristmill.filters.api.step import Decision, Measured
from gristmill.filters.extract.extract import Extract, OwnExtract
from tests.support.real_data import RealData
from tests.support.strategies import fuzz, nasty_texts

SENTENCE = (
    "The mill stood by the river, and the miller ground the grist of three villages in it, "
    "year after year."
)
ARTICLE = (
    '<!doctype html><html lang="en-GB"><head><title> A\n title </title></head><body><nav><ul>'
    '<li><a href="/">Home</a><li><a href="/about">About us</a></ul></nav><article><h1>A title</h1>'
    + f"<p>{SENTENCE}</p>" * 6
    + '</article><footer><a href="/terms">Terms</a> Copyright 2024</footer></body></html>'
)


def run(step: OwnExtract, texts: list[str], **columns: list[Any]) -> tuple[Measured, Decision]:
    rows = {name: [None] * len(texts) for name in schema.DOCUMENTS.names}
    rows |= {"document": list(range(len(texts))), "text": texts, **columns}
    found = step.load({})(pa.RecordBatch.from_pydict(rows, schema.DOCUMENTS))
    assert found.text is not None
    for array in (*found.measures.values(), found.text, *found.columns.values()):
        assert len(array) == len(texts)
        array.validate(full=True)
    return found, step.decide(found.measures)


def own(**settings: Any) -> OwnExtract:
    return OwnExtract(rules="gristmill", **settings)


def test_a_recipe_s_rules_name_it() -> None:
    assert Extract.variant({"rules": "gristmill"}) is OwnExtract
    assert Extract.variant({}) is Extract


def test_a_page_becomes_its_text_title_and_language() -> None:
    found, said = run(own(), [ARTICLE, "plain"], content_type=[None, "text/plain"])
    text = found.text[0].as_py()
    assert text.count(SENTENCE) == 6 and "Copyright" not in text and "Home" not in text
    assert found.text[1].as_py() == "plain"
    assert found.columns["title"].to_pylist() == ["A title", None]
    assert found.columns["declared_language"].to_pylist() == ["en", None]
    measures = {name: array.to_pylist() for name, array in found.measures.items()}
    assert measures["bytes"] == [len(ARTICLE), None] and measures["depth"] == [5, None]
    assert measures["blocks"] == [11, None] and 0.9 < measures["kept_share"][0] <= 1
    assert measures["link_share"] == [0, None] and measures["characters"] == [len(text), None]
    assert said.reason.to_pylist() == [None, None]


def test_markdown_marks_headings() -> None:
    text = run(own(format="markdown"), [ARTICLE])[0].text[0].as_py()
    assert f"{SENTENCE}\n\n{SENTENCE}" in text and "# A title" in text


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        ({"comments": False}, "Well said"),
        ({"articles": "first"}, "Another story"),
        ({"tables": False}, "A cell of it"),
        ({"lists": False}, "An item of it"),
        ({"headings": False}, "A title"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_parts_are_left_out_where_they_are_asked_for(settings: dict[str, Any], gone: str) -> None:
    body = ARTICLE.partition("<article>")[2].partition("</article>")[0]
    page = (
        f"<title>A title</title><article>{body}<ul><li>An item of it, {SENTENCE}</ul>"
        f"<table><tr><td>A cell of it, {SENTENCE}</table></article><article><h2>Another story</h2>"
        + f"<p>{SENTENCE} Another story." * 4
        + f"</article><ol class=comments><li>Well said, {SENTENCE}</ol>"
    )
    kept = run(own(comments=True), [page])[0].text[0].as_py()
    found = run(own(**{"comments": True, **settings}), [page])[0].text[0].as_py()
    assert gone in kept and gone not in found and SENTENCE in found


def test_each_reason_has_its_value() -> None:
    pages = [ARTICLE, "<div>" * 50 + SENTENCE, "<script>x</script>", ""]
    found, said = run(own(max_bytes=900, max_depth=20), pages)
    assert said.reason.to_pylist() == ["too_large", "too_deep", "empty", "empty"]
    assert said.value.to_pylist() == [len(ARTICLE), 51, 0, 0]
    assert found.text[0].as_py() == ARTICLE


@fuzz(60)
@given(st.lists(nasty_texts(), max_size=5), st.sampled_from(["text", "markdown"]))
def test_nothing_breaks_it(texts: list[str], kind: str) -> None:
    found, _ = run(own(format=kind), texts)
    again, _ = run(own(format=kind), texts[::-1])
    assert found.text.to_pylist() == again.text.to_pylist()[::-1]  # no page changes another


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000 + "x",
        "<p>x" * 100_000,
        "<p title='" + "x" * 4_000_000 + "'>x",
        "<a href=x>" * 100_000,
        "<b><p class='a b c'>" * 50_000,
        "&amp;" * 500_000,
        f"<p>{SENTENCE}</p>" * 10_000,
    ],
    ids="nested paragraphs attribute links formatting references prose".split(),
)
def test_hostile_pages_take_linear_time(page: str) -> None:
    step = own()
    run(step, ["<p>x"])
    start = time.process_time()
    run(step, [page])
    assert time.process_time() - start < 4


def test_real_pages_and_every_cut(data: RealData) -> None:
    path = sorted((data / "B_html/article-extraction-benchmark/html").glob("*.gz"))[3]
    page = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    cuts = [page[:stop] for stop in range(0, len(page), max(len(page) // 60, 1000))]
    found, _ = run(own(), cuts)
    assert len(found.text[-1].as_py()) > 1000


def test_it_finds_the_main_text_of_real_pages(data: RealData) -> None:
    folders = sorted(
        path.parent for path in (data / "B_html/mozilla-readability").glob("*/expected.html")
    )[:24]
    html2text = pytest.importorskip("resiliparse.extract.html2text")
    found, _ = run(own(), [(path / "source.html").read_text("utf-8") for path in folders])
    shares = []
    for path, text in zip(folders, found.text.to_pylist(), strict=True):
        gold = html2text.extract_plain_text((path / "expected.html").read_text("utf-8"))
        ours, true = set(text.split()), set(gold.split())
        shares.append(2 * len(ours & true) / max(len(ours) + len(true), 1))
    assert sum(shares) / len(shares) > 0.9
