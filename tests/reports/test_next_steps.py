"""What a run says in the end: commands that work as they are printed."""

import re
import shlex
from pathlib import Path

import pytest
import typer

import gristmill
from gristmill.cli.app import app
from gristmill.reports import next_steps
from tests.support.corpora import jsonl, pages


def test_commands_are_of_this_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(pages(20)))
    corpus = tmp_path / "a corpus"
    gristmill.run([str(tmp_path / "a.jsonl")], out=corpus, workers=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(next_steps, "program", lambda: "gristmill")
    first, *lines = next_steps.next_lines(corpus)
    assert first == "The corpus is a corpus. Next:"
    commands = [shlex.split(re.split(r"  +", line.strip())[0]) for line in lines]
    assert [words[:3] for words in commands] == [
        ["gristmill", verb, "a corpus"] for verb in ("report", "verify", "why", "explore")
    ]
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert {words[1] for words in commands} <= known.keys()
    answer = gristmill.why(corpus, commands[2][3])
    assert answer[0]["reason"] is not None, "a dropped document is the better example"


def test_elsewhere_paths_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert next_steps._short(tmp_path / "corpus") == str(tmp_path / "corpus")
    assert next_steps._short(tmp_path / "here/corpus") == "corpus"
