"""WET: what comes of records as they should be, and of every way in which they are not."""

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import SourceError
from gristmill.source.rows import Fields
from tests.support.corpora import record
from tests.support.shards import peak_memory, read

TEXTS = [f"The text of page {number}.\nIt has two lines." for number in range(5)]
URLS = [f"http://pages.example/{number}" for number in range(5)]
RECORDS = [
    record(text.encode(), url, number)
    for number, (text, url) in enumerate(zip(TEXTS, URLS, strict=True))
]
STARTS = [sum(map(len, RECORDS[:number])) for number in range(5)]


def whole(*records: bytes) -> bytes:
    return b"".join(records)


def headed(*lines: bytes, text: bytes = b"some text", end: bytes = b"\r\n") -> bytes:
    """A record with headers of one's own."""
    return end.join([b"WARC/1.0", *lines]) + end + end + text + end + end


def test_header_fields_become_columns() -> None:
    (row,) = read(RECORDS[3]).rows
    assert row == {
        "document": 3 - 3,
        "text": TEXTS[3],
        "url": URLS[3],
        "date": "2026-01-01T00:00:00Z",
        "record_id": "urn:uuid:00000000-0000-4000-8000-000000000003",
        "declared_language": "eng",
        "content_type": "text/plain",
        "title": None,
        "extra": None,
        "reason": None,
        "value": None,
    }


def test_each_record_of_any_type_takes_a_row_number_and_only_documents_get_a_verdict() -> None:
    told = read(
        whole(
            record(b"software: x\r\n", None, kind="warcinfo"),
            RECORDS[0],
            record(b"GET /", URLS[1], kind="request"),
            record(b"a: b", URLS[1], kind="metadata"),
            RECORDS[1],
            record(b"HTTP/1.1 200\r\n\r\n<p>", URLS[2], kind="response"),
            RECORDS[2],
        )
    )
    assert [row["document"] for row in told.rows] == [1, 4, 5, 6]
    assert told.texts == TEXTS[:3]
    assert [(number, reason) for number, reason, _ in told.failed] == [(5, "read.not_text")]
    assert told.rows[2]["url"] == URLS[2]
    assert told.counts["records_skipped"] == {"metadata": 1, "request": 1, "warcinfo": 1}
    assert told.counts["documents"] == 4


@pytest.mark.parametrize("kind", ["response", "resource", "revisit"])
def test_records_that_hold_no_text_get_a_verdict_with_their_offset(kind: str) -> None:
    told = read(whole(RECORDS[0], record(b"<p>page</p>", URLS[1], kind=kind), RECORDS[2]))
    assert told.failed == [(1, "read.not_text", STARTS[1])]


def test_a_response_over_the_limit_gets_a_verdict_as_one_under_it_does() -> None:
    told = read(
        whole(RECORDS[0], record(b"<p>" * 1000, URLS[1], kind="response"), RECORDS[2]),
        fields=Fields(max_document_bytes=1000),
    )
    assert told.failed == [(1, "read.not_text", STARTS[1])]


def test_header_names_have_no_case_and_are_folded_and_spaced_as_they_like() -> None:
    told = read(
        headed(
            b"warc-type:conversion",
            b"WARC-TARGET-URI  :   http://pages.example/a",
            b"\tb",
            b"WARC-Date: 2026",
            b"  -02",
            b"WARC-Target-URI: http://second.example/",
            b"no colon here",
            b"CONTENT-length:9",
        )
    )
    (row,) = told.rows
    assert (row["text"], row["url"], row["date"], row["record_id"]) == (
        "some text",
        "http://pages.example/a b",
        "2026 -02",
        None,
    )


def test_a_record_without_a_url_is_kept() -> None:
    for made in (
        record(b"some text", None),
        headed(b"WARC-Type: conversion", b"WARC-Target-URI:", b"Content-Length: 9"),
    ):
        (row,) = read(made).rows
        assert (row["text"], row["url"], row["reason"]) == ("some text", None, None)


