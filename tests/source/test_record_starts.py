"""Every head of a record has a row: whatever tools left out between records, however they packed
them, and whatever lengths say, no record vanishes.
"""

import gzip
import itertools
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gristmill.source.archives import flawless, warc, warc_rows
from gristmill.source.archives.record_window import Window
from gristmill.source.rows import Fields
from tests.support.corpora import record
from tests.support.shards import Reading, read

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXTS = [f"The text of page {number}.\nIt has two lines." for number in range(6)]
RECORDS = [
    record(text.encode(), f"http://pages.example/{number}", number)
    for number, text in enumerate(TEXTS)
]
BARE = [one.removesuffix(b"\r\n\r\n") for one in RECORDS]  # nothing behind the block
QUOTED = record(b"as quoted", "http://quoted.example/", 9)  # a whole record, in a text
PACK = {"gzip": lambda data: gzip.compress(data, mtime=0), "zstd": zstd.compress}
# As a person would count them: a first line, fields, one of them the length, an empty line.
HEAD = re.compile(rb"WARC/1\.0\r?\n(?:[^\r\n:/]+:[^\r\n]*\r?\n)*\r?\n")


def heads(data: bytes) -> int:
    return sum(b"Content-Length" in head for head in HEAD.findall(data))


@pytest.mark.parametrize("pack", [bytes, *PACK.values()])
@pytest.mark.parametrize("between", [b"", b"\r\n", b"\n", b"\r\n" * 3])
def test_records_of_right_length_need_no_blank_lines_between_them(
    pack: Callable[[bytes], bytes], between: bytes
) -> None:
    records = [one + between for one in BARE]
    for data in (pack(b"".join(records)), b"".join(map(pack, records))):
        told = read(data)
        assert (told.texts, told.failed) == (TEXTS, [])


@pytest.mark.parametrize("off", [-5, 3, 30, 300])
@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_length_without_blank_lines_costs_no_neighbour(off: int, packed: bool) -> None:
    wrong = BARE[2].replace(
        f"Content-Length: {len(TEXTS[2])}".encode(),
        f"Content-Length: {len(TEXTS[2]) + off}".encode(),
    )
    records = [*BARE[:2], wrong, *BARE[3:]]
    told = read(b"".join(map(PACK["gzip"], records) if packed else records))
    assert told.texts == [*TEXTS[:2], *TEXTS[3:]]
    assert [(row, reason) for row, reason, _ in told.failed] == [(2, "read.wrong_length")]


def test_a_length_that_covers_the_next_record_exactly_swallows_none_that_is_a_member() -> None:
    covering = record(
        TEXTS[1].encode(), "http://pages.example/1", 1, length=len(TEXTS[1]) + 4 + len(BARE[2])
    )
    records = [RECORDS[0], covering, *RECORDS[2:]]
    told = read(b"".join(map(PACK["gzip"], records)))
    assert told.texts == [TEXTS[0], *TEXTS[2:]]
    assert [(row, reason) for row, reason, _ in told.failed] == [(1, "read.wrong_length")]
    # Without members nothing says which of the two it is, but the head in the text has its row.
    told = read(b"".join(records))
    assert told.texts[2:] == TEXTS[3:]
    assert told.texts[1] == (RECORDS[1] + BARE[2]).split(b"\r\n\r\n", 1)[1].decode()
    assert told.failed == [(2, "read.inside_record", len(RECORDS[0]) + len(covering))]


def test_a_record_that_a_text_quotes_is_text_and_has_a_row() -> None:
    for pages in (False, True):
        quoting = record(b"See:\r\n" + QUOTED + b"so it goes.", "http://pages.example/q", 7)
        data = [RECORDS[0], quoting, *RECORDS[1:]]
        place = len(RECORDS[0]) + quoting.index(QUOTED)
        for packed in (b"".join(data), b"".join(map(PACK["gzip"], data))):
            told = read(packed, fields=Fields(pages=pages))
            assert told.texts[1].startswith("See:\r\nWARC/1.0\r\n")
            assert [told.texts[0], *told.texts[2:]] == TEXTS
            assert told.failed == [(2, "read.inside_record", place)]


def test_a_text_that_only_names_the_format_is_no_record_of_any_size() -> None:
    text = b"The first line is\r\nWARC/1.0\r\nand then come fields. " * 300
    told = read(b"".join([RECORDS[0], record(text, None), *RECORDS[1:]]))
    assert told.texts[1] == text.decode()
    assert not told.failed
    told = read(
        b"".join([RECORDS[0], record(text, None), *RECORDS[1:]]),
        fields=Fields(max_document_bytes=1000),
    )
    assert told.texts == TEXTS
    assert told.failed == [(1, "read.too_large", len(RECORDS[0]))]


