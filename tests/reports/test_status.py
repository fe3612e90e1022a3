"""Status: sources, tokens, sizes, release; while a run is at work, finished, published, watched."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill import ReleaseReader, publish, withdraw
from gristmill.errors import RecipeError, SourceError
from gristmill.network.releases.status_remote import lines, rate_line, status_of_release, watched
from gristmill.reports.status import status, status_question
from tests.support.command import command_line
from tests.support.corpora import article, jsonl
from tests.support.trainer_readers import word_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("status")
    for name, count in (("web", 9), ("books", 4)):
        rows = [{"text": article(f"{name} {number}", 12)} for number in range(count)]
        (folder / f"{name}.jsonl").write_bytes(jsonl([*rows, rows[0]]))
    (folder / "tokenizer.json").write_bytes(word_tokenizer(100))
    (folder / "recipe.toml").write_text(
        "".join(f'[[source]]\nname = "{n}"\nfiles = ["{n}.jsonl"]\n' for n in ("web", "books"))
        + '[deduplicate]\n[tokens]\ntokenizer = "tokenizer.json"\ntokens_per_shard = 500\n'
    )
    gristmill.run(folder / "recipe.toml", out=folder / "begun", workers=1, until="process")
    gristmill.run(folder / "recipe.toml", out=folder / "corpus", workers=1)
    return folder


def test_of_a_run_that_is_not_finished(folder: Path) -> None:
    found = status(folder / "begun")
    assert (found["finished"], found["tokens"], found["absent"]) == (False, 0, {})
    assert found["sources"] == [
        {"name": "web", "raw_shards": 1, "documents": 10, "tokens": 0, "not_needed": 0},
        {"name": "books", "raw_shards": 1, "documents": 5, "tokens": 0, "not_needed": 0},
    ]


def test_of_a_finished_corpus(folder: Path) -> None:
    found = status(folder / "corpus")
    web, books = found["sources"]
    assert (web["documents"], web["kept"], books["documents"], books["kept"]) == (10, 9, 5, 4)
    sizes = [path.stat().st_size for path in (folder / "corpus/tokens/web").glob("train_*.bin")]
    assert (web["token_shards"], web["bytes"]) == (len(sizes), sum(sizes))
    assert web["tokens"] == sum(sizes) // 2
    assert found["tokens"] == found["funnel"]["tokens"] == web["tokens"] + books["tokens"]
    assert found["vocabulary"] == 100
    assert found["bytes"] > sum(sizes)
    assert (web["target_shards"], web["share"]) == (None, None)
    assert "process" in " ".join(found["phases"])


def test_of_a_release_and_of_one_that_withdraws(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "public"
    publish(folder / "corpus", target)
    reader = ReleaseReader(target)
    found = status_of_release(reader)
    assert (found["release"], found["signed"], found["withdrawn"]) == (1, False, 0)
    local = status(folder / "corpus")
    for name in ("tokens", "vocabulary", "kept", "sources"):
        assert found[name] == local[name]
    assert "release 1" in lines(found)[0]
    ask, shown = status_question([str(target)])
    assert shown(ask()) == lines(found)
    with pytest.raises(RecipeError, match="one folder"):
        status_question([str(folder / "corpus")], tmp_path / "root.json")
    import shutil

    shutil.copytree(folder / "corpus", tmp_path / "corpus")
    withdraw(tmp_path / "corpus", ["0:1"])
    publish(tmp_path / "corpus", target)
    after = status_of_release(reader)
    assert (after["release"], after["withdrawn"], after["kept"]) == (2, 1, found["kept"] - 1)


def test_watching_shows_what_grows_and_goes_on_after_an_error() -> None:
    answers: list[Any] = [{"tokens": 100, "bytes": 0}, SourceError("gone"), {"tokens": 160}]
    times = iter([10.0, 12.0, 14.0])

    def ask() -> dict[str, Any]:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return dict(found)

    slept: list[float] = []
    found = list(watched(ask, 2.0, 3, clock=lambda: next(times), sleep=slept.append))
    assert [one["event"] for one in found] == ["status", "error", "status"]
    assert slept == [2.0, 2.0]
    assert found[0]["rate"] is None
    assert (found[1]["error"], found[1]["errors"]) == ("gone", 1)
    assert found[2]["rate"] == {"tokens": 15.0}
    assert "+15.0 tokens a second; 1 looks failed" in rate_line(found[2])


def test_the_verb_prints_a_line_of_json_for_each_look(folder: Path) -> None:
    words = ["status", folder / "corpus", "--watch", "--interval", "0.1", "--looks", "2", "--json"]
    done = subprocess.run(
        command_line(*words), capture_output=True, text=True, check=True, timeout=60
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["rate"], second["rate"]["tokens"]) == (None, 0.0)
    assert first["tokens"] == second["tokens"] > 0
