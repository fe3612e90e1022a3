"""Real archives with pages: other people's crawlers, servers and charsets."""

import csv
import hashlib
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from gristmill.source.archives import charset
from gristmill.source.rows import Fields
from tests.support.shards import Reading, read

WIDE = Fields(pages=True)
SPARKWARC = "A_warc/cc_sparkwarc_CC-MAIN-2016-50"
EDGE = "A_warc/warcio_edge"

# file -> (pages, rows that are none and why)
PINNED: dict[str, tuple[int, dict[str, int]]] = {
    f"{SPARKWARC}/sample.warc.fixed.gz": (6, {}),
    f"{SPARKWARC}/sample.warc.gz": (0, {"wrong_length": 12, "truncated": 1}),
    "A_warc/cc_arc_2008/cc2008_a.arc.gz": (63, {"not_html": 3, "http_status": 6}),
    "A_warc/cc_arc_2008/cc2008_a.warc.gz": (63, {"not_html": 3, "http_status": 6}),
    "A_warc/ia_blackbook_2008/example.arc.gz": (94, {"not_html": 158, "http_status": 47}),
    "A_warc/ia_blackbook_2008/example.warc.gz": (94, {"not_html": 158, "http_status": 47}),
    "A_warc/cc_whirlwind_2024-22/whirlwind.warc.gz": (1, {}),
    "A_warc/cc_jwarc/cc.warc.gz": (1, {}),
    "A_warc/cc_cdxj-indexer/cc.warc.gz": (1, {}),
    "A_warc/wget_dolma/sample-0000.warc.gz": (22, {"not_html": 2}),
    "A_warc/pywb/iana.warc.gz": (16, {"not_html": 28, "revisit": 123, "http_status": 4}),
    "A_warc/pywb/dupes.warc.gz": (1, {"not_html": 1, "revisit": 9, "http_status": 1}),
    "A_warc/node-warc/books.toscrape.warc": (1, {"not_html": 29}),
    "A_warc/wayback/topic-1--20201003083220753-00000.warc.gz": (
        0,
        {"not_html": 232, "no_text": 6},
    ),  # text/plain without HTTP
    "A_warc/warcdb/google.warc.gz": (1, {"not_html": 2, "http_status": 2}),
    "A_warc/warc-diff/example.warc.gz": (1, {"not_html": 1, "http_status": 2}),
    "A_warc/clueweb09_small/00.warc.fixed.gz": (23, {}),
    f"{EDGE}/bad.arc": (0, {"wrong_length": 3, "not_html": 1}),
    f"{EDGE}/example-bad-non-chunked.warc.gz": (1, {"revisit": 1}),
    f"{EDGE}/example-wrong-chunks.warc.gz": (1, {}),
    f"{EDGE}/example-iana.org-chunked.warc": (1, {}),
    f"{EDGE}/example-resource.warc.gz": (1, {}),
    f"{EDGE}/example-space-in-url.arc": (0, {"truncated": 1}),  # six bytes short of its length
    f"{EDGE}/example-trunc.warc": (0, {"wrong_length": 1}),
    f"{EDGE}/example.arc": (1, {}),
    f"{EDGE}/example.arc.gz": (1, {}),
    f"{EDGE}/example.warc.gz": (1, {"revisit": 1}),
    f"{EDGE}/post-test.warc.gz": (0, {"not_html": 3}),
    "B_html/_warc/cleaneval-dev.warc.gz": (58, {"not_html": 1}),
    "B_html/_warc/cleanportaleval-master.warc.gz": (71, {"not_html": 1}),
    "J_debian_docs/open_crawl.warc.gz": (455, {"not_html": 5, "http_status": 1}),
}


def reasons(told: Reading) -> dict[str, int]:
    return dict(Counter(reason.removeprefix("read.") for _, reason, _ in told.failed))


@pytest.mark.parametrize("name", PINNED)
def test_what_a_file_gives_is_pinned(data: Path, name: str) -> None:
    told = read(data / name, fields=WIDE)
    assert (len(told.texts), reasons(told)) == PINNED[name]
    assert told.counts["kind"] == "warc"
    assert {row["content_type"] for row in told.rows if row["reason"] is None} <= {
        "text/html",
        "application/xhtml+xml",
    }


