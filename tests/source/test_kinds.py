"""What a shard holds is told by several of its lines and records; what is no known format is
refused, with what it looks like.
"""

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import tarfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from gristmill.errors import SourceError
from gristmill.source import kinds
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields
from gristmill.source.source_format import FORMATS
from tests.support.corpora import record
from tests.support.shards import read

LINES = [
    json.dumps({"text": f"text {number}", "n": number}).encode() + b"\n" for number in range(12)
]
TEXTS = [f"text {number}" for number in range(12)]
PACK: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
    "xz": lzma.compress,
}


@pytest.mark.parametrize(
    "first",
    [
        b"# made by a tool\n",
        b"null\n",
        b'ng, cut", "url": "http://pages.example/"}\n',
        b'xt": "cut by split"}\n',
        b"\xff\x00\x01\n",
        b"[1]\n",
        b'{"text": "cut\n',
        b"x" * 300_000 + b"\n",
        b"<!-- header -->\n",
        b"\xef\xbb\xbf// header\n",
        b"text\n",
        b"a,b\n",
    ],
)
def test_a_bad_first_line_is_a_bad_line_of_jsonl(first: bytes) -> None:
    for pack in PACK.values():
        told = read(pack(first + b"".join(LINES)))
        assert (told.counts["kind"], told.texts) == ("jsonl", TEXTS)
        assert told.failed == [(0, "read.not_json", 0)]
    told = read(first + LINES[0])  # two lines are enough
    assert (told.counts["kind"], told.texts) == ("jsonl", TEXTS[:1])


def test_a_first_line_over_the_limit_is_one_of_jsonl_too() -> None:
    fields = Fields(max_document_bytes=100_000)
    for first in (b'{"text": "' + b"x" * 700_000 + b'"}\n', b"y" * 150_000 + b"\n"):
        told = read(first + b"".join(LINES), fields=fields)
        assert (told.texts, [reason for _, reason, _ in told.failed]) in (
            (TEXTS, ["read.too_large"]),
            (TEXTS, ["read.not_json"]),
        )
    assert read(b'{"text": "without an end ' + b"x" * 700_000, fields=fields).failed == [
        (0, "read.too_large", 0)
    ]


def test_one_line_that_is_cut_is_no_text() -> None:
    for line in (b'{"text": "cut off', b'{"text": 1', b'{"a"'):
        try:
            told = read(line)
        except SourceError:
            continue
        assert (told.texts, told.counts["kind"]) == ([], "jsonl")


def archive(kind: str = "conversion") -> list[bytes]:
    return [
        record(
            f"Text {number}. ".encode() * 30, f"http://pages.example/{number}", number, kind=kind
        )
        for number in range(16)
    ]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "bzip2"])
def test_a_damaged_first_member_hides_no_other(codec: str) -> None:
    members = [PACK[codec](made) for made in archive()]
    whole = b"".join(members)
    pages = read(whole).texts
    assert len(pages) == 16
    for place in [*range(14), 40, len(members[0]) - 3]:
        data = whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
        told = read(data)
        assert told.counts["kind"] == "wet", place
        # Some bytes of a header mean nothing to a reader (gzip's time, its system).
        assert told.texts in (pages[1:], pages), place
        assert told.texts == pages or told.failed[0][1:] in (
            ("read.corrupt", 0),
            ("read.truncated", 0),
        )


def test_a_table_whose_texts_hold_an_archive_is_a_table() -> None:
    archive = b"".join(record(b"text", "https://a.example/") for _ in range(3)).decode()
    sink = io.BytesIO()
    texts = ["before", archive, archive]
    pq.write_table(pa.table({"text": texts}), sink, compression="none", use_dictionary=False)
    told = read(sink.getvalue())
    assert (told.counts["kind"], told.texts) == ("parquet", texts)


def test_an_archive_that_begins_inside_a_record_is_one() -> None:
    made = b"".join(archive())
    for cut in (1, 3, 60, 500):
        told = read(made[cut:])
        assert (told.counts["kind"], len(told.texts)) == ("wet", 15), cut
    # A text about such files is a text.
    prose = (
        b"A record begins so:\n\nWARC/1.0\r\nWARC-Type: response\r\nContent-Length: "
        b"17\r\n\r\nand then comes the block.\n"
    ) * 3
    assert read(prose).texts == [prose.decode()]


def sqlite() -> bytes:
    base = sqlite3.connect(":memory:")
    base.execute("create table a (b)")
    return base.serialize()


