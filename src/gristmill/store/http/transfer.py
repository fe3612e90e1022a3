"""Bringing files in, several at once: from the cache where it has them, else by a download that
never starts over.

What is pinned by a sha256 and in the cache needs no request. What is not pinned is asked for with
its validator, so that a server sends it again only when it changed. Local files are read in place
and never copied.
"""

import os
from pathlib import Path
from typing import NamedTuple

from gristmill.errors import SourceError, reason_of_file
from gristmill.store.cache import Cache, KnownUrl, cache_key
from gristmill.store.disk import Disk
from gristmill.store.http.answers import header_digest, strong_validators
from gristmill.store.http.client import Client
from gristmill.store.http.download import Download, OnProgress, Promise, Whole
from gristmill.store.http.partial import Partial
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.urls import local_path
from gristmill.store.parts import hash_file, machine_errors


class Fetched(NamedTuple):
    """A file on this machine, and its digest and size."""

    path: Path
    size: int
    sha256: str


class FileStatus(NamedTuple):
    """What is known of a file before it is fetched."""

    here: int  # bytes: all of it, or up to the last checkpoint
    size: int | None  # bytes in all, where it is known
    whole: bool


def _ignore(here: int, size: int | None, resumed: int) -> None:
    pass


class Transfer:
    """One run's access to remote files. Safe for threads."""

    def __init__(
        self,
        cache: Cache,
        settings: Settings | None = None,
        disk: Disk | None = None,
        resume_only: bool = False,
    ) -> None:
        """Open nothing before the first fetch.

        `resume_only`: start no new download; use whole files without asking the server.
        """
        self.cache = cache
        self.client = Client(settings or Settings())
        self.resume_only = resume_only
        self._disk = disk or Disk()

    def fetch(
        self, remote: Remote, promise: Promise | None = None, on_progress: OnProgress = _ignore
    ) -> Fetched:
        """Get a file onto this machine. Raises SourceError, which names it, if it cannot be had or
        is not what it must be.
        """
        promise = promise or Promise()
        if remote.url.startswith("file://"):
            return _in_place(remote, promise)
        if promise.sha256 is not None and (path := self.cache.find(promise.sha256)):
            return Fetched(path, path.stat().st_size, promise.sha256)
        if self.resume_only:
            status = self.look(remote, promise.sha256)
            known = self._known(remote)
            if status.whole and known is not None and promise.sha256 is None:
                return Fetched(
                    self.cache.find(known.sha256) or self.cache.object(known.sha256),
                    known.size,
                    known.sha256,
                )
            if not status.here:
                raise SourceError(
                    f"{remote.shown}: --resume-only: it is neither in the cache "
                    f"({self.cache.root}) nor begun"
                )
        with machine_errors(self.cache.root), self.cache.claim(remote.url, self.client.wait):
            self._adopt(remote)
            if promise.sha256 is not None and (path := self.cache.find(promise.sha256)):
                return Fetched(
                    path, path.stat().st_size, promise.sha256
                )  # another process was faster
            known = self._known(remote)
            if known is not None and promise.sha256 is None and self.is_unchanged(remote, known):
                self._partial(remote).discard()  # of a newer version that is there no more
                path = self.cache.find(known.sha256) or self.cache.object(known.sha256)
                return Fetched(path, known.size, known.sha256)
            return self._download(remote, promise, on_progress)

    def _known(self, remote: Remote) -> KnownUrl | None:
        """Return what a URL gave; of a public one only what came from a public address, as another
        user of the cache may have had its name lead elsewhere.
        """
        known = self.cache.known(remote.url)
        return None if known is not None and remote.public and not known.public else known

    def _partial(self, remote: Remote) -> Partial:
        every = self.client.settings.checkpoint_bytes
        return Partial(self.cache.partials, cache_key(remote.url), remote.stored, every, self._disk)

    def _download(self, remote: Remote, promise: Promise, on_progress: OnProgress) -> Fetched:
        with self._partial(remote) as partial:
            whole = Download(remote, partial, self.client, promise, on_progress).run()
            return self._name(remote, partial, whole)

    def _adopt(self, remote: Remote) -> None:
        """Finish what a crash left between the new name of a download and the note of it; its
        digests were right. Sends no request.
        """
        with self._partial(remote) as partial:
            note = partial.noted()
            if note is None or note.verified_bytes != note.expected_size:
                return
            if not partial.path.exists() and self.cache.object(note.sha256_prefix).exists():
                whole = Whole(
                    note.verified_bytes, note.sha256_prefix, note.etag, note.last_modified
                )
                self._name(remote, partial, whole)

    def _name(self, remote: Remote, partial: Partial, whole: Whole) -> Fetched:
        """Give a whole download its name: first the bytes, then the note, then remove the
        checkpoint.
        """
        path = self.cache.object(whole.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.move(path)
        self.cache.remember(
            KnownUrl(
                url=remote.stored,
                sha256=whole.sha256,
                size=whole.size,
                etag=whole.etag,
                last_modified=whole.last_modified,
                public=remote.public,
            )
        )
        partial.forget()
        return Fetched(path, whole.size, whole.sha256)

    def is_unchanged(self, remote: Remote, known: KnownUrl) -> bool:
        """Ask the server whether a file is unchanged; without a validator the answer is no."""
        if known.etag is None and known.last_modified is None:
            return False
        headers = (
            {"If-None-Match": known.etag}
            if known.etag
            else {"If-Modified-Since": known.last_modified or ""}
        )

        def ask() -> bool:
            with self.client.open(
                remote.request("HEAD" if remote.in_store else "GET", headers)
            ) as answer:
                etag, last_modified = strong_validators(answer.headers)
                same = etag == known.etag if known.etag else last_modified == known.last_modified
                return answer.status == 304 or (answer.status == 200 and same)

        return self.client.retrying(remote.shown, ask)

    # -- before anything is fetched

    def look(self, remote: Remote, sha256: str | None = None) -> FileStatus:
        """Return what of a file is on this machine already; sends no request."""
        if remote.url.startswith("file://"):
            path = Path(os.fsdecode(local_path(remote.url)))
            size = path.stat().st_size if path.is_file() else None
            return FileStatus(size or 0, size, size is not None)
        if sha256 is not None and (whole := self.cache.object(sha256)).exists():
            size = whole.stat().st_size
            return FileStatus(size, size, True)
        known = self.cache.known(remote.url)
        if known is not None and sha256 in (None, known.sha256):
            return FileStatus(known.size, known.size, True)
        begun = self._partial(remote)
        note = begun.noted()
        if note is None or (note.validator is None and note.verified_bytes != note.expected_size):
            return FileStatus(0, None, False)
        if not begun.path.exists():
            moved = (
                note.verified_bytes == note.expected_size
                and self.cache.object(note.sha256_prefix).exists()
            )
            return FileStatus(note.verified_bytes if moved else 0, note.expected_size, moved)
        return FileStatus(note.verified_bytes, note.expected_size, False)

    def ask(self, remote: Remote) -> tuple[int | None, str | None]:
        """Return (bytes, sha256) of a file by the server now; None for what it does not say.

        Raises SourceError.
        """

        def head() -> tuple[int | None, str | None]:
            with self.client.open(remote.request("HEAD")) as answer:
                length = answer.headers.get(
                    "Content-Length", answer.linked.get("x-linked-size", "")
                )
                return (int(length) if length.isdecimal() else None), header_digest(answer)

        def one_byte() -> tuple[int | None, str | None]:
            with self.client.open(remote.request(headers={"Range": "bytes=0-0"})) as answer:
                length = answer.headers.get(
                    "Content-Range" if answer.status == 206 else "Content-Length", ""
                ).rpartition("/")[2]
                return (int(length) if length.isdecimal() else None), header_digest(answer)

        try:
            return self.client.retrying(remote.shown, head)
        except SourceError:
            return self.client.retrying(remote.shown, one_byte)  # a URL may be signed for GET alone

    def close(self) -> None:
        """Close all connections."""
        self.client.close()


def _in_place(remote: Remote, promise: Promise) -> Fetched:
    path = Path(os.fsdecode(local_path(remote.url)))
    try:
        size, digest = hash_file(path)
    except OSError as error:
        raise SourceError(
            f"{remote.url}: cannot be read: {error.strerror}", reason_of_file(error)
        ) from error
    if promise.sha256 not in (None, digest):
        raise SourceError(
            f"{remote.shown}: {promise.by} promises sha256 {promise.sha256}, but the file "
            f"has {digest}. Bring the old file back, or "
            "start a new corpus for the new one",
            "changed",
        )
    return Fetched(path, size, digest)


def fetch(
    url: str,
    cache: Path,
    sha256: str | None = None,
    resume_only: bool = False,
    most: int | None = None,
) -> Fetched:
    """Get one file of at most `most` bytes: a model, a tokenizer."""
    transfer = Transfer(Cache(cache), resume_only=resume_only)
    try:
        return transfer.fetch(Remote(url), Promise(sha256, by="its pin", most=most))
    finally:
        transfer.close()
