"""JSON lines without flaw, read many at a time: the rows are those of lines read one by one."""

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.source.rows import Fields, RowCollector
from gristmill.source.tables import flawless_lines, jsonl
from gristmill.store.codecs import DecodedPieces
from tests.support.strategies import nasty_texts

RECORDS: list[dict[str, Any]] = [
    {"text": "A text of some length, so that a line has more than a block. " * 3, "url": "u"},
    {"text": 'Lines\nand "quotes" \\ ä€😀', "id": 1, "score": 0.1, "tags": ["a", {"b": "]}"}]},
    {"id": "only", "text": "", "url": None},
    {"url": "http://pages.example/\u00e4", "date": "2026", "text": "x" * 500},
    {"text": "a", "url": 5, "big": 10**30, "nothing": None, "deep": [[[[{}]]]]},
    {"text": None},
    {"none": "text"},
    {"text": "long " * 300, "list": list(range(50))},
]
ODD = [
    b"",
    b"   ",
    b"no json",
    b'{"text": "cut',
    b'{"text": "\\ud800 lone"}',
    b'{"text": "ill-formed \xff"}',
    b'{"text": "a", "x": NaN}',
    b'{"text": "a", "x": 1e999, "y": -0}',
    b'{"text": "a", "x": "\xed\xa0\x80"}',
    b'{"text": "a", "text": "b", "x": 1, "x": 2}',
    b' \t{"text": "a"}\r',
    b'\xef\xbb\xbf{"text": "a byte order mark"}',
    b'{"text": "a", "b": ' + b"[" * 2000 + b"]" * 2000 + b"}",
]
LINES = [
    json.dumps(record, ensure_ascii=escaped).encode()
    for record in RECORDS
    for escaped in (True, False)
]


def read(data: bytes, fields: Fields, limit: int | None, size: int) -> list[Any]:
    rows = RowCollector(0, limit)
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    found = [row for batch in jsonl.read(pieces, rows, fields) for row in batch.to_pylist()]
    return [found, rows.skipped, rows.row]


def check(data: bytes, fields: Fields = Fields(), limit: int | None = None) -> int:  # noqa: B008
    """Compare both ways, with pieces of several sizes; the number of rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flawless_lines.FlawlessLines, "read", lambda self, piece, at: at)
        slow = read(data, fields, limit, 1 << 20)
    for size in (1 << 20, 700, 190):
        assert read(data, fields, limit, size) == slow, size
    return len(slow[0])


def test_rows_are_equal_for_lines_of_any_kind() -> None:
    data = b"\n".join([*ODD, *LINES, *ODD[::-1], *LINES[::-1]] * 3)
    for fields in (
        Fields(),
        Fields(max_document_bytes=300),
        Fields(text="date", url="text"),
        Fields(text="text", url="text"),
        Fields(text='te"xt', url=""),
    ):
        check(data, fields)
        for limit in (1, 4, 40):
            assert check(data, fields, limit) == min(limit, check(data, fields))


def test_rows_are_equal_around_an_unusual_line() -> None:
    for odd in ODD:
        check(b"\n".join([*LINES, odd, *LINES, odd, odd, *LINES]) + b"\n")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 13), st.integers(0, 30), st.binary(max_size=9)), max_size=3
    ),
    st.lists(nasty_texts(), max_size=3),
)
def test_rows_are_equal_after_any_damage(
    harms: list[tuple[int, int, bytes]], texts: list[str]
) -> None:
    made = [json.dumps({"text": text, "url": text, "more": [text]}).encode() for text in texts]
    data = b"\n".join(LINES + made + LINES)
    for place, cut, put in harms:
        place %= len(data)
        data = data[:place] + put + data[place + cut :]
    check(data)


def test_sound_lines_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for one at the end of each piece."""
    calls = []
    inner = jsonl._read_line
    monkeypatch.setattr(jsonl, "_read_line", lambda *args: (calls.append(1), inner(*args)))
    data = b"".join(LINES[0] + b"\n" for _ in range(3000))
    found = list(jsonl.read(DecodedPieces(io.BytesIO(data)), RowCollector(0), Fields()))
    assert sum(map(len, found)) == 3000
    assert len(calls) < 10
