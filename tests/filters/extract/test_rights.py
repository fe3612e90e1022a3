"""Robots directives and licences of pages, and of fields that documents came with."""

import json

import pyarrow as pa
import pytest

from gristmill import filters
from gristmill.errors import ArgumentError
from gristmill.filters.extract.rights import Rights
from gristmill.source.rows import Fields
from gristmill.tables import schema
from tests.support.corpora import record
from tests.support.http_pages import http
from tests.support.shards import read

CC = "https://creativecommons.org/licenses/by/4.0/"
PAGES = {
    "<html><head><META NAME=robots content='NoIndex, noai'></head><p>x": ("noai,noindex", None),
    '<meta content="noimageai nofollow" name="robots"><meta name="robots" content="noai">': (
        "noai,nofollow,noimageai",
        None,
    ),
    '<meta name="googlebot" content="noindex">': (None, None),
    f'<p>text</p><a class="x" rel="nofollow license" href="{CC}?a=1&amp;b=2">CC</a>': (
        None,
        f"{CC}?a=1&b=2",
    ),
    '<meta name="DC.rights" content="All\n  rights reserved"><link rel=license href=/x>': (
        None,
        "All rights reserved",
    ),
    "<p>a page on robots and licences</p>": (None, None),
    '<meta name="robots"': (None, None),
    '<meta name="robots" content="">': (None, None),
    "": (None, None),
}


def measure(step: Rights, texts: list[str]) -> dict[str, list]:
    rows = [{"document": row, "text": text} for row, text in enumerate(texts)]
    found = step.load({})(pa.RecordBatch.from_pylist(rows, schema.DOCUMENTS)).measures
    return {name: column.to_pylist() for name, column in found.items()}


def test_what_pages_say() -> None:
    found = measure(Rights(), list(PAGES))
    assert [*zip(found["robots"], found["licence"], strict=True)] == list(PAGES.values())
    found = measure(Rights(agents=("GoogleBot",)), list(PAGES))
    assert found["robots"][2] == "noindex"


def test_fields_come_first_and_plain_text_is_no_page() -> None:
    page = f'<a rel="license" href="{CC}">'
    rows = [
        {"document": 0, "text": page, "extra": '{"license": "MIT"}'},
        {"document": 1, "text": page, "extra": '{"license": "", "licence": " CC0 "}'},
        {"document": 2, "text": page, "extra": '{"license": 5, "note": "x"}'},
        {"document": 3, "text": page, "content_type": "text/plain"},
        {"document": 4, "text": page, "content_type": "application/xhtml+xml"},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema.DOCUMENTS)
    found = Rights().load({})(batch).measures
    assert found["licence"].to_pylist() == ["MIT", "CC0", CC, None, CC]


def test_pages_are_dropped_for_what_they_say() -> None:
    noai, _, _, licensed, _, plain, *_ = PAGES
    step = filters.Rights(drop=["NOAI"])
    assert filters.mask([noai, licensed, plain], step).tolist() == [False, True, True]
    assert step(noai).reason == "rights.robots"
    assert filters.Rights(drop=["no"])(noai).kept
    step = filters.Rights(keep=["CreativeCommons.org", "MIT"])
    assert filters.mask([noai, licensed, plain], step).tolist() == [False, True, False]
    assert step(plain).reason == "rights.licence"
    with pytest.raises(ArgumentError, match="drop: an entry is empty"):
        filters.Rights(drop=[" "])


def test_a_hostile_page_takes_linear_time() -> None:
    page = "<meta robots " * 200_000 + '<meta name="robots" content="noai">' + "<a rel=license " * 9
    assert measure(Rights(), [page])["robots"] in (["noai"], [None])


HEADERS = {
    "NoIndex, noai": "noai,noindex",
    "googlebot: noindex": None,
    "GoogleBot : noindex, nofollow": None,
    "noai, googlebot: noindex": "noai",
    "googlebot: noindex, robots: noai": "noai",
    "other: noindex, *: nofollow noai": "noai,nofollow",
    "unavailable_after: 25 Jun 2010 15:00:00 PST, noai": (
        "noai,unavailable_after:25 jun 2010 15:00:00 pst"
    ),
    "max-snippet: 20, noimageai": "max-snippet:20,noimageai",
    ": noai": ":,noai",
    " , ,:": ":",
    "": None,
}


def of_fields(step: Rights, fields: list[object], text: str = "<p>x") -> list[str | None]:
    """The directives of documents with this field `x_robots_tag`."""
    rows = [
        {"document": row, "text": text, "extra": json.dumps({"a": 1, "x_robots_tag": field})}
        for row, field in enumerate(fields)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema.DOCUMENTS)
    return list(step.load({})(batch).measures["robots"].to_pylist())


def test_directives_of_headers() -> None:
    assert of_fields(Rights(), list(HEADERS)) == list(HEADERS.values())
    assert of_fields(Rights(), [[header] for header in HEADERS]) == list(HEADERS.values())
    named = of_fields(Rights(agents=("GOOGLEBOT",)), list(HEADERS))
    assert named[1:4] == ["noindex", "nofollow,noindex", "noai,noindex"]
    # An agent ends with its header; directives of the page are joined.
    several = [["googlebot: noindex", "noai"], [], None, 5, {"a": "noai"}, [None, ["x"], "noai"]]
    assert of_fields(Rights(), several) == ["noai", None, None, None, None, "noai"]
    page = '<meta name="robots" content="nofollow">'
    assert of_fields(Rights(), ["noai"], page) == ["noai,nofollow"]
    hostile = ["noai," * 10**6, ["x: y"] * 10**5, ["", ":" * 10**6, "noai"]]
    assert [len(one or "") <= 300 for one in of_fields(Rights(), hostile)] == [True] * 3


def test_a_page_is_dropped_for_its_header() -> None:
    """From the bytes of a WARC file to the verdict."""
    responses = [
        http(b"<p>one</p>", "x-ROBOTS-tag: googlebot: noarchive", "X-Robots-Tag: NOAI"),
        http(b"<p>two</p>", "X-Robots-Tag: googlebot: noai, noindex"),
        http(b"<p>three</p>"),
    ]
    records = b"".join(
        record(one, f"http://a.example/{one[-6]}", 0, kind="response") for one in responses
    )
    rows = read(records, fields=Fields(pages=True), kind="warc").rows
    assert [row["extra"] for row in rows] == [
        '{"x_robots_tag": ["googlebot: noarchive", "NOAI"]}',
        '{"x_robots_tag": ["googlebot: noai, noindex"]}',
        None,
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema.RAW).select(schema.DOCUMENTS.names)
    for agents, expected in (
        ((), ["robots", None, None]),
        (("googlebot",), ["robots"] * 2 + [None]),
    ):
        step = Rights(drop=("noai",), agents=agents)
        assert step.decide(step.load({})(batch).measures).reason.to_pylist() == expected
