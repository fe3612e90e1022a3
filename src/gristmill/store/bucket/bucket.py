"""A prefix in a bucket of an object store, by obstore and the environment's credentials: what is
read and written there.

    put_new    a name that never changes: written if it is absent, and never over another
    put_over   a name that changes: written only over the version that was read before
    put_file   a file whose bytes are hashed while they go: it appears only if they are those of its
               name

Each is atomic on S3, Google and Azure (conditional requests, RFC 9110, 13.1). obstore's own
messages may quote headers: only their kind is shown.
"""

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.errors import MachineError, RecipeError, VerificationError
from gristmill.store.http.remotes import open_store
from gristmill.store.http.urls import shown, split
from gristmill.store.parts import machine_errors

BLOCK = 4 << 20  # bytes that go to a store at a time
MOST_BLOCKS = 9_000  # of one upload; S3 allows 10,000
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")  # as S3 and Azure say it
# Of S3, as obstore does not tell them from other errors when it lists.
DENIED = (
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
)
AT_ONCE = 2  # blocks of one file on their way

Headers = dict[str, str]
Version = dict[str, str] | None  # of what was read; None: there was nothing


class StoredFile(NamedTuple):
    """A small file of a store, and its version."""

    data: bytes
    version: Version
    modified: datetime | None = None  # by the clock of the store, where it has one


class ChangedError(MachineError):
    """Another process wrote a name since it was read."""


class ListedObject(NamedTuple):
    """What a list says of an object."""

    size: int  # bytes
    e_tag: str | None  # of what was written at once, on most stores its MD5


