"""Gzip members, WARC records, UTF-8 and spans against their slow twins."""

import gzip
import itertools
import zlib
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.reading import warc_records
from gristmill.kernels.reading.spans import gather
from gristmill.source import libdeflate
from tests.support import naive_reading, strategies
from tests.support.skips import missing


@pytest.fixture(scope="module")
def decoder() -> libdeflate.MemberInflater:
    """libdeflate, which the package `deflate` brings."""
    found = libdeflate.member_inflater()
    if found is None:
        missing("deflate", "there is no libdeflate")
    assert found is not None
    return found


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def changed(data: bytes, harms: list[tuple[int, int, bytes]]) -> bytes:
    """Bytes with others cut out of them and put into them."""
    for place, cut, put in harms:
        place %= len(data) or 1
        data = data[:place] + put + data[place + cut :]
    return data


harms = st.lists(
    st.tuples(st.integers(0, 1 << 12), st.integers(0, 3), st.binary(max_size=3)), max_size=2
)


def member(data: bytes, flags: int) -> bytes:
    """A member with the fields that its header's flags announce."""
    whole = gzip.compress(data, mtime=0)
    extra = b"\x02\x00ab" if flags & 4 else b""
    names = b"name\0" * bool(flags & 8) + b"remark\0" * bool(flags & 16)
    return whole[:3] + bytes([flags]) + whole[4:10] + extra + names + whole[10:]


@strategies.fuzz(200)
@given(
    st.lists(st.tuples(st.binary(max_size=80), st.sampled_from([0, 0, 1, 4, 8, 16, 29]))),
    harms,
    st.sampled_from([b"", b"\0", b"\x1f", b"\x1f\x8b", b"garbage"]),
    st.booleans(),
    st.sampled_from([(1 << 12, 100), (200, 100), (90, 10)]),
    st.sampled_from([1, 3, 100]),
)
def test_fuzz_inflate(
    decoder: libdeflate.MemberInflater,
    parts: list[tuple[bytes, int]],
    harm: list[tuple[int, int, bytes]],
    behind: bytes,
    ended: bool,
    sizes: tuple[int, int],
    most: int,
) -> None:
    data = changed(b"".join(member(*part) for part in parts), harm) + behind
    size, room = sizes
    some = {"FILL": size - room, "MOST_MEMBER": room, "MOST_TOGETHER": most}
    with patch.multiple(libdeflate, **some):
        inflater = libdeflate.member_inflater()
        assert inflater is not None
        got = inflater(data, 0, ended=ended)
    assert got == naive_reading.inflate(data, room, size, ended=ended, most=most)


def test_inflate_stops_before_a_header_with_a_checksum_and_before_reserved_flags(
    decoder: libdeflate.MemberInflater,
) -> None:
    whole = gzip.compress(b"text")
    for flags in (2, 32, 64, 128):
        data = whole[:3] + bytes([flags]) + whole[4:]
        assert decoder(data, 0, ended=True) == (b"", 0, [])
    assert decoder(whole, 0, ended=True) == (b"text", len(whole), [4])


