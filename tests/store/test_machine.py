"""Thousands of short lives of a download: files change, servers fail, processes die, bytes rot; and
it ends in the right bytes.

After every step each object of the cache has the digest of its name and is something that a server
once gave whole; a fetch gives a version that was there while it ran, or an error. In the end, with
a server that behaves, it gives the bytes that are there.
"""

import hashlib
import os
import random
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gristmill.errors import SourceError
from gristmill.store.cache import Cache
from gristmill.store.http.download import Promise
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support import faults
from tests.support.faults import File, site
from tests.support.strategies import FUZZ

FAULTS = st.one_of(
    st.builds(faults.cut, st.floats(0, 1), st.booleans()),
    st.builds(faults.status, st.sampled_from([404, 408, 416, 429, 500, 503, 204, 206])),
    st.just(faults.whole),
    st.builds(faults.shifted, st.integers(-3000, 3000)),
    st.builds(
        faults.told_range,
        st.sampled_from(["bytes 0-0/1", "bytes 1-2/*", "bytes */9", "items 0-1/2", "nonsense", ""]),
    ),
    st.builds(
        faults.without,
        st.sampled_from(["ETag", "Last-Modified", "Content-Range", "Content-Length"]),
    ),
    st.builds(faults.trailing, st.binary(min_size=1, max_size=50)),
    st.builds(faults.longer_chunks, st.binary(min_size=1, max_size=50)),
    st.just(faults.packed),
    st.just(faults.multipart),
    st.just(faults.bad_chunk),
)
# Other bytes than those that are there, and that nothing changed where something did.
LIES = st.one_of(
    st.builds(faults.lying, st.integers(0, 1 << 20)), st.builds(faults.status, st.just(304))
)
KINDS = ("strong", "weak", "none", "dated", "no ranges", "chunked", "no length")


class Killed(BaseException):
    """The process ends here."""