def test_a_member_that_is_no_record_costs_no_record() -> None:
    members = [RECORDS[0], b"<html>503</html>\n", *RECORDS[1:3], b"XARC/1.0\r\n" + RECORDS[3][10:]]
    told = read(b"".join(map(PACK["gzip"], [*members, *RECORDS[4:]])))
    assert told.texts == [*TEXTS[:3], *TEXTS[4:]]
    assert [reason for _, reason, _ in told.failed] == ["read.no_record"] * 2


def _mutated(pick: random.Random) -> tuple[bytes, list[str], set[str]]:
    """An archive; the texts of its records of right length, and of all its records."""
    right, every, records = [], set(), []
    for number in range(pick.randrange(2, 9)):
        text = pick.choice(
            ["Plain text.", "x", "Ä line\nand another", "WARC/1.0", "a\r\nWARC/1.0\r\nb: c"]
        )
        text = f"{text} {number} {'so it goes ' * pick.randrange(9)}end"
        off = pick.choice([0, 0, 0, 0, -pick.randrange(1, 4), pick.randrange(1, 90)])
        size = len(text.encode())
        one = record(
            text.encode(),
            f"http://pages.example/{number}",
            number,
            length=size + off,
            end=pick.choice([b"\r\n", b"\n"]),
        ).rstrip(b"\r\n")
        if pick.random() < 0.05:
            one, off = one.replace(b"Content-Length", b"Content-Size"), 1
        between = pick.choice([b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\n", b"", b"\r\n" * 4])
        records.append(one + between)
        every.add(text)
        if off == 0:
            right.append(text)
    how = pick.choice(["plain", "members", "groups", "cuts", "one"])
    whole = b"".join(records)
    if how == "members":
        return b"".join(map(gzip.compress, records)), right, every
    if how == "groups":
        at = pick.randrange(len(records))
        return (
            b"".join(gzip.compress(b"".join(part)) for part in (records[:at], records[at:])),
            (right),
            every,
        )
    if how == "cuts":
        cuts = sorted(pick.randrange(len(whole)) for _ in range(3))
        edges = [0, *cuts, len(whole)]
        parts = [whole[a:b] for a, b in itertools.pairwise(edges)]
        return b"".join(map(gzip.compress, parts)), right, every
    return gzip.compress(whole) if how == "one" else whole, right, every


def _rows(told: Reading) -> int:
    return len(told.rows) + sum(told.counts["records_skipped"].values())


def test_fuzz_every_head_has_a_row_and_every_right_record_is_read() -> None:
    pick = random.Random(34)
    for _ in range(500):
        data, right, every = _mutated(pick)
        told = read(data, kind="wet")
        plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        assert _rows(told) >= heads(plain), data
        # A length that is wrong by the line ends behind a text cannot be told from a right one.
        texts = {text.rstrip("\r\n") for text in told.texts}
        assert set(right) <= texts <= every, plain


def test_heads_are_counted_in_the_bytes_whatever_is_read_of_them() -> None:
    assert "heads_without_row" not in read(b"".join(RECORDS)).counts["decoding"]
    half = QUOTED[: QUOTED.index(b"\r\n\r\n")]  # a head without its end: no record
    quoting = record(b"See:\r\n" + half + b"\r\nso it goes.", "http://pages.example/q", 7)
    for pack in (bytes, *PACK.values()):
        told = read(pack(b"".join([*RECORDS, quoting, *RECORDS])))
        assert len(told.texts) == 13
        assert told.counts["decoding"] == {"heads_without_row": 1}


def test_a_head_in_two_pieces_is_counted_once() -> None:
    data = b"".join(RECORDS[:3])
    lines = [match.start() for match in re.finditer(rb"WARC/1\.0\r\n", data)]
    for size in (1, 2, 7, 31, 32, 33, 64, 1000):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        window = Window(iter(pieces), warc.FRAMING)
        while window.more():
            pass
        assert window.heads == len(lines), size
        assert [window.heads_before(at + 1) for at in lines] == [1, 2, 3]
        assert window.heads_before(lines[1]) == 1


def test_a_record_that_no_reader_reports_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    add = warc_rows.add

    def lose(head: warc_rows.WarcRecord, *given: Any) -> None:
        if head.url != "http://pages.example/4":
            add(head, *given)

    monkeypatch.setattr(warc_rows, "add", lose)
    monkeypatch.setattr(flawless.FlawlessRecords, "read", lambda *_: False)
    told = read(b"".join(RECORDS), kind="wet")
    assert told.texts == [*TEXTS[:4], TEXTS[5]]
    assert told.counts["decoding"] == {"heads_without_row": 1}
