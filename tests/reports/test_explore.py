"""The Parquet file of `explore`: which documents, which columns, what is cut and redacted; its map;
and how it is opened.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill.errors import RecipeError, VerificationError
from gristmill.reports.documents.document_map import DocumentMap
from gristmill.reports.documents.explore import FIRST, LAST
from tests.support import ROOT
from tests.support.corpora import article, jsonl, pages

RECIPE = """
output = "corpus"
[[source]]
name = "web"
files = ["a.jsonl"]
[[source]]
name = "more"
files = ["b.jsonl"]
limit = 30
[[step]]
use = "gopher"
[[step]]
use = "language"
sources = ["web"]
keep = ["en"]
[deduplicate]
near = {}
"""
HOSTILE = "<script>alert(1)</script> ' \" ; DROP TABLE documents; -- \x1b[2J \u202e \U0001f9f5"
PERSON = "Write to jane.doe@company.com. "


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explore")
    rows = pages(80)
    rows[0]["text"] = PERSON + article("person", 30)
    rows[1]["text"] = article("hostile", 30) + HOSTILE
    rows[1]["url"] = "https://user:secret@Host.Example:8080/a?b"
    rows[2] |= {"text": "zürich " * 3, "url": None}
    (folder / "a.jsonl").write_bytes(jsonl(rows))
    (folder / "b.jsonl").write_bytes(jsonl(pages(40, "b")))
    (folder / "recipe.toml").write_text(RECIPE)
    gristmill.run(folder / "recipe.toml", workers=1)
    return folder / "corpus"


@pytest.fixture(scope="module")
def explored(corpus: Path) -> Path:
    return corpus.parent / "explored.parquet"


@pytest.fixture(scope="module")
def table(corpus: Path, explored: Path) -> pa.Table:
    out = explored
    said = gristmill.explore(corpus, out)
    found = pq.read_table(out)
    assert said["columns"] == found.column_names
    assert said["documents"] == said["of"] == len(found)
    assert said["with_text"] == len(found) - found["text"].null_count
    assert said["bytes"] == out.stat().st_size
    return found


def test_every_document_is_there_with_its_verdict(corpus: Path, table: pa.Table) -> None:
    verdicts = gristmill.Corpus(corpus).arrow("verdicts").to_pylist()
    assert table["document"].to_pylist() == [
        f"{row['document'] >> 32}:{row['document'] & 0xFFFFFFFF}" for row in verdicts
    ]
    for name in ("value", "threshold", "similarity", "url"):
        assert table[name].to_pylist() == [row[name] for row in verdicts]
    assert table["reason"].to_pylist() == [row["reason"] or "kept" for row in verdicts]
    assert table["verdict"].to_pylist() == [
        "dropped" if row["reason"] else "kept" for row in verdicts
    ]
    assert table["step"].to_pylist() == [
        row["reason"].partition(".")[0] if row["reason"] else None for row in verdicts
    ]
    named = {
        row["document"]: row["keeper"] for row in table.select(["document", "keeper"]).to_pylist()
    }
    assert any(named.values())
    assert all(keeper in named for keeper in named.values() if keeper)


def test_measures_are_those_of_the_corpus(corpus: Path, table: pa.Table) -> None:
    documents = table["document"].to_pylist()
    for number, row in enumerate(gristmill.Corpus(corpus).arrow("measures").to_pylist()):
        name = f"{row['document'] >> 32}:{row['document'] & 0xFFFFFFFF}"
        found = table.slice(documents.index(name), 1).to_pylist()[0]
        for measure, value in row.items():
            if measure == "language.label":
                assert found["language"] == value
            elif measure != "document":
                assert found[measure.replace(".", "_")] == value, (number, measure)
    assert set(table["language"].to_pylist()) >= {"en", None}, "one source has no such step"
    assert {"x", "y"} <= set(table.column_names)


def test_texts_are_the_documents_own_cut_and_redacted(corpus: Path, table: pa.Table) -> None:
    rows = {row["document"]: row for row in table.to_pylist()}
    stored = {
        f"{row['document'] >> 32}:{row['document'] & 0xFFFFFFFF}": row["text"]
        for row in gristmill.Corpus(corpus).documents(kept=False)
    }
    checked = 0
    for name, text in stored.items():
        found = rows[name]
        if rows[name]["reason"] == "kept" and name != "0:0":
            assert found["text"] == text[:1000]
            assert found["characters"] == len(text)
            checked += 1
    assert checked > 30
    person = rows["0:0"]["text"]
    assert "jane.doe" not in person
    assert "<EMAIL>" in person
    assert len(person) <= 1000
    # A sample of what was dropped rests in the corpus: the text of some is there.
    assert any(row["text"] for row in rows.values() if row["step"] == "gopher")


def test_hosts(table: pa.Table) -> None:
    by_url = dict(zip(table["url"].to_pylist(), table["host"].to_pylist(), strict=True))
    assert by_url["https://user:secret@Host.Example:8080/a?b"] == "Host.Example:8080"
    assert by_url[None] == ""


def test_options(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.parquet"
    gristmill.explore(corpus, out, characters=40, redact=False, projection=False)
    whole = pq.read_table(out)
    assert "x" not in whole.column_names
    assert whole["text"][0].as_py().startswith(PERSON)
    assert len(whole["text"][0].as_py()) == 40
    gristmill.explore(corpus, out, verdict="dropped", projection=False)
    dropped = pq.read_table(out)
    assert set(dropped["verdict"].to_pylist()) == {"dropped"}
    said = gristmill.explore(corpus, out, verdict="kept", projection=False)
    assert said["documents"] + len(dropped) == len(whole)
    assert set(pq.read_table(out)["verdict"].to_pylist()) == {"kept"}


def test_samples_are_seeded_and_nested(corpus: Path, tmp_path: Path) -> None:
    def chosen(sample: int, seed: int) -> list[str]:
        out = tmp_path / f"{sample}-{seed}.parquet"
        said = gristmill.explore(corpus, out, sample=sample, seed=seed, projection=False)
        found: list[str] = pq.read_table(out)["document"].to_pylist()
        assert len(found) == said["documents"] == sample
        return found

    small, large = chosen(10, 1), chosen(40, 1)
    assert set(small) < set(large)
    assert chosen(10, 1) == small
    assert chosen(10, 2) != small


def test_same_arguments_give_the_same_rows(corpus: Path, table: pa.Table, tmp_path: Path) -> None:
    gristmill.explore(corpus, tmp_path / "again.parquet")
    again = pq.read_table(tmp_path / "again.parquet")
    assert again.drop(["x", "y"]).equals(table.drop(["x", "y"]))
    for name in "xy":
        assert np.allclose(again[name].to_numpy(), table[name].to_numpy(), atol=1e-5)


def test_what_is_refused(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.parquet"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"sample": 0}, "sample = 0"),
        ({"characters": 0}, "characters = 0"),
        ({"verdict": "lost"}, "kept or dropped"),
        ({"out": tmp_path}, "a folder"),
        ({"out": corpus / "explore.parquet"}, "in the corpus"),
    ]
    for options, words in wrong:
        with pytest.raises(RecipeError, match=re.escape(words)):
            gristmill.explore(corpus, **{"out": out, **options})
    out.write_bytes(b"not ours")
    with pytest.raises(RecipeError, match="did not write it"):
        gristmill.explore(corpus, out)
    gristmill.explore(corpus, out, force=True, sample=5, projection=False)
    gristmill.explore(corpus, out, sample=5, projection=False)  # it is ours now
    with pytest.raises(VerificationError, match="no such folder"):
        gristmill.explore(tmp_path / "nowhere", tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_damaged_verdicts_are_an_error_and_leave_no_file(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    path = tmp_path / "corpus/verdicts/00000.parquet"
    data = path.read_bytes()
    for damaged, words in (
        (data[:-40], "the manifest says"),
        (b"x" * len(data), "not a table as it was written"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(VerificationError, match=words):
            gristmill.explore(tmp_path / "corpus", tmp_path / "x.parquet")
    path.unlink()
    with pytest.raises(VerificationError, match="No such file"):
        gristmill.explore(tmp_path / "corpus", tmp_path / "x.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["corpus"]


# -- the map


def test_map_puts_like_texts_near_each_other() -> None:
    cats = [f"the cat sleeps on a warm mat {n} purring softly" for n in range(40)]
    ships = [f"a ship sails over grey water {n} towards the harbour" for n in range(40)]
    placed = DocumentMap.fitted([pa.array([*cats, *ships, None, ""])])
    places = placed.of(pa.array([*cats, *ships, None, ""]))
    assert places.shape == (82, 2)
    cat, ship = places[:40], places[40:80]
    within = max(one.std(axis=0).max() for one in (cat, ship))
    assert np.linalg.norm(cat.mean(axis=0) - ship.mean(axis=0)) > 5 * within
    assert (places[80:] == 0).all()
    assert (placed.of(pa.array(cats[:3])) == places[:3]).all()


def test_map_of_nothing() -> None:
    empty = pa.array([None, ""], pa.string())
    assert (DocumentMap.fitted([]).of(empty) == 0).all()
    assert np.isfinite(DocumentMap.fitted([pa.array(["one"])]).of(pa.array(["one"]))).all()


# -- how it is opened


def command_line(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gristmill", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_verb_says_how_to_open_the_file(corpus: Path, tmp_path: Path) -> None:
    """The SQL that it prints answers, by DuckDB, whatever the name of the file."""
    out = tmp_path / "it's $HOME.parquet"
    done = command_line("explore", corpus, "--out", out, "--sample", 50, "--no-map")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{out}: 50 of 120 documents, ") or "of" in lines[0]
    found = [line.strip() for line in lines if line.startswith("  duckdb")]
    assert len(found) == 3
    (atlas,) = [line for line in lines if "embedding-atlas " in line and "--text" in line]
    assert shlex.split(atlas)[1:] == [
        *("embedding-atlas", str(out), "--text", "text", "--disable-projection")
    ]
    fake = tmp_path / "bin/duckdb"
    fake.parent.mkdir()
    fake.write_text(f"#!{sys.executable}\nimport duckdb, sys\nprint(duckdb.sql(sys.argv[2]))\n")
    fake.chmod(0o755)
    path = f"{fake.parent}:{os.environ['PATH']}"
    for line in found:
        ran = subprocess.run(
            ["sh", "-c", line],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr


@pytest.mark.usefixtures("table")
def test_the_pages_questions_are_answered(explored: Path, tmp_path: Path) -> None:
    """Each block of SQL in docs/explore.md, on a file of this corpus."""
    page = (ROOT / "docs/explore.md").read_text()
    blocks = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    shutil.copy(explored, tmp_path / "explore.parquet")
    with duckdb.connect() as database:
        database.execute(f"SET file_search_path = '{tmp_path}'")
        for block in blocks:
            assert database.sql(block).fetchall(), block
    for name in (*FIRST.names, *LAST.names, "x", "y"):
        assert f"| `{name}` |" in page
