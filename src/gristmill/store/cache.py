"""The cache of raw shards, shared by runs: a URL and its validator lead to a sha256, the sha256 to
the bytes.

CACHE/.gristmill.json           says that the folder is a cache of gristmill's (ownership.py)
CACHE/urls/<key>.json           what the URL gave: sha256, size, ETag or Last-Modified; key: sha256
                                of the URL as stored
CACHE/objects/<sha256>          the bytes; the time in the file system is that of the last use
CACHE/partial/<key>.partial     a download in progress, and its checkpoint beside it
CACHE/partial/<key>.lock        held (flock) by who downloads it
CACHE/runs/<key>.json           what an unfinished run needs, which no eviction takes; key: sha256
                                of the corpus' folder
CACHE/corpora/...               scratch of corpora in object stores (corpus/stored_corpus.py)
CACHE/lock                      held while runs are registered and while something is evicted
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from gristmill.errors import NO_JSON
from gristmill.store.http.urls import stored
from gristmill.store.parts import hash_file, machine_errors, sync_folder, write_json
from gristmill.system.ownership import claim_folder

TOP = {"urls", "objects", "partial", "runs", "lock", "corpora"}  # names at the top of a cache
DIGEST = re.compile(r"[0-9a-f]{64}")
POLL = 0.05  # seconds between two attempts to get a lock that another process holds


class KnownUrl(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a URL gave when it was last fetched."""

    url: str
    sha256: str
    size: int
    etag: str | None = None
    last_modified: str | None = None
    public: bool = False  # it came from an address that is not in this machine's network


class _Needed(msgspec.Struct, frozen=True):
    """What an unfinished run needs."""

    corpus: str
    urls: list[str]  # keys
    objects: list[str]  # sha256


class Evicted(NamedTuple):
    """What an eviction did: files and bytes removed, bytes left, bytes that runs need."""

    files: int
    freed: int
    left: int
    held: int


