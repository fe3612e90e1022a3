"""The power goes between any two calls that a download makes of a disk: the next run ends in the
right bytes.

The calls of real downloads are recorded. Then, for every prefix of them, the disk is built as a
loss of power may leave it: what was synced is there; of what was not, all, nothing, or a part. From
each such disk the download is run again.
"""

import hashlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.cache import Cache
from gristmill.store.disk import Disk
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support import faults
from tests.support.faults import Site, site
from tests.support.strategies import FUZZ

BODY = random.Random(7).randbytes(1_000_000)
SETTINGS = Settings(backoff=0.0, retries=2, timeout=5.0, checkpoint_bytes=250_000)


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as here:
        yield here


class Recorder(Disk):
    """Does what a disk does, and writes the calls down.

    Files are told apart by number, names are only names.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._files: dict[int, int] = {}  # descriptor -> file
        self._names: dict[Path, int] = {}
        self._next = 0

    def open(self, path: Path) -> int:
        handle = super().open(path)
        if path not in self._names:
            self._names[path] = self._next
            self._next += 1
            self.calls.append(("create", path, self._names[path]))
        self._files[handle] = self._names[path]
        return handle

    def write(self, handle: int, data: Any) -> None:
        place = os.lseek(handle, 0, os.SEEK_CUR)
        super().write(handle, data)
        self.calls.append(("write", self._files[handle], place, bytes(data)))

    def truncate(self, handle: int, size: int) -> None:
        super().truncate(handle, size)
        self.calls.append(("truncate", self._files[handle], size))

    def sync(self, handle: int) -> None:
        super().sync(handle)
        self.calls.append(("sync", self._files[handle]))

    def replace(self, path: Path, target: Path) -> None:
        super().replace(path, target)
        self._names[target] = self._names.pop(path)
        self.calls.append(("rename", path, target))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if self._names.pop(path, None) is not None:
            self.calls.append(("unlink", path))

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.calls.append(("sync folder", folder))


def states(calls: list[tuple[Any, ...]], keep: str, chance: random.Random) -> dict[Path, bytes]:
    """The files after a loss of power behind these calls.

    `keep` says what becomes of what was not synced: all, nothing, some.
    """
    bytes_now: dict[int, bytearray] = {}
    bytes_safe: dict[int, bytes] = {}
    names: dict[Path, int] = {}
    pending: list[tuple[Any, ...]] = []  # changes of names that no folder's sync made safe

    def apply(table: dict[Path, int], call: tuple[Any, ...]) -> None:
        if call[0] == "create":
            table[call[1]] = call[2]
        elif call[0] == "rename" and call[1] in table:
            table[call[2]] = table.pop(call[1])
        elif call[0] == "unlink":
            table.pop(call[1], None)

    for call in calls:
        if call[0] in ("create", "rename", "unlink"):
            pending.append(call)
            if call[0] == "create":
                bytes_now[call[2]] = bytearray()
                bytes_safe[call[2]] = b""
        elif call[0] == "write":
            _, file, place, data = call
            bytes_now[file][place : place + len(data)] = data
        elif call[0] == "truncate":
            del bytes_now[call[1]][call[2] :]
        elif call[0] == "sync":
            bytes_safe[call[1]] = bytes(bytes_now[call[1]])
        elif call[0] == "sync folder":
            # A journal keeps the order: with a folder's change, those before it are safe too.
            for change in pending:
                apply(names, change)
            pending.clear()
    kept = {"all": len(pending), "nothing": 0, "some": chance.randint(0, len(pending))}[keep]
    for change in pending[:kept]:
        apply(names, change)
    found = {}
    for path, file in names.items():
        now, safe = bytes(bytes_now[file]), bytes_safe[file]
        if keep == "some" and now != safe:
            # Any mixture: a size that is there without its bytes, pages of the one and of the
            # other.
            length = chance.choice(
                [
                    len(now),
                    len(safe),
                    chance.randint(min(len(now), len(safe)), max(len(now), len(safe))),
                ]
            )
            mixed = bytearray(length)
            for place in range(0, length, 65_536):
                page = chance.choice([now, safe, b""])[place : place + 65_536]
                mixed[place : place + len(page)] = page[: max(0, length - place)]
            found[path] = bytes(mixed[:length])
        else:
            found[path] = now if keep == "all" else safe
    return found


SCRIPTS = {
    "in one piece": [],
    "cut twice": [faults.cut(0.5), faults.cut(0.8)],
    "started over": [faults.cut(0.5), faults.whole],
    "replaced meanwhile": [faults.swapped(BODY, 0.7, etag='"new"')],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("keep", ["all", "nothing", "some"])
def test_a_loss_of_power_between_any_two_calls_is_survived(
    tmp_path: Path, server: Site, script: list[faults.Fault], keep: str
) -> None:
    chance = random.Random(f"{keep} {len(script)}")
    url = server.put(
        "/a", b"old" * 300_000 if script and script[0] is SCRIPTS["replaced meanwhile"][0] else BODY
    )
    server.faults.extend(script)
    root = tmp_path / "cache"
    disk = Recorder()
    transfer = Transfer(Cache(root), SETTINGS, disk)
    assert transfer.fetch(Remote(url)).path.read_bytes() == BODY
    transfer.close()
    server.faults.clear()
    assert sum(call[0] == "sync" for call in disk.calls) >= 6
    for behind in range(len(disk.calls) + 1):
        for _ in range(2 * FUZZ if keep == "some" else 1):
            shutil.rmtree(root)
            Cache(root).own()  # its marker was synced before anything else
            for folder in ("partial", "objects"):
                (root / folder).mkdir(parents=True)
            for path, data in states(disk.calls[:behind], keep, chance).items():
                path.write_bytes(data)
            again = Transfer(Cache(root), SETTINGS)
            got = again.fetch(Remote(url))
            again.close()
            assert got.path.read_bytes() == BODY
            assert sorted(path.name for path in (root / "objects").iterdir()) == [
                hashlib.sha256(BODY).hexdigest()
            ]


def test_the_order_is_that_of_the_format(tmp_path: Path, server: Site) -> None:
    """Data up to N fsynced; the checkpoint written, fsynced, renamed, its folder fsynced; only then
    anything beyond N.
    """
    disk = Recorder()
    url = server.put("/a", BODY * 2)
    transfer = Transfer(
        Cache(tmp_path / "cache"), SETTINGS._replace(checkpoint_bytes=300_000), disk
    )
    transfer.fetch(Remote(url))
    transfer.close()
    data = next(
        call[2] for call in disk.calls if call[0] == "create" and call[1].suffix == ".partial"
    )
    words = [f"{call[0]} data" if call[1] == data else call[0] for call in disk.calls]
    text = " ".join(words).replace("write data ", "w ").replace("  ", " ")
    assert "create truncate data" in text
    checkpoints = text.split("sync data ")[1:]
    assert len(checkpoints) >= 3
    for behind in checkpoints:
        steps = behind.split(" w ")[0].strip()
        assert steps.removeprefix("create ").startswith("truncate write sync rename sync folder")
