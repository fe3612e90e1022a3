"""Real files, sound and broken: each is read to its end, and what was read adds up."""

import gzip
import re
from pathlib import Path

import pytest

from gristmill.errors import SourceError
from gristmill.source.rows import Fields
from tests.support.shards import Reading, read

SPARKWARC = "A_warc/cc_sparkwarc_CC-MAIN-2016-50"
SCALATOOLS = "A_warc/cc_wet_CommonCrawlScalaTools"

# file -> (kind, documents that are read, rows that are not and why, records that are none)
PINNED: dict[str, tuple[str, int, dict[str, int], dict[str, int]]] = {
    f"{SPARKWARC}/sample.wet.fixed.gz": ("wet", 68, {}, {"warcinfo": 1}),
    f"{SPARKWARC}/sample.wet.gz": ("wet", 59, {"read.wrong_length": 10}, {}),
    f"{SPARKWARC}/sample.warc.fixed.gz": (
        "warc",
        0,
        {"read.not_text": 6},
        {"metadata": 5, "request": 6, "warcinfo": 1},
    ),
    f"{SPARKWARC}/sample.warc.gz": (
        "warc",
        0,
        {"read.wrong_length": 12, "read.truncated": 1},
        {"metadata": 5},
    ),
    f"{SPARKWARC}/sample.wat.fixed.gz": ("wet", 0, {}, {"metadata": 15, "warcinfo": 1}),
    f"{SPARKWARC}/sample.wat.gz": ("wet", 0, {"read.wrong_length": 1}, {"metadata": 15}),
    f"{SCALATOOLS}/corrupt_two_warcinfo.wet.gz": ("wet", 5, {}, {"warcinfo": 2}),
    f"{SCALATOOLS}/file_headers_only.wet.gz": ("wet", 0, {"read.truncated": 1}, {}),
    f"{SCALATOOLS}/fragment1_incomplete_last.wet.gz": (
        "wet",
        1,
        {"read.truncated": 1},
        {"warcinfo": 1},
    ),
    "A_warc/cc_wet_cc_net/sample.warc.fixed.gz": ("wet", 3, {}, {"warcinfo": 1}),
    "A_warc/cc_wet_cc_net/sample.warc.txt": ("wet", 0, {"read.wrong_length": 4}, {}),
    "A_warc/cc_whirlwind_2024-22/whirlwind.warc.wet.gz": ("wet", 1, {}, {"warcinfo": 1}),
    "A_warc/cc_text_datajuicer/redpajama-cc-2023-06-refined.jsonl": ("jsonl", 10, {}, {}),
    "A_warc/cc_text_dolma/cc_en_head-0091.jsonl.gz": ("jsonl", 10, {}, {}),
}
REFUSED = {
    "A_warc/charset_c4corpus/windows-1250_cz.txt": "text that is not UTF-8",
    "A_warc/charset_c4corpus/iso-8859-2.txt": "text that is not UTF-8",
    "A_warc/charset_c4corpus/utf-16BE_ar.txt": "UTF-16 text",
    "A_warc/cc_wet_govuk_G5/Scraped_2024_p2.csv": "CSV without a column 'text'",
    "A_warc/cc_wet_govuk_G5/filtered_2024_p1.csv": "CSV without a column 'text'",
}


def reasons(told: Reading) -> dict[str, int]:
    out: dict[str, int] = {}
    for _, reason, _ in told.failed:
        out[reason] = out.get(reason, 0) + 1
    return out


@pytest.mark.parametrize("name", PINNED)
def test_what_a_file_gives_is_pinned(data: Path, name: str) -> None:
    told = read(data / name)
    assert (
        told.counts["kind"],
        len(told.texts),
        reasons(told),
        told.counts["records_skipped"],
    ) == PINNED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_text_of_ours_is_refused(data: Path, name: str) -> None:
    with pytest.raises(SourceError, match=f"not text: looks like {REFUSED[name]}"):
        read(data / name)
    kind = "csv" if name.endswith(".csv") else "text"
    assert len(read(data / name, kind=kind, fields=Fields(text="content")).texts) >= 1


def test_every_file_is_read_to_its_end(data: Path) -> None:
    files = [path for path in sorted((data / "A_warc").rglob("*")) if path.is_file()]
    assert len(files) > 40
    kinds = set()
    for path in files:
        if str(path.relative_to(data)) in REFUSED:
            continue
        told = read(path)  # which checks that every row has a number and a text or a verdict
        kinds.add(told.counts["kind"])
        assert told.counts["compressed_bytes"] == path.stat().st_size
        assert told.rows or told.counts["records_skipped"], path
    assert kinds == {"wet", "warc", "jsonl", "text"}


def test_every_file_cut_in_its_middle_is_read_too(data: Path) -> None:
    for path in sorted((data / "A_warc").rglob("*")):
        if (
            path.is_file()
            and path.stat().st_size < 300_000
            and str(path.relative_to(data)) not in REFUSED
        ):
            whole = path.read_bytes()
            for cut in (len(whole) // 3, len(whole) // 2, len(whole) - 3):
                try:
                    read(whole[:cut])
                except SourceError as error:
                    pytest.fail(f"{path} cut at {cut}: {error}")


def plain(path: Path) -> list[tuple[str | None, bytes]]:
    """A reader of its own for a sound WET file: one gzip member a record, CRLF."""
    out: list[tuple[str | None, bytes]] = []
    data = gzip.decompress(path.read_bytes())
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(headers[b"Content-Length"])
        if headers[b"WARC-Type"] == b"conversion":
            url = headers.get(b"WARC-Target-URI")
            out.append((url and url.decode(), rest[:size]))
        assert rest[size : size + 4] == b"\r\n\r\n"
        data = rest[size + 4 :]
    return out


@pytest.mark.parametrize(
    "name",
    [f"{SPARKWARC}/sample.wet.fixed.gz", "A_warc/cc_whirlwind_2024-22/whirlwind.warc.wet.gz"],
)
def test_the_texts_are_those_that_a_plain_reader_gives(data: Path, name: str) -> None:
    told = read(data / name)
    expected = plain(data / name)
    assert [(row["url"], row["text"]) for row in told.rows] == [
        (url, body.decode("utf-8", "replace")) for url, body in expected
    ]


def test_of_the_file_with_rewritten_line_ends_every_record_has_a_row(data: Path) -> None:
    raw = gzip.decompress((data / SPARKWARC / "sample.wet.gz").read_bytes())
    told = read(data / SPARKWARC / "sample.wet.gz")
    records = [match.start() for match in re.finditer(rb"^WARC/1\.0$", raw, re.MULTILINE)]
    assert len(told.rows) == len(records) == 69
    assert [value for _, _, value in told.failed] == [
        start for start in records if start in {value for _, _, value in told.failed}
    ]
    # What was given is what stands there, byte for byte.
    sound = {row["url"]: row["text"] for row in read(data / SPARKWARC / "sample.wet.fixed.gz").rows}
    for row in told.rows:
        if row["reason"] is None:
            assert row["text"] in raw.decode("utf-8", "replace")
            assert row["text"].rstrip() == sound[row["url"]].replace("\r\n", "\n").rstrip()
