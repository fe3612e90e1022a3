"""Main text by our own kernels: what the step gives, its reasons, hostile pages, and its F1."""

import gzip
import json
import math
import random
import time
from collections.abc import Callable
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.filters.api.step import Decision, Measured
from gristmill.filters.extract import main_text
from gristmill.filters.extract.extract import Extract, LibraryExtract, PageType
from gristmill.tables import schema
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

SIZES = (1 << 10, 1 << 16, 1 << 24)  # of a page in bytes


def run(step: Extract, texts: list[str], **columns: list[Any]) -> tuple[Measured, Decision]:
    rows = {name: [None] * len(texts) for name in schema.DOCUMENTS.names}
    rows |= {"document": list(range(len(texts))), "text": texts, **columns}
    found = step.load({})(pa.RecordBatch.from_pydict(rows, schema.DOCUMENTS))
    assert found.text is not None
    for array in (*found.measures.values(), found.text, *found.columns.values()):
        assert len(array) == len(texts)
        array.validate(full=True)
    return found, step.decide(found.measures)


def own(**settings: Any) -> Extract:
    return Extract(**settings)


def test_a_recipe_s_rules_name_it() -> None:
    for own_parameters in ({}, {"rules": "gristmill"}, {"format": "markdown"}, {"max_depth": 9}):
        assert Extract.variant(own_parameters) is Extract
    for theirs in (
        {"extractor": "resiliparse"},
        {"extractor": "trafilatura"},
        {"main_content": False},
        {"max_steps": 1000},
        {"favor_precision": True},
        {"format": "minimal_html"},
    ):
        assert Extract.variant(theirs) is LibraryExtract


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


def test_a_page_s_types_are_measures_and_may_be_wanted() -> None:
    found, said = run(
        own(types=("forum", "product"), min_type=0.5),
        [ARTICLE, "plain"],
        content_type=[None, "text/plain"],
    )
    shares = {name: found.measures[f"type_{name}"].to_pylist() for name in main_text.TYPES}
    assert sum(values[0] for values in shares.values()) == pytest.approx(1)
    assert {values[1] for values in shares.values()} == {None}
    assert max(shares, key=lambda name: shares[name][0]) == "article"
    assert said.reason.to_pylist() == ["other_type", None]
    assert said.value[0].as_py() == pytest.approx(shares["forum"][0] + shares["product"][0])
    wanted = run(own(types=("article",), min_type=shares["article"][0]), [ARTICLE])[1]
    assert wanted.reason.to_pylist() == [None]
    assert get_args(PageType) == main_text.TYPES


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


def test_precision_keeps_least_and_recall_most(data: RealData) -> None:
    paths = sorted((data / "B_html/mozilla-readability").glob("*/source.html"))[:12]
    pages = [path.read_text("utf-8") for path in paths]
    kept = []
    for favor in ("precision", "balanced", "recall"):
        found, _ = run(own(favor=favor), pages)
        kept.append(found.measures["kept_share"].to_pylist())
    for least, middle, most in zip(*kept, strict=True):
        assert least <= middle <= most
    assert sum(kept[0]) < sum(kept[1]) < sum(kept[2])


def page_of(size: int) -> str:
    """A page of at least `size` bytes as pages are: menus, classes, scripts, prose, lists."""
    part = (
        "<div class='story-body wide' data-id='7' style='margin: 0'><h2>A heading</h2>"
        f"<p>{SENTENCE}<p>{SENTENCE} <a href='/miller?page=1&amp;b=2'>The miller</a>"
        "<ul class=menu><li><a href=/a>One</a><li><a href=/b>Two &eacute;</a></ul></div>"
        "<script>var mill = {'wheel': '<p>not text</p>'};</script>\n"
    )
    return part * (size // len(part) + 1)


def seconds_of(step: Callable[[pa.RecordBatch], Measured], page: str, times: int) -> float:
    """Processor time of one page, the least of a few tries."""
    columns = {name: [None] for name in schema.DOCUMENTS.names} | {"document": [0], "text": [page]}
    batch = pa.RecordBatch.from_pydict(columns, schema.DOCUMENTS)
    least = math.inf
    for _ in range(3):
        start = time.process_time()
        for _ in range(times):
            step(batch)
        least = min(least, (time.process_time() - start) / times)
    return least


def test_time_is_linear_from_1_kb_to_16_mb() -> None:
    """A byte of a page of 16 MB costs at most three times one of 64 KB; a page of 1 KB less than
    one of 64 KB.
    """
    step = own(max_bytes=1 << 25).load({})
    took = {size: seconds_of(step, page_of(size), max((1 << 20) // size, 1)) for size in SIZES}
    small, middle, large = (took[size] for size in SIZES)
    assert small < middle
    assert large / SIZES[2] < 3 * middle / SIZES[1]


@pytest.mark.soak
def test_every_real_page_cut_at_every_1000th_byte(data: RealData) -> None:
    folders = sorted((data / "B_html/mozilla-readability").glob("*/source.html"))
    measure = own().load({})
    for path in folders:
        page = path.read_bytes()
        cuts = [page[:stop].decode("utf-8", "replace") for stop in range(0, len(page), 1000)]
        for first in range(0, len(cuts), 500):
            rows = cuts[first : first + 500]
            columns = {name: [None] * len(rows) for name in schema.DOCUMENTS.names}
            columns |= {"document": list(range(len(rows))), "text": rows}
            found = measure(pa.RecordBatch.from_pydict(columns, schema.DOCUMENTS))
            assert found.text is not None and found.text.null_count == 0
            found.text.validate(full=True)


@fuzz(30)
@given(st.integers(0, 1 << 30), st.integers(0, 40))
def test_damaged_pages(seed: int, flips: int) -> None:
    """Bytes of a page that are others, in places of its tags as well."""
    rng = random.Random(seed)
    page = bytearray(ARTICLE.encode() * 2)
    for _ in range(flips):
        page[rng.randrange(len(page))] = rng.choice(b"<>/!-='\"& \0a\xc3\xff" + rng.randbytes(4))
    text = bytes(page).decode("utf-8", "replace")
    start = rng.randrange(len(text))
    found, _ = run(own(), [text, text[start:], text[:start]])
    assert found.text.null_count == 0


def test_metadata_rests_in_extra_beside_what_was_there() -> None:
    page = ARTICLE.replace("<body>", '<meta name=author content="Ann &amp; Co"><body>')
    found, _ = run(own(metadata=True), [page, "plain"], content_type=[None, "text/plain"])
    said = json.loads(found.columns["extra"][0].as_py())
    assert said == {"page_title": "A title", "page_author": "Ann & Co", "page_language": "en"}
    assert found.columns["extra"][1].as_py() is None
    found, _ = run(own(metadata=True), [page], extra=['{"parent":"7"}'])
    assert json.loads(found.columns["extra"][0].as_py())["parent"] == "7"


def test_links_need_markdown() -> None:
    with pytest.raises(ValueError, match="needs format"):
        own(links=True)
