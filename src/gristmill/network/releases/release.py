"""Reading releases: the newest one of several addresses, checked, and the objects that it names.

    ReleaseReader(urls)             one or more copies of one published corpus, asked in turn
    .newest() -> CheckedRelease     release and manifest; what is wrong, old or unsigned is refused
    .download(sha256, size, path)   an object, resumed, compared with its sha256

Without a root, a reader trusts the addresses for what is the newest, and refuses a release with a
lower number than one that it has seen. With a pinned root (network/trust/trust_reader.py) it
trusts the keys of the root alone.
"""

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from gristmill.errors import NO_JSON, GristmillError, SourceError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.layout import Release
from gristmill.network.releases.release_memory import ReleaseMemory, key_for
from gristmill.store import manifest as manifests
from gristmill.store.cache import locked
from gristmill.store.http.client import Client
from gristmill.store.http.download import Download, Promise
from gristmill.store.http.partial import Partial
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.urls import is_url, local_path
from gristmill.store.manifest import Manifest
from gristmill.store.parts import machine_errors, writing
from gristmill.user_input import one_or_more

T = TypeVar("T")
BLOCK = 1 << 20
LARGEST_METADATA = 5_000_000  # bytes of TUF metadata, as python-tuf reads at most
# A reader has other addresses, and asks again soon: it waits less than a run for a raw shard.
PATIENCE = Settings(retries=2, timeout=20.0, patience=30.0)


class CheckedRelease(NamedTuple):
    """A release whose records agree with each other and with what was seen before."""

    release: Release
    sha256: str  # of the release
    manifest: Manifest
    data: bytes  # manifest.json
    signed: bool  # whether the keys of a pinned root say that it is the newest
    url: str  # the address that gave it, without secrets


class _ExpiryField(msgspec.Struct, frozen=True):
    expires: datetime


class _Expiring(msgspec.Struct, frozen=True):
    """TUF metadata, of which the expiry alone is read."""

    signed: _ExpiryField


