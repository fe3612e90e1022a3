"""Bytes that are no UTF-8: counted, a reason by their share, and a file that is in another encoding
is refused.
"""

import json
from pathlib import Path

import pytest

import gristmill
from gristmill import check
from gristmill.errors import SourceError
from gristmill.source.rows import Fields
from tests.support.corpora import record
from tests.support.shards import read

FRENCH = [f"Déjà vu : la crème brûlée numéro {number} est très bonne." for number in range(40)]
PLAIN = [f"The text of page {number} has plain words only." for number in range(40)]
STRICT = Fields(max_replaced=0.01)
MARK = b"\xef\xbb\xbf"


def jsonl(texts: list[str], encoding: str = "utf-8") -> bytes:
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    return "".join(line + "\n" for line in lines).encode(encoding)


def csv(texts: list[str], encoding: str = "utf-8") -> bytes:
    return "".join(["text,n\n", *(f'"{text}",1\n' for text in texts)]).encode(encoding)


@pytest.mark.parametrize(("made", "kind"), [(jsonl, "JSONL"), (csv, "CSV")])
def test_a_file_in_another_encoding_is_refused_with_advice(made, kind: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SourceError, match=f"looks like {kind} that is not UTF-8 .*iconv"):
        read(made(FRENCH, "cp1252"))
    with pytest.raises(SourceError, match="is not UTF-8"):
        read(made([*PLAIN, *FRENCH[:20]], "cp1252"))
    assert read(made(FRENCH)).texts == FRENCH
    # A few lines are damage, and a file with lines in both encodings is no cp1252.
    assert len(read(made(PLAIN) + jsonl(FRENCH[:1], "cp1252")).texts) >= len(PLAIN)
    assert read(made(FRENCH) + jsonl(FRENCH[:3], "cp1252")).texts[:40] == FRENCH


@pytest.mark.parametrize("made", [jsonl, csv])
def test_texts_with_many_bytes_that_are_no_utf8_have_a_reason_and_others_are_counted(made) -> None:  # type: ignore[no-untyped-def]
    texts = [PLAIN[0], FRENCH[0], "a long text " * 20 + "é", "U+FFFD itself: \ufffd\ufffd\ufffd"]
    data = made(texts[:1]) + made(texts[1:3], "cp1252") + made(texts[3:])
    told = read(data, fields=STRICT, kind="jsonl" if made is jsonl else "csv")
    assert told.texts == [texts[0], texts[2].replace("é", "\ufffd"), texts[3]]
    assert [reason for _, reason, _ in told.failed] == ["read.not_utf8"]
    share = sum(not sign.isascii() for sign in FRENCH[0]) / len(FRENCH[0])
    assert told.failed[0][2] == pytest.approx(share)
    assert told.counts["decoding"] == {"replaced": 2}


def test_the_share_holds_for_archives_and_tables_too() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [text.encode("cp1252") for text in (PLAIN[0], FRENCH[0], "a long text " * 20 + "é")]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": pa.array(texts, pa.binary())}), sink)
    for data in (
        b"".join(record(text, None, number) for number, text in enumerate(texts)),
        sink.getvalue().to_pybytes(),
    ):
        told = read(data, fields=STRICT)
        assert told.texts == [PLAIN[0], "a long text " * 20 + "\ufffd"]
        assert [(row, reason) for row, reason, _ in told.failed] == [(1, "read.not_utf8")]
        assert told.counts["decoding"] == {"replaced": 2}


def test_a_text_that_is_read_as_it_is_has_no_share() -> None:
    told = read(FRENCH[0].encode("cp1252"), fields=STRICT, kind="text")
    assert len(told.texts) == 1
    assert told.counts["decoding"] == {"replaced": 1}


@pytest.mark.parametrize("made", [jsonl, csv])
def test_a_byte_order_mark_where_files_were_joined_is_no_part_of_a_line(made) -> None:  # type: ignore[no-untyped-def]
    told = read(MARK + made(FRENCH[:2]) + MARK + made(FRENCH[2:4]))
    assert (told.texts, told.failed) == (FRENCH[:4], [])


def test_a_run_counts_them_and_check_tells_it(tmp_path: Path) -> None:
    lines = [*PLAIN, *(f"{text} " * 9 + "é" for text in PLAIN[:3]), FRENCH[0]]
    (tmp_path / "a.jsonl").write_bytes(jsonl(lines, "cp1252"))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('output = "corpus"\n[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n')
    gristmill.run(recipe)
    manifest = json.loads((tmp_path / "corpus/manifest.json").read_bytes())
    assert manifest["raw_shards"][0]["decoding"] == {"replaced": 4}
    assert manifest["raw_shards"][0]["unique_documents"] == len(lines) - 1
    (told,) = [one for one in check(tmp_path / "corpus")["findings"] if "UTF-8" in one["figure"]]
    assert told["figure"].startswith("4 of 44 documents of source web")
