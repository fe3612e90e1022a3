"""Web pages of WARC files: every way in which a record gives its page, and every way in which it
does not.
"""

import gzip
import json
import random
import zlib
from contextlib import suppress

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import SourceError
from gristmill.source.rows import Fields
from gristmill.store.codecs import zstd
from tests.support.corpora import record
from tests.support.http_pages import BODY, HTML, http
from tests.support.shards import Reading, read

URL = "http://pages.example/a"
WIDE = Fields(pages=True)


def page(
    block: bytes,
    *,
    kind: str = "response",
    media: str = "application/http; msgtype=response",
    end: bytes = b"\r\n",
) -> bytes:
    """A record with a page; without a language."""
    made = record(block, URL, kind=kind, end=end).replace(
        b"WARC-Identified-Content-Language: eng" + end, b"", 1
    )
    return made.replace(b"Content-Type: text/plain", b"Content-Type: " + media.encode(), 1)


def pages(*records: bytes, most: int = 1 << 20) -> Reading:
    """Read records, pages asked for."""
    return read(b"".join(records), fields=Fields(max_document_bytes=most, pages=True), kind="warc")


def only(block: bytes, most: int = 1 << 20) -> str:
    """The text of a block's page, or its reason."""
    (row,) = pages(page(block), most=most).rows
    return row["reason"] or row["text"]


def chunks(body: bytes, size: int = 7, last: bytes = b"0\r\n\r\n") -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + last


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def test_a_page_is_a_document_with_its_source_as_text() -> None:
    told = read(
        page(http(BODY, "Content-Type: text/html; charset=utf-8", "Content-Language: de")),
        fields=WIDE,
    )
    (row,) = told.rows
    assert row == {
        "document": 0,
        "text": HTML,
        "url": URL,
        "date": "2026-01-01T00:00:00Z",
        "record_id": "urn:uuid:00000000-0000-4000-8000-000000000000",
        "declared_language": "de",
        "content_type": "text/html",
        "title": None,
        "extra": None,
        "reason": None,
        "value": None,
    }
    assert told.counts["kind"] == "warc"


def test_pages_that_are_decoded_against_their_label_are_counted() -> None:
    russian = "<html><p>" + "Мельница стоит у реки, и вода вертит колесо. " * 2
    header = "Content-Type: text/html; charset=iso-8859-1"
    right = "Content-Type: text/html; charset=windows-1251"
    told = pages(
        page(http(russian.encode("cp1251"), header)),
        page(http(russian.encode(), header)),
        page(http(russian.encode("cp1251"), right)),
    )
    assert [row["text"] for row in told.rows] == [russian] * 3
    assert told.counts["decoding"] == {"against_label": 2}


def test_without_pages_asked_for_a_page_is_no_text() -> None:
    for kind in ("response", "resource", "revisit"):
        for fields in (None, Fields(), Fields(max_document_bytes=10)):
            told = read(page(http(BODY), kind=kind), fields=fields)
            assert told.failed == [(0, "read.not_text", 0)]


def test_the_records_own_language_comes_before_the_servers() -> None:
    told = pages(record(http(BODY, "Content-Language: de"), URL, kind="response"))
    assert told.rows[0]["declared_language"] == "eng"


def test_each_type_of_record_has_its_end() -> None:
    told = pages(
        page(b"software: x", kind="warcinfo"),
        page(http(BODY), kind="request"),
        page(b"a: b", kind="metadata"),
        page(http(BODY), kind="revisit"),
        page(BODY, kind="resource", media="application/xhtml+xml; charset=utf-8"),
        page(BODY, kind="resource", media="image/png"),
        record(b"text", URL),
        page(BODY, kind="continuation"),
        page(http(BODY)),
    )
    assert [(row["document"], row["reason"], row["content_type"]) for row in told.rows] == [
        (3, "read.revisit", None),
        (4, None, "application/xhtml+xml"),
        (5, "read.not_html", None),
        (6, None, "text/plain"),
        (8, None, "text/html"),
    ]
    assert told.counts["records_skipped"] == {
        "continuation": 1,
        "metadata": 1,
        "request": 1,
        "warcinfo": 1,
    }


