"""Columns in the folders of a path, and fields at a path of names."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill.errors import SourceError
from gristmill.source.path_columns import path_columns
from gristmill.source.rows import Fields
from tests.support.shards import read


@pytest.mark.parametrize(
    ("url", "columns"),
    [
        ("data/lang=en/year=2024/a.parquet", {"lang": "en", "year": "2024"}),
        ("s3://bucket/lang=pt%2DBR/a=b=c/x.jsonl", {"lang": "pt-BR", "a": "b=c"}),
        ("https://host/q/x.jsonl?lang=en/y", {}),
        ("lang=en.jsonl", {}),
        ("lang=__HIVE_DEFAULT_PARTITION__/a.csv", {}),
        ("1=2/=x/a b=c/a.csv", {}),
    ],
)
def test_columns_of_a_path(url: str, columns: dict[str, str]) -> None:
    assert dict(path_columns(url)) == columns


def test_columns_of_the_path_are_fields_of_each_document() -> None:
    data = b'{"text": "a"}\n{"text": "b", "n": 1}\n{"text": "c", "lang": "de"}\nnone\n'
    told = read(data, fields=Fields(columns=(("lang", "en"), ("text", "x"), ("y", '"1"'))))
    extras = [row["extra"] and json.loads(row["extra"]) for row in told.rows]
    assert extras == [
        {"lang": "en", "y": '"1"'},
        {"lang": "en", "y": '"1"', "n": 1},
        {"lang": "de", "y": '"1"'},
        None,
    ]
    told = read(data.splitlines()[1], fields=Fields(columns=(("lang", "en"),)), kind="jsonl")
    assert told.rows[0]["extra"] == '{"lang":"en","n":1}'


def test_a_run_keeps_the_columns_of_the_path_and_reads_folders_that_a_glob_names(
    tmp_path: Path,
) -> None:
    for lang in ("de", "en"):
        folder = tmp_path / f"raw/lang={lang}"
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text(f'{{"text": "A text in {lang}."}}\n')
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('output = "corpus"\n[[source]]\nname = "web"\nfiles = ["raw/lang=*"]\n')
    gristmill.run(recipe)
    rows = [
        row
        for part in (tmp_path / "corpus").glob("text/**/*.parquet")
        for row in pq.ParquetFile(part).read().to_pylist()
    ]
    assert {row["text"]: row["extra"] for row in rows} == {
        "A text in de.": '{"lang":"de"}',
        "A text in en.": '{"lang":"en"}',
    }


DOCUMENTS = [
    {"doc": {"text": "One text.", "id": 1, "at": {"url": "http://a/"}}, "n": 1},
    {"doc": None, "n": 2},
    {"doc": {"text": "Another text.", "id": 2, "at": {"url": None}}, "n": 3},
]
NESTED = Fields("doc.text", "doc.at.url")


def test_a_field_at_a_path_of_names_is_the_text() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(DOCUMENTS), sink)
    for data in (
        "".join(json.dumps(one) + "\n" for one in DOCUMENTS).encode(),
        json.dumps(DOCUMENTS).encode(),
        sink.getvalue().to_pybytes(),
    ):
        told = read(data, fields=NESTED)
        assert told.texts == ["One text.", "Another text."]
        assert [(row, reason) for row, reason, _ in told.failed] == [(1, "read.no_text")]
        assert told.rows[0]["url"] == "http://a/"
        extra = json.loads(told.rows[0]["extra"])
        assert (extra["n"], extra["doc"]["id"]) == (1, 1)
        assert "text" not in extra["doc"]
    with pytest.raises(SourceError, match="no column 'doc.words'"):
        read(sink.getvalue().to_pybytes(), fields=Fields("doc.words"))


def test_a_field_of_the_whole_name_comes_first() -> None:
    told = read(b'{"doc.text": "a", "doc": {"text": "b"}}\n', fields=NESTED)
    assert told.texts == ["a"]
    assert json.loads(told.rows[0]["extra"]) == {"doc": {"text": "b"}}
