"""The cache of a node: views, the limit, what is in use, damage, full disks, killed processes."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gristmill import TokenCorpus
from gristmill.errors import MachineError, SourceError, VerificationError
from gristmill.network.node.node_cache import CacheLimitError, NodeCache, View
from gristmill.store import manifest as manifests
from gristmill.store.parts import Part, machine_errors
from tests.support.skips import missing

SIZE = 10_000
FILES = {
    f"tokens/web/train_{number:05}.bin": random.Random(number).randbytes(SIZE)
    for number in range(8)
}


def parts(*numbers: int) -> list[Part]:
    found = []
    for number in numbers:
        path = f"tokens/web/train_{number:05}.bin"
        data = FILES[path]
        found.append(Part(path, len(data), hashlib.sha256(data).hexdigest(), {"tokens": SIZE // 2}))
    return found


def manifest(*numbers: int) -> manifests.Manifest:
    listed = parts(*numbers)
    return manifests.Manifest(
        content=manifests.content_digest(listed),
        versions={},
        recipe_sha256="0" * 64,
        recipe={},
        inputs={},
        raw_shards=[],
        funnel={},
        parts=listed,
    )


class Origin:
    """The files by their digests; counts what is fetched."""

    def __init__(self) -> None:
        self.files = {hashlib.sha256(data).hexdigest(): data for data in FILES.values()}
        self.fetched: list[str] = []

    def __call__(self, sha256: str, size: int, to: Path) -> None:
        assert len(self.files[sha256]) == size
        self.fetched.append(sha256)
        to.write_bytes(self.files[sha256])


@pytest.fixture
def origin() -> Origin:
    return Origin()


def right(view: View, *numbers: int) -> None:
    for number in numbers:
        path = f"tokens/web/train_{number:05}.bin"
        assert (view.root / path).read_bytes() == FILES[path]


def test_a_view_is_a_corpus_and_what_is_here_is_not_fetched_again(
    cache: Path, origin: Origin
) -> None:
    with NodeCache(cache).view(manifest(0, 1), origin) as view:
        right(view, 0, 1)
        data = (view.root / "manifest.json").read_bytes()
        assert view.root.name == hashlib.sha256(data).hexdigest()
        with pytest.raises(Exception, match="no token shards"):  # it has a lock that is right
            TokenCorpus.open(view.root)
    assert len(origin.fetched) == 2
    with (
        NodeCache(cache).view(manifest(1, 2), origin) as other,
        NodeCache(cache).view(manifest(0, 1), origin) as again,
    ):
        right(other, 1, 2)
        right(again, 0, 1)
    assert len(origin.fetched) == 3
    use = NodeCache(cache).use()
    assert (use.bytes, use.objects, use.quarantined) == (3 * SIZE, 3, 0)


def test_the_least_recently_used_goes_and_never_what_is_in_use(cache: Path, origin: Origin) -> None:
    limited = NodeCache(cache, limit=4 * SIZE)
    held = limited.view(manifest(0, 1), origin)
    limited.view(manifest(2, 3), origin).close()
    for number, used in ((2, 2_000_000_000), (3, 1_000_000_000), (0, 1), (1, 1)):
        os.utime(limited.path_of(parts(number)[0].sha256), (used, used))
    # 0 and 1 were used longest ago, and are in use; 3 goes, then 2.
    limited.view(manifest(4), origin).close()
    assert not limited.path_of(parts(3)[0].sha256).exists()
    assert limited.path_of(parts(2)[0].sha256).exists()
    right(held, 0, 1)
    with pytest.raises(CacheLimitError, match=r"may have 40,000 bytes.*10,000 too many"):
        limited.view(manifest(5, 6, 7), origin)
    assert limited.use().bytes <= 4 * SIZE
    held.close()
    with limited.view(manifest(5, 6, 7), origin) as view:
        right(view, 5, 6, 7)
        assert limited.use().bytes <= 4 * SIZE


def test_what_changed_on_disk_goes_into_quarantine_and_is_fetched_again(
    cache: Path, origin: Origin
) -> None:
    messages: list[str] = []
    cached = NodeCache(cache, on_event=messages.append)
    cached.view(manifest(0, 1, 2), origin).close()
    for number, damage in ((0, b"other"), (1, FILES["tokens/web/train_00001.bin"][:-1])):
        cached.path_of(parts(number)[0].sha256).write_bytes(damage)
    with cached.view(manifest(0, 1, 2), origin) as view:
        right(view, 0, 1, 2)
    assert len(origin.fetched) == 5
    assert cached.use().quarantined == 2
    assert len(messages) == 2
    assert "moved into" in messages[0]
    # It goes first when there is no room.
    with NodeCache(cache, limit=4 * SIZE).view(manifest(3), origin):
        assert cached.use()[2:] == (4, 0)


def test_links_in_the_cache_are_not_followed_and_others_who_may_write_are_named(
    cache: Path, origin: Origin
) -> None:
    messages: list[str] = []
    cached = NodeCache(cache, on_event=messages.append)
    cached.view(manifest(0, 1), origin).close()
    assert not messages
    outside = cache.parent / "outside"
    outside.write_bytes(FILES["tokens/web/train_00000.bin"])
    for number, target in ((0, outside), (1, cache.parent / "nowhere")):
        path = cached.path_of(parts(number)[0].sha256)
        path.unlink()
        path.symlink_to(target)
    (cache / "partial" / parts(2)[0].sha256).symlink_to(outside)
    cache.chmod(0o777)
    with cached.view(manifest(0, 1, 2), origin) as view:
        right(view, 0, 1, 2)
        assert not any(path.is_symlink() for path in view.root.rglob("*"))
    assert outside.read_bytes() == FILES["tokens/web/train_00000.bin"]
    assert not (cache.parent / "nowhere").exists()
    assert len(origin.fetched) == 5
    assert sum(f"{cache}: other users may write it" in line for line in messages) == 1
    assert sum("a link: moved into" in line for line in messages) == 3


def test_a_failed_fetch_leaves_no_view_and_nothing_outside(cache: Path, origin: Origin) -> None:
    def refuse(sha256: str, size: int, to: Path) -> None:
        raise SourceError("gone", "unreachable")

    with pytest.raises(SourceError, match="gone"):
        NodeCache(cache).view(manifest(0), refuse)
    assert not list(cache.rglob("manifest.json"))
    assert not list((cache / "needs").iterdir())
    for path in ("../out", "/etc/passwd", "tokens/../../out", "tokens//x"):
        bad = manifest(0)
        bad.parts[0] = Part(path, SIZE, bad.parts[0].sha256)
        with pytest.raises(VerificationError, match="leaves the corpus"):
            NodeCache(cache).view(bad, origin)
    assert {path.name for path in cache.parent.iterdir()} == {"cache"}
    NodeCache(cache).view(manifest(0), origin).close()


def test_threads_and_processes_fetch_a_file_once(cache: Path, origin: Origin) -> None:
    def slow(sha256: str, size: int, to: Path) -> None:
        time.sleep(0.02)
        origin(sha256, size, to)

    views: list[View] = []
    threads = [
        threading.Thread(
            target=lambda: views.append(NodeCache(cache, 3 * SIZE).view(manifest(0, 1, 2), slow))
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(views) == 6
    for view in views:
        right(view, 0, 1, 2)
        view.close()
    assert sorted(origin.fetched) == sorted(part.sha256 for part in parts(0, 1, 2))


PROCESS = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from gristmill.network.node.node_cache import NodeCache
from gristmill.store import manifest as manifests
manifest = manifests.decode(sys.stdin.buffer.read())
def fetch(sha256, size, to):
    with open(to, "wb") as file:
        file.write(b"half")
        file.flush()
        if {fetching}:
            os.write(1, b"fetching\\n")
            time.sleep(60)
    to.write_bytes(({files!r} / Path(sha256)).read_bytes())
view = NodeCache(Path({cache!r}), 3 * 10_000).view(manifest, fetch)
print("here", flush=True)
time.sleep(60)
"""