class Bucket:
    """A prefix in a bucket; keys are relative to it. Safe for threads.

    Every method raises MachineError if the store refuses or cannot be reached, and RecipeError if
    there is no such bucket.
    """

    def __init__(self, url: str, kept: str = "What was uploaded is used again") -> None:
        """`kept`: what an error says is not lost. Sends no request. Raises RecipeError if the URL
        cannot be one.
        """
        _, host, path, query = split(url)
        prefix = path.strip("/")
        dots = any(piece in ("", ".", "..") for piece in prefix.split("/") if prefix)
        if query or "#" in url or dots:
            raise RecipeError(
                f"{shown(url)}: name s3://BUCKET/PREFIX, without a query, a fragment and dots"
            )
        if "@" in host:
            raise RecipeError(
                f"{shown(url)}: a store's credentials come from the environment, never from its URL"
            )
        self.url = shown(url).rstrip("/")
        self._store, _ = open_store(url)
        self._kept = kept
        self._prefix = f"{prefix}/" if prefix else ""

    def put(self, key: str, data: bytes) -> None:
        """Write a name, whatever is there."""
        import obstore

        with self._explained(key):
            obstore.put(self._store, self._prefix + key, data)

    def put_new(self, key: str, data: bytes, headers: Headers) -> bool:
        """Write a name that is absent; False if it is there with other bytes, and nothing was
        written. Bytes that are there already may be ours, whose answer was lost.
        """
        import obstore

        with self._explained(key):
            try:
                obstore.put(
                    self._store, self._prefix + key, data, attributes=headers, mode="create"
                )
            except obstore.exceptions.AlreadyExistsError:
                return self._written(key, data) is not None
            return True

    def put_over(self, key: str, data: bytes, before: Version, headers: Headers) -> Version:
        """Write a name over the version that was read, or where it was absent; its version now.

        Where the store refuses and has these very bytes, an earlier try wrote them and its answer
        was lost. Raises ChangedError.
        """
        import obstore

        mode: Any = "create" if before is None else before
        with self._explained(key):
            try:
                done = obstore.put(
                    self._store, self._prefix + key, data, attributes=headers, mode=mode
                )
            except (
                obstore.exceptions.AlreadyExistsError,
                obstore.exceptions.PreconditionError,
            ) as error:
                if (there := self._written(key, data)) is not None:
                    return there.version
                raise ChangedError(f"{self.url}/{key}: another process wrote it") from error
            return _version(done)

    def _written(self, key: str, data: bytes) -> StoredFile | None:
        """Return what a name has if it has these bytes; None: it has others, or is not there."""
        with suppress(VerificationError):  # larger, so others
            there = self.get(key, len(data))
            if there is not None and there.data == data:
                return there
        return None

    def read_back(self, key: str, data: bytes) -> None:
        """Raise MachineError if a name that was written has not these bytes: the store lost what it
        acknowledged, or another process wrote over it.
        """
        if self._written(key, data) is None:
            raise MachineError(
                f"{self.url}/{key}: {len(data):,} bytes were written, and the store does not have "
                "them: it lost what it acknowledged, or another process wrote over them. Run the "
                "same command again"
            )

    def check_conditions(self, key: str) -> None:
        """Raise MachineError if the store ignores the conditions of `put_new` and `put_over`: two
        writers would then overwrite one another unseen. Writes, and removes, a name that nobody
        else uses: `key` with a random end.
        """
        probe = f"{key}.{secrets.token_hex(8)}"
        try:
            before = self.put_over(probe, b"1", None, {})
            self.put_over(probe, b"2", before, {})
            ignored = []
            for name, version in (("If-None-Match", None), ("If-Match", before)):
                with suppress(ChangedError):
                    self.put_over(probe, name.encode(), version, {})
                    ignored.append(name)
        except ChangedError:
            ignored = ["If-Match"]  # refused although nobody else writes the name
        finally:
            self.delete(probe)
        if ignored:
            raise MachineError(
                f"{self.url}: the store ignores {' and '.join(ignored)} of a PUT (RFC 9110, "
                "section 13.1), so two writers could overwrite one another unseen. Use a store "
                "that has conditional writes, or a proxy that passes them on; or write to a "
                "folder, and copy that"
            )

    def put_file(self, key: str, path: Path, sha256: str, size: int, headers: Headers) -> None:
        """Write an object. Raises VerificationError if the file has other bytes; then nothing was
        written.
        """
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

    def copy(self, key: str, to: str) -> None:
        """Have the store copy an object, over whatever is there."""
        import obstore

        with self._explained(to):
            obstore.copy(self._store, self._prefix + key, self._prefix + to)

    def get(self, key: str, most: int) -> StoredFile | None:
        """Return a small file; None if it is absent. Raises VerificationError if it is larger."""
        import obstore

        with self._explained(key):
            try:
                answer = obstore.get(self._store, self._prefix + key)
            except FileNotFoundError as error:
                if any(word in str(error) for word in NO_BUCKET):
                    raise
                return None
            if answer.meta["size"] > most:
                raise VerificationError(too_large(self.url, key, most))
            return StoredFile(
                bytes(answer.bytes()), _version(answer.meta), answer.meta.get("last_modified")
            )

    def blocks(self, key: str) -> Iterator[bytes]:
        """Yield the bytes of an object. Raises VerificationError if it is absent."""
        import obstore

        with self._explained(key):
            try:
                stream = obstore.get(self._store, self._prefix + key).stream(min_chunk_size=BLOCK)
            except FileNotFoundError:
                raise VerificationError(f"{self.url}/{key}: is not there") from None
            for block in stream:
                yield bytes(block)

    def listed(self, prefix: str) -> dict[str, ListedObject]:
        """Return the names that begin so, and what a list says of them."""
        start = len(self._prefix)
        with self._explained(prefix):
            return {
                entry["path"][start:]: ListedObject(entry["size"], entry.get("e_tag"))
                for page in self._store.list(f"{self._prefix}{prefix}" or None)
                for entry in page
            }

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the names below a folder, and their bytes."""
        return {name: listed.size for name, listed in self.listed(prefix).items()}

    def names_at_top(self) -> list[str]:
        """Return the names and folders at the top."""
        import obstore

        with self._explained(""):
            listing = obstore.list_with_delimiter(self._store, self._prefix.rstrip("/") or None)
        names = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        return [name.removeprefix(self._prefix) for name in names]

    def delete(self, key: str) -> None:
        """Remove a name, if it is there."""
        import obstore

        with self._explained(key), suppress(FileNotFoundError):
            obstore.delete(self._store, self._prefix + key)

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
            denied = obstore.exceptions.PermissionDeniedError
            if said in DENIED or isinstance(
                error, denied | obstore.exceptions.UnauthenticatedError
            ):
                raise MachineError(
                    f"{where}: the store refused ({said}): do the credentials in the environment "
                    "allow reading, writing and listing there?"
                ) from error
            raise MachineError(
                f"{where}: the store did not do it ({said}): is it there, and do its address and "
                f"region in the environment fit? {self._kept}: run the same command again"
            ) from error


def _version(meta: Any) -> Version:
    return {name: str(has) for name in ("e_tag", "version") if (has := meta.get(name))}


def hashed(path: Path, sha256: str, size: int) -> Iterator[bytes]:
    """Yield the blocks of a file; instead of the last one, VerificationError if the file is not
    that of the digest. Raises MachineError if it cannot be read.
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


def too_large(url: str, key: str, most: int) -> str:
    """Return what is said of a small file that is none."""
    return f"{url}/{key}: more than {most:,} bytes: not written by gristmill"
