"""Whose a place is. A folder, or a prefix of an object store, is gristmill's if it holds the marker
that gristmill wrote when the place was empty:

    .gristmill.json    {"format": 1, "kind": "corpus", "id": "6f0d..."}

It is written before anything else. Without the marker of the right kind nothing in a place is
deleted, renamed, replaced or made. A place of an earlier version has none: the caller says by what
it is proved to be gristmill's, and it gets one.

The marker is no part: no manifest, no SHA256SUMS and no key has it. docs/adr/0040.

A single file is gristmill's by something in its content; others are replaced with --force alone.
"""

import contextlib
import errno
import grp
import os
import pwd
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from gristmill.errors import NO_JSON, MachineError, RecipeError

MARKER = ".gristmill.json"
FORMAT = 1
LARGEST = 4096  # bytes of a marker
PATIENCE = 3.0  # seconds until a marker that is listed can be opened
# Put there by systems, not by people, and by nothing of ours: a place with these alone is empty.
OF_SYSTEMS = ("lost+found", ".DS_Store")
COMING = re.compile(re.escape(MARKER) + r"\.[0-9a-f]{8}\.writing")
NO_LINK = (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK, errno.ENOSYS)

Kind = Literal[
    "corpus",
    "cache",
    "kernels",
    "node cache",
    "packing",
    "scores",
    "export",
    "release",
    "hub",
    "demo",
    "mixes",
    "doremi",
]
# What a place of each kind is called, and what to do where it is somebody's.
NAMES: dict[Kind, tuple[str, str]] = {
    "corpus": (
        "a corpus",
        'Name a folder of its own, empty or not there yet: output = "corpus", or --out corpus',
    ),
    "cache": ("a cache", "Name an empty folder with --cache-dir"),
    "node cache": ("the cache of a node", "Name an empty folder with --cache-dir"),
    "kernels": (
        "a folder of compiled kernels",
        "Name an empty folder in the environment variable GRISTMILL_KERNELS",
    ),
    "packing": (
        "a cache of packings",
        "Name an empty folder in the environment variable GRISTMILL_PACKING",
    ),
    "scores": ("a cache of scores", "Move it away, or name another folder in XDG_CACHE_HOME"),
    "export": ("an export of the same corpus and options", "Name an empty folder with --out"),
    "release": ("a published corpus", "Name an empty folder or prefix as the target"),
    "hub": ("files for the hub", "Remove it if you know it, and publish again"),
    "demo": ("a demo", "Name an empty folder for the demo"),
    "mixes": ("a folder of mixes", "Name an empty folder with --out"),
    "doremi": ("a run of doremi", "Name an empty folder with --out"),
}


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """What the marker of a place says."""

    format: int
    kind: str
    id: str  # random: of this place alone


class Place(Protocol):
    """Somewhere that a user can name."""

    shown: str

    def marker(self) -> bytes | None:
        """Return the bytes of the marker; None: there is none."""

    def names(self) -> Iterable[str]:
        """Return the names at the top."""

    def write(self, data: bytes) -> None:
        """Write the marker, whole, where there is none yet."""