@pytest.mark.parametrize(
    "status", ["404 Not Found", "301 Moved", "204", "503", "206 Partial Content"]
)
def test_a_status_other_than_200_is_the_value_of_the_verdict(status: str) -> None:
    told = pages(page(http(BODY)), page(http(BODY, status=f"HTTP/1.1 {status}")))
    assert told.failed == [(1, "read.http_status", float(status[:3]))]


def test_an_interim_response_is_stepped_over() -> None:
    assert (
        only(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + http(BODY)
        )
        == HTML
    )
    assert only(b"HTTP/1.1 100 Continue\r\n\r\n") == "read.http_status"


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("text/html", None),
        ("TEXT/HTML ; Charset=UTF-8", None),
        ("application/xhtml+xml", None),
        ("text/html,text/html", None),
        ("html", None),
        ("", None),
        (";;;", None),
        ("text/plain", "not_html"),
        ("application/pdf", "not_html"),
        ("text/xml", "not_html"),
        ("application/json; text/html", "not_html"),
    ],
)
def test_the_content_type_decides(declared: str, reason: str | None) -> None:
    assert only(http(BODY, f"Content-Type: {declared}")) == (f"read.{reason}" if reason else HTML)


@pytest.mark.parametrize(
    ("body", "is_page"),
    [
        (b"  \n<html>x", True),
        (b"\xef\xbb\xbf<!doctype HTML>x", True),
        (b"<!-- c --><p>x", True),
        (b"<BODY\nclass=a>x", True),
        (b'<?xml version="1.0"?>\n<!DOCTYPE html><html xmlns="x">y', True),
        ("<html>é".encode("utf-16"), True),
        (b"plain words", False),
        (b"<rss><item>x", False),
        (b'<?xml version="1.0"?><feed>', False),
        (b"%PDF-1.4", False),
        (b"<htmlx>", False),
        (b"{}", False),
    ],
)
def test_without_a_content_type_the_first_bytes_decide(body: bytes, is_page: bool) -> None:
    block = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n" + body
    assert (only(block) != "read.not_html") == is_page
    # And so they do where there are no headers at all.
    assert only(body) in ("read.no_http", "read.not_html") or is_page


def test_headers_come_as_they_like() -> None:
    for end in (b"\r\n", b"\n"):
        assert (
            only(
                http(
                    BODY, "X: y", "no colon", "CONTENT-TYPE :text/html", " ; charset=utf-8", end=end
                )
            )
            == HTML
        )
    assert only(b"HTTP/1.0 200\nContent-type:text/html\n\n" + BODY) == HTML
    assert only(b"HTTP/2 200\r\n\r\n" + BODY) == HTML
    assert only(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX: y") == "read.no_text"


def test_a_block_without_headers() -> None:
    assert only(BODY) == HTML
    assert only(b"some words") == "read.no_http"
    assert only(b"HTTP/1.1 OK\r\n\r\n" + BODY) == "read.no_http"
    assert only(b"") == only(b" \r\n") == "read.no_text"
    for media, reason in (
        ("text/html", None),
        ("text/dns", "read.not_html"),
        ("image/gif", "read.not_html"),
    ):
        (row,) = pages(page(BODY, media=media)).rows
        assert row["reason"] == reason


@pytest.mark.parametrize("body", [b"", b" \r\n\t", b"\xef\xbb\xbf"])
def test_an_empty_body_is_no_text(body: bytes) -> None:
    assert only(http(body)) == "read.no_text"
    assert only(http(gzip.compress(body), "Content-Encoding: gzip")) == "read.no_text"


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        ("GZIP", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", raw_deflate(BODY)),
        ("deflate", gzip.compress(BODY)),
        ("br", brotli.compress(BODY)),
        ("zstd", zstd.compress(BODY)),
        ("gzip, br", brotli.compress(gzip.compress(BODY))),
        ("gzip", gzip.compress(gzip.compress(BODY))),
        ("gzip, gzip", gzip.compress(BODY)),
        (None, gzip.compress(BODY)),
        ("gzip", gzip.compress(BODY[:40]) + gzip.compress(BODY[40:])),
        ("gzip", gzip.compress(BODY) + b"junk behind"),
        ("gzip", BODY),
        ("br", BODY),
        ("zstd", BODY),
        ("deflate", BODY),
        ("utf-8", BODY),
        ("sdch, none", BODY),
        ("zstd", zstd.compress(BODY[:9]) + zstd.compress(BODY[9:])),
    ],
)
def test_codings_are_taken_off_as_they_are_found(coding: str | None, packed: bytes) -> None:
    headers = [f"Content-Encoding: {coding}"] if coding else []
    assert only(http(packed, *headers)) == HTML
    assert only(http(chunks(packed), *headers, "Transfer-Encoding: chunked")) == HTML
    # Kept headers under other names say nothing.
    assert (
        only(http(BODY, "X-Crawl-Content-Encoding: br", "X-Crawl-Transfer-Encoding: chunked"))
        == HTML
    )


