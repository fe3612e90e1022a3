"""The calls that make bytes last, in one place, so that a test can record them and cut the power
between any two.
"""

import os
from pathlib import Path


class Disk:
    """What a download does to a disk.

    Stateless; paths and descriptors are the operating system's.
    """

    def open(self, path: Path) -> int:
        """Open a file for reading and writing, made where it is missing; returns its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, handle: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` where the descriptor stands."""
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def truncate(self, handle: int, size: int) -> None:
        """Cut a file off, and stand at its end."""
        os.ftruncate(handle, size)
        os.lseek(handle, size, os.SEEK_SET)

    def sync(self, handle: int) -> None:
        """Have the file's bytes and size outlast a loss of power."""
        os.fsync(handle)

    def close(self, handle: int) -> None:
        """Close a descriptor."""
        os.close(handle)

    def replace(self, path: Path, target: Path) -> None:
        """Give a file another name, at once, over whatever had it."""
        os.replace(path, target)

    def unlink(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Have the names in a folder outlast a loss of power."""
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
