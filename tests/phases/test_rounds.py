"""Runs with targets that are killed at any moment: the next run gives the corpus of one that was
not, byte by byte, and so no token is lost or twice in it.
"""

import random
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from gristmill import run, verify
from tests.support.command import command_line
from tests.support.corpora import digests
from tests.support.every_phase import in_process
from tests.support.growing import two_sources

# The second source has copies of texts of the first, so that a cut that moves moves its own.
RECIPE = """
[[source]]
name = "first"
files = ["first/*"]
priority = 2
target_shards = {first}
[[source]]
name = "second"
files = ["second/*"]
target_tokens = {second}
[deduplicate]
near = {{}}
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 2_000
validation = 0.1
order = "append"
"""
TARGETS = ({"first": 3, "second": 5_000}, {"first": 6, "second": 11_000})
NAMES = ("small", "grown")


class Laid(NamedTuple):
    """A folder with raw shards, and with `small` and `grown`: the corpus of each of TARGETS, the
    second grown from the first. The digests of both.
    """

    folder: Path
    digests: list[dict[str, str]]


def recipe_of(folder: Path, generation: int) -> Path:
    path = folder / f"recipe-{generation}.toml"
    if not path.exists():
        path.write_text(RECIPE.format(**TARGETS[generation]))
    return path


def finish(folder: Path, corpus: Path, generation: int) -> None:
    """Run in this process."""
    with in_process():
        run(recipe_of(folder, generation), out=corpus, cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Laid:
    folder = tmp_path_factory.mktemp("rounds")
    two_sources(folder, "first", "second")
    found = Laid(folder, [])
    for generation, name in enumerate(NAMES):
        if generation:
            shutil.copytree(folder / NAMES[0], folder / name)
        finish(folder, folder / name, generation)
        found.digests.append(digests(folder / name))
    return found


def written(corpus: Path) -> set[tuple[str, int]]:
    """The records of finished work, and when they were written."""
    found = set()
    for path in (corpus / "work/state").rglob("*.json"):
        with suppress(FileNotFoundError):  # the run has removed it since
            found.add((f"{path.parent.name}/{path.name}", path.stat().st_mtime_ns))
    return found


def kill(laid: Laid, corpus: Path, generation: int, records: int, after: float) -> bool:
    """Begin a run in processes of its own, and kill it when it has written some records, and then
    some seconds have gone by. Whether it was at work.
    """
    before = written(corpus)
    cache = laid.folder / "cache"
    recipe = recipe_of(laid.folder, generation)
    process = subprocess.Popen(
        command_line("run", recipe, "--out", corpus, "--cache-dir", cache, "--workers", 2),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None and len(written(corpus) - before) < records:
        time.sleep(0.002)
    time.sleep(after)
    ended = process.poll() is not None
    process.kill()
    process.wait()
    return not ended


@pytest.mark.parametrize("generation", [pytest.param(0, marks=pytest.mark.soak), 1])
def test_sigkill_at_random_moments(laid: Laid, tmp_path: Path, generation: int, soak: int) -> None:
    """Of a first run, and of one that adds to a finished corpus; every other one is killed twice.
    Soak: 80 of each.
    """
    pick = random.Random(generation)
    most = len(written(laid.folder / NAMES[generation]))
    killed = 0
    for number in range(2 if soak == 1 else 4 * soak):
        corpus = tmp_path / f"killed-{number}"
        if generation:
            shutil.copytree(laid.folder / NAMES[0], corpus)
        for _ in range(1 + number % 2):
            killed += kill(laid, corpus, generation, pick.randrange(most), pick.uniform(0, 0.05))
        if generation and not (corpus / "manifest.lock.next").exists():
            verify(corpus)  # as it was, or grown: never a mixture
        finish(laid.folder, corpus, generation)
        assert digests(corpus) == laid.digests[generation]
        shutil.rmtree(corpus)
    assert killed > 0


def test_full_shards_stay_as_they_were_when_targets_are_raised(laid: Laid) -> None:
    small, grown = laid.digests
    root = laid.folder / NAMES[0]
    names = [path for path in small if path.endswith(".bin")]
    full = [path for path in names if (root / path).stat().st_size == 2 * 2_000]
    assert len(full) > 3
    assert {path: grown[path] for path in full} == {path: small[path] for path in full}
    assert len([path for path in grown if path.endswith(".bin")]) > len(names)
