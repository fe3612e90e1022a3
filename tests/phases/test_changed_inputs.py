"""Inputs that change between two runs: refused, or made again and taken out; never "up to date"."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gristmill import run, status, verify, why
from gristmill.errors import RecipeError
from gristmill.pipeline import dry_run
from gristmill.reports.status import lines
from tests.support.corpora import digests, jsonl

WITHOUT_TOKENS = '[[source]]\nname = "web"\nfiles = ["raw/*.jsonl"]\n'


def rows(name: str, count: int = 3) -> bytes:
    return jsonl([{"text": f"{name} words of document {row}"} for row in range(count)])


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe over three files, and its corpus in `out`."""
    (tmp_path / "raw").mkdir()
    for name in "abc":
        (tmp_path / f"raw/{name}.jsonl").write_bytes(rows(name))
    path = tmp_path / "recipe.toml"
    path.write_text(WITHOUT_TOKENS)
    again(path)
    return path


def again(recipe: Path, out: str = "out", **more: Any) -> list[str]:
    """Run the recipe; the lines that it says."""
    told: list[str] = []

    def show(event: dict[str, Any]) -> None:
        if event["event"] == "line":
            told.append(event["text"])

    folder = recipe.parent
    run(recipe, out=folder / out, workers=1, cache_dir=folder / "cache", show=show, **more)
    return told


def texts(recipe: Path, out: str = "out") -> list[str]:
    """The texts that a corpus keeps."""
    found: list[str] = []
    for path in sorted((recipe.parent / out / "text/web").glob("*.parquet")):
        found += pq.read_table(path)["text"].to_pylist()
    return found


def missing(recipe: Path, out: str = "out") -> list[str | None]:
    table = json.loads((recipe.parent / out / "manifest.json").read_bytes())
    return [shard.get("missing") for shard in table["raw_shards"]]


def noted(recipe: Path) -> dict[str, Any]:
    files: dict[str, Any] = json.loads((recipe.parent / "out/work/inputs.json").read_bytes())[
        "files"
    ]
    return files


def age(recipe: Path) -> None:
    """Have the files look as old as files are: what is young is not noted."""
    for path in (recipe.parent / "raw").iterdir():
        os.utime(path, ns=(10**18, 10**18))
    time.sleep(2.1)  # ctime cannot be set


def test_a_file_that_grew_is_refused_then_made_again_under_a_new_number(recipe: Path) -> None:
    grown = rows("a") + rows("new", 1)
    (recipe.parent / "raw/a.jsonl").write_bytes(grown)
    before = digests(recipe.parent / "out")
    for _ in range(2):
        with pytest.raises(RecipeError, match=r"raw/a.jsonl .* 102 bytes then.* --replace"):
            again(recipe)
    assert digests(recipe.parent / "out") == before
    found = status(recipe.parent / "out")
    assert list(found["changed_inputs"]) == ["raw/a.jsonl"]
    assert any("changed since the last run: raw/a.jsonl" in line for line in lines(found))
    told = again(recipe, replace=True)
    assert any(line.startswith("replaced: raw shard 00000 (raw/a.jsonl)") for line in told)
    assert missing(recipe) == ["replaced", None, None, None]
    assert sorted(texts(recipe)) == sorted(
        json.loads(line)["text"] for line in (grown + rows("b") + rows("c")).splitlines()
    )
    assert verify(recipe.parent / "out")
    found = status(recipe.parent / "out")
    assert (found["gone"], found["changed_inputs"]) == ({"web 0": "replaced"}, {})
    with pytest.raises(RecipeError, match="raw shard 0 .* replaced: its file changed"):
        why(recipe.parent / "out", "0:0")
    assert any("up to date" in line for line in again(recipe))


