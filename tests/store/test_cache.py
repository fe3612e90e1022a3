"""The cache that runs share: what stays, what goes, and two who want the same."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gristmill.store.cache import Cache, KnownUrl, cache_key
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support import faults
from tests.support.faults import site

URLS = [f"https://host.example/{name}" for name in "abcdef"]


def filled(root: Path, size: int = 100) -> Cache:
    """A cache of six objects, used one after the other."""
    cache = Cache(root)
    cache.own()
    (root / "objects").mkdir()
    for place, url in enumerate(URLS):
        sha256 = f"{place:064x}"
        cache.object(sha256).write_bytes(b"x" * size)
        os.utime(cache.object(sha256), (1_000_000 + place, 1_000_000 + place))
        cache.remember(KnownUrl(url=url, sha256=sha256, size=size, etag='"1"'))
    return cache


def names(cache: Cache) -> list[int]:
    return sorted(int(path.name, 16) for path in (cache.root / "objects").iterdir())


def corpus(tmp_path: Path, name: str = "corpus") -> Path:
    (tmp_path / name / "work").mkdir(parents=True)
    return tmp_path / name


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    assert cache.evict(600).files == 0
    done = cache.evict(350)
    assert (done.files, done.freed, done.left) == (3, 300, 300)
    assert names(cache) == [3, 4, 5]
    assert cache.known(URLS[0]) is None
    assert len(list((cache.root / "urls").iterdir())) == 3  # notes of what is gone go too
    assert cache.find(f"{3:064x}")  # a use
    cache.evict(100)
    assert names(cache) == [3]


def test_what_an_unfinished_run_needs_stays(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    cache.register(corpus(tmp_path), [URLS[0], URLS[1]], [f"{2:064x}"])
    done = cache.evict(0)
    assert names(cache) == [0, 1, 2]
    assert (done.left, done.held) == (300, 300)
    assert "unfinished runs need" in " ".join(cache.keep_within(0))
    cache.release(tmp_path / "corpus")
    cache.evict(0)
    assert names(cache) == []


def test_a_run_whose_corpus_is_gone_holds_nothing(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    cache.register(tmp_path / "never", URLS, [])
    cache.evict(0)
    assert names(cache) == []
    assert not list((cache.root / "runs").iterdir())


def test_abandoned_beginnings_go_but_not_those_under_way(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    cache.partials.mkdir()
    old = cache_key("https://host.example/old")
    for name in (old, cache_key(URLS[1]), cache_key(URLS[0])):
        (cache.partials / f"{name}.partial").write_bytes(b"y" * 50)
        (cache.partials / f"{name}.partial.json").write_text("{}")
        os.utime(cache.partials / f"{name}.partial", (1, 1))
    (cache.partials / f"{old}.lock").touch()  # that a kill left: nobody holds it
    cache.register(corpus(tmp_path), URLS[:1], [])
    with cache.claim(URLS[1]):
        cache.evict(250)
    assert sorted(path.name for path in cache.partials.glob("*.partial*")) == sorted(
        f"{name}.partial{end}"
        for name in (cache_key(URLS[1]), cache_key(URLS[0]))
        for end in ("", ".json")
    )
    assert 0 in names(cache)


def test_a_lock_that_a_kill_left_holds_nobody_up(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    code = (
        "import os, sys; from pathlib import Path; from gristmill.store.cache import Cache\n"
        f"with Cache(Path({str(cache.root)!r})).claim({URLS[0]!r}): print('held', "
        "flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"

    class Waited(Exception):
        pass

    def give_up(seconds: float) -> None:
        raise Waited

    with pytest.raises(Waited), cache.claim(URLS[0], give_up):
        pass
    with cache.claim(URLS[1], give_up):
        pass
    child.kill()
    child.communicate()
    with cache.claim(URLS[0], give_up):
        pass
    assert not list(cache.partials.iterdir())


def test_a_claim_is_one_at_a_time(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with cache.claim(URLS[0]):
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.001)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_notes_that_are_none_are_not_believed(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    note = cache.root / "urls" / f"{cache_key(URLS[0])}.json"
    for data in (b"", b"{", b"[]", b'{"url": 1}', b"\xff"):
        note.write_bytes(data)
        assert cache.known(URLS[0]) is None
    cache.object(f"{1:064x}").write_bytes(b"short")
    assert cache.known(URLS[1]) is None


def test_a_damaged_object_is_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    with site() as server:
        got = Transfer(cache, Settings(backoff=0.0)).fetch(Remote(server.put("/a", b"text")))
    assert not cache.drop_damaged(got.sha256)
    got.path.write_bytes(b"tex7")
    assert cache.drop_damaged(got.sha256)
    assert cache.find(got.sha256) is None


def test_two_processes_share_a_cache(tmp_path: Path) -> None:
    """Six processes, six files, a server that cuts: each file is fetched whole, once, and all see
    the same bytes.
    """
    with site() as server:
        urls = [server.put(f"/{name}", name.encode() * 200_000) for name in "abcdef"]
        server.faults.extend([faults.cut(0.4)] * 3)
        code = (
            "import sys; from pathlib import Path; from gristmill.store.cache import Cache\n"
            "from gristmill.store.http.settings import Settings; from gristmill.store.http.remotes "
            "import Remote\n"
            "from gristmill.store.http.transfer import Transfer\n"
            f"transfer = Transfer(Cache(Path({str(tmp_path / 'cache')!r})), "
            "Settings(backoff=0.0))\n"
            "print(*(transfer.fetch(Remote(url)).sha256 for url in sys.argv[1:]))"
        )
        children = [
            subprocess.Popen(
                [sys.executable, "-c", code, *urls[turn:], *urls[:turn]],
                stdout=subprocess.PIPE,
                text=True,
            )
            for turn in range(6)
        ]
        told = [set(child.communicate()[0].split()) for child in children]
    assert all(child.returncode == 0 for child in children)
    assert told == [told[0]] * 6
    whole = [
        span
        for (_, _, headers), span in zip(server.asked, server.ranges(), strict=True)
        if "if-none-match" not in headers
    ]
    assert len(whole) == 6 + 3  # six downloads, three of them in two pieces
    assert len(list((tmp_path / "cache/objects").iterdir())) == 6


def test_the_lock_is_the_systems(tmp_path: Path) -> None:
    """flock: freed by the kernel when its process dies, however it dies."""
    cache = Cache(tmp_path / "cache")
    with cache.claim(URLS[0]):
        handle = os.open(cache.partials / f"{cache_key(URLS[0])}.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)


def test_an_object_that_has_its_name_but_no_note_yet_stays(tmp_path: Path) -> None:
    """Another process is between the two: the checkpoint still tells what it is."""
    cache = filled(tmp_path / "cache")
    cache.partials.mkdir()
    (cache.partials / "x.partial.json").write_text(f'{{"sha256_prefix": "{2:064x}"}}')
    cache.evict(0)
    assert names(cache) == [2]
