"""Runs over shards that are far away: killed, starved of disk, checked in CI, asked what they would
do.
"""

import gzip
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gristmill
from gristmill import run
from gristmill.errors import VerificationError
from tests.support import faults
from tests.support.command import command_line
from tests.support.corpora import digests, jsonl, pages, wet
from tests.support.faults import Site, site
from tests.support.skips import missing

RECIPE = """
seed = 3
[[source]]
name = "web"
urls = [{urls}]
[[step]]
use = "gopher"
rules = "lab"
[deduplicate]
exact = true
near = {{}}
"""


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as here:
        yield here


def lay_out(folder: Path, server: Site, shards: int = 12, count: int = 30) -> Path:
    """A recipe over many shards at a server: WET and JSONL, padded to some 300 KB with bytes that
    do not pack.
    """
    folder.mkdir(parents=True, exist_ok=True)
    urls = []
    for number in range(shards):
        rows = pages(count, f"shard {number}")
        noise = random.Random(number).randbytes(200_000).hex()
        rows.append({"url": f"https://noise.example/{number}", "text": noise})
        packed = number % 2 == 0
        body = wet(rows) if packed else gzip.compress(jsonl(rows), 1, mtime=0)
        urls.append(server.put(f"/{number}{'.warc.wet.gz' if packed else '.jsonl.gz'}", body))
    (folder / "recipe.toml").write_text(RECIPE.format(urls=", ".join(map(json.dumps, urls))))
    return folder / "recipe.toml"


def words(recipe: Path, corpus: Path, cache: Path, *more: str) -> list[str]:
    """The command line of a run."""
    return [
        "run",
        str(recipe),
        "--out",
        str(corpus),
        "--cache-dir",
        str(cache),
        "--workers",
        "2",
        *more,
    ]


