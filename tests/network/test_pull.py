"""Pull: a published corpus in another folder, the next run from the store alone, and what a store
that was altered gets.
"""

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gristmill import run, train_tokenizer, verify
from gristmill.errors import RecipeError, SourceError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.publish import publish
from gristmill.network.releases.pull import check_places, pull
from gristmill.store import manifest as manifests
from gristmill.store.parts import Part
from tests.support.command import command_line
from tests.support.corpora import digests, jsonl, pages
from tests.support.every_phase import in_process

RECIPE = """
[[source]]
name = "web"
files = ["raw/*"]
target_shards = 4
[deduplicate]
near = {}
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 2_000
validation = 0.1
order = "append"
"""
RAISED = ("target_shards = 4", "target_shards = 9")


def ran(folder: Path, recipe: str = RECIPE, **more: Any) -> list[dict[str, Any]]:
    """Run the recipe in a folder; the events that it showed."""
    events: list[dict[str, Any]] = []
    (folder / "recipe.toml").write_text(recipe)
    with in_process():
        run(
            folder / "recipe.toml",
            out=folder / "corpus",
            workers=1,
            cache_dir=folder / "cache",
            show=events.append,
            **more,
        )
    return events


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first machine: a corpus, and a store with it and the state of its run."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "raw").mkdir()
    for number in range(5):
        rows = pages(8, f"{number}") + pages(3, "0")
        (folder / f"raw/{number}.jsonl").write_bytes(jsonl(rows))
    train_tokenizer([folder / "raw/0.jsonl"], folder / "tokenizer.json", vocabulary=400)
    ran(folder)
    publish(folder / "corpus", folder / "store", with_=["state"])
    publish(folder / "corpus", folder / "small")
    return folder


def test_the_next_run_goes_on_from_the_store_alone(first: Path, tmp_path: Path) -> None:
    stayed, fresh = tmp_path / "stayed", tmp_path / "fresh"
    for name in ("raw", "corpus"):
        shutil.copytree(first / name, stayed / name)
    shutil.copy(first / "tokenizer.json", stayed)
    fresh.mkdir()
    shutil.copy(first / "tokenizer.json", fresh)
    counts = pull(first / "store", fresh / "corpus")
    assert (counts["parts"], counts["state"] > 0) == (counts["of"], True)
    assert digests(fresh / "corpus") == digests(first / "corpus")
    # Of the raw shards only those are there that the source goes on with.
    plan = json.loads((first / "corpus/plan.json").read_text())["shards"]
    cut = next(shard["number"] for shard in plan if "cut" in shard)
    assert cut > 0
    (fresh / "raw").mkdir()
    for number in range(cut, 5):
        shutil.copy(first / f"raw/{number}.jsonl", fresh / "raw")
    before = {
        path.name: path.read_bytes() for path in (fresh / "corpus/tokens/web").glob("train_*.bin")
    }
    ran(stayed, RECIPE.replace(*RAISED))
    events = ran(fresh, RECIPE.replace(*RAISED))
    assert digests(fresh / "corpus") == digests(stayed / "corpus")
    assert verify(fresh / "corpus")["parts"]
    full = {name: data for name, data in before.items() if len(data) == 4_000}
    assert len(full) >= 3
    assert {name: (fresh / "corpus/tokens/web" / name).read_bytes() for name in full} == full
    jobs = {event.get("job") for event in events if event.get("phase") == "process"}
    assert jobs
    assert not jobs & {f"{number:05d}" for number in range(cut + 1)}