def test_brackets_around_the_url_and_the_id_are_taken_off() -> None:
    (row,) = read(record(b"some text", "<http://pages.example/>", 4)).rows
    assert row["url"] == "http://pages.example/"
    assert row["record_id"] == "urn:uuid:00000000-0000-4000-8000-000000000004"


def test_lf_line_ends_are_read_as_crlf_ones_are() -> None:
    texts = [*TEXTS, "", "\n\n", "a\r\nb\n"]
    for packed in (False, True):
        records = [
            record(text.encode(), "http://pages.example/", number, end=b"\n")
            for number, text in enumerate(texts)
        ]
        told = read(whole(*(map(gzip.compress, records) if packed else records)))
        assert (told.texts, told.failed) == (texts, [])


def test_blank_lines_between_records_do_not_matter() -> None:
    told = read(whole(RECORDS[0], b"\r\n" * 50_000, RECORDS[1], b"\n\n", RECORDS[2], b"\r\n" * 9))
    assert (told.texts, told.failed) == (TEXTS[:3], [])


def test_texts_that_look_like_framing_are_texts() -> None:
    texts = [
        "WARC/1.0",
        "WARC/1.0\r\nWARC-Type: conversion\r\n\r\nx",
        "\r\n\r\n",
        "\r\nWARC/1.0\r\n",
        "a\nWARC/1.1\n\nb",
    ]
    told = read(whole(*(record(text.encode(), None) for text in texts)))
    assert (told.texts, told.failed) == (texts, [])


@pytest.mark.parametrize("off", [1, 3, 10, 30, 200, 100_000, 10**9, 10**14])
def test_a_length_that_is_too_long_costs_its_record_alone(off: int) -> None:
    lying = record(TEXTS[1].encode(), URLS[1], 1, length=len(TEXTS[1]) + 4 + off)
    told = read(whole(RECORDS[0], lying, *RECORDS[2:]))
    assert told.texts == [TEXTS[0], *TEXTS[2:]]
    assert told.failed == [(1, "read.wrong_length", STARTS[1])]
    assert told.rows[1]["url"] == URLS[1]


@pytest.mark.parametrize("short", [1, 5, 20])
def test_a_length_that_is_too_short_costs_its_record_alone(short: int) -> None:
    for place in (1, 4):  # in the middle and at the end
        records = list(RECORDS)
        records[place] = record(
            TEXTS[place].encode(), URLS[place], place, length=len(TEXTS[place]) - short
        )
        told = read(whole(*records))
        assert told.texts == [text for number, text in enumerate(TEXTS) if number != place]
        assert told.failed == [(place, "read.wrong_length", STARTS[place])]


@pytest.mark.parametrize(
    "length", [b"many", b"-5", b"", b"1e3", b"0x10", b"12 34", "١٢".encode(), b"9" * 40]
)
def test_a_length_that_is_no_number_costs_its_record_alone(length: bytes) -> None:
    lying = RECORDS[1].replace(
        f"Content-Length: {len(TEXTS[1])}".encode(), b"Content-Length: " + length
    )
    told = read(whole(RECORDS[0], lying, *RECORDS[2:]))
    assert told.texts == [TEXTS[0], *TEXTS[2:]]
    assert told.failed == [(1, "read.wrong_length", STARTS[1])]


def test_a_length_that_is_missing_costs_its_record_alone() -> None:
    lying = RECORDS[1].replace(f"\r\nContent-Length: {len(TEXTS[1])}".encode(), b"")
    told = read(whole(RECORDS[0], lying, *RECORDS[2:]))
    assert told.texts == [TEXTS[0], *TEXTS[2:]]
    assert told.failed == [(1, "read.wrong_length", STARTS[1])]


def test_a_header_without_length_and_body_does_not_swallow_the_next_record() -> None:
    told = read(
        whole(RECORDS[0], b"WARC/1.0\r\nWARC-Type: conversion\r\n\r\n", RECORDS[1], RECORDS[2])
    )
    assert told.failed == [(1, "read.wrong_length", STARTS[1])]
    assert told.texts == TEXTS[:3]