def test_the_stored_plan_gives_the_bytes_of_a_corpus_whose_inputs_changed(recipe: Path) -> None:
    (recipe.parent / "raw/a.jsonl").write_bytes(rows("other"))
    (recipe.parent / "raw/b.jsonl").unlink()
    again(recipe, replace=True, remove=True)
    again(recipe, "fresh", plan_file=recipe.parent / "out/plan.json")
    assert digests(recipe.parent / "fresh") == digests(recipe.parent / "out")
    # Its pins are promises, whatever the command line allows.
    (recipe.parent / "raw/c.jsonl").write_bytes(rows("third"))
    with pytest.raises(RecipeError, match="--plan says which bytes"):
        again(recipe, "third", plan_file=recipe.parent / "out/plan.json", replace=True)


@pytest.mark.parametrize("how", ["deleted", "not listed"])
def test_a_file_that_left_is_refused_then_its_documents_leave(recipe: Path, how: str) -> None:
    if how == "deleted":
        (recipe.parent / "raw/b.jsonl").unlink()
    else:
        recipe.write_text(WITHOUT_TOKENS.replace("*", "[ac]"))
    for more in ({}, {"replace": True}):
        with pytest.raises(RecipeError, match=r"raw/b.jsonl \(raw shard 1: .* --remove"):
            again(recipe, **more)
    with pytest.raises(RecipeError, match="raw/b.jsonl"):
        dry_run(recipe, out=recipe.parent / "out", cache_dir=recipe.parent / "cache")
    told = again(recipe, remove=True)
    assert any(line.startswith("removed: raw shard 00001 (raw/b.jsonl)") for line in told)
    assert not [text for text in texts(recipe) if text.startswith("b ")]
    assert missing(recipe) == [None, "removed", None]
    out = recipe.parent / "out"
    left = [path for path in out.rglob("*") if path.is_file() and b"b words" in path.read_bytes()]
    assert not left
    assert not list((out / "work").rglob("00001.*"))
    with pytest.raises(RecipeError, match="raw shard 1 .* removed"):
        why(out, "1:0")
    # What comes back is another raw shard.
    (recipe.parent / "raw/b.jsonl").write_bytes(rows("b"))
    recipe.write_text(WITHOUT_TOKENS)
    again(recipe)
    assert missing(recipe) == [None, "removed", None, None]
    assert [row["reason"] for row in why(out, "3:0")] == [None]


def test_a_disk_that_is_not_mounted_is_no_takedown(recipe: Path) -> None:
    away = recipe.parent / "away"
    (recipe.parent / "raw").rename(away)
    (recipe.parent / "raw").mkdir()
    with pytest.raises(RecipeError, match="none of its files is there .* not mounted"):
        again(recipe, remove=True)
    shutil.rmtree(recipe.parent / "raw")
    with pytest.raises(RecipeError, match="none of its files is there"):
        again(recipe, remove=True)
    away.rename(recipe.parent / "raw")
    assert any("up to date" in line for line in again(recipe, remove=True))


def test_a_folder_of_a_source_that_is_away_is_no_takedown(recipe: Path) -> None:
    disk = recipe.parent / "raw/disk"
    disk.mkdir()
    (disk / "d.jsonl").write_bytes(rows("d"))
    recipe.write_text(WITHOUT_TOKENS.replace("*", "**/*"))
    again(recipe)
    (disk / "d.jsonl").rename(recipe.parent / "d.jsonl")
    with pytest.raises(RecipeError, match="raw/disk is not there or holds nothing"):
        again(recipe, remove=True)
    (disk / ".emptied").touch()
    again(recipe, remove=True)
    assert missing(recipe) == [None, None, None, "removed"]


def test_a_source_that_left_the_recipe_is_refused_or_removed(recipe: Path) -> None:
    (recipe.parent / "d.jsonl").write_bytes(rows("d"))
    recipe.write_text('[[source]]\nname = "other"\nfiles = ["d.jsonl"]\n')
    with pytest.raises(RecipeError, match="3 raw shards of the corpus are not in the recipe"):
        again(recipe)
    again(recipe, remove=True)
    assert missing(recipe) == ["removed"] * 3 + [None]
    assert verify(recipe.parent / "out")
    assert any("up to date" in line for line in again(recipe))