def test_a_transfer_coding_may_be_gzip_too() -> None:
    assert only(http(chunks(gzip.compress(BODY)), "Transfer-Encoding: gzip, chunked")) == HTML


def test_a_coding_that_does_not_decode_is_told() -> None:
    noise = random.Random(4).randbytes(3000)
    packed = gzip.compress(BODY * 20)
    broken = packed[:60] + bytes([packed[60] ^ 255]) + packed[61:]
    for coding, body in (
        ("gzip", broken),
        ("gzip", packed[:5]),
        ("gzip", packed[:-8] + b"12345678"),
        ("deflate", b"\x78\x9c" + noise),
        ("br", noise),
        ("zstd", b"\x28\xb5\x2f\xfd" + noise),
        ("compress", b"\x1f\x9d\x90" + noise),
        ("unheard-of", noise),
    ):
        assert only(http(body, f"Content-Encoding: {coding}")) in (
            "read.bad_encoding",
            "read.binary",
        ), coding
    assert only(http(noise, "Content-Encoding: unheard-of")) == "read.bad_encoding"
    assert only(http(broken, "Content-Encoding: gzip")) == "read.bad_encoding"


def test_codings_lie_at_most_four_deep() -> None:
    body, told = BODY, []
    for _ in range(6):
        body = gzip.compress(body)
        told.append(only(http(body, "Content-Encoding: gzip")))
    assert told == [HTML] * 4 + ["read.bad_encoding"] * 2