def test_a_header_block_without_end_does_not_lend_its_url_to_the_next_record() -> None:
    told = read(
        whole(
            RECORDS[0],
            b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://lost.example/\r\n",
            RECORDS[1],
            RECORDS[2],
        )
    )
    assert [row["url"] for row in told.rows if row["reason"] is None] == URLS[:3]
    assert told.failed == [(1, "read.no_record", STARTS[1])]


def test_a_header_block_over_a_mebibyte_is_no_record() -> None:
    told = read(
        whole(
            RECORDS[0],
            b"WARC/1.0\r\nWARC-Type: conversion\r\nX: " + b"x" * (3 << 20) + b"\r\n",
            *RECORDS[1:],
        )
    )
    assert told.texts == TEXTS
    assert told.failed == [(1, "read.no_record", STARTS[1])]


def test_garbage_behind_a_record_is_told_and_the_rest_is_read() -> None:
    garbage = bytes(range(128, 256)) * 20
    told = read(whole(RECORDS[0], garbage, b"\r\n", *RECORDS[1:]))
    # Whether the record's own length lies or something stands behind it cannot be known: it is not
    # trusted.
    assert told.failed == [(0, "read.wrong_length", 0)]
    assert told.texts == TEXTS[1:]
    told = read(whole(garbage, b"\r\n", *RECORDS), kind="wet")
    assert told.failed == [(0, "read.no_record", 0)]
    assert told.texts == TEXTS
    told = read(garbage, kind="wet")
    assert [reason for _, reason, _ in told.failed] == ["read.truncated"]


def test_a_file_cut_in_a_record_is_told_for_every_cut() -> None:
    data = whole(*RECORDS)
    for cut in range(STARTS[4] + 12, STARTS[4] + len(RECORDS[4]) - 4):
        told = read(data[:cut])
        assert told.texts == TEXTS[:4], cut
        assert told.failed == [(4, "read.truncated", cut)]
    told = read(data[:-4])  # the two line ends behind a block are not part of it
    assert (told.texts, told.failed) == (TEXTS, [])


def test_a_record_over_the_limit_is_not_read_and_the_next_one_is() -> None:
    for size, told in (
        (1000, []),
        (1001, [(1, "read.too_large", STARTS[1])]),
        (700_000, [(1, "read.too_large", STARTS[1])]),
    ):
        got = read(
            whole(RECORDS[0], record(b"x" * size, URLS[1]), *RECORDS[2:]),
            fields=Fields(max_document_bytes=1000),
        )
        assert got.failed == told
        assert [text for text in got.texts if text[0] == "T"] == [TEXTS[0], *TEXTS[2:]]
        assert got.rows[1]["url"] == URLS[1]


def test_a_record_of_hundreds_of_megabytes_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.wet"
    head, _, _ = record(b"", URLS[1], length=100 << 20).rpartition(b"\r\n\r\n")
    with open(path, "wb") as file:
        file.write(RECORDS[0] + head)
        file.seek(100 << 20, 1)  # a hole
        file.write(b"\r\n\r\n" + RECORDS[2])
    told, peak = peak_memory(path)
    assert told == [str(len(TEXTS[0])), "read.too_large", str(len(TEXTS[2]))]
    assert peak < 300


def test_ill_formed_utf8_becomes_one_replacement_for_each_maximal_ill_formed_part() -> None:
    texts = [
        b"\xff",
        b"a\xe2\x82b",
        b"\xe2\x82\xac\xf0\x9f\x98",
        b"\xc0\xaf\xed\xa0\x80",
        b"caf\xe9 latin-1",
        b"\xf4\x90\x80\x80",
        b"\xf0\x80\x80\x41",
    ]
    told = read(whole(*(record(text, None) for text in [*texts, b"clean"])))
    assert told.texts == [text.decode("utf-8", "replace") for text in texts] + ["clean"]


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(st.binary(max_size=60), min_size=1, max_size=5))
def test_any_bytes_come_out_as_python_decodes_them(texts: list[bytes]) -> None:
    told = read(whole(*(record(text, "http://pages.example/") for text in texts)))
    assert told.texts == [text.decode("utf-8", "replace") for text in texts]


