"""What lies in the folders of a node's cache, and which of its locks are free."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class CacheFile(NamedTuple):
    """A file: when it was last used, its bytes, its names."""

    used: float
    size: int
    path: Path
    links: int


def free_lock(path: Path) -> int | None:
    """Return a descriptor with the lock of a file that nobody holds; None: somebody does, or it is
    not there.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def list_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder."""
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir()]
    except FileNotFoundError:
        return []


def list_files(folder: Path) -> list[CacheFile]:
    """Return the files of a folder, with their last use and bytes."""
    files = []
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return []
    for entry in entries:
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False):
                files.append(
                    CacheFile(status.st_mtime, status.st_size, Path(entry.path), status.st_nlink)
                )
    return files
