"""Where a corpus is published to: a bucket of an object store, or a folder that a web server shows.

    put_new       a name that never changes: written if it is absent, and never over another
    put_pointer   a name that changes: written only over the version that was read before
    put_file      an object: its bytes are hashed while they go, and it appears only if they are
                  those of its name

Both are atomic on S3, Google, Azure (conditional requests, RFC 9110, 13.1) and in a folder (a lock
and a rename). obstore's own messages may quote headers: only their kind is shown.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gristmill.errors import MachineError, RecipeError, VerificationError
from gristmill.network import layout
from gristmill.store.cache import locked
from gristmill.store.parts import TEMPORARY, machine_errors, write_bytes, writing
from gristmill.store.remotes import store_of
from gristmill.store.urls import STORES, is_url, local_path, shown, split

BLOCK = 4 << 20  # bytes that go to a store at a time
MOST_BLOCKS = 9_000  # of one upload; S3 allows 10,000
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")  # as S3 and Azure say it
AT_ONCE = 2  # blocks of one file on their way

Headers = dict[str, str]
Version = dict[str, str] | None  # of what was read; None: there was nothing


class StoredFile(NamedTuple):
    """A small file of the target, and its version."""

    data: bytes
    version: Version


class TargetChangedError(MachineError):
    """Another publisher wrote a name since it was read."""


class Target(Protocol):
    """Where a corpus is published to. Keys are those of network/layout.py. Safe for threads.

    Every method raises MachineError if the target refuses or cannot be reached.
    """

    url: str  # for messages: without secrets

    def put_new(self, key: str, data: bytes, headers: Headers) -> bool:
        """Write a name that is absent; False if it is there, and nothing was written."""

    def put_file(self, key: str, path: Path, sha256: str, size: int, headers: Headers) -> None:
        """Write an object. Raises VerificationError if the file has other bytes; then nothing was
        written.
        """

    def put_pointer(self, key: str, data: bytes, before: Version, headers: Headers) -> None:
        """Write a name over the version that was read, or where it was absent. Raises
        TargetChangedError.
        """

    def get(self, key: str, most: int) -> StoredFile | None:
        """A small file; None if it is absent. Raises VerificationError if it is larger."""

    def blocks(self, key: str) -> Iterator[bytes]:
        """The bytes of an object. Raises VerificationError if it is absent."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """The names below a folder, and their bytes."""

    def unknown_names(self) -> list[str]:
        """Some of the names at the top that are not of network/layout.py."""

    def delete(self, key: str) -> None:
        """Remove a name, if it is there."""

    def close(self) -> None:
        """Let go of what this publisher holds."""


def open_target(url: str | Path) -> Target:
    """The target of a URL or a folder. Raises RecipeError if it is none, and MachineError."""
    given = str(url)
    if given.startswith(STORES):
        return BucketTarget(given)
    if given.startswith("file://"):
        return FolderTarget(Path(os.fsdecode(local_path(given))))
    if is_url(given) or "://" in given:
        raise RecipeError(
            f"{shown(given)}: nothing can be published there: name s3://BUCKET/PREFIX, gs://, "
            "az://, file:// or a folder"
        )
    return FolderTarget(Path(given))


class FolderTarget:
    """A folder, which a web server shows."""

    def __init__(self, root: Path) -> None:
        """Makes the folder."""
        self.root = Path(os.path.abspath(root))
        self.url = self.root.as_uri()
        with machine_errors(self.root, every=True):
            self.root.mkdir(parents=True, exist_ok=True)
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
                return False
            write_bytes(self.root, key, data)
            return True

    def put_file(self, key: str, path: Path, sha256: str, size: int, headers: Headers) -> None:
        with machine_errors(self.root / key, every=True), writing(self.root, key) as file:
            for block in hashed(path, sha256, size):
                file.write(block)

    def put_pointer(self, key: str, data: bytes, before: Version, headers: Headers) -> None:
        with self._held():
            found = self.get(key, len(data) + layout.LARGEST_RELEASE)
            if (found.version if found else None) != before:
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
            raise VerificationError(_too_large(self.url, key, most))
        return StoredFile(data, {"sha256": hashlib.sha256(data).hexdigest()})

    def blocks(self, key: str) -> Iterator[bytes]:
        try:
            with open(self.root / key, "rb") as file:
                while block := file.read(BLOCK):
                    yield block
        except FileNotFoundError:
            raise VerificationError(f"{self.url}/{key}: is not there") from None

    def sizes(self, prefix: str) -> dict[str, int]:
        found = {}
        for top, _, files in os.walk(self.root / prefix):
            for name in files:
                path = Path(top) / name
                if not name.endswith(TEMPORARY):
                    with suppress(FileNotFoundError):
                        found[path.relative_to(self.root).as_posix()] = path.stat().st_size
        return found

    def unknown_names(self) -> list[str]:
        with machine_errors(self.root, every=True):
            return _unknown(sorted(os.listdir(self.root)))

    def delete(self, key: str) -> None:
        with machine_errors(self.root / key, every=True):
            (self.root / key).unlink(missing_ok=True)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class BucketTarget:
    """A prefix in a bucket of an object store, by obstore and the environment's credentials."""

    def __init__(self, url: str) -> None:
        """Sends no request. Raises RecipeError if the URL cannot be one."""
        _, _, path, query = split(url)
        prefix = path.strip("/")
        if query or any(piece in ("", ".", "..") for piece in prefix.split("/") if prefix):
            raise RecipeError(f"{shown(url)}: name s3://BUCKET/PREFIX, without a query and dots")
        self.url = shown(url).rstrip("/")
        self._store, _ = store_of(url)
        self._prefix = f"{prefix}/" if prefix else ""

    def put_new(self, key: str, data: bytes, headers: Headers) -> bool:
        import obstore

        with self._explained(key):
            try:
                obstore.put(
                    self._store, self._prefix + key, data, attributes=headers, mode="create"
                )
            except obstore.exceptions.AlreadyExistsError:
                return False
            return True

    def put_file(self, key: str, path: Path, sha256: str, size: int, headers: Headers) -> None:
        import obstore

        if size <= BLOCK:
            self.put_new(key, b"".join(hashed(path, sha256, size)), headers)
            return
        with self._explained(key):
            # In blocks, so that no file is in memory; an upload whose blocks end with an error is
            # given up, and nobody sees it.
            obstore.put(
                self._store,
                self._prefix + key,
                hashed(path, sha256, size),
                attributes=headers,
                chunk_size=max(2 * BLOCK, -(-size // MOST_BLOCKS)),
                max_concurrency=AT_ONCE,
            )

    def put_pointer(self, key: str, data: bytes, before: Version, headers: Headers) -> None:
        import obstore

        mode: Any = "create" if before is None else before
        with self._explained(key):
            try:
                obstore.put(self._store, self._prefix + key, data, attributes=headers, mode=mode)
            except (
                obstore.exceptions.AlreadyExistsError,
                obstore.exceptions.PreconditionError,
            ) as error:
                raise TargetChangedError(changed(self.url, key)) from error

    def get(self, key: str, most: int) -> StoredFile | None:
        import obstore

        with self._explained(key):
            try:
                found = obstore.get(self._store, self._prefix + key)
            except FileNotFoundError as error:
                if any(word in str(error) for word in NO_BUCKET):
                    raise
                return None
            if found.meta["size"] > most:
                raise VerificationError(_too_large(self.url, key, most))
            version = {name: found.meta.get(name) for name in ("e_tag", "version")}
            return StoredFile(
                bytes(found.bytes()), {name: str(has) for name, has in version.items() if has}
            )

    def blocks(self, key: str) -> Iterator[bytes]:
        import obstore

        with self._explained(key):
            try:
                stream = obstore.get(self._store, self._prefix + key).stream(min_chunk_size=BLOCK)
            except FileNotFoundError:
                raise VerificationError(f"{self.url}/{key}: is not there") from None
            for block in stream:
                yield bytes(block)

    def sizes(self, prefix: str) -> dict[str, int]:
        with self._explained(prefix):
            return {
                entry["path"].removeprefix(self._prefix): entry["size"]
                for page in self._store.list(f"{self._prefix}{prefix}")
                for entry in page
            }

    def unknown_names(self) -> list[str]:
        import obstore

        with self._explained(""):
            found = obstore.list_with_delimiter(self._store, self._prefix.rstrip("/") or None)
        names = [*found["common_prefixes"], *(entry["path"] for entry in found["objects"])]
        return _unknown([name.removeprefix(self._prefix) for name in names])

    def delete(self, key: str) -> None:
        import obstore

        with self._explained(key), suppress(FileNotFoundError):
            obstore.delete(self._store, self._prefix + key)

    def close(self) -> None:
        pass

    @contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        """Turn an error of the store into one of ours."""
        import obstore

        try:
            yield
        except (obstore.exceptions.BaseError, FileNotFoundError, OSError) as error:
            # The store's own word for it: NoSuchBucket, AccessDenied, SlowDown ...
            word = re.search(r"<Code>([A-Za-z]{1,60})</Code>", str(error))
            said = word[1] if word else type(error).__name__
            where = f"{self.url}/{key}"
            if said in (*NO_BUCKET, "FileNotFoundError"):
                raise RecipeError(f"{where}: there is no such bucket ({said}): make it") from error
            if isinstance(
                error,
                obstore.exceptions.PermissionDeniedError | obstore.exceptions.UnauthenticatedError,
            ):
                raise MachineError(
                    f"{where}: the store refused ({said}): do the credentials in the environment "
                    "allow reading, writing and listing there?"
                ) from error
            raise MachineError(
                f"{where}: the store did not do it ({said}). Nothing that is published has "
                "changed, and what was uploaded is used again: run the same command again"
            ) from error


def hashed(path: Path, sha256: str, size: int) -> Iterator[bytes]:
    """The blocks of a file; instead of the last one, VerificationError if the file is not that of
    the digest. Raises MachineError if it cannot be read.
    """
    digest, came = hashlib.sha256(), 0
    with machine_errors(path, every=True), open(path, "rb") as file:
        block = file.read(BLOCK)
        while block:
            following = file.read(BLOCK)
            digest.update(block)
            came += len(block)
            if following:
                yield block
            block, last = following, block
    if came != size or digest.hexdigest() != sha256:
        raise VerificationError(
            f"{path}: not as the manifest says: expected {size:,} bytes with sha256 {sha256}, got "
            f"{came:,} with {digest.hexdigest()}. Run `gristmill verify`"
        )
    if came:
        yield last


OWN = {layout.OBJECTS, layout.RELEASES, layout.TRUST, layout.POINTER, ".lock", ".publishers"}


def _unknown(names: list[str]) -> list[str]:
    own = {name.rstrip("/") for name in names} & OWN
    return sorted({name.rstrip("/") for name in names} - own)[:3]


def changed(url: str, key: str) -> str:
    """What a publisher is told who was not the first."""
    return (
        f"{url}/{key}: another publisher wrote it meanwhile. What it published is untouched: look "
        "at it, then run the command again"
    )


def _too_large(url: str, key: str, most: int) -> str:
    return f"{url}/{key}: more than {most:,} bytes: not written by gristmill"