def test_a_pull_brings_only_what_is_missing_and_what_is_asked_for(
    first: Path, tmp_path: Path
) -> None:
    counts = pull(first / "store", tmp_path / "corpus", only=["tokens", "tokenizer"])
    assert sorted(path.name for path in (tmp_path / "corpus").iterdir() if path.is_dir()) == [
        "tokenizer",
        "tokens",
        "work",
    ]
    assert pull(first / "store", tmp_path / "corpus", only=["tokens"])["bytes"] == 0
    damaged = next((tmp_path / "corpus/tokens/web").glob("*.bin"))
    damaged.write_bytes(b"x")
    again = pull(first / "store", tmp_path / "corpus", only=["tokens"])
    assert 0 < again["bytes"] < counts["bytes"]
    whole = pull(first / "store", tmp_path / "corpus")
    assert whole["parts"] == whole["of"]
    assert digests(tmp_path / "corpus") == digests(first / "corpus")
    with pytest.raises(RecipeError, match="--only text: release 1 has none; it has "):
        pull(first / "store", tmp_path / "other", only=["text"])


def _names(folder: Path) -> int:
    """How many files and folders are in a folder that another process changes."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def test_a_killed_pull_goes_on(first: Path, tmp_path: Path, soak: int) -> None:
    """Killed when some files are there, at 2 places (soak: 100); what is there is not fetched
    again.
    """
    corpus, pick = tmp_path / "corpus", random.Random(6)
    counts = pull(first / "store", corpus)
    most = len(list(corpus.rglob("*")))
    at_work = 0
    for _ in range(2 if soak == 1 else 5 * soak):
        shutil.rmtree(corpus)
        wanted = pick.randrange(most)
        process = subprocess.Popen(
            command_line("pull", first / "store", corpus), stdout=subprocess.DEVNULL
        )
        while process.poll() is None and _names(corpus) < wanted:
            time.sleep(0.001)
        at_work += process.poll() is None
        process.kill()
        process.wait()
        whole = sum(path.stat().st_size for path in corpus.rglob("*.bin"))
        again = pull(first / "store", corpus)
        assert again["bytes"] <= counts["bytes"] - whole
        assert (again["parts"], again["state"]) == (counts["parts"], counts["state"])
        assert digests(corpus) == digests(first / "corpus")
        assert verify(corpus)["parts"]
    assert at_work > 0


def test_a_folder_with_an_earlier_release_becomes_the_newest(first: Path, tmp_path: Path) -> None:
    shutil.copytree(first / "store", tmp_path / "store")
    for name in ("raw", "corpus"):
        shutil.copytree(first / name, tmp_path / "work" / name)
    shutil.copy(first / "tokenizer.json", tmp_path / "work")
    pull(tmp_path / "store", tmp_path / "copy")
    ran(tmp_path / "work", RECIPE.replace(*RAISED))
    publish(tmp_path / "work/corpus", tmp_path / "store", with_=["state"])
    with pytest.raises(RecipeError, match="holds another state of a corpus"):
        pull(tmp_path / "store", tmp_path / "copy", only=["tokens"])
    assert pull(tmp_path / "store", tmp_path / "copy")["release"] == 2
    assert digests(tmp_path / "copy") == digests(tmp_path / "work/corpus")


def test_what_is_not_as_it_was_published_is_refused(first: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(first / "small", store)
    manifest = manifests.decode((first / "corpus/manifest.json").read_bytes())
    part = next(part for part in manifest.parts if part.path.endswith(".bin"))
    key = store / layout.object_key(part.sha256)
    key.chmod(0o644)
    key.write_bytes(b"\0" * part.size)
    with pytest.raises(VerificationError, match="sha256"):
        pull(store, tmp_path / "corpus")
    assert not (tmp_path / "corpus/manifest.json").exists()
    with pytest.raises(SourceError, match="Nothing was published there"):
        pull(tmp_path / "nowhere", tmp_path / "other")
    (tmp_path / "mine/tokens").mkdir(parents=True)
    with pytest.raises(Exception, match="nothing is touched there"):
        pull(first / "small", tmp_path / "mine")


@pytest.mark.parametrize("path", ["work/lock", "manifest.json", ".ssh/config", "other/a.bin"])
def test_a_part_lies_where_a_corpus_has_parts(first: Path, path: str) -> None:
    manifest = manifests.decode((first / "corpus/manifest.json").read_bytes())
    manifest.parts.append(Part(path, 1, "0" * 64))
    with pytest.raises(VerificationError, match="where no corpus has one"):
        check_places(manifest)