VALUES = st.sampled_from(
    [b"text/plain", b"<http://a/>", b"2026", b"", b" x ", b"a\tb", b"\xc3\xa4", b"<<>", b"a\rb"]
)
NAMES = st.sampled_from(
    [
        b"WARC-Target-URI",
        b"warc-date",
        b"WARC-Record-ID",
        b"WARC-Identified-Content-Language",
        b"Content-Type",
        b"X-Other",
        b"WARC/1.0",
        b"a b",
        b"",
    ]
)
KINDS = st.sampled_from([*(name.decode() for name in naive_reading.TYPES), "Conversion", "other"])
BLOCKS = st.sampled_from([b"", b"some text", "ä€😀".encode() * 30, b"a\xff", b"\xed\xa0\x80"])


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A record, most often one without flaw."""
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\n"]))
    block = draw(BLOCKS)
    kind = draw(st.one_of(st.just("conversion"), KINDS)).encode()
    off = draw(st.sampled_from([0] * 8 + [1, -1, 30]))
    named = draw(st.lists(st.tuples(NAMES, VALUES), max_size=3))
    lines = [
        *(name + b": " + value for name, value in named),
        b"WARC-Type: " + kind,
        b"Content-Length:" + str(max(len(block) + off, 0)).encode(),
    ]
    lines = draw(st.permutations(lines))
    return end.join([b"WARC/1.0", *lines]) + end + end + block + end + end


@strategies.fuzz(200)
@given(
    st.lists(records(), max_size=5),
    harms,
    st.booleans(),
    st.booleans(),
    st.sampled_from([(9, 9, 100), (2, 9, 100), (9, 1, 100), (9, 9, 5)]),
)
def test_fuzz_frame(
    made: list[bytes],
    harm: list[tuple[int, int, bytes]],
    pages: bool,
    followed: bool,
    limits: tuple[int, int, int],
) -> None:
    data = changed(b"\r\n".join(made), harm)
    count, documents, most = limits
    rows = np.full((count, warc_records.COLUMNS), -7, np.int64)
    got, stop = warc_records.frame(
        array(data),
        0,
        rows,
        most_bytes=most,
        most_documents=documents,
        pages=pages,
        followed=followed,
    )
    found = [
        (
            warc_records.TYPES[row[0]].encode(),
            row[1],
            bool(row[2]),
            *(data[row[place] : row[place + 1]] for place in range(3, 15, 2)),
        )
        for row in rows[:got].tolist()
    ]
    want = naive_reading.frame(
        data, 0, count=count, most=most, documents=documents, pages=pages, followed=followed
    )
    assert (found, stop) == want


PIECES = [b"a", b"a" * 61, "ä".encode(), "€".encode(), "😀".encode(), b"\x80", b"\xe0\xa0", b"\xf4"]
EDGES = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xF5]


@strategies.fuzz(200)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.sampled_from(EDGES).map(lambda b: bytes([b]))))
)
@example([b"a" * 63, "ä".encode()])
@example([b"a" * 62, "😀".encode(), b"a" * 60])
def test_fuzz_well_formed(parts: list[bytes]) -> None:
    check_well_formed(b"".join(parts))


def check_well_formed(block: bytes) -> None:
    """A record with this block, alone in its data and with bytes behind it."""
    head = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: %d\r\n\r\n" % len(block)
    data = head + block + b"\r\n\r\n"
    rows = np.empty((1, warc_records.COLUMNS), np.int64)
    for behind, followed in ((b"", True), (b"WARC/" + b"\xff" * 80, False)):
        got, _ = warc_records.frame(
            array(data + behind),
            0,
            rows,
            most_bytes=1 << 20,
            most_documents=1,
            pages=False,
            followed=followed,
        )
        assert got == 1
        assert bool(rows[0, warc_records.WELL_FORMED]) == naive_reading.is_well_formed(block)


def test_every_pair_of_bytes_across_the_edge_of_a_block() -> None:
    for first in (0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5):
        for second in EDGES:
            for behind in (b"", b"\x80", b"\x80\x80"):
                check_well_formed(b"a" * 63 + bytes([first, second]) + behind)


@strategies.fuzz(200)
@given(st.binary(max_size=50), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_fuzz_gather(data: bytes, pairs: list[tuple[int, int]]) -> None:
    spans = [sorted((min(one, len(data)), min(other, len(data)))) for one, other in pairs]
    places = np.array(spans, np.int64).reshape(-1, 2)
    offsets, out = gather(array(data), places[:, 0], places[:, 1])
    got = [out[start:stop].tobytes() for start, stop in itertools.pairwise(offsets)]
    assert got == naive_reading.gather(data, places[:, 0].tolist(), places[:, 1].tolist())


def test_a_deflate_stream_that_zlib_refuses_is_refused(decoder: libdeflate.MemberInflater) -> None:
    packer = zlib.compressobj(wbits=31)
    whole = packer.compress(b"text " * 100) + packer.flush()
    for place in range(10, len(whole)):
        broken = whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]
        want = naive_reading.inflate(broken, 0, 1 << 20, ended=True)
        assert decoder(broken, 0, ended=True) == want
