"""A run, a source or a raw shard that keeps nothing says so, with the reason that drops most."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill import check, run, status
from gristmill.reports.status import lines
from tests.support.command import command_line
from tests.support.corpora import jsonl

NO_TEXT: Sequence[dict[str, object]] = [{"body": "words"} for _ in range(4)]
TEXTS: Sequence[dict[str, object]] = [{"text": f"words of document {row}"} for row in range(4)]


def corpus(folder: Path, recipe: str, **files: Sequence[dict[str, object]]) -> list[str]:
    """Write files, run a recipe over them into `out`; the lines that it says."""
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_bytes(jsonl(list(rows)))
    (folder / "recipe.toml").write_text(recipe)
    told: list[str] = []

    def show(event: dict[str, Any]) -> None:
        if event["event"] == "line":
            told.append(event["text"])

    run(folder / "recipe.toml", out=folder / "out", workers=1, show=show)
    return told


def command(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)


def source(name: str, *files: str) -> str:
    return f'[[source]]\nname = "{name}"\nfiles = {[f"{file}.jsonl" for file in files]}\n'


def test_a_run_that_keeps_nothing_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(list(NO_TEXT)))
    for _ in range(2):  # also where all is up to date
        done = command("run", tmp_path / "a.jsonl", "--out", tmp_path / "out", "--workers", 1)
        assert done.returncode == 6
        last = done.stderr.splitlines()[-1]
        assert "nothing is kept of 4 documents: read.no_text drops 4" in last
        assert "Name the field with `text`" in last


def test_a_text_that_is_too_large_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words " * 1_000)
    given = ("run", tmp_path / "r.toml", "--out", tmp_path / "out", "--workers", 1)
    recipe = '[[source]]\nname = "a"\nfiles = ["a.txt"]\nmax_document_bytes = 1_000\n'
    (tmp_path / "r.toml").write_text(recipe)
    done = command(*given)
    assert done.returncode == 6
    assert "read.too_large drops 1" in done.stderr.splitlines()[-1]
    (tmp_path / "r.toml").write_text(recipe.replace("1_000", "10_000"))
    assert command(*given).returncode == 0


def test_a_source_that_keeps_nothing_is_told(tmp_path: Path) -> None:
    told = corpus(tmp_path, source("x", "a") + source("y", "b"), a=NO_TEXT, b=TEXTS)
    wanted = "source 'x': nothing is kept of 4 documents: read.no_text drops 4"
    assert [line for line in told if wanted in line]
    shown = lines(status(tmp_path / "out"))
    assert [line for line in shown if "x: 0 documents" in line and "nothing is kept" in line]


def test_a_raw_shard_that_keeps_nothing_is_told(tmp_path: Path) -> None:
    told = corpus(tmp_path, source("x", "a", "b", "c"), a=NO_TEXT, b=TEXTS, c=TEXTS[:1])
    (line,) = [line for line in told if "nothing is kept" in line]
    assert "of 1 of 3 raw shards: a.jsonl (4 documents: read.no_text drops 4)" in line
    assert status(tmp_path / "out")["nothing_kept"] == ["x 0"]
    found = check(tmp_path / "out")["findings"]
    assert [one for one in found if "of 1 raw shards, such as 0 (a.jsonl)" in one["figure"]]


def test_nothing_is_told_where_every_shard_keeps_something(tmp_path: Path) -> None:
    told = corpus(tmp_path, source("x", "a", "b"), a=TEXTS, b=[*NO_TEXT, *TEXTS])
    assert not [line for line in told if "nothing is kept" in line]
