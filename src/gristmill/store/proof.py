"""Files that are read back: each is held against what its writer recorded, and what stands in JSON
carries a digest of itself.

proven     the digest of a whole file, before its first byte is used; a process takes it once for as
           long as the file stays as it is
Reading    the digest of a file that is read from begin to end, taken from the same bytes
seal       JSON with `proof`, the sha256 of the rest
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gristmill.errors import Damaged
from gristmill.store.parts import Part, hash_file, to_json

PROOF = "proof"  # the last key of what is sealed
_taken: dict[str, tuple[Any, ...]] = {}  # of each path what its file was when it was proven


def damage(path: Path, sha256: str, size: int | None = None) -> str | None:
    """Return what is wrong with a file, by its digest (by its size first, if that is known); None
    if nothing is.
    """
    try:
        status = os.stat(path, follow_symlinks=False)
        if size is not None and status.st_size != size:
            return f"{status.st_size:,} bytes, expected {size:,}"
        if (digest := hash_file(path)[1]) != sha256:
            return f"sha256 {digest}, expected {sha256}"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    _taken[str(path)] = (sha256, status.st_ino, status.st_size, status.st_mtime_ns)
    return None


def proven(path: Path, sha256: str, remedy: str = "A run makes it anew") -> Path:
    """Return the path, if its file has this digest. Raises Damaged, which ends with the
    `remedy`.
    """
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        status = None
    if status and _taken.get(str(path)) == (
        sha256,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    ):
        return path
    if (wrong := damage(path, sha256)) is not None:
        raise Damaged(f"{path}: not as it was written: {wrong}. {remedy}")
    return path


def prove_all(
    files: Iterable[tuple[Path, str]],
    threads: int,
    remedy: str = "A run makes it anew",
    on_bytes: Callable[[int], None] = lambda _: None,
) -> None:
    """`proven` of many files; hashlib releases the interpreter, so threads hash on all cores.
    `on_bytes` gets the size of each.

    Raises Damaged.
    """
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for path in pool.map(lambda file: proven(file[0], file[1], remedy), list(files)):
            on_bytes(path.stat().st_size)


class Reading:
    """A file of numbers that is read from start to end and checked against its digest; use as a
    context.
    """

    def __init__(self, path: Path, sha256: str | None) -> None:
        """Without a digest nothing is checked but the length.

        Raises Damaged, as `read` and `end` do.
        """
        self._path, self._sha256 = path, sha256
        self._digest = hashlib.sha256()
        try:
            self._file = open(path, "rb")
        except OSError as error:
            raise Damaged(f"{path}: cannot be read: {error.strerror}") from error

    def __enter__(self) -> "Reading":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, dtype: np.dtype, count: int) -> np.ndarray:
        """Return the next numbers, (count,) of `dtype`."""
        values = np.fromfile(self._file, dtype, count)
        if len(values) != count:
            raise Damaged(f"{self._path}: not as it was written: it ends too early")
        if self._sha256 is not None:
            self._digest.update(values.data)
        return values

    def end(self) -> None:
        """Check the digest; all must have been read."""
        if self._sha256 is not None and (
            self._file.read(1) or self._digest.hexdigest() != self._sha256
        ):
            raise Damaged(f"{self._path}: not as it was written: expected sha256 {self._sha256}")


def damaged(parts: Iterable[Part], root: Path) -> list[str]:
    """Return what is wrong with parts below a folder: a line each."""
    problems = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        listed = list(parts)
        checks = pool.map(lambda part: damage(root / part.path, part.sha256, part.size), listed)
        for part, wrong in zip(listed, checks, strict=True):
            if wrong is not None:
                problems.append(f"{root / part.path}: not as it was written: {wrong}")
    return problems


def is_spoilt(path: Path) -> bool:
    """Return whether a file that should be sealed is damaged; a file of an earlier version, which
    sealed nothing, is not.
    """
    try:
        table = json.loads(path.read_bytes())
        return not isinstance(table, dict) or PROOF in table
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError):
        return True


def seal(value: Any) -> bytes:
    """Return a value as JSON with a digest of itself."""
    table = msgspec.to_builtins(value)
    return to_json({**table, PROOF: hashlib.sha256(to_json(table)).hexdigest()})


def unseal(data: bytes) -> dict[str, Any]:
    """Return the value of a sealed file. Raises ValueError if it is damaged."""
    try:
        table = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    proof = table.pop(PROOF, None) if isinstance(table, dict) else None
    if proof is None or proof != hashlib.sha256(to_json(table)).hexdigest():
        raise ValueError("not as it was written")
    return dict(table)
