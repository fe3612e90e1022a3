"""Files in a bucket under the sha256 of their bytes: no two writers can disagree about a name, and
what was written never changes.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gristmill.errors import Damaged, VerificationError
from gristmill.store.bucket.bucket import BLOCK, Bucket, hashed
from gristmill.store.parts import machine_errors, writing
from gristmill.store.proof import damage

THREADS = 8  # files on their way at a time


class ObjectFile(NamedTuple):
    """A file of a store."""

    key: str  # where it lies
    path: str  # where it goes, from a folder of this machine
    sha256: str
    size: int | None  # bytes; null: not known


class Objects:
    """The objects below a folder of a bucket. Safe for threads."""

    def __init__(self, bucket: Bucket, folder: str) -> None:
        """Send no request."""
        self.bucket, self.folder = bucket, folder
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()

    def key(self, sha256: str) -> str:
        """Return where the bytes of a digest lie."""
        return f"{self.folder}/{sha256}"

    def look(self, sizes: dict[str, int]) -> None:
        """Take over what a list of the bucket says, by key."""
        with self._lock:
            self._sizes = {
                key.rpartition("/")[2]: size
                for key, size in sizes.items()
                if key.startswith(f"{self.folder}/")
            }

    def size(self, sha256: str) -> int | None:
        """Return the bytes of an object that is known to be there; None: it is not."""
        with self._lock:
            return self._sizes.get(sha256)

    def known(self) -> dict[str, int]:
        """Return the objects that are known to be there, and their sizes."""
        with self._lock:
            return dict(self._sizes)

    def put(self, path: Path, sha256: str, size: int) -> None:
        """Write a file, over what is there: it may be damaged. Raises VerificationError if the file
        has other bytes.
        """
        if size <= BLOCK:
            self.bucket.put(self.key(sha256), b"".join(hashed(path, sha256, size)))
        else:
            self.bucket.put_file(self.key(sha256), path, sha256, size, {})
        self.note(sha256, size)

    def note(self, sha256: str, size: int) -> None:
        """Note that an object was written."""
        with self._lock:
            self._sizes[sha256] = size

    def delete(self, sha256: str) -> None:
        """Remove an object, if it is there."""
        self.bucket.delete(self.key(sha256))
        with self._lock:
            self._sizes.pop(sha256, None)


def bring(
    bucket: Bucket,
    files: Iterable[ObjectFile],
    root: Path,
    on_bytes: Callable[[int], None] = lambda _: None,
    *,
    keep: bool = False,
) -> None:
    """Have files of a bucket below `root`; those that are there and right stay.

    Raises Damaged where an object is not as it was written; it is removed, but with `keep`.
    """

    def one(file: ObjectFile) -> None:
        path = root / file.path
        if damage(path, file.sha256, file.size) is not None:
            download(bucket, file, root, keep=keep)
        on_bytes(path.stat().st_size)

    with ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(one, list(files)):
            pass


def download(bucket: Bucket, file: ObjectFile, root: Path, *, keep: bool = False) -> None:
    """Fetch one file; it has its name when its bytes were compared. Raises Damaged."""
    summary = ""
    for _ in range(2):  # what a line altered is right the second time
        with machine_errors(root / file.path), suppress(_Other), writing(root, file.path) as out:
            try:
                for block in bucket.blocks(file.key):
                    out.write(block)
            except VerificationError as error:
                advice = "Run the recipe again" if keep else "A run makes it anew"
                raise Damaged(f"{error}. {advice}") from None
            summary = f"{out.size:,} bytes with sha256 {out.hexdigest()}"
            if out.hexdigest() != file.sha256:
                raise _Other
            return
    if not keep:
        bucket.delete(file.key)
    raise Damaged(
        f"{bucket.url}/{file.key}: not as it was written: expected sha256 {file.sha256}, got "
        f"{summary}. "
        + (
            "If a second try says the same, the store has other bytes, which a run tells by their "
            "number alone: Remove it, then run the recipe again"
            if keep
            else "It is removed. A run makes it anew"
        )
    )


class _Other(Exception):
    """The bytes are not those of the digest."""


def link(source: Path, target: Path) -> None:
    """Have a file under a second name, without a copy where the file system can."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        with writing(target.parent, target.name) as out, open(source, "rb") as file:
            shutil.copyfileobj(file, out)