class Folder:
    """A folder on this machine. Errors of the system are raised as they are."""

    def __init__(self, root: Path, mode: int = 0o777) -> None:
        """`mode`: of the folder where it is made, less the umask."""
        self.shown = str(root)
        self._root, self._mode = root, mode

    def marker(self) -> bytes | None:
        try:
            handle = os.open(self._root / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return b""  # a link: somebody's
            raise
        with open(handle, "rb") as file:
            return file.read(LARGEST)

    def names(self) -> Iterable[str]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._root) as entries:
            for entry in entries:
                yield entry.name

    def write(self, data: bytes) -> None:
        while self.marker() is None:
            self._root.mkdir(self._mode, parents=True, exist_ok=True)
            # Who has claimed the folder meanwhile may sweep what was left half written in it.
            with contextlib.suppress(FileNotFoundError):
                self._write_once(data)
        handle = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _write_once(self, data: bytes) -> None:
        coming = self._root / f"{MARKER}.{secrets.token_hex(4)}.writing"
        try:
            with open(coming, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._name(coming)
        finally:
            coming.unlink(missing_ok=True)

    def _name(self, coming: Path) -> None:
        """Give the marker its name; the one that another process was faster with stays."""
        try:
            os.link(coming, self._root / MARKER)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            os.replace(coming, self._root / MARKER)


class Store(Protocol):
    """What of a bucket is needed (store/bucket/bucket.py)."""

    url: str

    def get(self, key: str, most: int) -> Any:
        """Return a small file, with its `data`; None if it is absent."""

    def put_new(self, key: str, data: bytes, headers: dict[str, str]) -> bool:
        """Write a name that is absent; False if it is there."""

    def names_at_top(self) -> list[str]:
        """Return the names and folders at the top."""


class Prefix:
    """A prefix of an object store. Raises what a bucket raises."""

    def __init__(self, store: Store) -> None:
        """Send no request."""
        self.shown = store.url
        self._store = store

    def marker(self) -> bytes | None:
        entry = self._store.get(MARKER, LARGEST)
        return None if entry is None else bytes(entry.data)

    def names(self) -> Iterable[str]:
        return filter(None, (name.rstrip("/") for name in self._store.names_at_top()))

    def write(self, data: bytes) -> None:
        self._store.put_new(MARKER, data, {"Content-Type": "application/json"})


def never(names: set[str]) -> bool:
    """No place of an earlier version is recognised."""
    del names
    return False


def claim(place: Place, kind: Kind, earlier: Callable[[set[str]], bool] = never) -> None:
    """Have a place be gristmill's, for this kind of thing, or refuse it; it may be empty, or not
    there. Several processes may claim one at the same time.

    `earlier`: whether a place without a marker, with these names at its top, is proved to be one
    that an earlier version made. Raises MachineError.
    """
    if (data := place.marker()) is None:
        names = {name for name in place.names() if not _is_nothing(name)}
        data = _seen(place, names)
    if data is None:
        if names and not earlier(names):
            raise MachineError(foreign(place.shown, kind, names))
        place.write(msgspec.json.encode(_new(kind)) + b"\n")
        data = place.marker()
    check_marker(place.shown, kind, data or b"")


def _seen(place: Place, names: set[str]) -> bytes | None:
    """Return the marker, where another process wrote it since it was looked for; a file system on a
    network may list a name before it opens it.
    """
    data = place.marker() if names else None
    until = time.monotonic() + PATIENCE
    while data is None and MARKER in names and time.monotonic() < until:
        time.sleep(0.05)
        data = place.marker()
    return data


def claim_folder(
    root: Path, kind: Kind, earlier: Callable[[set[str]], bool] = never, mode: int = 0o777
) -> None:
    """As `claim`, of a folder; `mode` is that of a new one, less the umask. Raises OSError too."""
    claim(Folder(root, mode), kind, earlier)


def check_marker(shown: str, kind: Kind, data: bytes) -> None:
    """Raise MachineError unless these bytes are the marker of a kind."""
    name, advice = NAMES[kind]
    try:
        marker = msgspec.json.decode(data, type=Marker)
    except NO_JSON:
        raise MachineError(
            f"{shown}: its {MARKER} is not one that gristmill wrote, so nothing is touched there. "
            f"{advice}"
        ) from None
    if marker.format != FORMAT:
        raise MachineError(
            f"{shown}: {MARKER} has format {marker.format}; this gristmill reads format {FORMAT}. "
            "Install a later version of gristmill"
        )
    if marker.kind != kind:
        other = {str(key): words for key, (words, _) in NAMES.items()}.get(marker.kind, marker.kind)
        raise MachineError(f"{shown}: is {other} ({MARKER} there says so), not {name}. {advice}")


def foreign(shown: str, kind: Kind, names: set[str]) -> str:
    """Return what is said of a place that holds what is not gristmill's."""
    name, advice = NAMES[kind]
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return (
        f"{shown}: holds {min(names)!r}{more}, and no {MARKER} that says it is {name} of "
        f"gristmill's: it may be yours, so nothing is touched there. {advice}"
    )


def refuse_file(
    path: Path, is_ours: Callable[[Path], bool], verb: str, *, force: bool, option: str = "--out"
) -> None:
    """Raise RecipeError for a file that is there and that `verb` did not write, unless `force`.
    `is_ours` says by its content whether it did.
    """
    if force or not os.path.lexists(path):
        return
    if path.is_dir():
        raise RecipeError(f"{option} {path}: a folder. Name a file")
    if path.is_symlink() or not is_ours(path):
        raise RecipeError(
            f"{option} {path}: it is there already, and `{verb}` did not write it. Choose another "
            "name, or replace it with --force"
        )


def by_head(is_ours: Callable[[bytes], bool]) -> Callable[[Path], bool]:
    """Return what tells files by their first bytes."""

    def look(path: Path) -> bool:
        try:
            with open(path, "rb") as file:
                return is_ours(file.read(LARGEST))
        except OSError:
            return False

    return look


def writable_by_others(folder: Path) -> str | None:
    """Return a warning for people where the group or others may write a folder whose files
    gristmill trusts; None: they may not, or it is not there.
    """
    try:
        status = os.stat(folder)
    except OSError:
        return None
    foreign_owner = status.st_uid not in (os.geteuid(), 0)
    by_group = status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid)
    if not (foreign_owner or by_group or status.st_mode & stat.S_IWOTH):
        return None
    what = "belongs to another user" if foreign_owner else "other users may write it"
    advice = "name a folder of your own" if foreign_owner else f"chmod go-w {folder}"
    return (
        f"warning: {folder}: {what}. They could change files after they were verified, or code "
        f"before it runs: {advice}"
    )


def _is_own_group(gid: int) -> bool:
    """Return whether a group is that of this user alone, as many systems make one for each."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except (KeyError, OSError):
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _new(kind: Kind) -> Marker:
    return Marker(format=FORMAT, kind=kind, id=secrets.token_hex(16))


def _is_nothing(name: str) -> bool:
    return name in OF_SYSTEMS or COMING.fullmatch(name) is not None