def default_cache() -> Path:
    """Return the cache that runs share if none is named."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill" / "shards"


def cache_key(url: str) -> str:
    """Return the key of a URL: of its stored form, so that a new signature finds the old bytes."""
    return hashlib.sha256(stored(url).encode()).hexdigest()


class Cache:
    """The folder of a cache. Safe for several threads and several runs at once."""

    def __init__(self, root: Path) -> None:
        """Make nothing before the first write."""
        self.root = root
        self.partials = root / "partial"
        self._is_own = False

    def own(self) -> None:
        """Have the folder be a cache of gristmill's, before anything is written or removed there.
        Raises MachineError where it is somebody's.
        """
        if not self._is_own:
            with machine_errors(self.root, every=True):
                claim_folder(
                    self.root, "cache", lambda names: is_cache(self.root, names, TOP), 0o755
                )
            self._is_own = True

    def object(self, sha256: str) -> Path:
        """Return the path of the bytes with this digest, whether they exist or not."""
        return self.root / "objects" / sha256

    def find(self, sha256: str) -> Path | None:
        """Return the bytes of a digest, if they exist; this counts as a use."""
        path = self.object(sha256)
        try:
            os.utime(path)
        except OSError:
            return path if path.exists() else None
        return path

    def known(self, url: str) -> KnownUrl | None:
        """Return what a URL gave, if its bytes still exist with their size."""
        known = self._note(cache_key(url))
        return known if known is not None and self._is_here(known) else None

    def _note(self, key: str) -> KnownUrl | None:
        try:
            return msgspec.json.decode(
                (self.root / "urls" / f"{key}.json").read_bytes(), type=KnownUrl
            )
        except (OSError, *NO_JSON):
            return None

    def _is_here(self, known: KnownUrl) -> bool:
        try:
            return self.object(known.sha256).stat().st_size == known.size
        except OSError:
            return False

    def remember(self, known: KnownUrl) -> None:
        """Store what a URL gave."""
        self.own()
        write_json(self.root, f"urls/{cache_key(known.url)}.json", known)

    def drop_damaged(self, sha256: str) -> bool:
        """Remove an object whose bytes are not those of its name; returns whether it was so."""
        path = self.object(sha256)
        if not path.exists() or hash_file(path)[1] == sha256:
            return False
        self.remove(sha256)
        return True

    def remove(self, sha256: str) -> None:
        """Remove an object, if it is there."""
        if os.path.lexists(self.object(sha256)):
            self.own()
            self.object(sha256).unlink(missing_ok=True)

    # -- several at once

    @contextmanager
    def claim(self, url: str, wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
        """Be the only one that downloads a URL; waits for another that does."""
        self.own()
        with locked(self.partials / f"{cache_key(url)}.lock", wait):
            yield

    # -- what must be kept, and what may be removed

    def register(self, corpus: Path, urls: list[str], objects: list[str]) -> None:
        """Record what an unfinished run needs, before it fetches anything."""
        self.own()
        with locked(self.root / "lock", time.sleep, remove=False):
            keys = sorted({cache_key(url) for url in urls})
            write_json(
                self.root, self._run(corpus), _Needed(str(corpus), keys, sorted(set(objects)))
            )

    def release(self, corpus: Path) -> None:
        """Record that a run is finished."""
        note = self.root / self._run(corpus)
        if os.path.lexists(note):
            self.own()
            note.unlink(missing_ok=True)

    def _run(self, corpus: Path) -> str:
        return f"runs/{hashlib.sha256(os.fsencode(corpus)).hexdigest()}.json"

    def _needed(self) -> tuple[set[str], set[str]]:
        """Return (keys of URLs, digests) that unfinished runs need; a run whose folder does not
        exist needs none.
        """
        keys: set[str] = set()
        objects: set[str] = set()
        for path in _entries(self.root / "runs"):
            try:
                needed = msgspec.json.decode(path.read_bytes(), type=_Needed)
            except (OSError, *NO_JSON):
                continue
            if not (Path(needed.corpus) / "work").is_dir():
                path.unlink(missing_ok=True)
                continue
            keys |= set(needed.urls)
            objects |= set(needed.objects)
        return keys, objects

    def evict(self, limit: int) -> Evicted:
        """Remove the least recently used files until `limit` bytes are left, but nothing that an
        unfinished run needs.
        """
        self.own()
        with locked(self.root / "lock", time.sleep, remove=False):
            keys, objects = self._needed()
            for key in keys:
                if (known := self._note(key)) is not None:
                    objects.add(known.sha256)
            entries: list[tuple[float, int, Path, bool]] = []
            for path in _entries(self.root / "objects"):
                if DIGEST.fullmatch(path.name):  # no other is ours
                    entries.append((*_used(path), path, path.name in objects))
            for path in _entries(self.partials):
                if path.suffix == ".partial" and DIGEST.fullmatch(path.stem):
                    entries.append((*_used(path), path, path.stem in keys))
            left = sum(size for _, size, _, _ in entries)
            held = sum(size for _, size, _, needed in entries if needed)
            files = freed = 0
            for _, size, path, needed in sorted(entries):
                if left <= limit:
                    break
                if not needed and self._remove(path):
                    files, freed, left = files + 1, freed + size, left - size
            if files:
                self._forget_missing()
            return Evicted(files, freed, left, held)

    def _remove(self, path: Path) -> bool:
        """Remove an object or a partial download, unless another process uses it."""
        if path.suffix != ".partial":
            # Between a download's new name and the note of it, its checkpoint says what it is.
            if any(
                path.name.encode() in _bytes(note) for note in self.partials.glob("*.partial.json")
            ):
                return False
            path.unlink(missing_ok=True)
            return True

        def give_up(seconds: float) -> None:
            raise BlockingIOError

        try:
            with locked(path.with_suffix(".lock"), give_up):
                path.with_name(path.name + ".json").unlink(missing_ok=True)
                path.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        return True

    def keep_within(self, limit: int | None) -> list[str]:
        """Evict if there is a limit; returns messages for people."""
        if limit is None:
            return []
        done = self.evict(limit)
        messages = []
        if done.files:
            messages.append(
                f"cache: {done.files:,} files, {done.freed / 1e6:,.1f} MB, went: used longest ago"
            )
        if done.left > limit:
            messages.append(
                f"cache: {done.left / 1e6:,.1f} MB, more than the limit: unfinished runs "
                f"need {done.held / 1e6:,.1f} MB of it"
            )
        return messages

    def _forget_missing(self) -> None:
        for path in _entries(self.root / "urls"):
            note = self._note(path.stem)
            if note is not None and not self.object(note.sha256).exists():
                path.unlink(missing_ok=True)
        sync_folder(self.root / "objects")


@contextmanager
def locked(
    path: Path, wait: Callable[[float], None] = time.sleep, *, remove: bool = True
) -> Iterator[None]:
    """Hold the lock (flock) of a name, among threads and processes; `wait` is called while another
    has it. `remove`: the name goes in the end. Raises MachineError, and what `wait` raises.
    """
    with machine_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The process that held it before may have removed the name: then this is a lock
                # that no other process sees.
                if os.fstat(handle).st_ino == path.stat().st_ino:
                    break
            except (BlockingIOError, FileNotFoundError):
                pass
            os.close(handle)
            wait(POLL)
    try:
        yield
    finally:
        if remove:
            path.unlink(missing_ok=True)
        os.close(handle)


def is_cache(root: Path, names: set[str], top: Collection[str]) -> bool:
    """Return whether a folder with these names is a cache that an earlier version made: none is of
    another kind than `top`, and the smallest of its objects has the bytes of its name.
    """
    if not names <= set(top):
        return False
    sizes: dict[Path, int] = {}
    for folder, _, files in os.walk(root / "objects"):
        for path in (Path(folder) / name for name in files):
            if not DIGEST.fullmatch(path.name):
                return False
            sizes[path] = path.stat().st_size
    if not sizes:
        return False
    smallest = min(sizes, key=lambda path: sizes[path])
    return hash_file(smallest)[1] == smallest.name


def _entries(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _used(path: Path) -> tuple[float, int]:
    """Return (when it was last used, its bytes)."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0.0, 0
    return status.st_mtime, status.st_size