def test_headers_of_any_bytes_do_no_harm() -> None:
    (row,) = read(
        headed(
            b"WARC-Type: conversion",
            b"WARC-Target-URI: http://x/\xff\xfe",
            b"WARC-Date: \xe9",
            b"Content-Length: 9",
            b"\xff: \xff",
        )
    ).rows
    assert (row["url"], row["date"]) == ("http://x/\ufffd\ufffd", "\ufffd")
    told = read(headed(b"WARC-Type: \xff\xfe" + b"t" * 100, b"Content-Length: 9"))
    assert list(told.counts["records_skipped"].values()) == [1]
    assert read(headed(b"Content-Length: 9")).counts["records_skipped"] == {"no type": 1}


def test_a_limit_counts_documents_and_no_more_is_read() -> None:
    told = read(whole(record(b"x", None, kind="warcinfo"), *RECORDS), limit=2)
    assert told.texts == TEXTS[:2]


def test_damage_behind_the_limit_is_no_row() -> None:
    packed = list(map(gzip.compress, RECORDS))
    packed[1] = packed[1][:60] + bytes([packed[1][60] ^ 1]) + packed[1][61:]
    assert read(whole(*packed), limit=1).counts["documents"] == 1


def damaged(data: bytes, harms: list[tuple[int, int, bytes]]) -> bytes:
    for place, cut, put in harms:
        place %= len(data) or 1
        data = data[:place] + put + data[place + cut :]
    return data


@settings(max_examples=300, deadline=None)
@given(
    harms=st.lists(
        st.tuples(st.integers(0, 1 << 14), st.integers(0, 80), st.binary(max_size=20)),
        min_size=1,
        max_size=3,
    )
)
def test_no_damage_crashes_and_records_far_from_it_are_read(
    harms: list[tuple[int, int, bytes]],
) -> None:
    data = whole(*RECORDS)
    told = read(damaged(data, harms), kind="wet")
    if all(cut == 0 and not put for _, cut, put in harms):
        assert told.texts == TEXTS
    for limit in (None, 1):
        try:
            read(damaged(data, harms), limit=limit)
        except SourceError as error:
            # Its first bytes became those of another packing, or of no text: refused in a sentence.
            assert re.search("nothing in it can be read|not text", str(error))
            assert min(place for place, _, _ in harms) < 8


def test_a_shard_that_begins_like_another_packing_is_refused() -> None:
    data = whole(*RECORDS)
    with pytest.raises(SourceError, match="nothing in it can be read: corrupt at byte 0"):
        read(b'\x04"M\x18' + data)


@pytest.mark.parametrize("put", [b"\0", b"\xff" * 30])
def test_bytes_put_anywhere_cost_the_record_there_and_at_most_the_one_before(put: bytes) -> None:
    data = whole(*RECORDS)
    for place in range(STARTS[2], STARTS[3]):
        told = read(data[:place] + put + data[place:])
        kept = [TEXTS[number] for number in (0, 3, 4)]
        assert [text for text in told.texts if text in kept] == kept, place


def test_why_a_crawler_cut_a_record_off_is_kept_and_may_be_a_reason() -> None:
    cut = RECORDS[1].replace(b"WARC-Date", b"WARC-Truncated: length\r\nWARC-Date")
    for data in (whole(RECORDS[0], cut, RECORDS[2]), gzip.compress(whole(RECORDS[0], cut))):
        told = read(data)
        assert told.texts[:2] == TEXTS[:2]
        assert [row["extra"] for row in told.rows[:2]] == [None, '{"warc_truncated": "length"}']
        told = read(data, fields=Fields(keep_truncated=False))
        assert told.failed == [(1, "read.cut_by_crawler", STARTS[1])]