class ReleaseReader:
    """Reads a published corpus from one or more addresses. Safe for threads and processes."""

    @one_or_more("urls")
    def __init__(
        self,
        urls: Sequence[str | Path] | str | Path,
        *,
        root: Path | str | bytes | None = None,
        state: Path | None = None,
        settings: Settings = PATIENCE,
    ) -> None:
        """`urls`: http://, https://, s3://, gs://, az://, file:// or folders, in the order in which
        they are asked. `root`: the pinned root.json, its file or its bytes. `state`: a folder that
        remembers what was seen, of any number of corpora; without it, this reader alone
        remembers.

        Opens no connection. Raises VerificationError if the root cannot be read.
        """
        given = [urls] if isinstance(urls, str | Path) else list(urls)
        if not given:
            raise VerificationError("no address to read a release from: name at least one URL")
        self.urls = [_address(str(url)) for url in given]
        self.client = Client(settings)
        self.root = _root_bytes(root)
        self._pinned = "the pinned root" if isinstance(root, bytes) else str(root)
        # A memory that others read knows a corpus by its releases; else it is this reader's corpus.
        self._names: list[str] | None = None
        self._given = list(map(str, given))
        if state is None:
            self.state = Path(tempfile.mkdtemp(prefix="gristmill-release-"))
            weakref.finalize(self, shutil.rmtree, self.state, ignore_errors=True)
        else:
            self.remember_in(state)

    def remember_in(self, state: Path) -> None:
        """Remember from now on what was seen in this folder, and what others saw there."""
        self.state, self._names = state, [*self._given, *self.urls]

    @property
    def _memory(self) -> ReleaseMemory:
        names = self._names or ["this reader"]
        return ReleaseMemory(self.state, names if self.root is None else [self.root])

    # -- the newest release

    def newest(self) -> CheckedRelease:
        """Return the newest release, of the first address whose answer is sound.

        Raises VerificationError if what was read must not be used, SourceError if no address can
        be read; the message has a line for each address.
        """
        return self._first(self._newest_at)

    def _newest_at(self, url: str) -> CheckedRelease:
        number, sha256 = self._signed(url) if self.root is not None else self._named(url)
        checked = self._checked(url, number, sha256)
        with self._locked():
            first = None
            if self.root is None and self._names is not None:
                first = self._memory.first_release(
                    checked.release, checked.sha256, lambda number: self._release_at(url, number)
                )
            # Another process may have seen a later one meanwhile.
            self._memory.refuse_older(checked.release.number, sha256, first, checked.url)
            self._memory.remember(checked.release, sha256, first)
        return checked

    def _release_at(self, url: str, number: int) -> bytes | None:
        try:
            return self.small(f"{url}/{layout.release_key(number)}", layout.LARGEST_RELEASE)
        except SourceError as error:
            if error.reason != "not-found":
                raise
            return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The state folder, for this reader alone."""
        with machine_errors(self.state, every=True):
            self.state.mkdir(parents=True, exist_ok=True)
        with locked(self.state / "lock", self.client.wait):
            yield

    def _signed(self, url: str) -> tuple[int, str]:
        """Return (number, sha256) of the newest release, by the keys of the pinned root."""
        from gristmill.network.trust.trust_reader import newest_signed

        assert self.root is not None

        def fetch(name: str, most: int) -> bytes:
            return self.small(f"{url}/{layout.TRUST}/{name}", most)

        with self._locked():
            shown = Remote(url).shown
            return newest_signed(fetch, self.root, self._trust(), shown, self._pinned)

    def _trust(self) -> Path:
        """Return the folder of the metadata that was seen, of the pinned root alone."""
        assert self.root is not None
        earlier = self.state / layout.TRUST  # of an earlier version
        return earlier if earlier.is_dir() else self.state / key_for(self.root) / layout.TRUST

    def expires(self, release: CheckedRelease) -> dict[str, datetime]:
        """Return when the signatures of the newest release expire, by role. Without a pinned root
        it is what its address says of root and timestamp; nothing where it has none.
        """
        url = next(url for url in self.urls if Remote(url).shown == release.url)
        dates = {}
        for role in ("root", "targets", "snapshot", "timestamp"):
            try:
                if self.root is not None:
                    data = (self._trust() / f"{role}.json").read_bytes()
                elif role in ("root", "timestamp"):
                    data = self.small(f"{url}/{layout.TRUST}/{role}.json", LARGEST_METADATA)
                else:
                    continue
                dates[role] = msgspec.json.decode(data, type=_Expiring).signed.expires
            except (SourceError, OSError, *NO_JSON):
                continue  # it is not signed; what is wrong with signatures `newest` says
        return dates

    def _named(self, url: str) -> tuple[int, str]:
        """Return (number, sha256) of the newest release, by the pointer."""
        where = f"{url}/{layout.POINTER}"
        try:
            data = self.small(where, layout.LARGEST_POINTER)
        except SourceError as error:
            if error.reason != "not-found":
                raise
            raise SourceError(
                f"{error}. Nothing was published there with `gristmill publish`, or not yet",
                error.reason,
            ) from error
        pointer = layout.decode_pointer(data, Remote(where).shown)
        return pointer.release, pointer.sha256

    def _checked(self, url: str, number: int, sha256: str) -> CheckedRelease:
        """Return the release that is named, with its manifest."""
        shown = Remote(url).shown
        self._memory.refuse_older(number, sha256, None, shown)
        where = f"{shown}/{layout.release_key(number)}"
        try:
            data = self.small(f"{url}/{layout.release_key(number)}", layout.LARGEST_RELEASE)
        except SourceError as error:
            if error.reason != "not-found":
                raise
            raise SourceError(
                f"{error}. It is named as the newest release: the store lost it, or a cache is "
                "behind",
                error.reason,
            ) from error
        release = layout.decode_release(layout.check_digest(data, sha256, where), where)
        if release.number != number:
            raise VerificationError(
                f"{where}: it says that it is release {release.number}. The store was altered"
            )
        manifest = self._object_at(url, release.manifest, release.manifest_size)
        decoded = manifests.decode(manifest)
        return CheckedRelease(release, sha256, decoded, manifest, self.root is not None, shown)

    # -- objects

    def read_object(self, sha256: str, size: int) -> bytes:
        """Return a small object, in memory, compared with its digest. Raises as `newest`."""
        return self._first(lambda url: self._object_at(url, sha256, size))

    def _object_at(self, url: str, sha256: str, size: int) -> bytes:
        where = f"{url}/{layout.object_key(sha256)}"
        if size > layout.LARGEST_MANIFEST:
            raise VerificationError(f"{Remote(where).shown}: {size:,} bytes: too large to be read")
        return layout.check_digest(self.small(where, size), sha256, Remote(where).shown)

    def download(
        self,
        sha256: str,
        size: int,
        to: Path,
        on_progress: Callable[[int, int | None, int], None] = lambda *_: None,
    ) -> None:
        """Bring an object to a path, which it has only when its size and digest are right.

        What an earlier call left (`to` with .partial behind it) is continued. One caller at a time
        may write a path. Raises VerificationError, SourceError, or MachineError: disk full.
        """
        key = layout.object_key(sha256)
        with machine_errors(to):
            to.parent.mkdir(parents=True, exist_ok=True)

            def bring(url: str) -> None:
                where = f"{url}/{key}"
                if where.startswith("file://"):
                    _copy(where, sha256, size, to)
                    return
                # The name, not the address: another address goes on where this one stopped.
                every = self.client.settings.checkpoint_bytes
                with Partial(to.parent, to.name, key, every) as partial:
                    promise = Promise(sha256, size, "the manifest", size, "the manifest names")
                    remote = Remote(where)
                    try:
                        Download(remote, partial, self.client, promise, on_progress).run()
                    except SourceError as error:
                        if error.reason not in ("digest", "changed", "too-large"):
                            raise
                        raise VerificationError(
                            f"{remote.shown}: expected {size:,} bytes with sha256 {sha256}, got "
                            "others: the copy at this address was altered or cut"
                        ) from error
                    partial.move(to)
                    partial.forget()

            self._first(bring)

    # -- bytes

    def small(self, url: str, most: int) -> bytes:
        """Return the bytes of a file of at most `most` bytes. Raises SourceError."""
        remote = Remote(url)
        if url.startswith("file://"):
            with _reading(url) as blocks:
                return _gather(blocks, most, remote.shown)

        def ask() -> bytes:
            with self.client.open(remote.request()) as answer:
                return _gather(answer.blocks(), most, remote.shown)

        return self.client.retrying(remote.shown, ask)

    def _first(self, ask: Callable[[str], T]) -> T:
        """Return the result of the first address that has one. Raises what the last one raised,
        with a line for each.
        """
        failed: list[GristmillError] = []
        for url in self.urls:
            try:
                return ask(url)
            except (SourceError, VerificationError) as error:
                failed.append(error)
        refused = [error for error in failed if isinstance(error, VerificationError)]
        text = "\n".join(str(error) for error in failed)
        if refused:
            raise VerificationError(text) from refused[0]
        reason = failed[-1].reason if isinstance(failed[-1], SourceError) else "unreachable"
        raise SourceError(text, reason) from failed[-1]

    def close(self) -> None:
        """Close all connections."""
        self.client.close()


def _address(url: str) -> str:
    """Return a URL without a slash at its end; a folder as a file:// URL."""
    if is_url(url):
        return url.rstrip("/")
    return Path(os.path.abspath(url)).as_uri()