def test_every_archive_gives_as_many_rows_with_pages_as_without(data: Path) -> None:
    files = [
        path
        for path in sorted((data / "A_warc").rglob("*"))
        if re.search(r"\.w?arc\.|\.w[ae]t\.|\.w?arc$", path.name)
    ]
    assert len(files) > 35
    for path in files:
        plain, wide = read(path), read(path, fields=WIDE)
        assert [row["document"] for row in plain.rows] == [row["document"] for row in wide.rows], (
            path
        )
        # of pages that are no documents none is decoded
        assert {**plain.counts, "decoding": {}} == {**wide.counts, "decoding": {}}
        for old, new in zip(plain.rows, wide.rows, strict=True):
            if old["reason"] != "read.not_text":
                assert old == new
        assert not {"read.not_text"} & {row["reason"] for row in wide.rows}


@pytest.mark.parametrize("folder", ["cc_arc_2008/cc2008_a", "ia_blackbook_2008/example"])
def test_an_arc_file_and_its_warc_file_give_the_same(data: Path, folder: str) -> None:
    told = [read(data / f"A_warc/{folder}.{kind}.gz", fields=WIDE).rows for kind in ("arc", "warc")]
    names = ("url", "text", "date", "content_type", "declared_language", "reason")
    arc, warc = ([tuple(row[name] for name in names) for row in rows] for rows in told)
    # Heritrix wrote other times and another order of equal URLs: what was got is the same.
    assert Counter(row[:2] for row in arc) == Counter(row[:2] for row in warc)
    if folder.startswith("cc"):
        assert arc == warc


def scripts(text: str) -> Counter[str]:
    return Counter(unicodedata.name(char, "?").split()[0] for char in text if ord(char) > 127)


def test_the_worst_charsets_are_read(data: Path) -> None:
    told = read(data / "A_warc/cc_arc_2008/cc2008_a.arc.gz", fields=WIDE)
    # The one that there is stands for a letter in a page that names itself utf-8 and is not.
    assert sum(text.count("\ufffd") for text in told.texts) <= 2
    found = [
        scripts(text).most_common(1)[0][0]
        for text in told.texts
        if sum(scripts(text).values()) > 1000
    ]
    assert sorted(found) == ["ARABIC", "CJK"]
    chinese = next(text for text in told.texts if scripts(text)["CJK"] > 1000)
    assert re.search("charset=gbk", chinese)
    assert "搞设计何必东奔西走" in chinese
    # No letters of DOS, box drawing or upper controls: what bytes become that are read in a wrong
    # charset.
    for text in told.texts:
        assert not re.search("[\x80-\x9f\u2500-\u257f]", text)


@pytest.mark.parametrize(
    ("name", "label", "codec", "part"),
    [
        ("windows-1250_cz", "windows-1250", "cp1250", None),
        ("iso-8859-2", "ISO-8859-2", "iso8859-2", None),
        ("iso-8859-1_en", "iso-8859-1", "cp1252", None),
        ("utf-16BE_ar", "utf-16be", "utf-16-be", "ARABIC"),
        ("utf-8_ar", None, "utf-8", "ARABIC"),
    ],
)
def test_real_texts_under_their_labels(
    data: Path, name: str, label: str | None, codec: str, part: str | None
) -> None:
    raw = (data / f"A_warc/charset_c4corpus/{name}.txt").read_bytes()
    text = charset.read(raw, label).text
    assert text == raw.decode(codec).removeprefix("\ufeff")
    assert part is None or scripts(text).most_common(1)[0][0] == part


@pytest.mark.parametrize(
    "name",
    [
        "J_debian_docs/open_docs",
        "J_debian_docs/open_docs_gzip",
        "B_html/_warc/cleaneval-dev",
        "B_html/_warc/cleanportaleval-master",
    ],
)
def test_every_page_comes_out_as_its_file_is(data: Path, name: str) -> None:
    with open(data / f"{name}.truth.tsv", encoding="utf-8", newline="") as file:
        truth = {row["url"]: row for row in csv.DictReader(file, delimiter="\t")}
    rows = [
        row for row in read(data / f"{name}.warc.gz", fields=WIDE).rows if row["reason"] is None
    ]
    assert {row["url"] for row in rows} == set(truth)
    exact = 0
    for row in rows:
        encoded = row["text"].encode()
        made = (encoded, b"\xef\xbb\xbf" + encoded, row["text"].encode("cp1252", "replace"))
        exact += truth[row["url"]]["sha1"] in {hashlib.sha1(page).hexdigest() for page in made}
    assert exact == len(truth)
