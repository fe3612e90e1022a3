"""A download in progress: NAME.partial, and NAME.partial.json, its checkpoint.

    append ... append     bytes go to the file, and to the hash in a thread of its own
    checkpoint            data up to N fsynced; then the checkpoint for N written, fsynced, renamed,
                          its folder fsynced;
                          only then is anything appended beyond N
    resume                truncated to N and hashed again; shorter or unequal, it starts at byte
                          zero

The checkpoint holds `url`, `verified_bytes`, `expected_size`, `sha256_prefix` (over exactly the
first `verified_bytes`) and a validator: a strong ETag, or a Last-Modified that is old enough to be
one (RFC 9110, 8.8.2.2). Where the server gave neither, it holds none, and nothing is resumed.
"""

import hashlib
import os
import queue
import threading
from pathlib import Path
from typing import Any

import msgspec

from gristmill.errors import NO_JSON
from gristmill.store.disk import Disk
from gristmill.store.parts import to_json

BLOCK = 1 << 18
QUEUED = 32  # blocks that the hash may be behind the file


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the first `verified_bytes` of a download, and of the whole."""

    url: str
    verified_bytes: int
    expected_size: int | None
    sha256_prefix: str
    etag: str | None = None
    last_modified: str | None = None

    @property
    def validator(self) -> str | None:
        """Return the value for If-Range."""
        return self.etag or self.last_modified


class _Hash:
    """SHA-256 in its own thread: hashing releases the interpreter, so it costs the download no
    time.
    """

    def __init__(self, digest: Any) -> None:
        self._digest = digest
        self._queue: queue.Queue[bytes | None] = queue.Queue(QUEUED)
        self._thread = threading.Thread(target=self._work, name="gristmill-hash", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (block := self._queue.get()) is not None:
            self._digest.update(block)
            self._queue.task_done()
        self._queue.task_done()

    def update(self, block: bytes) -> None:
        self._queue.put(block)

    def hexdigest(self) -> str:
        """Return the digest of all that was given so far."""
        self._queue.join()
        return str(self._digest.hexdigest())

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()


class Partial:
    """One download on disk.

    Use as a context: its file is closed at the end, and an incomplete one is kept.
    """

    def __init__(
        self, folder: Path, name: str, url: str, checkpoint_bytes: int, disk: Disk | None = None
    ) -> None:
        """Open and makes nothing before `resume` or `begin`; `url` is its stored form."""
        self.path = folder / f"{name}.partial"
        self._note = folder / f"{name}.partial.json"
        self._url = url
        self.every = checkpoint_bytes
        self._disk = disk or Disk()
        self._handle: int | None = None
        self._hash: _Hash | None = None
        self.written = 0  # bytes in the file
        self.verified = 0  # of them before the last checkpoint
        self.resumed = 0  # of them that an earlier run brought
        self.expected_size: int | None = None
        self.etag: str | None = None
        self.last_modified: str | None = None
        self._last: Checkpoint | None = None  # as it lies on disk

    def __enter__(self) -> "Partial":
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    @property
    def validator(self) -> str | None:
        """Return the value for If-Range."""
        return self.etag or self.last_modified

    def noted(self) -> Checkpoint | None:
        """Return the checkpoint on disk; None if there is none for this URL."""
        try:
            note = msgspec.json.decode(self._note.read_bytes(), type=Checkpoint)
        except (OSError, *NO_JSON):
            return None
        return note if note.url == self._url and note.verified_bytes >= 0 else None

    def resume(self) -> bool:
        """Continue from what an earlier run left, if its bytes are those of its checkpoint; else
        remove it.
        """
        note = self.noted()
        if note is None or not self.path.exists():
            self.discard()
            return False
        self._handle = self._disk.open(self.path)
        if os.fstat(self._handle).st_size < note.verified_bytes:
            self.discard()
            return False
        self._disk.truncate(self._handle, note.verified_bytes)
        digest = hashlib.sha256()
        self._digest_file(digest)
        if digest.hexdigest() != note.sha256_prefix:
            self.discard()
            return False
        self._hash = _Hash(digest)
        self.written = self.verified = self.resumed = note.verified_bytes
        self.expected_size, self.etag, self.last_modified = (
            note.expected_size,
            note.etag,
            note.last_modified,
        )
        self._last = note
        return True

    def _digest_file(self, digest: Any) -> None:
        assert self._handle is not None
        os.lseek(self._handle, 0, os.SEEK_SET)
        block = memoryview(bytearray(BLOCK))
        while count := os.readv(self._handle, [block]):
            digest.update(block[:count])

    def begin(self, expected_size: int | None, etag: str | None, last_modified: str | None) -> None:
        """Start at byte zero; remove what was there, the checkpoint first."""
        self._close()
        self._last = None
        self._disk.unlink(self._note)
        self._handle = self._disk.open(self.path)
        self._disk.truncate(self._handle, 0)
        self._hash = _Hash(hashlib.sha256())
        self.written = self.verified = self.resumed = 0
        self.expected_size, self.etag, self.last_modified = expected_size, etag, last_modified

    def append(self, block: bytes) -> None:
        """Write bytes after the others; after every `every` bytes, write a checkpoint."""
        assert self._handle is not None and self._hash is not None
        self._disk.write(self._handle, block)
        self._hash.update(block)
        self.written += len(block)
        if self.written - self.verified >= self.every:
            self.checkpoint()

    def checkpoint(self) -> str:
        """Make the written bytes durable, then their checkpoint; returns their digest."""
        assert self._handle is not None and self._hash is not None
        note = Checkpoint(
            url=self._url,
            verified_bytes=self.written,
            expected_size=self.expected_size,
            sha256_prefix=self._hash.hexdigest(),
            etag=self.etag,
            last_modified=self.last_modified,
        )
        if note == self._last:
            return note.sha256_prefix
        self._disk.sync(self._handle)
        coming = self._note.with_suffix(".json.next")
        handle = self._disk.open(coming)
        try:
            self._disk.truncate(handle, 0)
            self._disk.write(handle, to_json(note))
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)
        self._disk.replace(coming, self._note)
        self._disk.sync_folder(self._note.parent)
        self.verified = self.written
        self._last = note
        return note.sha256_prefix

    def move(self, target: Path) -> None:
        """Rename the whole file, which has its checkpoint, to `target`; the checkpoint is kept
        until `forget`.
        """
        self._close()
        if target.exists() and not self.path.exists():
            return  # a crash came behind the new name
        self._disk.replace(self.path, target)
        self._disk.sync_folder(target.parent)
        self._disk.sync_folder(self.path.parent)

    def forget(self) -> None:
        """Remove the checkpoint of a download that is whole and has its final name."""
        self._disk.unlink(self._note)

    def discard(self) -> None:
        """Remove the partial file, its checkpoint first."""
        self._close()
        self._last = None
        self._disk.unlink(self._note)
        self._disk.unlink(self.path)
        self.written = self.verified = self.resumed = 0
        self.expected_size = self.etag = self.last_modified = None

    def _close(self) -> None:
        if self._hash is not None:
            self._hash.close()
            self._hash = None
        if self._handle is not None:
            self._disk.close(self._handle)
            self._handle = None
