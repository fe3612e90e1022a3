"""The cache of a training node: verified files by their sha256, and views of the shards in use.

CACHE/.gristmill.json           says that the folder is a node's cache (ownership.py)
CACHE/objects/ab/<sha256>       the bytes; the time in the file system is that of the last use
CACHE/views/<digest>/           a corpus of a few shards: a manifest of its own, and hard links to
                                objects; the folder is named by the manifest's sha256
CACHE/views/<digest>.lock       held (flock, shared) by every process that uses the view
CACHE/partial/<sha256>...       downloads in progress; <sha256>.lock is held by who downloads
CACHE/needs/<token>.json        what a view that is being made needs; held (flock) by who makes it
CACHE/quarantine/<sha256>...    files that no longer had the bytes of their name
CACHE/lock                      held while something is reserved or removed

Processes share a cache. All locks are flock, which a killed process loses: what it left is used by
the next one, or removed. Nothing that a view or a reservation names is removed while its lock is
held; everything else goes by the time of its last use.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gristmill.errors import MachineError
from gristmill.network.node.cache_files import CacheFile, free_lock, list_files, list_folders
from gristmill.store import manifest as manifests
from gristmill.store.cache import is_cache, locked
from gristmill.store.parts import Part, machine_errors, sync_folder, write_bytes
from gristmill.store.proof import damage
from gristmill.system.ownership import claim_folder, writable_by_others

# Names at the top of a cache.
TOP = {"objects", "views", "partial", "needs", "quarantine", "lock", "logs", "seen"}
AT_ONCE = 4  # downloads of one view
QUARANTINED = 16  # files that are kept there
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NO_LINK = (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK)

# Brings the bytes of a digest and size to a path, verified, resuming what an earlier call of any
# process left beside it. Raises GristmillError.
Fetch = Callable[[str, int, Path], None]


class CacheLimitError(MachineError):
    """The files in use leave no room in the cache for those that are asked for."""


class View:
    """A corpus of some shards in the cache, which nothing removes before `close`. Use as a
    context.
    """

    def __init__(self, root: Path, handle: int) -> None:
        """`handle`: its lock."""
        self.root = root
        self._handle: int | None = handle

    def close(self) -> None:
        """Let the cache remove it when it needs room."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class CacheUse(NamedTuple):
    """What a cache holds, in bytes and files."""

    bytes: int  # of all files, and of those that are being fetched
    in_use: int  # bytes, of them in views and reservations
    objects: int  # files
    quarantined: int  # files