def call(*words: str, code: int = 0) -> str:
    """Run a command line; what it prints."""
    done = subprocess.run(command_line(*words), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_kills_at_random_moments_of_a_run_of_many_shards(
    tmp_path: Path, server: Site, soak: int
) -> None:
    """5 kills (soak: 200) of runs that download over a slow line; each is finished to the same
    sha256s.
    """
    recipe = lay_out(tmp_path, server)
    run(recipe, out=tmp_path / "whole", workers=2, cache_dir=tmp_path / "cache")
    whole = digests(tmp_path / "whole")
    pick = random.Random(3)
    server.pace = 0.06
    kills = begun = resumed = corpora = 0
    more = ("--checkpoint-bytes", "40kB", "--connections", "3")
    while kills < (5 if soak == 1 else 10 * soak):
        corpora += 1
        corpus, cache = tmp_path / f"corpus-{corpora}", tmp_path / f"cache-{corpora}"
        for _ in range(5):
            process = subprocess.Popen(
                command_line(*words(recipe, corpus, cache, *more)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            while pick.random() > 0.001 and process.poll() is None:
                if list((cache / "partial").glob("*.json")):
                    break
                time.sleep(0.005)  # most kills come when something is on the way, ...
            if kills % 2:
                time.sleep(pick.uniform(0.0, 0.8))  # ... every other one at any moment
            process.kill()  # SIGKILL, if it has not ended
            process.wait()
            kills += 1
            begun += len(list((cache / "partial").glob("*.json")))
        run(recipe, out=corpus, workers=2, cache_dir=cache)
        resumed += sum(span is not None for span in server.ranges())
        server.asked.clear()
        assert digests(corpus) == whole
        gristmill.verify(corpus)
        assert not list((cache / "partial").iterdir())
    assert begun >= kills / 4  # the moments were inside the downloads
    assert resumed >= corpora / 4  # and what was begun was gone on with


def test_a_cache_whose_disk_fills_stops_cleanly_and_goes_on(tmp_path: Path, server: Site) -> None:
    recipe = lay_out(tmp_path, server, shards=8)
    small = tmp_path / "small"
    small.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mounted, check=False).returncode:
        missing("mount", "a small file system cannot be mounted here")
    try:
        told = call(
            *words(recipe, tmp_path / "corpus", small / "cache", "--connections", "1"), code=5
        )
        assert "no space left on the disk" in told
        assert "free some space and run the same command again" in told
        here = sum(path.stat().st_size for path in (small / "cache/objects").iterdir())
        assert here > 0  # what was whole before is kept
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        call(*words(recipe, tmp_path / "corpus", small / "cache"))
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    run(recipe, out=tmp_path / "fresh", cache_dir=tmp_path / "cache")
    assert digests(tmp_path / "corpus") == digests(tmp_path / "fresh")


def test_in_ci_a_warm_cache_is_enough_and_a_cold_one_fetches_nothing(
    tmp_path: Path, server: Site
) -> None:
    recipe = lay_out(tmp_path, server, shards=3)
    cache = tmp_path / "cache"
    told = call(*words(recipe, tmp_path / "cold", cache, "--resume-only"), code=3)
    assert "--resume-only: 3 raw shards are neither in the cache" in told
    assert not server.asked
    call(*words(recipe, tmp_path / "one", cache))
    count = len(server.asked)
    call(*words(recipe, tmp_path / "two", cache, "--resume-only"))
    assert len(server.asked) == count
    pin = gristmill.verify(tmp_path / "one")["content"]
    assert "as the manifest says" in call("verify", str(tmp_path / "two"), "--pin", pin)
    assert "is not the pinned corpus" in call(
        "verify", str(tmp_path / "two"), "--pin", "0" * 64, code=4
    )
    assert "byte for byte" in call("diff", str(tmp_path / "one"), str(tmp_path / "two"))


def test_a_dry_run_tells_what_would_come_and_changes_nothing(tmp_path: Path, server: Site) -> None:
    recipe = lay_out(tmp_path, server, shards=3)
    cache = tmp_path / "cache"
    sizes = [len(file.body) for file in server.files.values()]
    told = [
        json.loads(line)
        for line in call(
            *words(recipe, tmp_path / "corpus", cache, "--dry-run", "--json")
        ).splitlines()
    ]
    assert [(row["state"], row["size"]) for row in told[:-1]] == [
        ("to fetch", size) for size in sizes
    ]
    assert told[-1] == {
        "event": "total",
        "shards": 3,
        "to_fetch": 3,
        "bytes": sum(sizes),
        "unknown": 0,
        "here": 0,
    }
    assert not (tmp_path / "corpus").exists()
    assert {method for method, _, _ in server.asked} == {"HEAD"}
    del server.files["/2.warc.wet.gz"]
    server.faults.extend([faults.fine, faults.fine])
    call(*words(recipe, tmp_path / "corpus", cache, "--until", "fetch"), code=3)
    lines = call(*words(recipe, tmp_path / "corpus", cache, "--dry-run"))
    assert "here" in lines.splitlines()[0]
    assert "size unknown" in lines.splitlines()[2]
    assert lines.splitlines()[3].startswith(
        "1 of 3 raw shards to fetch, 0.0 MB and 1 of unknown size;"
    )


def test_progress_tells_of_each_download(tmp_path: Path, server: Site) -> None:
    recipe = lay_out(tmp_path, server, shards=2)
    server.pace = 0.15
    told: list[dict[str, object]] = []
    run(
        recipe,
        out=tmp_path / "corpus",
        until="fetch",
        checkpoint_bytes=50_000,
        cache_dir=tmp_path / "cache",
        show=told.append,
    )
    under_way = [
        shard for event in told if event["event"] == "transfers" for shard in event["shards"]
    ]  # type: ignore[attr-defined]
    assert {shard["shard"] for shard in under_way} <= {
        server.address + path for path in server.files
    }
    assert any(0 < shard["bytes"] <= shard["size"] and shard["resumed"] == 0 for shard in under_way)


def test_waiting_for_a_server_is_told(tmp_path: Path, server: Site) -> None:
    recipe = lay_out(tmp_path, server, shards=1)
    server.faults.append(faults.status(503, Retry_After="1"))
    told: list[dict[str, object]] = []
    run(
        recipe,
        out=tmp_path / "corpus",
        until="fetch",
        cache_dir=tmp_path / "cache",
        show=told.append,
    )
    (line,) = [str(event["text"]) for event in told if event["event"] == "line"]
    assert (
        line
        == f"{server.address}/0.warc.wet.gz: the server answered 503 Later; trying again in 1 s"
    )


def test_a_damaged_copy_in_the_cache_is_told_removed_and_fetched_again(
    tmp_path: Path, server: Site
) -> None:
    recipe = lay_out(tmp_path, server, shards=2)
    cache = tmp_path / "cache"
    run(recipe, out=tmp_path / "whole", cache_dir=cache)
    call(*words(recipe, tmp_path / "corpus", cache, "--until", "fetch"))
    victim = min((cache / "objects").iterdir())
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    told = call(*words(recipe, tmp_path / "corpus", cache), code=3)
    assert "the copy in the cache was damaged and is removed: run again to fetch it" in told
    call(*words(recipe, tmp_path / "corpus", cache))
    assert digests(tmp_path / "corpus") == digests(tmp_path / "whole")


def test_a_run_pins_its_cache_until_it_is_done(tmp_path: Path, server: Site) -> None:
    recipe = lay_out(tmp_path, server, shards=3)
    cache = tmp_path / "cache"
    told = call(*words(recipe, tmp_path / "one", cache, "--until", "fetch", "--cache-bytes", "1kB"))
    assert "more than the limit: unfinished runs need" in told
    assert len(list((cache / "objects").iterdir())) == 3
    # Another run on the same cache takes nothing away from the first.
    other = lay_out(tmp_path / "other", server, shards=1, count=20)
    call(*words(other, tmp_path / "two", cache, "--cache-bytes", "1kB"))
    count = len(server.asked)
    call(*words(recipe, tmp_path / "one", cache, "--cache-bytes", "1kB"))
    assert len(server.asked) == count
    assert not list((cache / "objects").iterdir())  # nobody needs anything any more


def test_a_manifest_is_a_plan(tmp_path: Path, server: Site) -> None:
    recipe = lay_out(tmp_path, server, shards=3)
    run(recipe, out=tmp_path / "one", cache_dir=tmp_path / "cache")
    for name in ("manifest.json", "plan.json"):
        corpus = tmp_path / name.partition(".")[0]
        call(*words(recipe, corpus, tmp_path / "cold", "--plan", str(tmp_path / "one" / name)))
        assert digests(corpus) == digests(tmp_path / "one")
    server.put("/0.warc.wet.gz", b"other", etag='"2"')
    told = call(
        *words(
            recipe,
            tmp_path / "late",
            tmp_path / "colder",
            "--plan",
            str(tmp_path / "one/manifest.json"),
        ),
        code=3,
    )
    assert "changed since the plan pinned it" in told


def test_raw_shards_are_verified_where_they_are(tmp_path: Path, server: Site) -> None:
    recipe = lay_out(tmp_path, server, shards=2)
    text = recipe.read_text()
    (tmp_path / "own.jsonl").write_bytes(jsonl(pages(20, "own")))
    recipe.write_text(
        text.replace("[[step]]", '[[source]]\nname = "own"\nfiles = ["own.jsonl"]\n[[step]]')
    )
    cache = tmp_path / "cache"
    run(recipe, out=tmp_path / "corpus", cache_dir=cache)
    assert gristmill.verify(tmp_path / "corpus", raw=True, cache_dir=cache)["parts"]
    (tmp_path / "own.jsonl").write_bytes(jsonl(pages(20, "own"))[::-1])
    next((cache / "objects").iterdir()).unlink()
    gristmill.verify(tmp_path / "corpus")  # a corpus needs no raw shards
    with pytest.raises(VerificationError) as error:
        gristmill.verify(tmp_path / "corpus", raw=True, cache_dir=cache)
    assert "raw shard 2 (own.jsonl): sha256" in str(error.value)
    assert "its bytes are not at" in str(error.value)
