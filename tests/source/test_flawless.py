"""Records without flaw, found many at a time: whatever a shard is like, its rows are those that
members decoded in steps and records read one by one give.
"""

import gzip
import io
import random
import zlib
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.source import libdeflate
from gristmill.source.archives import flawless, warc
from gristmill.source.archives.record_window import read_stretches
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields, RowCollector
from gristmill.store import codecs
from gristmill.store.codecs import DecodedPieces
from tests.support.corpora import record
from tests.support.skips import missing

Rows = tuple[list[dict[str, Any]], dict[str, int], int, int]

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>A page, and \xc3\xa4.</p>"
PLAIN = [f"The text of page {number}: ä€.\nIt has two lines." * 4 for number in range(12)]


def read_fast(data: bytes, fields: Fields, limit: int | None = None) -> Rows:
    """As ShardReader reads an archive."""
    pieces, rows = DecodedPieces(io.BytesIO(data)), RowCollector(0, limit)
    pieces.member_starts = []
    pieces.inflate = libdeflate.member_inflater()
    return rows_of(pieces, rows, warc.read(pieces, rows, fields))


def read_slow(data: bytes, fields: Fields, limit: int | None = None) -> Rows:
    """The same without kernels."""
    pieces, rows = DecodedPieces(io.BytesIO(data)), RowCollector(0, limit)
    pieces.member_starts = []
    one = partial(warc._read_record, rows=rows, fields=fields)
    return rows_of(pieces, rows, read_stretches(pieces, rows, warc.FRAMING, one))


def rows_of(pieces: DecodedPieces, rows: RowCollector, batches: Any) -> Rows:
    found = [row for batch in batches for row in batch.to_pylist()]
    return found, rows.skipped, rows.row, pieces.decoded_bytes


def check(data: bytes, fields: Fields = Fields(), limit: int | None = None) -> Rows:  # noqa: B008
    fast, slow = read_fast(data, fields, limit), read_slow(data, fields, limit)
    # With a limit the number of decoded bytes depends on how many are decoded together.
    assert fast[:3] == slow[:3]
    assert limit is not None or fast[3] == slow[3]
    return fast


def corpus(end: bytes = b"\r\n") -> list[bytes]:
    """Records of all types, some of them with flaws."""
    made = [record(b"software: x", None, kind="warcinfo", end=end)]
    for number, text in enumerate(PLAIN):
        url = f"http://pages.example/{number}"
        made.append(record(text.encode(), url, number, end=end))
        if number % 4 == 1:
            made.append(record(HTML, url, number, kind="response", end=end))
            made.append(record(b"GET /", url, number, kind="request", end=end))
        if number == 5:
            made.append(record(b"latin \xe9", url, number, end=end))
            made.append(record(b"long " * 2000, url, number, end=end))
            made.append(record(b"HTTP/1.1 200", url, number, kind="revisit", end=end))
        if number == 7:
            made.append(record(text.encode(), url, number, length=5, end=end))
            made.append(record(b"", "", number, end=end))
    return made


def packed(records: list[bytes], many: int = 1, level: int = 6) -> bytes:
    """Members of `many` records each."""
    parts = [b"".join(records[at : at + many]) for at in range(0, len(records), many)]
    return b"".join(gzip.compress(part, level, mtime=0) for part in parts)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and buffers so small that a short shard has many."""
    for module, name, size in (
        (codecs, "BLOCK", 1 << 11),
        (codecs, "FEED", 300),
        (codecs, "AHEAD", 1 << 12),
        (libdeflate, "FILL", 1 << 12),
        (libdeflate, "MOST_MEMBER", 1 << 11),
        (flawless, "LARGE", 1 << 11),
        (flawless, "MOST_RECORDS", 7),
    ):
        monkeypatch.setattr(module, name, size)


@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.usefixtures("small")
def test_rows_are_equal_for_members_of_any_size(end: bytes, pages: bool) -> None:
    for fields in (Fields(pages=pages), Fields(pages=pages, max_document_bytes=2000)):
        for data in (
            b"".join(corpus(end)),
            *(packed(corpus(end), many, level) for many in (1, 3, 50) for level in (0, 6)),
            packed([b"", *corpus(end), b"", b""]),
            packed(corpus(end)) + b"\0" * 1000,
            packed(corpus(end)) + b"garbage",
            packed(corpus(end)) + b"<html>503</html>" + packed(corpus(end)),
            gzip.compress(b"".join(corpus(end)), mtime=0) + b"".join(corpus(end)),
        ):
            assert len(check(data, fields)[0]) > 10
            for limit in (1, 3, 13):
                assert len(check(data, fields, limit)[0]) == limit


@pytest.mark.parametrize("many", [1, 5])
@pytest.mark.usefixtures("small")
def test_rows_are_equal_wherever_a_shard_is_cut_or_changed(many: int) -> None:
    pick = random.Random(1)
    whole = packed(corpus() * 3, many, 1)
    for place in range(0, len(whole), 211):
        check(whole[:place])
        bit = 1 << pick.randrange(8)
        check(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        check(whole[:place] + whole[place + 40 :])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 14), st.integers(0, 80), st.binary(max_size=20)),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
    st.booleans(),
)
def test_rows_are_equal_after_any_damage_before_or_after_packing(
    harms: list[tuple[int, int, bytes]], pages: bool, before: bool
) -> None:
    data = b"".join(corpus()) if before else packed(corpus())
    for place, cut, put in harms:
        place %= len(data)
        data = data[:place] + put + data[place + cut :]
    check(gzip.compress(data) if before else data, Fields(pages=pages))
    check(data, Fields(pages=pages))


def headed(*lines: bytes, text: bytes = b"some text", end: bytes = b"\r\n") -> bytes:
    """A record with headers of the test's own."""
    return end.join([b"WARC/1.0", *lines]) + end + end + text + end + end