class NodeCache:
    """The folder of a cache. Safe for several threads and several processes at once."""

    def __init__(
        self, root: Path, limit: int | None = None, on_event: Callable[[str], None] | None = None
    ) -> None:
        """Make nothing before the first view. `limit`: bytes; None: as many as the disk has.
        `on_event` is called with messages about what was quarantined.
        """
        self.root, self.limit = root, limit
        self._on_event = on_event or _ignore
        self._warned = self._is_own = False

    def path_of(self, sha256: str) -> Path:
        """Return the path of the bytes with this digest, whether they exist or not."""
        return self.root / "objects" / sha256[:2] / sha256

    # -- views

    def view(
        self,
        manifest: manifests.Manifest,
        fetch: Fetch,
        on_interrupt: Callable[[], None] = lambda: None,
    ) -> View:
        """Return the corpus that a manifest describes, with all its parts; those that the cache
        lacks are fetched. What is here already is verified again. `on_interrupt` is called on
        Ctrl-C: it makes calls of `fetch` under way end.

        Raises CacheLimitError if it does not fit beside what is in use, MachineError, and what
        `fetch` raises.
        """
        data = manifests.encode(manifest)
        digest = hashlib.sha256(data).hexdigest()
        for part in manifest.parts:
            manifests.check_path(part.path)
        self.own()
        self._warn_of_others()
        with (
            machine_errors(self.root),
            self._reserve(digest, {part.sha256: part.size for part in manifest.parts}) as view,
        ):
            try:
                self._bring_all(view.root, manifest.parts, fetch, on_interrupt)
                for name, text in (
                    (manifests.SUMS, manifests.sums(manifest.parts)),
                    (manifests.MANIFEST, data),
                    (manifests.LOCK, manifests.make_lock(data)),
                ):
                    self._with_room(
                        len(text), view.root, partial(write_bytes, view.root, name, text)
                    )
            except BaseException:
                view.close()
                raise
        return view

    def own(self) -> None:
        """Have the folder be a cache of nodes, before anything is written or removed there. Raises
        MachineError where it is somebody's.
        """
        if not self._is_own:
            with machine_errors(self.root, every=True):
                claim_folder(
                    self.root, "node cache", lambda names: is_cache(self.root, names, TOP), 0o755
                )
            self._is_own = True

    def _warn_of_others(self) -> None:
        """Say once where other users may write the cache: they could change a file after it was
        verified.
        """
        line = None if self._warned else writable_by_others(self.root)
        if line is not None:
            self._warned = True
            self._on_event(line)

    def _bring_all(
        self, root: Path, parts: list[Part], fetch: Fetch, on_interrupt: Callable[[], None]
    ) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for _ in pool.map(lambda part: self._bring(root, part, fetch), parts):
                    pass
            except KeyboardInterrupt:
                on_interrupt()
                raise

    def _bring(self, root: Path, part: Part, fetch: Fetch) -> None:
        """Link one part into a view: from the cache if it is what it must be, else fetched."""
        place, object_ = root / part.path, self.path_of(part.sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.root / "partial" / f"{part.sha256}.lock"):
            if not (os.path.lexists(object_) and self._is_right(object_, part)):
                coming = self.root / "partial" / part.sha256
                if not os.path.lexists(coming) or not self._is_right(coming, part):
                    self._with_room(
                        part.size, coming, lambda: fetch(part.sha256, part.size, coming)
                    )
                object_.parent.mkdir(parents=True, exist_ok=True)
                os.replace(coming, object_)
                sync_folder(object_.parent)
            os.utime(object_)
            with suppress(FileNotFoundError):
                if os.path.samefile(place, object_):
                    return
            place.unlink(missing_ok=True)
            try:
                os.link(object_, place)
            except FileExistsError:
                return  # another process made the same view at the same time
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
                raise MachineError(
                    f"{place}: cannot be a hard link to {object_} ({error.strerror}): choose a "
                    "cache folder on a file system with hard links"
                ) from error

    def _is_right(self, path: Path, part: Part) -> bool:
        """Return whether a file has the bytes of a part; one that has not goes into quarantine."""
        wrong = "a link" if path.is_symlink() else damage(path, part.sha256, part.size)
        if wrong is None:
            return True
        folder = self.root / "quarantine"
        folder.mkdir(parents=True, exist_ok=True)
        os.replace(path, folder / f"{part.sha256}.{secrets.token_hex(4)}")
        self._on_event(f"{path}: {wrong}: moved into {folder}, and fetched again")
        kept = sorted(list_files(folder), reverse=True)
        for old in kept[QUARANTINED:]:
            old.path.unlink(missing_ok=True)
        return False

    def _with_room(self, size: int, path: Path, write: Callable[[], Any]) -> None:
        """Write something of about `size` bytes; on a full disk, remove what is not in use and
        write again.
        """
        while True:
            try:
                with machine_errors(path):
                    write()
                return
            except MachineError as error:
                cause = error.__cause__
                if not isinstance(cause, OSError) or cause.errno not in NO_SPACE:
                    raise
                if not self.evict(size):
                    raise MachineError(
                        f"{path}: the disk is full, and nothing in the cache can be removed: "
                        f"everything in it is in use. Free {size:,} bytes, or assign fewer shards "
                        "to this node"
                    ) from error

    # -- room

    @contextmanager
    def _reserve(self, digest: str, needs: Mapping[str, int]) -> Iterator[View]:
        """A view's folder and lock, and room for what it needs, which nobody removes meanwhile."""
        note = self.root / "needs" / f"{secrets.token_hex(8)}.json"
        root = self.root / "views" / digest
        with self._locked():
            for folder in (note.parent, root):
                folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(f"{root}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(handle, fcntl.LOCK_SH)
            os.utime(handle)
            reservation = os.open(note, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(reservation, fcntl.LOCK_EX)
                self._note(reservation, needs)
                self._make_room()
            except BaseException:
                os.close(handle)
                os.close(reservation)
                note.unlink(missing_ok=True)
                raise
        try:
            yield View(root, handle)
        finally:
            note.unlink(missing_ok=True)
            os.close(reservation)

    def _note(self, reservation: int, needs: Mapping[str, int]) -> None:
        """Write what a view needs; on a full disk, remove what is not in use, and write again."""
        data = msgspec.json.encode(dict(needs))
        try:
            os.pwrite(reservation, data, 0)
        except OSError as error:
            if error.errno not in NO_SPACE or not self._evict(
                len(data), {**self._needs(), **needs}
            ):
                raise
            os.pwrite(reservation, data, 0)

    def _make_room(self) -> None:
        """Remove what is not in use until all that is reserved fits. Raises CacheLimitError."""
        if self.limit is None:
            return
        needs = self._needs()
        over = self._use(needs).bytes - self.limit
        if over <= 0:
            return
        over -= self._evict(over, needs)
        if over > 0:
            use = self._use(needs)
            raise CacheLimitError(
                f"{self.root}: the cache may have {self.limit:,} bytes; what is in use or asked "
                f"for has {use.in_use:,}, {over:,} too many. Raise cache_bytes, or assign fewer "
                "shards"
            )

    def evict(self, size: int) -> int:
        """Remove the least recently used files until `size` bytes are free that were not; returns
        how many were freed.
        """
        with self._locked():
            return self._evict(size, self._needs())

    def discard(self, digests: Collection[str]) -> int:
        """Remove files that must not be kept (of withdrawn documents), and views that have them;
        what is in use stays. Returns how many are still here.
        """
        with self._locked():
            self._remove_unused_views()
            needs, left = self._needs(), 0
            for sha256 in digests:
                path = self.path_of(sha256)
                try:
                    used = path.stat().st_nlink > 1 or sha256 in needs
                except FileNotFoundError:
                    continue
                left += used
                if not used:
                    path.unlink()
            return left

    def _evict(self, size: int, needs: Mapping[str, int]) -> int:
        freed = 0
        for file in self._removable(needs):
            if freed >= size:
                break
            file.path.unlink(missing_ok=True)
            freed += file.size
        return freed

    def _removable(self, needs: Mapping[str, int]) -> list[CacheFile]:
        """Return files that nobody uses, in the order in which they go. Removes views without a
        user.
        """
        self._remove_unused_views()
        files = [
            file
            for file in list_files(self.root / "partial")
            if file.path.suffix != ".lock" and file.path.name[:64] not in needs
        ]
        for folder in list_folders(self.root / "objects"):
            files += [
                file
                for file in list_files(folder)
                if file.path.name not in needs and file.links == 1
            ]
        return sorted(list_files(self.root / "quarantine")) + sorted(files)

    def _remove_unused_views(self) -> None:
        for lock in (self.root / "views").glob("*.lock"):
            if (handle := free_lock(lock)) is not None:
                view = lock.with_suffix("")
                shutil.rmtree(view, ignore_errors=True)
                if not view.exists():  # else the next call tries again: it holds files in use
                    lock.unlink(missing_ok=True)
                os.close(handle)

    def _needs(self) -> dict[str, int]:
        """Return what reservations of living processes name, by sha256; the notes of others are
        removed.
        """
        needs: dict[str, int] = {}
        for file in list_files(self.root / "needs"):
            if (handle := free_lock(file.path)) is not None:
                file.path.unlink(missing_ok=True)
                os.close(handle)
                continue
            with suppress(OSError, msgspec.DecodeError):
                needs |= msgspec.json.decode(file.path.read_bytes(), type=dict[str, int])
        return needs

    def use(self) -> CacheUse:
        """Return what the cache holds now."""
        with self._locked():
            return self._use(self._needs())

    def _use(self, needs: Mapping[str, int]) -> CacheUse:
        total = in_use = objects = 0
        coming = dict(needs)
        for folder in list_folders(self.root / "objects"):
            for file in list_files(folder):
                total, objects = total + file.size, objects + 1
                in_use += file.size if file.links > 1 or file.path.name in needs else 0
                coming.pop(file.path.name, None)
        for file in list_files(self.root / "partial"):
            if file.path.name[:64] not in coming:
                total += file.size
        quarantine = list_files(self.root / "quarantine")
        total += sum(file.size for file in quarantine) + sum(coming.values())
        return CacheUse(total, in_use + sum(coming.values()), objects, len(quarantine))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.own()
        with locked(self.root / "lock", remove=False):
            yield


def _ignore(message: str) -> None:
    pass
