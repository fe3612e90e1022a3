"""Bad input of our own extraction: what is no HTML, and pages that are broken or hostile, as bytes,
in the step, and from a WARC record to the verdict.
"""

import json
import random
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from gristmill.filters.api.step import Measured
from gristmill.filters.extract import main_text
from gristmill.filters.extract.extract import Extract
from gristmill.source.rows import Fields
from gristmill.tables import schema
from tests.support.corpora import record
from tests.support.http_pages import http
from tests.support.real_data import RealData
from tests.support.shards import read

SENTENCE = (
    "Die Mühle stand am Fluß, und der Müller mahlte darin das Korn von drei Dörfern, Jahr für Jahr."
)
PAGE = f"<!doctype html><title>Die Mühle</title><article><h1>Die Mühle</h1>{f'<p>{SENTENCE}' * 5}"
NOISE = random.Random(1).randbytes(4000)
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Filter/FlateDecode>>\nstream\n" + NOISE
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" + NOISE
JSON = json.dumps({"title": "Die Mühle", "body": [SENTENCE] * 5}).encode()
PLAIN = "\n\n".join([SENTENCE] * 5).encode()
MOST = 600_000  # of a page's bytes, in the step


class Case(NamedTuple):
    """A record's body, what its headers say, and what becomes of it."""

    body: bytes
    declared: str
    reason: str | None  # of the verdict; None: kept, with the sentence in its text


HTML = "text/html"
CASES = {
    "a page": Case(PAGE.encode(), HTML, None),
    "PDF": Case(PDF, "application/pdf", "read.not_html"),
    "PDF that is called HTML": Case(PDF, HTML, "read.binary"),
    "JPEG": Case(JPEG, "image/jpeg", "read.not_html"),
    "JPEG that is called HTML": Case(JPEG, HTML, "read.binary"),
    "JSON": Case(JSON, "application/json", "read.not_html"),
    "JSON that is called HTML": Case(JSON.decode("unicode-escape").encode("latin-1"), HTML, None),
    "plain text": Case(PLAIN, "text/plain", "read.not_html"),
    "plain text that is called HTML": Case(PLAIN, HTML, None),
    "Latin-1 that is called UTF-8": Case(PAGE.encode("latin-1"), f"{HTML}; charset=utf-8", None),
    "Latin-1 that says nothing": Case(PAGE.encode("latin-1"), HTML, None),
    "UTF-8 that is called Latin-1": Case(PAGE.encode(), f"{HTML}; charset=latin1", None),
    "UTF-16 with a mark": Case(PAGE.encode("utf-16"), HTML, None),
    "UTF-16 as declared": Case(PAGE.encode("utf-16be"), f"{HTML}; charset=utf-16be", None),
    "UTF-16 that says nothing": Case(PAGE.encode("utf-16le"), HTML, "read.binary"),
    "over the step's limit": Case(f"{PAGE}<!--{'x' * MOST}-->".encode(), HTML, "extract.too_large"),
    "over the reader's limit": Case(f"{PAGE}{' ' * (2 << 20)}".encode(), HTML, "read.too_large"),
    "an attribute of 10 MB": Case(
        f"<p title='{'x' * 10_000_000}'>{PAGE}".encode(), HTML, "read.too_large"
    ),
    "scripts alone": Case(f"<script>let a = '{SENTENCE}'</script>".encode(), HTML, "extract.empty"),
    "styles and a template": Case(
        f"<style>p{{}}</style><template><p>{SENTENCE}</template>".encode(), HTML, "extract.empty"
    ),
    "comments alone": Case(f"<!-- {SENTENCE} --><!---->".encode(), HTML, "extract.empty"),
    "tags alone": Case(b"<html><body><div><p></p></div></body></html>", HTML, "extract.empty"),
    "a title alone": Case(b"<title>The mill</title>", HTML, "extract.empty"),
    "nothing": Case(b"", HTML, "read.no_text"),
    "white space": Case(b" \r\n\t", HTML, "read.no_text"),
    "tags within tags": Case(b"<div>" * 100_000 + PAGE.encode(), HTML, "extract.too_deep"),
    "NULs": Case(b"<p>\0\0" + PAGE.encode(), HTML, "read.binary"),
    "a late NUL": Case(PAGE.encode() + b" " * 2000 + b"<p>\0 late", HTML, None),
    "a tag that does not end": Case(PAGE.encode() + b"<p class='x", HTML, None),
    "a comment that does not end": Case(PAGE.encode() + b"<!-- " + PLAIN, HTML, None),
}


@cache
def extractor() -> main_text.Extractor:
    return main_text.Extractor(main_text.Modes())


def step(texts: list[str]) -> tuple[Measured, list[str | None]]:
    made = Extract(max_bytes=MOST)
    rows = {name: [None] * len(texts) for name in schema.DOCUMENTS.names}
    rows |= {"document": list(range(len(texts))), "text": texts}
    found = made.load({})(pa.RecordBatch.from_pydict(rows, schema.DOCUMENTS))
    reasons = made.decide(found.measures).reason.to_pylist()
    return found, [reason and f"extract.{reason}" for reason in reasons]


def warc(case: Case) -> bytes:
    block = http(case.body, f"Content-Type: {case.declared}")
    return record(block, "http://mill.example/", kind="response")


@pytest.mark.parametrize("name", CASES)
def test_a_record_has_the_verdict_that_is_documented(name: str) -> None:
    case = CASES[name]
    found = read(warc(case), fields=Fields(max_document_bytes=2 << 20, pages=True), kind="warc")
    (row,) = found.rows
    if row["reason"] is not None:
        assert row["reason"] == case.reason
        return
    measured, (reason,) = step([row["text"]])
    assert reason == case.reason
    assert measured.text is not None
    text = measured.text[0].as_py()
    if reason is None:
        assert text.replace("\0", "").replace("\ufffd", "").count(SENTENCE) >= 4, text
    elif reason == "extract.empty":
        assert text == ""


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_any_kind_give_text(name: str) -> None:
    """Of bytes as they are, whatever their charset: no error, and the same text once more."""
    data = np.frombuffer(CASES[name].body[:1_000_000], np.uint8)
    found = extractor()(data)
    found.text.encode()
    assert 0 <= found.kept <= found.blocks
    assert extractor()(data).text == found.text


def test_what_is_wrong_with_a_page_changes_no_other() -> None:
    texts = [case.body[:MOST].decode("utf-8", "replace") for case in CASES.values()]
    alone, _ = step([PAGE])
    assert alone.text is not None
    mixed, _ = step([each for text in texts for each in (text, PAGE)])
    assert mixed.text is not None and mixed.text.to_pylist()[1::2] == alone.text.to_pylist() * len(
        texts
    )


def test_every_cut_of_a_page_gives_text(data: RealData) -> None:
    """A page cut at every 1,000th byte, within characters as well."""
    path = data / "B_html/mozilla-readability/bbc-1/source.html"
    page = np.frombuffer(path.read_bytes(), np.uint8)
    for stop in range(0, len(page), 1000):
        found = extractor()(page[:stop])
        assert found.words_kept <= found.words and found.kept <= found.blocks
        found.text.encode()
