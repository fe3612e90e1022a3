"""`gristmill.Corpus`: a finished corpus in Python."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gristmill
from gristmill.corpus.parents import parent_id
from gristmill.errors import ArgumentError, MachineError, VerificationError
from gristmill.reports.documents.why import lines
from tests.support.corpora import jsonl, pages
from tests.support.skips import missing


def package(name: str) -> Any:
    """An optional package."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name, f"the package {name} is not installed")


# By row of a.jsonl, the id of what it was made of, as the file has it.
PARENTS: dict[int, object] = {0: "<urn:uuid:1>", 2: 17, 3: "", 4: True, 5: ["a", "b"], 6: None}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("open")
    rows = pages(40)
    for row, parent in PARENTS.items():
        rows[row]["origin"] = parent
    (folder / "a.jsonl").write_bytes(jsonl(rows[:30]))
    (folder / "b.jsonl").write_bytes(jsonl([*rows[30:], rows[0], {"text": "short"}]))
    (folder / "recipe.toml").write_text(
        'output = "corpus"\n[[source]]\nname = "web"\nfiles = ["*.jsonl"]\nparent = "origin"\n'
        '[[step]]\nuse = "simple"\n[deduplicate]\nnear = {}\n'
    )
    gristmill.run(folder / "recipe.toml", workers=1)
    return folder / "corpus"


def test_tables(corpus: Path) -> None:
    opened = gristmill.Corpus(str(corpus))
    assert {"documents", "measures", "text", "verdicts", "duplicates/pairs"} <= set(opened.tables)
    verdicts = opened.arrow()
    assert len(verdicts) == opened.manifest.funnel["documents"] == 42
    assert verdicts["document"].to_pylist() == sorted(verdicts["document"].to_pylist())
    assert opened.arrow("measures", ["simple.words"]).column_names == ["simple.words"]
    assert sum(map(len, opened.batches("documents"))) == len(opened.arrow("documents"))
    counted = opened.duckdb().filter("reason is null").count("*").fetchall()
    assert counted == [(opened.manifest.funnel["kept"],)]
    with pytest.raises(ArgumentError, match="no table 'verdict'; there are"):
        opened.arrow("verdict")


def test_parents(corpus: Path, tmp_path: Path) -> None:
    named = {"0:0": "<urn:uuid:1>", "0:2": "17"}
    for row in (*PARENTS, 1):
        (answer,) = gristmill.why(corpus, f"0:{row}")
        assert answer["parent"] == named.get(f"0:{row}")
    assert "  made of 17" in lines(gristmill.why(corpus, "0:2")[0])
    kept = {row["document"]: row["parent"] for row in gristmill.Corpus(corpus).documents()}
    assert {number: parent for number, parent in kept.items() if parent} == {
        number: named[f"0:{number}"] for number in (0, 2) if number in kept
    }
    assert 0 in kept
    gristmill.export(corpus, tmp_path / "out", to="jsonl")
    exported = (tmp_path / "out/web/00000.jsonl").read_bytes().splitlines()
    assert json.loads(exported[0])["origin"] == "<urn:uuid:1>"


@pytest.mark.parametrize(
    ("extra", "field", "found"),
    [
        (None, "parent", None),
        ('{"a":1}', "parent", None),
        ('{"parent":"x"}', "parent", "x"),
        ('{"a":"parent"}', "parent", None),
        ('{"parent":1.5}', "parent", None),
        ('{"a \\"b":12345678901234567890}', 'a "b', "12345678901234567890"),
        ('{"\\u00e9":"x"}', "\u00e9", "x"),
    ],
)
def test_the_field_with_the_parent(extra: str | None, field: str, found: str | None) -> None:
    assert parent_id(extra, field) == found


def test_documents(corpus: Path) -> None:
    opened = gristmill.Corpus(corpus)
    kept = list(opened.documents())
    assert len(kept) == opened.manifest.funnel["kept"]
    of_verdicts = opened.arrow()
    numbers = of_verdicts.filter(of_verdicts["reason"].is_null())["document"].to_pylist()
    assert [row["document"] for row in kept] == numbers
    assert max(row["copies"] for row in kept) == 1
    stored = list(opened.documents(kept=False))
    dropped = [row for row in stored if row["reason"] is not None]
    assert {row["reason"].partition(".")[0] for row in dropped} == {"deduplicate"}
    assert len(stored) == len(kept) + len(dropped)
    stream = opened.documents()
    assert next(stream)["text"] == kept[0]["text"]


def test_it_shows_itself(corpus: Path) -> None:
    opened = gristmill.Corpus(corpus)
    assert "documents in" in str(opened.funnel)
    assert "<pre>documents in" in opened._repr_html_()
    assert "of 42 documents kept; tables" in repr(opened)
    assert str(gristmill.Funnel.empty()).startswith("no funnel")
    assert opened.recipe["step"][0]["use"] == "simple"


def test_frames(corpus: Path) -> None:
    polars = package("polars")
    opened = gristmill.Corpus(corpus)
    assert isinstance(opened.polars(), polars.DataFrame)
    assert opened.polars().height == 42


def test_pandas(corpus: Path) -> None:
    package("pandas")
    assert len(gristmill.Corpus(corpus).pandas()) == 42


def test_hugging_face(corpus: Path) -> None:
    package("datasets")
    opened = gristmill.Corpus(corpus)
    kept = [row["document"] for row in opened.to_dataset()]
    assert kept == [row["document"] for row in opened.documents()]


def test_a_package_that_is_missing_is_named(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, call in (("pandas", "pandas"), ("polars", "polars"), ("datasets", "to_dataset")):
        monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(MachineError, match=f"pip install {name}"):
            getattr(gristmill.Corpus(corpus), call)()


def test_what_is_no_whole_corpus(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="no such folder"):
        gristmill.Corpus(tmp_path / "none")
    with pytest.raises(VerificationError, match="not a corpus, or not finished"):
        gristmill.Corpus(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(corpus, copy)
    opened = gristmill.Corpus(copy)
    part = copy / "verdicts/00000.parquet"
    data = part.read_bytes()
    part.write_bytes(data[:-1])
    with pytest.raises(VerificationError, match="bytes, and the manifest says"):
        opened.arrow()
    part.write_bytes(data[:-9] + b"x" * 9)
    with pytest.raises(VerificationError, match="cannot be read"):
        opened.arrow()
    part.unlink()
    with pytest.raises(VerificationError, match="the manifest names it"):
        list(opened.documents())
    (copy / "manifest.lock").write_text("0" * 64)
    with pytest.raises(VerificationError):
        gristmill.Corpus(copy)


def test_an_empty_table_has_its_columns(corpus: Path) -> None:
    opened = gristmill.Corpus(corpus)
    assert isinstance(opened.arrow("duplicates/similar"), pa.Table)