def test_an_unfinished_run_takes_a_changed_file_under_its_number(recipe: Path) -> None:
    again(recipe, "begun", until="process")
    (recipe.parent / "raw/b.jsonl").write_bytes(rows("other", 5))
    with pytest.raises(RecipeError, match=r"raw/b.jsonl .* --replace"):
        again(recipe, "begun")
    again(recipe, "begun", replace=True)
    again(recipe, "fresh")
    assert digests(recipe.parent / "begun") == digests(recipe.parent / "fresh")


def test_only_files_whose_size_or_times_differ_are_read(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gristmill.phases.inputs import local_inputs

    age(recipe)
    again(recipe)
    assert len(noted(recipe)) == 3
    read: list[str] = []
    hash_file = local_inputs.hash_file
    monkeypatch.setattr(
        local_inputs, "hash_file", lambda path: (read.append(path.name), hash_file(path))[1]
    )
    again(recipe)
    assert read == []
    # The same bytes at another time are read, and are the same; noted when they are old enough.
    (recipe.parent / "raw/b.jsonl").write_bytes(rows("b"))
    assert any("up to date" in line for line in again(recipe))
    assert read == ["b.jsonl"]
    # Other bytes of the same size and time: ctime tells.
    path = recipe.parent / "raw/c.jsonl"
    path.write_bytes(rows("x"))
    os.utime(path, ns=(10**18, 10**18))
    with pytest.raises(RecipeError, match=r"raw/c.jsonl .* sha256"):
        again(recipe)
    path.write_bytes(rows("c"))
    read.clear()
    again(recipe, check_inputs=True)
    assert sorted(read) == ["a.jsonl", "b.jsonl", "c.jsonl"]


def test_without_the_note_every_file_is_read(recipe: Path) -> None:
    shutil.rmtree(recipe.parent / "out/work")
    (recipe.parent / "raw/c.jsonl").write_bytes(rows("x"))
    with pytest.raises(RecipeError, match=r"raw/c.jsonl .* sha256"):
        again(recipe)


@pytest.mark.usefixtures("tiktoken_folder")
def test_an_append_only_corpus_refuses_with_advice(recipe: Path) -> None:
    tokens = '[tokens]\ntokenizer = "gpt2"\norder = "append"\n'
    recipe.write_text(WITHOUT_TOKENS + tokens)
    again(recipe, "tokens")
    before = digests(recipe.parent / "tokens")
    (recipe.parent / "raw/a.jsonl").write_bytes(rows("other"))
    with pytest.raises(RecipeError, match='order = "append".*gristmill release withdraw'):
        again(recipe, "tokens", replace=True)
    (recipe.parent / "raw/a.jsonl").write_bytes(rows("a"))
    assert any("up to date" in line for line in again(recipe, "tokens"))
    assert digests(recipe.parent / "tokens") == before


def test_a_withdrawn_document_does_not_come_back_with_its_file(recipe: Path) -> None:
    (recipe.parent / "list.txt").write_text("0:1\n")
    step = '[[step]]\nuse = "withdrawn"\nlist = "list.txt"\n'
    recipe.write_text(WITHOUT_TOKENS + step)
    again(recipe)
    (recipe.parent / "raw/a.jsonl").write_bytes(rows("a", 4))
    with pytest.raises(RecipeError, match="document 0:1 was withdrawn, and its file"):
        again(recipe, replace=True)
    (recipe.parent / "raw/a.jsonl").write_bytes(rows("a"))
    assert any("up to date" in line for line in again(recipe))


def test_a_list_that_changed_is_told_and_read_again(recipe: Path) -> None:
    (recipe.parent / "list.txt").write_text("0:1\n")
    step = '[[step]]\nuse = "withdrawn"\nlist = "list.txt"\n'
    recipe.write_text(WITHOUT_TOKENS + step)
    again(recipe)
    (recipe.parent / "list.txt").write_text("0:1\n1:1\n")
    told = again(recipe)
    assert any(line.startswith("changed: withdrawn.list (list.txt)") for line in told)
    assert len(texts(recipe)) == 7