def _root_bytes(root: Path | str | bytes | None) -> bytes | None:
    if root is None or isinstance(root, bytes):
        return root
    try:
        return Path(root).read_bytes()
    except OSError as error:
        raise VerificationError(
            f"{root}: the pinned root cannot be read: {error.strerror}"
        ) from error


def _gather(blocks: Iterator[bytes], most: int, name: str) -> bytes:
    data = bytearray()
    for block in blocks:
        data += block
        if len(data) > most:
            raise SourceError(
                f"{name}: more than {most:,} bytes, the most that are expected", "too-large"
            )
    return bytes(data)


@contextmanager
def _reading(url: str) -> Iterator[Iterator[bytes]]:
    """The blocks of a local file. Raises SourceError."""
    path = os.fsdecode(local_path(url))
    try:
        with open(path, "rb") as file:
            yield iter(lambda: file.read(BLOCK), b"")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # of what is written at the same time
        absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise SourceError(
            f"{path}: cannot be read: {error.strerror}", "not-found" if absent else "unreadable"
        ) from error


def _copy(url: str, sha256: str, size: int, to: Path) -> None:
    """Copy a local object."""
    shown = Remote(url).shown
    with writing(to.parent, to.name) as file:
        with _reading(url) as blocks:
            for block in blocks:
                file.write(block)
                if file.size > size:
                    break
        if (file.size, file.hexdigest()) != (size, sha256):
            raise VerificationError(
                f"{shown}: expected {size:,} bytes with sha256 {sha256}, got {file.size:,} with "
                f"{file.hexdigest()}: the copy was altered or cut"
            )
