"""Processing begins while other raw shards are still fetched: the same bytes, the same errors."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import run
from gristmill.errors import MachineError, RecipeError, SourceError
from gristmill.phases.process import process
from gristmill.system.ownership import MARKER
from tests.support import faults
from tests.support.corpora import jsonl, pages
from tests.support.faults import Reply, Site

SHARDS = 3
OF_A_RUN = {"run.json", MARKER}  # the times of a run, and the random name of a folder
RECIPE = """
output = "corpus"
[[source]]
name = "web"
urls = [{urls}]
[[step]]
use = "gopher"
[deduplicate]
exact = true
"""


@pytest.fixture
def server() -> Iterator[Site]:
    with faults.site() as here:
        yield here


@pytest.fixture
def recipe(server: Site, tmp_path: Path) -> Path:
    """A recipe of a few shards on a server."""
    urls = [
        server.put(f"/{number}.jsonl", jsonl(pages(12, f"{number}"))) for number in range(SHARDS)
    ]
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(urls=", ".join(f'"{url}"' for url in urls)))
    return path


def hold_back(server: Site, path: str, until: Path) -> None:
    """The server gives a file only when another file exists on this machine; never, where it does
    not within half a minute.
    """

    def fault(_: Site, asked: str, reply: Reply) -> Reply:
        end = time.monotonic() + 30
        while asked == path and not until.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return reply if asked != path or until.exists() else Reply(404, {}, b"")

    server.faults.extend([fault] * 20)


def bytes_of(corpus: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(corpus)): path.read_bytes()
        for path in corpus.rglob("*")
        if path.is_file() and path.relative_to(corpus).parts[0] != "work"
    }


def test_a_shard_is_processed_while_the_next_ones_are_fetched(
    recipe: Path, server: Site, tmp_path: Path
) -> None:
    """The last shard comes only when the first one was processed."""
    done = tmp_path / "corpus/work/state/process/00000.json"
    hold_back(server, f"/{SHARDS - 1}.jsonl", done)
    events: list[dict[str, Any]] = []
    run(recipe, cache_dir=tmp_path / "cache", workers=1, connections=1, show=events.append)
    told = [event for event in events if event.get("phase") == "process"]
    assert told[0] == {"event": "phase", "phase": "process", "jobs": SHARDS}
    assert [event["done"] for event in told if "job" in event] == [1, 2, 3]
    # In the other order, the shards being here when processing begins.
    other = tmp_path / "other"
    for until in ("fetch", None):
        run(recipe, out=other, cache_dir=tmp_path / "other cache", workers=2, until=until)
        assert until is None or not (other / "work/state/process").exists()
    mine, others = bytes_of(tmp_path / "corpus"), bytes_of(other)
    assert mine.keys() == others.keys()
    assert {name for name in mine if mine[name] != others[name]} <= OF_A_RUN


def test_what_a_shard_fails_of_is_said_when_all_are_here(
    recipe: Path, server: Site, tmp_path: Path
) -> None:
    server.put("/0.jsonl", b"\x00\x01\x02 no documents" * 99)
    lines: list[str] = []

    def show(event: dict[str, Any]) -> None:
        lines.append(event.get("text", event["event"]))

    with pytest.raises(SourceError, match="process failed for 1: shard 00000"):
        run(recipe, cache_dir=tmp_path / "cache", workers=1, connections=1, show=show)
    assert sum(line.startswith("failed: process: shard 00000") for line in lines) == 1
    assert (tmp_path / "corpus/work/state/process/00002.json").exists()
    assert len(list((tmp_path / "cache").rglob("*"))) > SHARDS


def test_an_error_of_the_recipe_ends_the_fetch(recipe: Path, server: Site, tmp_path: Path) -> None:
    """It would be every shard's. The last shard does not come in time."""
    hold_back(server, f"/{SHARDS - 1}.jsonl", tmp_path / "ended")
    (tmp_path / "filters.py").write_text(
        "from pathlib import Path\n\ndef broken(text):\n"
        f"    Path({str(tmp_path / 'ended')!r}).touch()\n    raise ValueError('broken filter')\n"
    )
    recipe.write_text(recipe.read_text().replace('"gopher"', '"filters:broken"'))
    with pytest.raises(RecipeError, match="broken filter"):
        run(recipe, cache_dir=tmp_path / "cache", workers=1, connections=1, allow_code=True)
    assert (tmp_path / "ended").exists()


def test_without_room_nothing_begins_early(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "FREE_SHARE", 1e18)
    with pytest.raises(MachineError, match="would fill the disk"):
        run(recipe, cache_dir=tmp_path / "cache", workers=1)
    assert not (tmp_path / "corpus/work/state/process").exists()


def test_a_run_that_is_killed_while_both_go_on_is_resumed(
    recipe: Path, server: Site, tmp_path: Path
) -> None:
    never = tmp_path / "never"
    hold_back(server, f"/{SHARDS - 1}.jsonl", never)
    done = tmp_path / "corpus/work/state/process/00000.json"
    command = [sys.executable, "-m", "gristmill", "run", str(recipe), "--workers", "1"]
    command += ["--connections", "1", "--cache-dir", str(tmp_path / "cache")]
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not done.exists():
        assert time.monotonic() < end
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    before = done.read_bytes()
    server.faults.clear()
    never.touch()
    run(recipe, cache_dir=tmp_path / "cache", workers=1)
    assert done.read_bytes() == before
    run(recipe, out=tmp_path / "other", cache_dir=tmp_path / "cache", workers=1, until="fetch")
    run(recipe, out=tmp_path / "other", cache_dir=tmp_path / "cache", workers=1)
    mine, others = bytes_of(tmp_path / "corpus"), bytes_of(tmp_path / "other")
    assert {name for name in mine if mine[name] != others.get(name)} <= OF_A_RUN
