"""Where a corpus is published to: a bucket of an object store, or a folder that a web server shows.

    put_new       a name that never changes: written if it is absent, and never over another
    put_pointer   a name that changes: written only over the version that was read before
    put_file      an object: its bytes are hashed while they go, and it appears only if they are
                  those of its name

Both are atomic on S3, Google, Azure (conditional requests, RFC 9110, 13.1) and in a folder (a lock
and a rename).
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from gristmill.errors import MachineError, RecipeError, VerificationError
from gristmill.network.releases import layout
from gristmill.store.bucket.bucket import (
    BLOCK,
    Bucket,
    ChangedError,
    Headers,
    StoredFile,
    Version,
    hashed,
    too_large,
)
from gristmill.store.cache import locked
from gristmill.store.http.urls import STORES, is_url, local_path, shown
from gristmill.store.parts import TEMPORARY, is_temporary, machine_errors, write_bytes, writing
from gristmill.system.ownership import Prefix, claim, claim_folder

# Names at the top of a target.
OWN = {layout.OBJECTS, layout.RELEASES, layout.TRUST, layout.POINTER, ".lock", ".publishers"}


class TargetChangedError(MachineError):
    """Another publisher wrote a name since it was read."""


class Target(Protocol):
    """Where a corpus is published to. Keys are those of network/releases/layout.py. Safe for
    threads.

    Every method raises MachineError if the target refuses or cannot be reached.
    """

    url: str  # for messages: without secrets

    def put_new(self, key: str, data: bytes, headers: Headers) -> bool:
        """Write a name that is absent; False if it is there with other bytes, and nothing was
        written.
        """

    def put_file(self, key: str, path: Path, sha256: str, size: int, headers: Headers) -> None:
        """Write an object. Raises VerificationError if the file has other bytes; then nothing was
        written.
        """

    def put_pointer(self, key: str, data: bytes, before: Version, headers: Headers) -> None:
        """Write a name over the version that was read, or where it was absent. Raises
        TargetChangedError.
        """

    def get(self, key: str, most: int) -> StoredFile | None:
        """Return a small file; None if it is absent. Raises VerificationError if it is larger."""

    def blocks(self, key: str) -> Iterator[bytes]:
        """Return the bytes of an object. Raises VerificationError if it is absent."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the names below a folder, and their bytes."""

    def delete(self, key: str) -> None:
        """Remove a name, if it is there."""

    def close(self) -> None:
        """Let go of what this publisher holds."""


def open_target(url: str | Path) -> Target:
    """Open the target of a URL or a folder, to write there; an empty one becomes gristmill's.
    Raises RecipeError if it is none, and MachineError, also where it is somebody's, and for a store
    that ignores the conditions of a write.
    """
    given = str(url)
    if given.startswith(STORES):
        target = BucketTarget(given)
        target.own()
        target.check_conditions()
        return target
    if (folder := target_folder(given)) is not None:
        return FolderTarget(folder)
    raise RecipeError(
        f"{shown(given)}: nothing can be published there: name s3://BUCKET/PREFIX, gs://, "
        "az://, file:// or a folder"
    )


def target_folder(url: str | Path) -> Path | None:
    """Return the folder of a target; None: it is none."""
    given = str(url)
    if given.startswith("file://"):
        return Path(os.path.abspath(os.fsdecode(local_path(given))))
    if given.startswith(STORES) or is_url(given) or "://" in given:
        return None
    return Path(os.path.abspath(given))


def _is_release(names: set[str], target: Target) -> bool:
    """Return whether a target with these names at its top has a release, or a root, that an earlier
    version of gristmill wrote.
    """
    with suppress(VerificationError):
        blob = target.get(layout.POINTER, layout.LARGEST_POINTER)
        if blob is not None:
            layout.decode_pointer(blob.data, target.url)
            return True
    if not names <= OWN:
        return False
    root = target.get(f"{layout.TRUST}/1.root.json", layout.LARGEST_RELEASE)
    if root is not None and b'"root"' in root.data:
        return True
    for key in target.sizes(f"{layout.RELEASES}/"):
        with suppress(VerificationError):
            blob = target.get(key, layout.LARGEST_RELEASE)
            if blob is not None:
                layout.decode_release(blob.data, target.url)
                return True
    return False


