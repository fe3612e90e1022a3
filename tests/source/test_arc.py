"""ARC files: their records, and every way in which they are broken."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import SourceError
from gristmill.source.rows import Fields
from tests.support.corpora import record
from tests.support.http_pages import BODY, HTML, http
from tests.support.shards import Reading, read

WIDE = Fields(pages=True)
URLS = [f"http://pages.example/{number}?a=b" for number in range(4)]


def arc(
    block: bytes, url: str, *, length: object = None, date: str = "20080509190241", version: int = 1
) -> bytes:
    """An ARC record as bytes."""
    size = len(block) if length is None else length
    middle = "text/html" if version == 1 else "text/html 200 GQ34ABCD - 300000000000 a.arc.gz"
    return f"{url} 127.0.0.1 {date} {middle} {size}\n".encode() + block + b"\n"


HEAD = arc(
    b"1 0 Tests\nURL IP-address Archive-date Content-type Archive-length\n",
    "filedesc://a.arc",
    date="20080101000000",
)
RECORDS = [arc(http(BODY), url) for url in URLS]
STARTS = [len(HEAD) + sum(map(len, RECORDS[:number])) for number in range(4)]


def pages(*records: bytes, most: int = 1 << 20) -> Reading:
    return read(b"".join(records), fields=Fields(max_document_bytes=most, pages=True))


def test_an_arc_file_gives_its_pages() -> None:
    for pack in (bytes, gzip.compress):
        told = pages(*map(pack, [HEAD, *RECORDS]))
        assert told.counts["kind"] == "warc"
        assert told.counts["records_skipped"] == {"filedesc": 1}
        assert [
            (row["url"], row["text"], row["date"], row["content_type"]) for row in told.rows
        ] == [(url, HTML, "2008-05-09T19:02:41Z", "text/html") for url in URLS]
        assert [row["document"] for row in told.rows] == [1, 2, 3, 4]


def test_robots_headers_are_kept() -> None:
    told = pages(HEAD, arc(http(BODY, "X-Robots-Tag: noai"), URLS[0]), RECORDS[1])
    assert [row["extra"] for row in told.rows] == ['{"x_robots_tag": ["noai"]}', None]


def test_without_pages_asked_for_they_are_no_text() -> None:
    told = read(HEAD + RECORDS[0])
    assert told.failed == [(1, "read.not_text", len(HEAD))]


def test_a_kind_that_is_given_is_read_as_what_it_is() -> None:
    for kind in ("warc", "wet"):
        assert read(HEAD + RECORDS[0], fields=WIDE, kind=kind).texts == [HTML]
        assert read(RECORDS[0] + RECORDS[1], fields=WIDE, kind=kind).texts == [HTML] * 2
        assert read(record(b"text", URLS[0]), fields=WIDE, kind=kind).texts == ["text"]


def test_the_second_version_has_more_fields() -> None:
    told = pages(HEAD, *(arc(http(BODY), url, version=2) for url in URLS))
    assert [(row["url"], row["text"]) for row in told.rows] == [(url, HTML) for url in URLS]


@pytest.mark.parametrize(
    "url",
    [
        "http://pages.example/a b c",
        "https://x/?q=1 2 3 4",
        "http://x/ - 12 34",
        "http://x/\u00e9",
        "dns:x.example",
    ],
)
def test_urls_hold_what_they_like(url: str) -> None:
    assert [row["url"] for row in pages(HEAD, arc(http(BODY), url), RECORDS[1]).rows] == [
        url,
        URLS[1],
    ]


def test_records_that_are_no_pages_get_their_verdicts() -> None:
    dns = arc(b"20080430204825\nx.example.\t589\tIN\tA\t1.2.3.4\n", "dns:x.example").replace(
        b"text/html", b"text/dns"
    )
    told = pages(
        HEAD,
        dns,
        arc(http(BODY, status="HTTP/1.1 404 No"), URLS[0]),
        arc(http(b""), URLS[1]),
        arc(b"words", URLS[2]).replace(b"text/html", b"no-type"),
    )
    assert [row["reason"] for row in told.rows] == [
        "read.not_html",
        "read.http_status",
        "read.no_text",
        "read.no_http",
    ]
    assert [row["value"] for row in told.rows][:2] == [len(HEAD), 404]


@pytest.mark.parametrize("ends", [b"", b"\r\n", b"\n\n\n", b"\r\n" * 20_000])
def test_blank_lines_between_records_do_not_matter(ends: bytes) -> None:
    told = pages(HEAD, *(made.removesuffix(b"\n") + ends for made in RECORDS))
    assert (told.texts, told.failed) == ([HTML] * 4, [])


@pytest.mark.parametrize(
    "length",
    [-1, "abc", "", "9" * 20, 1, 60, len(http(BODY)) + 1, len(http(BODY)) + 30, 10_000, 10**9],
)
def test_a_length_that_lies_costs_its_record_alone(length: object) -> None:
    for place in (0, 1, 2):
        records = list(RECORDS)
        records[place] = arc(http(BODY), URLS[place], length=length)
        told = pages(HEAD, *records, most=1 << 20)
        if length == len(http(BODY)) + 1:  # the line's end is counted in, as some writers do
            assert told.failed == []
            continue
        assert told.failed == [(place + 1, "read.wrong_length", STARTS[place])]
        assert [row["url"] for row in told.rows] == URLS
        assert told.texts == [HTML] * 3


def test_garbage_is_told_and_stepped_over() -> None:
    garbage = b"\xff\xfe no header at all 12345678 \n" * 50
    told = read(HEAD + garbage + b"\n" + b"".join(RECORDS), fields=WIDE)
    assert told.texts == [HTML] * 4
    # The version block is not trusted: behind it stands no record.
    assert [reason for _, reason, _ in told.failed] == ["read.wrong_length"]
    told = read(
        RECORDS[0] + b"http:x" * 10_000 + b"\n" + b"".join(RECORDS[1:]), fields=WIDE, kind="warc"
    )
    assert told.texts == [HTML] * 3


def test_a_file_cut_in_a_record_is_told_for_every_cut() -> None:
    data = HEAD + b"".join(RECORDS)
    for cut in range(STARTS[3] + 1, len(data) - 2):
        told = pages(data[:cut])
        assert told.texts == [HTML] * 3, cut
        assert told.failed == [(4, "read.truncated", cut)]


def test_a_member_that_is_damaged_costs_its_record_alone() -> None:
    packed = list(map(gzip.compress, [HEAD, *RECORDS]))
    packed[2] = packed[2][:40] + bytes([packed[2][40] ^ 255]) + packed[2][41:]
    told = pages(*packed)
    assert told.texts == [HTML] * 3
    assert [reason for _, reason, _ in told.failed] == ["read.corrupt"]


def test_a_record_over_the_limit_is_stepped_over() -> None:
    told = pages(
        HEAD, RECORDS[0], arc(http(b"<p>" + b"x" * 700_000), URLS[1]), RECORDS[2], most=1000
    )
    assert told.failed == [(2, "read.too_large", STARTS[1])]
    assert told.texts == [HTML] * 2


def test_lines_that_look_like_records_in_a_page_are_text() -> None:
    trap = HTML + "\nhttp://x/ 1.2.3.4 20080101000000 text/html 12\nmore\n"
    told = pages(HEAD, arc(http(trap.encode()), URLS[0]), RECORDS[1])
    assert told.texts == [trap, HTML]


def test_lines_without_end_cost_no_more_than_their_bytes() -> None:
    for line in (
        b"a: 2008010100 " * 200_000,
        b"\na:" * 900_000,
        b"\nhttp: 20080101000000 " * 120_000,
        b"\nx: - 20080101000000 a b" * 100_000,
    ):
        told = read(HEAD + line, fields=WIDE)
        assert told.counts["documents"] >= 1


@settings(max_examples=200, deadline=None)
@given(
    harms=st.lists(
        st.tuples(st.integers(0, 1 << 14), st.integers(0, 60), st.binary(max_size=12)),
        min_size=1,
        max_size=4,
    ),
    packed=st.booleans(),
)
def test_no_damage_raises_and_every_row_has_its_end(
    harms: list[tuple[int, int, bytes]], packed: bool
) -> None:
    records = [HEAD, *RECORDS]
    data = b"".join(map(gzip.compress, records)) if packed else b"".join(records)
    for place, cut, put in harms:
        place %= len(data) or 1
        data = data[:place] + put + data[place + cut :]
    plain, wide = read(data, kind="warc"), read(data, kind="warc", fields=WIDE)
    assert [row["document"] for row in plain.rows] == [row["document"] for row in wide.rows]
    assert plain.counts["records_skipped"] == wide.counts["records_skipped"]
    with suppress(SourceError):  # nothing is left that tells what it was
        read(data, fields=WIDE)
        read(data, fields=WIDE, limit=1)
