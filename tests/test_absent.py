"""Why a shard is absent: one word of a closed list in plan and manifest, whatever words a server or
a kernel chose.
"""

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

import gristmill.pipeline
from gristmill import run
from gristmill.engine.engine import WorkerDied
from gristmill.errors import REASONS, SourceError, error_reason, reason_of_file
from gristmill.pipeline import ShardsFailed
from gristmill.store.http.settings import Settings
from tests.support import ROOT, faults
from tests.support.corpora import jsonl, pages
from tests.support.faults import Reply, Site, site


def worded(status: int, words: str) -> faults.Fault:
    """A refusal in words of the server's own."""

    def fault(here: Site, path: str, reply: Reply) -> Reply:
        return replace(faults.status(status)(here, path, reply), reason=words)

    return fault


WAYS = {  # each pair fails for one reason, told in two ways
    "not-found": (worded(404, "Not Found"), worded(410, "it went away at 10:44")),
    "forbidden": (worded(401, "Unauthorized"), worded(403, "your address is 10.1.2.3")),
    "refused": (worded(451, "by law"), faults.packed),
    "unreachable": (worded(503, "busy"), faults.cut(0, reset=True)),
    "redirected": (
        faults.status(302, Location="/gone"),
        faults.status(302, Location="ftp://host/a"),
    ),
}


@pytest.mark.parametrize("reason", WAYS)
def test_two_ways_to_fail_for_one_reason_give_the_same_manifest(
    tmp_path: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gristmill.pipeline,
        "merge_settings",
        lambda *_: Settings(backoff=0.0, retries=2, timeout=5.0),
    )
    (tmp_path / "a.jsonl").write_bytes(jsonl(pages(3, "a")))
    with site() as server:
        url = server.put("/gone", b"{}")
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(f'[[source]]\nname = "web"\nurls = ["{url}"]\nfiles = ["a.jsonl"]\n')
        manifests, words = [], []
        for number, fault in enumerate(WAYS[reason]):
            server.faults.clear()
            server.faults.extend([fault] * 20)
            out = tmp_path / str(number)
            run(
                recipe,
                out=out,
                workers=1,
                cache_dir=tmp_path / "cache",
                allow_missing=True,
                show=words.append,
            )
            manifests.append((out / "manifest.json").read_bytes())
    assert manifests[0] == manifests[1]
    assert json.loads(manifests[0])["raw_shards"][0]["missing"] == reason
    told = [
        line["text"]
        for line in words
        if line["event"] == "line" and line["text"].startswith("failed: ")
    ]
    assert len(set(told)) == 2  # the words are told, in two ways
    assert all(url in line or "ftp://host/a" in line for line in told)


def test_the_list_is_closed_and_documented() -> None:
    assert list(REASONS) == sorted(REASONS)
    page = (ROOT / "docs/format.md").read_text()
    table = page[page.index("| `missing` |") :].partition("\n\n")[0]
    assert sorted(re.findall(r"^ +\| `([a-z-]+)` \|", table, re.MULTILINE)) == list(REASONS)


def test_errors_carry_their_reason_through_a_pipe() -> None:
    assert error_reason(SourceError("words")) == "unreadable"
    assert error_reason(ShardsFailed("words")) == "unreadable"
    assert error_reason(pickle.loads(pickle.dumps(SourceError("words", "not-text")))) == "not-text"
    assert error_reason(WorkerDied("words")) == "worker"
    assert error_reason(SourceError("words", "the network's own")) == "unreadable"
    assert str(SourceError("words", "digest")) == "words"
    told = [
        reason_of_file(error)
        for error in (FileNotFoundError(), NotADirectoryError(), PermissionError(), OSError())
    ]
    assert told == ["not-found", "not-found", "forbidden", "unreadable"]
