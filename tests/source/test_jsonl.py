"""JSONL and plain text: a row for every line, whatever stands in it."""

import gzip
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import SourceError
from gristmill.source.rows import Fields
from tests.support.shards import peak_memory, read

A, B = b'{"text":"first"}\n', b'{"text":"last"}\n'


def between(line: bytes) -> Any:
    """What comes of a line between two good ones, which must come out whatever it is."""
    told = read(A + line + b"\n" + B)
    assert (told.texts[0], told.texts[-1]) == ("first", "last")
    assert [told.rows[0]["document"], told.rows[-1]["document"]] == [0, 2]
    return told.rows[1] if len(told.rows) == 3 else told.counts["records_skipped"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"not json", "not_json"),
        (b'{"text": "cut off', "not_json"),
        (b'{"text": "a"} {"text": "b"}', "not_json"),
        (b"{'text': 'single quotes'}", "not_json"),
        (b'{"text": "a",}', "not_json"),
        (b"\x00\x01\xff\xfe", "not_json"),
        (b'["text"]', "not_json"),
        (b'"text"', "not_json"),
        (b"17", "not_json"),
        (b"null", "not_json"),
        (b"[" * 100_000, "too_deep"),
        (b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}", "too_deep"),
        (b'{"text": ' + b"9" * 5000 + b"}", "not_json"),
        (b"{}", "no_text"),
        (b'{"Text": "wrong case"}', "no_text"),
        (b'{"text": null}', "no_text"),
        (b'{"text": 17}', "no_text"),
        (b'{"text": ["a"]}', "no_text"),
        (b'{"text": {"text": "a"}}', "no_text"),
    ],
)
def test_a_line_that_is_no_document_is_told_with_its_offset(line: bytes, reason: str) -> None:
    row = between(line)
    assert (row["reason"], row["value"], row["document"]) == (f"read.{reason}", len(A), 1)