def tar(form: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as made:
        info = tarfile.TarInfo("a.txt")
        info.size = 5
        made.addfile(info, io.BytesIO(b"words"))
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a.txt", "words " * 100)
    return file.getvalue()


NONE = {
    "a ZIP archive": zipped(),
    "a tar archive": tar(tarfile.USTAR_FORMAT),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\0\x04" + bytes(90),
    "a RAR archive": b"Rar!\x1a\x07\x01\0" + bytes(90),
    "a PNG image": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(90),
    "a JPEG image": b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(90),
    "a GIF image": b"GIF89a\x01\0\x01\0" + bytes(90),
    "a PDF document": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
    "an SQLite database": sqlite(),
    "an ELF program": b"\x7fELF\x02\x01\x01" + bytes(90),
    "an RTF document": rb"{\rtf1\ansi words}",
    "an ORC table": b"ORC\x0a\x0b\x01\0\xff\xfe" + bytes(90),
    "gzip data": gzip.compress(b"packed twice"),
    "UTF-16 text": "words in two bytes each".encode("utf-16"),
    "UTF-32 text": "words in four bytes".encode("utf-32"),
    "text that is not UTF-8": "Le moulin est à côté de la rivière".encode("cp1252"),
    "binary data": bytes(range(256)) * 9,
    "an HTML page": b"<!DOCTYPE html><html><title>Log in</title>",
    "an XML document": b'<?xml version="1.0"?><TEI><p>words</p></TEI>',
    "a JSON document over several lines": json.dumps({"a": 1, "b": [1, 2]}, indent=2).encode(),
    "a JSON array without objects": b'["a", "b"]\n',
}


@pytest.mark.parametrize("looks", NONE)
def test_what_is_no_known_format_is_refused_and_named(looks: str) -> None:
    for pack in (bytes, gzip.compress) if looks != "gzip data" else (gzip.compress,):
        with pytest.raises(SourceError, match=f"not text: looks like {looks}") as error:
            read(pack(NONE[looks]))
        assert 'kind = "' in str(error.value)
    if looks != "gzip data":
        assert len(read(NONE[looks], kind="text").texts) == 1  # as the recipe says


def test_an_old_tar_archive_and_utf_16_without_a_mark_are_named() -> None:
    old = bytearray(tar(tarfile.USTAR_FORMAT)[:512])
    old[257:265] = bytes(8)
    old[148:156] = b"%06o\0 " % (sum(old[:148]) + 8 * 32 + sum(old[156:]))
    for data, looks in (
        (bytes(old), "a tar archive"),
        ("words in two bytes".encode("utf-16-le"), "UTF-16"),
        ("words in four".encode("utf-32-be"), "UTF-32"),
    ):
        with pytest.raises(SourceError, match=looks):
            read(data)


def test_plain_text_is_utf_8_to_its_end_and_loses_its_mark() -> None:
    assert read(b"\xef\xbb\xbfwords\n").texts == ["words\n"]
    assert read(b"\xef\xbb\xbfwords\n", kind="text").texts == ["words\n"]
    for late in (b"caf\xe9", b"\x00\x01\x02\x03" * 9000):
        with pytest.raises(SourceError, match="not text: "):
            read(b"words and lines\n" * 40_000 + late)
    assert read(b"caf\xe9", kind="text").texts == ["caf\ufffd"]
    assert read("café, cut é".encode()[:-1]).texts == ["café, cut \ufffd"]
    for text in (
        "BMW builds cars, and ORC is a format.",
        "MZ begins it",
        "BZhang wrote it",
        "# A title\n\n[link](a.html), *so*\n",
        "ID3 is a tag",
    ):
        assert read(text.encode()).texts == [text]


def test_a_file_without_a_byte_has_no_document() -> None:
    for data in (
        b"",
        gzip.compress(b""),
        bz2.compress(b""),
        lz4.frame.compress(b""),
        b"\xef\xbb\xbf",
    ):
        for kind in (None, "text", "jsonl", "wet"):
            assert read(data, kind=kind).texts == []


def test_a_name_can_only_refuse(tmp_path: Path) -> None:
    page = gzip.compress(b"<html><body><form>Log in</form></body></html>")
    for name in ("https://data.example/a.jsonl.gz?token=1", "b.parquet", "c.warc.wet.gz"):
        for pages in (False, True):
            with pytest.raises(SourceError, match="looks like an HTML page"):
                read(page, name=name, fields=Fields(pages=pages))
        with pytest.raises(
            SourceError, match=r"not \w+, although its name says so: looks like plain text"
        ):
            read(b"Please log in first.", name=name)
    assert read(b"".join(LINES), name="a.parquet").texts == TEXTS
    assert read(b"Please log in first.", name="a.txt").texts


def test_a_bare_page_is_read_with_its_own_charset_where_a_step_takes_its_text_out() -> None:
    page = (
        '<html><head><meta charset="windows-1251"></head><body>Мельница стоит у реки</body></html>'
    )
    told = read(page.encode("cp1251"), fields=Fields(pages=True), name="a.html")
    assert (told.texts, told.counts["kind"], told.rows[0]["content_type"]) == (
        [page],
        "html",
        "text/html",
    )
    with pytest.raises(SourceError, match='use = "extract" extracts its text'):
        read(page.encode("cp1251"), name="a.html")


@pytest.mark.parametrize("codec", ["bzip2", "lz4"])
def test_bzip2_and_lz4_are_read_as_gzip_is(codec: str) -> None:
    pack = PACK[codec]
    members = [pack(line) for line in LINES]
    whole = b"".join(members)
    for data in (whole, pack(b"".join(LINES))):
        told = read(data)
        assert (told.texts, told.failed, told.counts["codec"]) == (TEXTS, [], codec)
    third = sum(map(len, members[:2]))
    told = read(whole[: third + len(members[2]) // 2])
    assert (told.texts, told.failed) == (TEXTS[:2], [(2, "read.truncated", third)])
    place = third + len(members[2]) // 2
    told = read(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
    assert (told.texts, told.failed) == (TEXTS[:2] + TEXTS[3:], [(2, "read.corrupt", third)])
    assert read(whole + b"not part of it " * 9).failed == [(12, "read.corrupt", len(whole))]


def test_headers_that_are_folded_or_in_lower_case_are_read() -> None:
    made = b"".join(archive())
    expected = read(made)
    small = made.replace(b"WARC/1.0", b"warc/1.0").replace(b"WARC-Type", b"warc-type")
    folded = made.replace(b"WARC-Type: ", b"WARC-Type:\r\n ").replace(
        b"Content-Length: ", b"Content-Length:\r\n\t "
    )
    for data in (
        small,
        folded,
        small.replace(b"\r\n", b"\n"),
        b"".join(map(gzip.compress, archive())).replace(b"", b""),
    ):
        told = read(data)
        assert (told.texts, told.counts["kind"]) == (expected.texts, "wet")
        assert [row["url"] for row in told.rows] == [row["url"] for row in expected.rows]


# -- tables

ROWS = [
    {
        "text": f'A "text", {number}\nwith two lines and ü',
        "url": f"http://pages.example/{number}",
        "n": str(number),
    }
    for number in range(3000)
]


def delimited(mark: str) -> bytes:
    import csv

    file = io.StringIO(newline="")
    made = csv.DictWriter(file, ["url", "text", "n"], delimiter=mark)
    made.writeheader()
    made.writerows(ROWS)
    return file.getvalue().encode()


def ipc(kind: str, **options: object) -> bytes:
    table = pa.Table.from_pylist(ROWS)
    file = io.BytesIO()
    if kind == "feather":
        feather.write_feather(table, file, **options)
    else:
        with (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(
            file, table.schema
        ) as made:
            made.write_table(table, max_chunksize=500)
    return file.getvalue()


TABLES = {
    "csv": delimited(","),
    "tsv": delimited("\t"),
    "json": json.dumps(ROWS).encode(),
    "arrow stream": ipc("stream"),
    "arrow file": ipc("file"),
    "arrow feather": ipc("feather"),
    "arrow feather zstd": ipc("feather", compression="zstd", chunksize=100),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_give_a_document_a_row(kind: str) -> None:
    for pack in (bytes, gzip.compress):
        told = read(pack(TABLES[kind]))
        assert told.counts["kind"] == kind.partition(" ")[0]
        assert told.counts["decompressed_bytes"] == len(TABLES[kind])
        assert told.texts == [row["text"] for row in ROWS]
        assert [row["url"] for row in told.rows] == [row["url"] for row in ROWS]
        assert json.loads(told.rows[7]["extra"]) == {"n": "7"}
        assert not told.failed
    assert len(read(TABLES[kind], limit=5).texts) == 5


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_is_cut_gives_the_rows_before_the_cut(kind: str) -> None:
    data = TABLES[kind]
    for part in (
        data[: len(data) * 2 // 3],
        gzip.compress(data)[: len(gzip.compress(data)) * 2 // 3],
    ):
        told = read(part)
        assert told.texts == [row["text"] for row in ROWS][: len(told.texts)]
        assert 0 < len(told.texts) < 3000 or kind == "arrow feather"
        assert told.failed or kind in ("csv", "tsv")


def test_rows_that_are_none_are_told() -> None:
    told = read(b'text,n\none,1\ntwo,2,too many\nthree\n\n"four, quoted",4\n' + b"more,5\n" * 40)
    assert told.texts[:2] == ["one", "four, quoted"]
    assert told.failed == [(2, "read.not_csv", 2), (3, "read.not_csv", 3)]
    assert told.counts["records_skipped"] == {"blank line": 1, "header": 1}
    told = read(b'[{"text": "a"}, 7, {"no": 1}, {"text": "b"}]')
    assert (told.texts, told.failed) == (
        ["a", "b"],
        [(1, "read.not_json", 1), (2, "read.no_text", 2)],
    )
    for bad in (
        b'[{"text": "a"}, {"text": }, {"text": "b"}]',
        b'[{"text": "a"}] {"text": "b"}',
        b'[{"text": "a", "b": ' + b"[" * 200_000 + b"}]",
    ):
        with pytest.raises(SourceError, match="element|elements"):
            read(bad)


def test_a_table_without_the_column_is_refused() -> None:
    for data in (TABLES["csv"], TABLES["tsv"], TABLES["arrow stream"]):
        with pytest.raises(SourceError, match="column 'body'"):
            read(data, fields=Fields(text="body"))
    with pytest.raises(SourceError, match="looks like CSV without a column 'text'"):
        read(b"a,b\n1,2\n", name="x.csv")
    assert read(b"Dear Anna, hello\nyes, I came\nno, I did not\n").counts["kind"] == "text"


def test_a_tsv_whose_quotation_marks_are_text() -> None:
    rows = b"".join(b'%d\t"He said" number %d, "and\n' % (number, number) for number in range(50))
    told = read(b"n\ttext\n" + rows)
    assert (len(told.texts), told.texts[0]) == (50, '"He said" number 0, "and')


def test_an_arrow_batch_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill.source.tables.arrow_ipc.MOST_BYTES", 50_000)
    for kind in ("arrow feather", "arrow feather zstd"):
        with pytest.raises(SourceError, match="an Arrow record batch of"):
            read(ipc("feather", compression="zstd") if "zstd" in kind else TABLES[kind])
    with pytest.raises(SourceError, match="not a readable Arrow stream|a damaged Arrow stream"):
        read(b"ARROW1\0\0" + b"\xff\xff\xff\xff\x40\0\0\0" + bytes(100))


def test_parquet_of_long_rows_and_of_dictionaries_is_read_by_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [f"{number:03d}" + "word " * 40_000 for number in range(60)]
    file = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), file, write_batch_size=8)
    assert read(file.getvalue()).texts == texts
    monkeypatch.setattr("gristmill.source.tables.parquet_pages.MOST_PAGE", 1 << 20)
    with pytest.raises(SourceError, match="column 'text' of row group 0 has a page of"):
        pq.write_table(pa.table({"text": texts}), file := io.BytesIO())
        read(file.getvalue())
    monkeypatch.undo()
    bomb = pa.DictionaryArray.from_arrays(
        pa.array([0] * 4000, pa.int32()), pa.array(["word " * 200_000])
    )
    for column in ({"text": bomb}, {"text": ["a"] * 4000, "other": bomb}):
        pq.write_table(
            pa.table(column),
            file := io.BytesIO(),
            compression="zstd",
            dictionary_pagesize_limit=1 << 24,
        )
        with pytest.raises(SourceError, match="a decompression bomb: "):
            read(file.getvalue())


def test_the_beginning_is_looked_at_once_however_much_white_space_follows_a_line() -> None:
    class Spaces:
        """A line, then white space in pieces of 64 KiB."""

        def __init__(self, pieces: int) -> None:
            self.pieces = iter([b"a line\n", *[b" " * (1 << 16)] * pieces])

        def peek(self) -> bytes | None:
            return next(self.pieces, None)

    def seconds(pieces: int) -> float:
        took = []
        for _ in range(3):
            start = time.process_time()
            assert not kinds.peek(Spaces(pieces), pieces << 15).ended
            took.append(time.process_time() - start)
        return min(took)

    # Of eight times the bytes: 8 where each is looked at once, 64 where all are for each piece.
    assert seconds(64) < 24 * max(seconds(8), 1e-3)


def test_every_kind_of_a_recipe_has_a_reader(tmp_path: Path) -> None:
    (tmp_path / "shard").write_bytes(b"x")
    for kind in FORMATS.names():
        with suppress(SourceError):
            list(ShardReader(tmp_path / "shard", 0, kind=kind))