class Downloads(RuleBasedStateMachine):
    """A cache, a server with one file, and all that may happen to them."""

    @initialize(
        kind=st.sampled_from(KINDS),
        size=st.integers(0, 20_000),
        every=st.sampled_from([500, 3_000, 1 << 40]),
    )
    def begin(self, kind: str, size: int, every: int) -> None:
        self.stack = ExitStack()
        self.site = self.stack.enter_context(site())
        memory = Path("/dev/shm")
        self.root = Path(
            tempfile.mkdtemp(dir=memory if memory.is_dir() and os.access(memory, os.W_OK) else None)
        )
        self.every, self.kind, self.number = every, kind, 0
        self.versions: set[bytes] = set()
        self.url = self.site.address + "/a.bin"
        self.change(size)

    def transfer(self) -> Transfer:
        # A kill leaves no thread and no connection: each fetch is a process of its own.
        return Transfer(
            Cache(self.root),
            Settings(backoff=0.0, retries=2, timeout=2.0, checkpoint_bytes=self.every),
        )

    def body(self, size: int) -> bytes:
        return random.Random(self.number).randbytes(size)

    def file(self, body: bytes) -> File:
        file = File(body, etag=f'"{self.number}"')
        if self.kind == "weak":
            file.etag = f'W/"{self.number}"'
        elif self.kind in ("none", "dated"):
            file.etag = None
            file.last_modified = (
                "Sun, 13 Sep 2020 "
                f"{self.number // 3600 % 24:02}:{self.number // 60 % 60:02}:{self.number % 60:02} "
                "GMT"
            )
            file.last_modified = file.last_modified if self.kind == "dated" else None
        file.ranges, file.chunked, file.length = (
            self.kind != "no ranges",
            self.kind == "chunked",
            self.kind != "no length",
        )
        return file

    @rule(size=st.integers(0, 20_000))
    def change(self, size: int) -> None:
        """The file is replaced, sometimes by one of the same length."""
        self.number += 1
        body = self.body(size)
        self.site.files["/a.bin"] = self.file(body)
        self.versions.add(body)

    @rule(fault=FAULTS)
    def trouble(self, fault: faults.Fault) -> None:
        self.site.faults.append(fault)

    @rule(at=st.floats(0, 1), size=st.integers(0, 20_000))
    def change_while_it_is_sent(self, at: float, size: int) -> None:
        self.number += 1
        body = self.body(size)
        file = self.file(body)
        self.versions.add(body)
        self.site.faults.append(
            faults.swapped(body, at, etag=file.etag, last_modified=file.last_modified)
        )

    @rule()
    def fetch(self) -> None:
        before = self.site.files["/a.bin"].body
        self.site.swapped.clear()
        transfer = self.transfer()
        try:
            got = transfer.fetch(Remote(self.url))
        except SourceError as error:
            assert self.url in str(error)
        else:
            assert got.path.read_bytes() in (before, *self.site.swapped)
        finally:
            transfer.close()

    @rule(lies=st.lists(LIES, max_size=2))
    def fetch_what_is_promised(self, lies: list[faults.Fault]) -> None:
        """With a digest, not even a server that changes bytes gets through."""
        body = self.site.files["/a.bin"].body
        self.site.faults.extendleft(lies)
        transfer = self.transfer()
        try:
            got = transfer.fetch(Remote(self.url), Promise(hashlib.sha256(body).hexdigest()))
        except SourceError as error:
            assert self.url in str(error)
        else:
            assert got.path.read_bytes() == body
        finally:
            transfer.close()
            for _ in range(sum(fault in lies for fault in self.site.faults)):
                self.site.faults.popleft()  # of a server that lies nobody without a digest is safe

    @rule(after=st.integers(0, 20_000))
    def die(self, after: int) -> None:
        """A fetch that ends as by a kill, somewhere in the body."""

        def tell(here: int, size: int | None, resumed: int) -> None:
            if here >= after:
                raise Killed

        transfer = self.transfer()
        try:
            transfer.fetch(Remote(self.url), on_progress=tell)
        except (Killed, SourceError):
            pass
        finally:
            transfer.close()

    @precondition(lambda self: any((self.root / "partial").glob("*.partial")))
    @rule(
        harm=st.sampled_from(["flip", "cut", "grow", "lose note", "spoil note", "lose partial"]),
        at=st.integers(0, 1 << 30),
    )
    def rot(self, harm: str, at: int) -> None:
        """What was left is not what was written."""
        for partial in (self.root / "partial").glob("*.partial"):
            note = partial.with_name(partial.name + ".json")
            data = partial.read_bytes()
            place = at % max(1, len(data))
            if harm == "flip" and data:
                partial.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            elif harm == "cut":
                partial.write_bytes(data[:place])
            elif harm == "grow":
                partial.write_bytes(data + b"rubbish")
            elif harm == "lose note":
                note.unlink(missing_ok=True)
            elif harm == "spoil note" and note.exists():
                text = note.read_bytes()
                note.write_bytes(text[: at % len(text)])
            elif harm == "lose partial":
                partial.unlink()

    @rule()
    def recover(self) -> None:
        """The server behaves again."""
        self.site.faults.clear()
        body = self.site.files["/a.bin"].body
        # Without a length and a digest nobody could tell a cut from the end.
        promise = Promise(hashlib.sha256(body).hexdigest()) if self.kind == "no length" else None
        transfer = self.transfer()
        got = transfer.fetch(Remote(self.url), promise)
        transfer.close()
        assert got.path.read_bytes() == body
        assert not list((self.root / "partial").glob("*.partial*"))

    @invariant()
    def objects_are_whole(self) -> None:
        for path in (self.root / "objects").glob("*") if hasattr(self, "root") else ():
            data = path.read_bytes()
            assert hashlib.sha256(data).hexdigest() == path.name
            assert data in self.versions

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.recover()
            self.stack.close()
            shutil.rmtree(self.root)


Test: Any = Downloads.TestCase
Test.settings = settings(
    max_examples=50 * FUZZ,
    stateful_step_count=20,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
)
