"""Folders may have any name: brackets, stars, quotes, spaces. A tool that takes paths as patterns
would read the corpus beside.
"""

import os
from pathlib import Path

import duckdb
import pytest

from gristmill import Corpus, report, run
from gristmill.engine.relations import Database, pattern
from gristmill.phases.inputs.sources import expand
from gristmill.recipe import Source
from gristmill.store.cache import Cache
from gristmill.store.http.transfer import Transfer
from tests.support.corpora import jsonl, pages

# A name, and one beside it that it matches as a pattern.
NAMES = {
    "q[1]": "q1",
    "a*b": "axxb",
    "w?": "wz",
    'it\'s ü [!x] "2"': 'it\'s ü 1 "2"',
    "lang=en": "lang=de",
}
RECIPE = """
output = "corpus {name}"
[[source]]
name = "w"
files = ["raw/*.jsonl"]
[deduplicate]
exact = true
[deduplicate.near]
[deduplicate.lines]
most = 2
"""


def made(home: Path, seed: str, count: int, name: str = "x") -> Path:
    """A corpus of documents of its own, everything of it below one folder."""
    rows = pages(count, seed)
    (home / "raw").mkdir(parents=True)
    (home / "raw" / "part[0].jsonl").write_bytes(jsonl([*rows, rows[0]]))
    recipe = home / "recipe.toml"
    recipe.write_text(RECIPE.format(name=name.replace('"', "'")))
    run(recipe, cache_dir=home / "cache")
    return home / f"corpus {name}".replace('"', "'")


@pytest.mark.parametrize("name", NAMES)
def test_a_corpus_of_any_name_is_read_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / NAMES[name]).mkdir()
    beside = made(tmp_path / NAMES[name], "beside", 9)
    os.symlink(beside, tmp_path / NAMES[name] / f"corpus {NAMES[name]}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mine = made(tmp_path / name, "mine", 30, name)
    corpus = Corpus(mine)
    assert corpus.funnel.table["documents"] == 31
    rows = corpus.duckdb("verdicts").fetchall()
    assert len(rows) == 31
    assert corpus.duckdb("verdicts").columns == corpus.arrow("verdicts").column_names
    assert {str(url) for (url,) in corpus.duckdb("documents").project("url").fetchall()} == {
        str(row["url"]) for row in pages(30, "mine")
    }
    report(mine, out=mine.parent / "page [1].html")
    assert "beside" not in (mine.parent / "page [1].html").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_relation_reads_and_writes_in_folders_of_any_name(tmp_path: Path, name: str) -> None:
    for folder, value in ((NAMES[name], 1), (name, 2)):
        (tmp_path / folder).mkdir()
        place = str(tmp_path / folder / "a[1].parquet").replace("'", "''")
        duckdb.execute(f"copy (select {value} as document) to '{place}' (format parquet)")
    place = str(tmp_path / name / "a1.parquet").replace("'", "''")
    duckdb.execute(f"copy (select 3 as document) to '{place}' (format parquet)")
    own = tmp_path / name
    with Database(own / "spill", [own], threads=1, memory_mb=100) as database:
        database.table("left_rows", [own / "a[1].parquet"], "*")
        database._run("create table kept as select * from left_rows")
        found = database._connection.execute("select * from kept").fetchall()
    assert found == [(2,)]
    assert duckdb.read_parquet([pattern(own / "a[1].parquet")]).fetchall() == [(2,)]


def test_the_folder_of_a_recipe_is_no_pattern(tmp_path: Path) -> None:
    for name in ("q[1]", "q1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.jsonl").write_text("{}")
    transfer = Transfer(Cache(tmp_path / "cache"))
    found = expand(Source(name="w", files=["*.jsonl"]), tmp_path / "q[1]", transfer, 0)
    assert [shard.url for shard in found] == ["q[1].jsonl"]