KIND, LENGTH = b"WARC-Type: conversion", b"Content-Length: 9"


@pytest.mark.parametrize(
    "flawed",
    [
        headed(KIND, b"WARC-Date: 2026", b"  -02", LENGTH),
        headed(b"warc-type:CONVERSION", b"content-LENGTH:  009  "),
        headed(KIND, KIND + b"s", LENGTH, b"Content-Length: 3"),
        headed(KIND, b"no colon here", LENGTH),
        headed(KIND, b": no name", LENGTH),
        headed(KIND, b"Tab:\tand \xff", LENGTH),
        headed(KIND, b"WARC-Target-URI: <<http://x/>>", b"WARC-Target-URI: http://y/", LENGTH),
        headed(KIND, b"WARC-Target-URI: <>", b"WARC-Record-ID: >", LENGTH),
        headed(KIND, b"Content-Type: text/plain; charset=x", LENGTH),
        headed(KIND, b"Content-Type: Text/HTML", LENGTH),
        headed(KIND, b"Content-Type:", LENGTH),
        headed(KIND, LENGTH, b"X: " + b"x" * 70_000),
        headed(KIND, LENGTH, b"X: " + b"x" * (1 << 20)),
        headed(KIND, LENGTH, b"X: a\rb"),
        headed(KIND, LENGTH).replace(b"WARC/1.0", b"warc/1.0"),
        headed(KIND, LENGTH).replace(b"WARC/1.0", b"WARC/1.10 "),
        headed(KIND, LENGTH).replace(b"some text", b"some te"),
        headed(KIND, LENGTH).replace(b"some text", b"some text, and more"),
        headed(KIND, LENGTH) + b"\r\n\n\r\n",
        headed(KIND),
        headed(LENGTH),
        headed(b"WARC-Type: unknown\xff", LENGTH),
        b"WARC/1.0\r\nWARC-Type: conversion\r\n",
        b"no record\r\n\r\n",
    ],
    ids=range(24),
)
def test_rows_are_equal_around_a_record_with_a_flaw(flawed: bytes) -> None:
    good = corpus()[1]
    for records in ([good, flawed, good], [flawed] * 5 + [good] * 3, [good, flawed]):
        check(b"".join(records))
        check(packed(records))


def test_a_sound_shard_is_read_without_the_slow_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for its last record, which nothing follows."""
    if libdeflate.library() is None:
        missing("deflate", "there is no libdeflate")
    calls = {"member": 0, "record": 0}
    for owner, name, what in (
        (DecodedPieces, "_member", "member"),
        (warc, "_read_record", "record"),
    ):
        inner = getattr(owner, name)

        def counted(*args: Any, inner: Any = inner, what: str = what, **named: Any) -> Any:
            calls[what] += 1
            return inner(*args, **named)

        monkeypatch.setattr(owner, name, counted)
    sound = [record(text.encode(), "http://pages.example/", 1) for text in PLAIN] * 100
    found, _, _, _ = read_fast(packed(sound), Fields())
    assert [row["text"] for row in found] == PLAIN * 100
    assert calls == {"member": 0, "record": 1}


def test_of_a_broken_member_nothing_comes_out_wherever_it_is() -> None:
    """Up to a block of decoded bytes; of a longer one all that was decoded."""
    noise = random.Random(2).randbytes
    for size, out in ((200_000, 0), (1_000_000, 1)):
        packer = zlib.compressobj(0, wbits=31)
        broken = bytearray(packer.compress(noise(size)) + packer.flush())
        broken[-6] ^= 1  # of the checksum
        for before in (0, 1000, 200_000, 260_000):
            first = gzip.compress(noise(before))
            pieces = DecodedPieces(io.BytesIO(first + broken))
            found = [len(piece) for piece in pieces if isinstance(piece, bytes)]
            assert (sum(found) > before) == out


def test_without_the_library_the_rows_are_the_same(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wet.gz"
    path.write_bytes(packed(corpus() * 50))
    with_it = [row for batch in ShardReader(path, 0) for row in batch.to_pylist()]
    monkeypatch.setattr(libdeflate, "library", lambda: None)
    without = [row for batch in ShardReader(path, 0) for row in batch.to_pylist()]
    assert len(with_it) > 500
    assert with_it == without