@contextmanager
def process(cache: Path, numbers: tuple[int, ...], *, fetching: bool = False) -> Iterator[int]:
    """A process that has a view, or that is fetching one; killed in the end."""
    files = cache.parent / "files"
    files.mkdir(exist_ok=True)
    for data in FILES.values():
        (files / hashlib.sha256(data).hexdigest()).write_bytes(data)
    code = PROCESS.format(cache=str(cache), files=files, fetching=fetching, tests="").replace(
        "PosixPath", "Path"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(manifests.encode(manifest(*numbers)))
        child.stdin.close()
        assert child.stdout.readline() == (b"fetching\n" if fetching else b"here\n")
        yield child.pid
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_killed_process_holds_nothing(cache: Path, origin: Origin) -> None:
    limited = NodeCache(cache, limit=3 * SIZE)
    with process(cache, (0, 1)) as pid:
        with pytest.raises(CacheLimitError):
            limited.view(manifest(2, 3), origin)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with limited.view(manifest(2, 3), origin) as view:
            right(view, 2, 3)
    with process(cache, (4, 5), fetching=True) as pid:
        # What it is about to fetch is counted ...
        with pytest.raises(CacheLimitError):
            limited.view(manifest(6, 7), origin)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        # ... until it is killed; the half that it left is not taken for the whole.
        with limited.view(manifest(4, 5, 6), origin) as view:
            right(view, 4, 5, 6)
            assert limited.use().bytes <= 3 * SIZE + SIZE // 2


def test_a_full_disk_evicts_and_then_is_an_error(tmp_path: Path, origin: Origin) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(small)], check=False
        ).returncode
    ):
        missing("mount", "a small file system cannot be mounted here")

    def fetch(sha256: str, size: int, to: Path) -> None:
        with machine_errors(to):
            origin(sha256, size, to)

    try:
        cached = NodeCache(small / "cache")
        ballast = small / "ballast"
        held = cached.view(manifest(0), fetch)
        cached.view(manifest(1, 2), fetch).close()
        with open(ballast, "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(b"0" * 4096)
        right(held, 0)
        with cached.view(manifest(3), fetch) as view:  # 1 or 2 goes
            right(view, 3)
            assert cached.use().objects < 4
        with pytest.raises(MachineError, match="the disk is full, and nothing"):
            cached.view(manifest(3, 4, 5, 6, 7), fetch)
        right(held, 0)
        ballast.unlink()
        with cached.view(manifest(3, 4, 5, 6, 7), fetch) as view:
            right(view, 3, 4, 5, 6, 7)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
