"""The record of an export that is under way: which of its files are whole. An export that was
interrupted keeps these when it is started again.

    gristmill.progress.jsonl   {"request": sha256 of what was asked for, "versions": {...}}
                               {"path": ..., "size": ..., "sha256": ..., "counts": {...}}
                               ...

A line is added when its file has its name, and is on the disk. A last line that is not whole is
left out. Nothing is kept of other versions of gristmill or of a library, which may write other
bytes, nor a file that is not as its line says.
"""

import fcntl
import hashlib
import importlib.metadata
import io
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from pathlib import Path

import msgspec

from gristmill.corpus.corpus import versions
from gristmill.errors import NO_JSON, MachineError, VerificationError
from gristmill.store.parts import Part, hash_file, machine_errors

PROGRESS = "gristmill.progress.jsonl"
LIBRARIES = ("torch", "h5py")  # that write files


class _Begun(msgspec.Struct, frozen=True):
    """What an export that was begun will write."""

    request: str
    versions: dict[str, str]


class ExportProgress:
    """The whole files of an export. A context, which closes the record and leaves it there."""

    def __init__(self, root: Path, request: bytes) -> None:
        """Read what an earlier start left in the folder `root`, and check each file. `request` is
        what was asked for. Raises MachineError if another export writes there.
        """
        path = root / PROGRESS
        begun = _Begun(hashlib.sha256(request).hexdigest(), _versions())
        with machine_errors(path):
            self._file = open(path, "a+b")  # until the export ends
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise MachineError(
                    f"{root}: another export writes into this folder. Wait for it, or choose "
                    "another"
                ) from None
        self._path = path
        self._kept = {part.path: part for part in self._whole_parts(root, begun)}
        with machine_errors(path):
            self._file.truncate(0)
            self._file.write(_line(begun))
            self._file.writelines(_line(part) for part in self._kept.values())
            self._file.flush()

    def _whole_parts(self, root: Path, begun: _Begun) -> list[Part]:
        """Return the parts that the record names and that are as it says."""
        self._file.seek(0)
        first, *lines = self._file.read().split(b"\n")
        try:
            if msgspec.json.decode(first, type=_Begun) != begun:
                return []
            parts = [msgspec.json.decode(line, type=Part) for line in lines[:-1]]
        except NO_JSON:
            return []
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            whole = list(threads.map(lambda part: _is_whole(root / part.path, part), parts))
        return list(compress(parts, whole))

    def kept(self, name: str) -> Part | None:
        """Return a file that is whole from an earlier start."""
        return self._kept.get(name)

    def add(self, part: Part) -> None:
        """Record a file that was written."""
        if self._kept.get(part.path) is not part:
            with machine_errors(self._path):
                self._file.write(_line(part))
                self._file.flush()

    def remove(self) -> None:
        """Remove the record: every file is listed in SHA256SUMS."""
        self._path.unlink()

    def __enter__(self) -> "ExportProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class UnwrittenFile(io.RawIOBase):
    """In the place of a file that is kept: counts what would be written."""

    def __init__(self) -> None:
        self.size = 0
        self.mode = "wb"

    def write(self, data: object) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        self.size += size
        return size

    def check(self, root: Path, part: Part) -> Part:
        """Return the file that is kept. Raises VerificationError if what would be written is
        another.
        """
        if self.size != part.size:
            raise VerificationError(
                f"{root / part.path}: an earlier start of this export wrote {part.size:,} bytes, "
                f"and now they would be {self.size:,}. Remove {root} and export again"
            )
        return part

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True


def _versions() -> dict[str, str]:
    releases = versions()
    for name in LIBRARIES:
        try:
            releases[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return releases


def _line(value: _Begun | Part) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _is_whole(path: Path, part: Part) -> bool:
    try:
        plain_file = path.is_file() and not path.is_symlink()
        return plain_file and hash_file(path) == (part.size, part.sha256)
    except OSError:
        return False