@pytest.mark.parametrize(
    "line", [b'{"text": "a", "deep": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", b'{"a":' * 50_000]
)
def test_a_line_that_is_nested_too_deep_is_told(line: bytes) -> None:
    assert between(line)["reason"] in ("read.too_deep", None)


def test_a_line_without_text_keeps_its_url() -> None:
    assert between(b'{"url": "http://pages.example/"}')["url"] == "http://pages.example/"


@pytest.mark.parametrize("line", [b"", b"   ", b"\t\r", b"\r"])
def test_a_blank_line_takes_a_row_number_and_no_verdict(line: bytes) -> None:
    assert between(line) == {"blank line": 1}


def test_blank_lines_before_the_first_object_do_not_make_it_text() -> None:
    told = read(b"\n  \n\r\n" * 200_000 + A)
    assert told.texts == ["first"]
    assert told.rows[0]["document"] == 600_000


def test_lone_surrogates_become_replacements_and_pairs_characters() -> None:
    row = between(
        rb'{"text": "a\ud800b \udfff \ud83d\ude00", "url": "u\udc00", "k\ud800": ["\ud800"]}'
    )
    assert row["text"] == "a\ufffdb \ufffd \U0001f600"
    assert row["url"] == "u\ufffd"
    assert json.loads(row["extra"]) == {"k\ufffd": ["\ufffd"]}


@pytest.mark.parametrize(
    "data", [b"\xff", b"a\xe2\x82b", b"caf\xe9", b"\xed\xa0\x80", b"\xf0\x9f\x98"]
)
def test_ill_formed_utf8_in_a_line_becomes_replacements(data: bytes) -> None:
    assert between(b'{"text": "' + data + b'"}')["text"] == data.decode("utf-8", "replace")
    assert json.loads(between(b'{"text": "a", "b": "' + data + b'"}')["extra"]) == {
        "b": data.decode("utf-8", "replace")
    }


def test_numbers_that_json_does_not_have_and_numbers_that_are_too_large() -> None:
    row = between(
        b'{"text": "a", "score": NaN, "other": [-Infinity, 1e999], "id": '
        b"123456789012345678901234567890}"
    )
    assert row["text"] == "a"
    assert json.loads(row["extra"]) == {
        "score": "NaN",
        "other": ["-Infinity", "1e999"],
        "id": 123456789012345678901234567890,
    }


def test_extra_is_json_even_with_nan_and_a_lone_surrogate_in_one_line() -> None:
    extra = between(rb'{"text": "a", "score": NaN, "name": "\ud800"}')["extra"]

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert json.loads(extra, parse_constant=refuse) == {"score": "NaN", "name": "\ufffd"}


def test_a_url_that_is_no_string_rests_in_extra() -> None:
    row = between(b'{"text": "a", "url": {"host": "pages.example"}, "n": 1}')
    assert (row["url"], json.loads(row["extra"])) == (
        None,
        {"url": {"host": "pages.example"}, "n": 1},
    )
    assert between(b'{"text": "a", "url": null}')["extra"] is None


def test_unknown_fields_rest_in_extra_and_come_back_as_they_were() -> None:
    record = {
        "id": 7,
        "meta": {"a": [1, 2.5, None, True, "ü"], "b": {}},
        "": "empty",
        "text2": "x" * 10_000,
        "e": 1e-300,
    }
    row = between(json.dumps({"text": "a", **record}).encode())
    assert json.loads(row["extra"]) == record
    assert list(json.loads(row["extra"])) == list(record)


def test_lines_end_at_lf_only() -> None:
    text = "one\r two\u2028three\u2029four\x85five\x0bsix\x0c"
    lines = [json.dumps({"text": text}, ensure_ascii=False), json.dumps({"text": "second"})]
    for data in ("\r\n".join(lines), "\n".join(lines), "\r\n".join(lines) + "\r\n"):
        assert read(data.encode()).texts == [text, "second"]
        raw = data.replace(
            "\\r", "\r"
        ).encode()  # a CR inside a string is no JSON, unless it is escaped
        assert read(raw, kind="jsonl").failed == [(0, "read.not_json", 0)]
    told = read(b'{"text":"a"}\r{"text":"b"}\n{"text":"c"}', kind="jsonl")
    assert [row["reason"] for row in told.rows] == ["read.not_json", None]


def test_the_last_line_needs_no_end() -> None:
    assert read(A + B[:-1]).texts == ["first", "last"]
    told = read(A + b'{"text": "cut')
    assert told.failed == [(1, "read.not_json", len(A))]


def test_offsets_are_those_of_the_decoded_lines() -> None:
    lines = [
        b'{"text":"' + bytes([97 + number % 26]) * (number * 977 % 50_000) + b'"}'
        for number in range(60)
    ]
    bad = {7: b"[]", 31: b"", 44: b"{}", 59: b"x"}
    for number, line in bad.items():
        lines[number] = line
    data = b"\n".join(lines)
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(60)]
    for packed in (data, gzip.compress(data)):
        told = read(packed)
        assert told.failed == [
            (7, "read.not_json", starts[7]),
            (44, "read.no_text", starts[44]),
            (59, "read.not_json", starts[59]),
        ]
        assert len(told.texts) == 56


def test_a_text_over_the_limit_and_a_line_far_over_it_are_told_and_the_rest_is_read() -> None:
    fields = Fields(max_document_bytes=1000)
    for size, told in ((1000, []), (1001, [1]), (1990, [1]), (2100, [1]), (1_000_000, [1])):
        got = read(A + json.dumps({"text": "x" * size}).encode() + b"\n" + B, fields=fields)
        assert [
            number
            for number, reason, value in got.failed
            if (reason, value) == ("read.too_large", len(A))
        ] == told
        assert (got.texts[0], got.texts[-1], len(got.rows)) == ("first", "last", 3)


def test_a_line_of_hundreds_of_megabytes_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with open(path, "wb") as file:
        file.write(A + b'{"text": "')
        file.seek(300 << 20, 1)  # a hole
        file.write(b'"}\n' + B)
    told, peak = peak_memory(path)
    assert told == ["5", "read.too_large", "4"]
    assert peak < 400


def test_the_fields_are_those_that_the_recipe_names() -> None:
    data = b'{"content": "a", "link": "http://pages.example/", "text": "other"}\n'
    (row,) = read(data, fields=Fields(text="content", url="link")).rows
    assert (row["text"], row["url"], json.loads(row["extra"])) == (
        "a",
        "http://pages.example/",
        {"text": "other"},
    )
    assert read(data, fields=Fields(text="body")).failed == [(0, "read.no_text", 0)]


def test_a_file_of_text_is_one_document() -> None:
    for text in (
        "one line",
        "two\nlines\n",
        "{ not json }\n",
        "[1] A note.\n",
        " ",
        "\n",
        "WARC",
        "PAR",
        "é" * 100_000,
    ):
        told = read(text.encode())
        assert (told.texts, told.counts["kind"]) == ([text], "text"), text
        assert read(gzip.compress(text.encode())).texts == [text]


def test_an_empty_file_is_no_document() -> None:
    for kind in ("text", "jsonl", "wet"):
        told = read(b"", kind=kind)
        assert (told.rows, told.counts["documents"], told.counts["records_skipped"]) == ([], 0, {})


def test_a_text_over_the_limit_is_told() -> None:
    assert read(b"x" * 1001, fields=Fields(max_document_bytes=1000)).failed == [
        (0, "read.too_large", 0)
    ]
    assert read(b"x" * 1000, fields=Fields(max_document_bytes=1000)).texts == ["x" * 1000]
    assert read(b"caf\xe9 \xff", kind="text").texts == ["caf\ufffd \ufffd"]


def test_a_packed_text_that_is_cut_is_told_and_no_half_of_it_is_a_document() -> None:
    data = gzip.compress(bytes(range(32, 127)) * 500)
    told = read(data[: len(data) // 2])
    assert (told.texts, told.failed) == ([], [(0, "read.truncated", 0)])


def test_a_kind_that_the_recipe_names_overrides_the_bytes() -> None:
    assert read(A + B, kind="text").texts == [(A + B).decode()]
    assert read(b"just text\n", kind="jsonl").failed == [(0, "read.not_json", 0)]
    assert read(A, kind="wet").rows[0]["reason"] in ("read.no_record", "read.truncated")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=[]), max_size=5), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(
        st.dictionaries(st.sampled_from(["text", "url", "a", "\ud800"]), json_values, max_size=4),
        max_size=5,
    ),
    escaped=st.booleans(),
)
def test_every_object_is_a_row(values: list[dict[str, Any]], escaped: bool) -> None:
    data = b"".join(
        json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass") + b"\n"
        for value in values
    )
    told = read(data, kind="jsonl")
    assert [row["document"] for row in told.rows] == list(range(len(values)))
    for row, value in zip(told.rows, values, strict=True):
        text = value.get("text")
        if isinstance(text, float) and not math.isfinite(text):
            text = json.dumps(text)  # a number that JSON does not have is a string
        assert (row["reason"] is None) == isinstance(text, str)
        if escaped and row["reason"] is None:
            assert row["text"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(
        st.binary(max_size=30) | st.sampled_from([A[:-1], b"{}", b"", b" ", b'{"text":"\\'])
    )
)
def test_any_lines_are_a_row_each(lines: list[bytes]) -> None:
    data = A + b"\n".join(lines)
    told = read(data, kind="jsonl")
    assert len(told.rows) + sum(told.counts["records_skipped"].values()) == data.count(b"\n") + (
        not data.endswith(b"\n")
    )
    with suppress(SourceError):
        read(b"\n".join(lines))


def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it() -> None:
    told = read(b"\xef\xbb\xbf" + A + B)
    assert told.counts["kind"] == "jsonl"
    assert (told.texts, told.failed) == (["first", "last"], [])