class FolderTarget:
    """A folder, which a web server shows."""

    def __init__(self, root: Path) -> None:
        """Make the folder, or raises MachineError where it is somebody's."""
        self.root = Path(os.path.abspath(root))
        self.url = self.root.as_uri()
        with machine_errors(self.root, every=True):
            claim_folder(self.root, "release", lambda names: _is_release(names, self))
            self._handle: int | None = os.open(
                self.root / ".publishers", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            self._sweep()

    def _sweep(self) -> None:
        """Remove what killed publishers left, if nobody else publishes now."""
        assert self._handle is not None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
        else:
            for path in self.root.rglob(f"*{TEMPORARY}"):
                if is_temporary(path.name):
                    path.unlink(missing_ok=True)
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Nobody else changes a name now."""
        with machine_errors(self.root, every=True), locked(self.root / ".lock"):
            yield

    def put_new(self, key: str, data: bytes, headers: Headers) -> bool:
        with self._held():
            if (self.root / key).exists():
                return (self.root / key).read_bytes() == data
            write_bytes(self.root, key, data)
            return True

    def put_file(self, key: str, path: Path, sha256: str, size: int, headers: Headers) -> None:
        with machine_errors(self.root / key, every=True), writing(self.root, key) as file:
            for block in hashed(path, sha256, size):
                file.write(block)

    def put_pointer(self, key: str, data: bytes, before: Version, headers: Headers) -> None:
        with self._held():
            pointer = self.get(key, len(data) + layout.LARGEST_RELEASE)
            if (pointer.version if pointer else None) != before:
                raise TargetChangedError(changed(self.url, key))
            write_bytes(self.root, key, data)

    def get(self, key: str, most: int) -> StoredFile | None:
        with machine_errors(self.root / key, every=True):
            try:
                with open(self.root / key, "rb") as file:
                    data = file.read(most + 1)
            except FileNotFoundError:
                return None
        if len(data) > most:
            raise VerificationError(too_large(self.url, key, most))
        return StoredFile(data, {"sha256": hashlib.sha256(data).hexdigest()})

    def blocks(self, key: str) -> Iterator[bytes]:
        try:
            with open(self.root / key, "rb") as file:
                while block := file.read(BLOCK):
                    yield block
        except FileNotFoundError:
            raise VerificationError(f"{self.url}/{key}: is not there") from None

    def sizes(self, prefix: str) -> dict[str, int]:
        sizes = {}
        for top, _, files in os.walk(self.root / prefix):
            for name in files:
                path = Path(top) / name
                if not name.endswith(TEMPORARY):
                    with suppress(FileNotFoundError):
                        sizes[path.relative_to(self.root).as_posix()] = path.stat().st_size
        return sizes

    def delete(self, key: str) -> None:
        with machine_errors(self.root / key, every=True):
            (self.root / key).unlink(missing_ok=True)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class BucketTarget:
    """A prefix in a bucket of an object store (store/bucket/bucket.py)."""

    def __init__(self, url: str) -> None:
        """Send no request. Raises RecipeError if the URL cannot be one."""
        kept = "Nothing that is published has changed, and what was uploaded is used again"
        self._bucket = Bucket(url, kept)
        self.url = self._bucket.url

    def check_conditions(self) -> None:
        """Raise MachineError if the store ignores the conditions of a write."""
        self._bucket.check_conditions(f"{layout.OBJECTS}/probe")

    def own(self) -> None:
        """Have the prefix be a release's. Raises MachineError where it is somebody's."""
        claim(Prefix(self._bucket), "release", lambda names: _is_release(names, self))

    def put_new(self, key: str, data: bytes, headers: Headers) -> bool:
        if not self._bucket.put_new(key, data, headers):
            return False
        self._bucket.read_back(key, data)
        return True

    def put_file(self, key: str, path: Path, sha256: str, size: int, headers: Headers) -> None:
        self._bucket.put_file(key, path, sha256, size, headers)

    def put_pointer(self, key: str, data: bytes, before: Version, headers: Headers) -> None:
        try:
            self._bucket.put_over(key, data, before, headers)
        except ChangedError as error:
            raise TargetChangedError(changed(self.url, key)) from error
        there = self._bucket.get(key, len(data) + layout.LARGEST_RELEASE)
        if there is None or there.version == before:  # else another publisher went on from ours
            self._bucket.read_back(key, data)

    def get(self, key: str, most: int) -> StoredFile | None:
        return self._bucket.get(key, most)

    def blocks(self, key: str) -> Iterator[bytes]:
        return self._bucket.blocks(key)

    def sizes(self, prefix: str) -> dict[str, int]:
        return self._bucket.sizes(prefix)

    def delete(self, key: str) -> None:
        self._bucket.delete(key)

    def close(self) -> None:
        pass


def changed(url: str, key: str) -> str:
    """Return the message to a publisher who was not the first."""
    return (
        f"{url}/{key}: another publisher wrote it meanwhile. What it published is untouched: look "
        "at it, then run the command again"
    )