def test_a_body_cut_off_gives_what_is_there() -> None:
    text = "<html>" + "".join(
        random.Random(1).choices("abcdefgh ", k=500_000)
    )  # zstd gives whole blocks of 128 KiB
    for coding, packed in (
        ("gzip", gzip.compress(text.encode())),
        ("br", brotli.compress(text.encode())),
        ("zstd", zstd.compress(text.encode())),
    ):
        got = only(http(packed[: len(packed) * 2 // 3], f"Content-Encoding: {coding}"))
        assert text.startswith(got), coding
        assert len(got) > 200_000, coding
    assert (
        only(http(chunks(text.encode(), 1000)[:3500], "Transfer-Encoding: chunked"))
        == text[: 3500 - 3 * 7 - 5]
    )
    assert only(http(zstd.compress(BODY)[:-5], "Content-Encoding: zstd")) == "read.bad_encoding"


@pytest.mark.parametrize(
    "body",
    [BODY, b"abc\n<p>x", b"12\r\n<p>no chunk of eighteen bytes", b"fff\n" + BODY, b"g\r\n<p>"],
)
def test_chunking_that_is_declared_and_not_there(body: bytes) -> None:
    assert only(http(body, "Transfer-Encoding: chunked")) == body.decode()


def test_chunks_of_every_kind() -> None:
    declared = "Transfer-Encoding: Chunked"
    for size in (1, 2, 9, 10**6):
        assert only(http(chunks(BODY, size), declared)) == HTML
        assert only(http(chunks(BODY, size, last=b""), declared)) == HTML
    assert only(http(b"3;a=b\r\n<p>\r\n 2\r\n", declared)) == "<p> 2\r\n"
    for space in (b"\r\n", b"\n", b" ", b"\r\n \t\r\n"):
        assert only(http(space + chunks(BODY, 9), declared)) == HTML
        assert only(http(space + BODY, declared)) == space.decode() + HTML
    assert only(http(b"0003  \r\n<p>\r\n1\n!\n0\r\nTrailer: x\r\n\r\n", declared)) == "<p>!"
    assert only(http(b"0\r\n\r\n", declared)) == "read.no_text"
    assert (
        only(http(b"3\r\n<p>\r\nwhat follows is no chunk", declared))
        == "<p>what follows is no chunk"
    )


def test_a_bomb_meets_the_limit() -> None:
    most = 100_000
    for body, reason in (
        (b"<p>" + b"a" * (most - 3), None),
        (b"<p>" + b"a" * (most - 2), "read.bomb"),
        (b"<p>" + bytes(10_000_000), "read.bomb"),
    ):
        for coding, pack in (
            ("gzip", gzip.compress),
            ("deflate", zlib.compress),
            ("deflate", raw_deflate),
            ("br", brotli.compress),
            ("zstd", zstd.compress),
        ):
            got = only(http(pack(body), f"Content-Encoding: {coding}"), most)
            assert got == (reason or body.decode()), coding
    assert (
        only(http(gzip.compress(gzip.compress(bytes(10_000_000))), "Content-Encoding: gzip"), most)
        == "read.bomb"
    )
    members = gzip.compress(b"") * 5000
    assert only(http(members, "Content-Encoding: gzip"), 1 << 20) == "read.bad_encoding"


def test_a_page_over_the_limit_is_too_large() -> None:
    told = read(b"".join([page(http(b"<p>" + b"x" * (17 << 20))), page(http(BODY))]), fields=WIDE)
    assert [row["reason"] for row in told.rows] == ["read.too_large", None]
    assert (
        only(
            http(b"<p>" + "é".encode("latin-1") * 900, "Content-Type: text/html; charset=latin1"),
            1000,
        )
        == "read.too_large"
    )
    assert pages(page(http(b"x" * 2000), kind="revisit"), most=1000).failed == [
        (0, "read.revisit", 0)
    ]


def test_bytes_that_are_no_text_are_told() -> None:
    noise = random.Random(2).randbytes(5000)
    for body in (
        b"\x89PNG\r\n\x1a\n" + noise,
        b"%PDF-1.4\n" + noise,
        b"<html>\0</html>",
        BODY + b"x" * 2000 + bytes(20),
        bytes(range(1, 32)) * 9,
    ):
        assert only(http(body)) == "read.binary"
    stray = BODY + b"x" * 5000 + b"\0" + b"x" * 5000
    assert only(http(stray)) == stray.decode()


def test_utf_16_and_32_are_text() -> None:
    for codec in ("utf-16", "utf-32"):
        assert only(http(HTML.encode(codec))) == HTML
    for codec in ("utf-16le", "utf-16be", "utf-32le", "utf-32be"):
        assert only(http(HTML.encode(codec), f"Content-Type: text/html; charset={codec}")) == HTML
        assert only(http(HTML.encode(codec))) == "read.binary"
    assert only(http(BODY, "Content-Type: text/html; charset=utf-16")) == HTML


def test_offsets_are_those_of_the_records() -> None:
    bad = page(http(b""))
    told = pages(page(http(BODY)), bad, page(http(BODY)), bad)
    first = len(page(http(BODY)))
    assert told.failed == [(1, "read.no_text", first), (3, "read.no_text", 2 * first + len(bad))]
    assert all(row["url"] == URL for row in told.rows)


def test_what_a_shard_is_called_is_told_by_its_first_records() -> None:
    info, request = page(b"a: b", kind="warcinfo"), page(b"GET /", kind="request")
    for records, kind in (
        ([info, request, page(http(BODY))], "warc"),
        ([info, record(b"text", URL)], "wet"),
        ([page(b"x", kind="revisit")], "warc"),
        ([info], "wet"),
        ([info, page(b"x" * 70_000, kind="metadata"), page(http(BODY))], "wet"),
        ([record(b"text", URL), page(http(BODY))], "wet"),
    ):
        for pack in (bytes, gzip.compress):
            told = read(b"".join(map(pack, records)), fields=WIDE)
            assert told.counts["kind"] == kind
    # The name changes nothing of what is read.
    data = page(http(BODY)) + record(b"text", URL)
    assert read(data, fields=WIDE, kind="wet").rows == read(data, fields=WIDE, kind="warc").rows


def test_any_version_of_one_digit_is_a_record() -> None:
    for version in (b"WARC/0.18", b"WARC/1.1", b"WARC/2.0"):
        assert read(page(http(BODY)).replace(b"WARC/1.0", version), fields=WIDE).texts == [HTML]


def test_a_header_folded_without_end_costs_no_more_than_its_bytes() -> None:
    folded = b"X: y\r\n" + b" \r\n" * 300_000
    assert (
        only(b"HTTP/1.1 200 OK\r\n" + folded + b"Content-Type: text/html\r\n\r\n" + BODY, 4 << 20)
        == HTML
    )


SMALL = b"".join(
    [
        page(http(gzip.compress(BODY), "Content-Encoding: gzip")),
        page(http(chunks(BODY), "Transfer-Encoding: chunked")),
        page(http(BODY, status="HTTP/1.1 404 x")),
        page(http("<meta charset=gbk>磨坊".encode("gbk"))),
        page(BODY),
    ]
)


@settings(max_examples=200, deadline=None)
@given(
    harms=st.lists(
        st.tuples(st.integers(0, 1 << 14), st.integers(0, 60), st.binary(max_size=12)),
        min_size=1,
        max_size=4,
    )
)
def test_no_damage_raises_and_every_row_has_its_end(harms: list[tuple[int, int, bytes]]) -> None:
    data = SMALL
    for place, cut, put in harms:
        place %= len(data) or 1
        data = data[:place] + put + data[place + cut :]
    plain, wide = read(data, kind="warc"), read(data, kind="warc", fields=WIDE)
    assert [row["document"] for row in plain.rows] == [row["document"] for row in wide.rows]
    assert plain.counts["records_skipped"] == wide.counts["records_skipped"]
    with suppress(SourceError):  # nothing is left that tells what it was
        read(data, fields=WIDE)


@settings(max_examples=300, deadline=None)
@given(
    body=st.binary(max_size=200),
    coding=st.sampled_from(["gzip", "deflate", "br", "zstd", "x", ""]),
    start=st.sampled_from(
        [b"", b"\x1f\x8b\x08", b"\x78\x9c", b"\x28\xb5\x2f\xfd", b"<p>", b"\xff\xfe"]
    ),
    label=st.sampled_from(
        [
            "utf-8",
            "gb2312",
            "euc-jp",
            "utf-16",
            "iso-2022-jp",
            "idna",
            "unicode_escape",
            "rot13",
            "x",
        ]
    ),
)
def test_any_body_under_any_header_has_its_end(
    body: bytes, coding: str, start: bytes, label: str
) -> None:
    block = http(
        start + body,
        f"Content-Type: text/html; charset={label}",
        f"Content-Encoding: {coding}",
        "Transfer-Encoding: chunked",
    )
    assert only(block) == only(block)


def robots(*headers: str) -> list[str] | None:
    """What `extra` has of X-Robots-Tag."""
    (row,) = pages(page(http(BODY, *headers))).rows
    assert row["text"] == HTML
    return json.loads(row["extra"])["x_robots_tag"] if row["extra"] is not None else None


def test_the_header_x_robots_tag_is_kept() -> None:
    assert robots() is None
    assert robots("X-Robots-Tag:", "x-robots-tag:  ") is None
    assert robots("x-robots-TAG: noindex, nofollow") == ["noindex, nofollow"]
    assert robots("X-Robots-Tag: a: noai", "X-Robots-Tag:noindex") == ["a: noai", "noindex"]
    assert robots("X-Robots-Tag: a: noai,\r\n noindex") == ["a: noai, noindex"]
    assert robots("X-Robots-Tag: no\x00ai\x1b[0m\r\xff") == ["no ai [0m \ufffd"]
    assert robots("X-Robots-Tag: " + "noai, " * 100_000) == [("noai, " * 400)[:2000].strip()]
    assert robots(*["X-Robots-Tag: noai"] * 10_000) == ["noai"] * 400
