"""Robots directives and licences of pages, and of fields that documents came with."""

import pyarrow as pa
import pytest

from gristmill import filters, schema
from gristmill.errors import ArgumentError
from gristmill.filters.extract.rights import Rights

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
