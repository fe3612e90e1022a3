"""The folder that an export writes.

    .gristmill.json             says that the folder is an export of gristmill's (ownership.py)
    gristmill.unfinished.json   while the export is being written: what was asked for
    gristmill.progress.jsonl    and which files are whole (export_progress.py)
    <the files of the format>
    tokenizer.json ...          the tokenizer's file, byte for byte (exports of tokens)
    gristmill.json              what the files are: format, corpus, tokenizer, tokens, streams
    SHA256SUMS                  all of these in sha256sum's format, written last

Every file appears whole. An export that was interrupted is completed by the same command, which
keeps the files that are whole; a folder with files of anything else is refused.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import numpy as np

from gristmill.errors import NO_JSON, MachineError, RecipeError
from gristmill.store.manifest import SUMS, TokenFormat, sums
from gristmill.store.parts import (
    TEMPORARY,
    HashingFile,
    Part,
    hash_file,
    is_temporary,
    machine_errors,
    sync_folder,
    temporary_path,
    to_json,
    write_bytes,
    writing,
)
from gristmill.system.ownership import MARKER, claim_folder
from gristmill.trainer_formats.export_progress import ExportProgress, UnwrittenFile

DESCRIPTION, UNFINISHED = "gristmill.json", "gristmill.unfinished.json"
LARGEST_DESCRIPTION = 64 << 20  # bytes: that of a million files has less
_BLOCK = 1 << 20  # numbers read back from a spool at a time


class ExportedStream(msgspec.Struct, frozen=True, kw_only=True):
    """Files that are read one after another: the documents of a split, of one source or mixed."""

    name: str  # the source, or `mixed`
    split: str
    sources: dict[str, int]  # tokens by source
    documents: int
    tokens: int
    files: list[str]


class ExportedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How the tokens of an export are read."""

    tokenizer_file: str
    format: TokenFormat  # `dtype` is the corpus' own
    dtype: str  # of a token in the files of this export
    # the literal of the end of text, as the recipe names it; null: the tokenizer's own
    end_of_text_literal: str | None = None


class ExportDescription(msgspec.Struct, frozen=True, kw_only=True):
    """gristmill.json: what an export is. `import` reads it back."""

    format: str
    corpus: str  # sha256 of the corpus' manifest.json
    options: dict[str, Any]
    version: int = 1
    tokens: ExportedTokens | None = None
    streams: list[ExportedStream] = []
    details: dict[str, Any] = {}


class ExportFolder:
    """The folder of one export. A context: the last files are written where it ends without an
    error.
    """

    def __init__(self, root: Path, description: ExportDescription) -> None:
        """Begin an export; `description` says what was asked for.

        Raises MachineError if the folder is not gristmill's, RecipeError if it holds anything but
        an unfinished or finished export of the same description.
        """
        self.root = root
        self.parts: list[Part] = []
        self._found = 0  # files that are kept from an earlier start
        self.description = description
        self._request = to_json(description)
        self._spools = ExitStack()  # they are closed where an export fails, too
        with machine_errors(root, every=True):
            self._begin()

    def __enter__(self) -> "ExportFolder":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._progress, self._spools, machine_errors(self.root, every=True):
            if kind is not None:
                return
            self.parts.append(write_bytes(self.root, DESCRIPTION, to_json(self.description)))
            write_bytes(self.root, SUMS, sums(self.parts))
            self._progress.remove()
            (self.root / UNFINISHED).unlink()
            sync_folder(self.root)

    def describe(self, **fields: Any) -> None:
        """Set fields of gristmill.json."""
        self.description = msgspec.structs.replace(self.description, **fields)

    def summary(self) -> dict[str, int]:
        """Return the numbers of `files` and `bytes` so far, and of `kept` files, which an earlier
        start of the export wrote.
        """
        size = sum(part.size for part in self.parts)
        return {"files": len(self.parts), "bytes": size, "kept": self._found}

    def kept(self, name: str) -> Part | None:
        """Return a file that an earlier start of the same export wrote; it becomes part of this
        one, and is not to be written.
        """
        part = self._progress.kept(name)
        if part is not None:
            self._add(part)
        return part

    @contextmanager
    def file(self, name: str, counts: dict[str, int] | None = None) -> Iterator[HashingFile]:
        """Write a file of the export; one that is kept is not written again. `counts`, filled while
        it is written, are kept with its record.
        """
        part = self._progress.kept(name)
        if part is not None:
            unwritten = UnwrittenFile()
            yield cast("HashingFile", unwritten)
            self._add(unwritten.check(self.root, part))
            return
        with writing(self.root, name) as file:
            yield file
        self._add(Part(name, file.size, file.hexdigest(), counts or {}))

    def write(self, name: str, data: bytes) -> None:
        """Write a small file of the export."""
        part = self._progress.kept(name)
        if part is None or part.sha256 != hashlib.sha256(data).hexdigest():
            part = write_bytes(self.root, name, data)
        self._add(part)

    @contextmanager
    def path(self, name: str) -> Iterator[Path]:
        """A path for a library that writes files by itself; the file gets its name, and its digest
        is taken, if the block has no error.
        """
        target = self.root / name
        temporary = temporary_path(target)
        with machine_errors(target, every=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield temporary
                with open(temporary, "rb") as file:
                    os.fsync(file.fileno())
                part = Part(name, *hash_file(temporary))
                temporary.rename(target)
                sync_folder(target.parent)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        self._add(part)

    def _add(self, part: Part) -> None:
        self._found += self._progress.kept(part.path) is part
        self._progress.add(part)
        self.parts.append(part)

    def spool(self, dtype: str) -> "Spool":
        """Return numbers on disk, for a file that begins with their count."""
        return self._spools.enter_context(closing(Spool(self.root, dtype)))

    def _begin(self) -> None:
        if self.root.exists() and not self.root.is_dir():
            raise RecipeError(f"--out {self.root}: a file, not a folder. Choose another folder")
        claim_folder(self.root, "export", lambda _: self._is_ours())
        names = sorted({path.name for path in self.root.iterdir()} - {MARKER})
        if names and not self._is_ours():
            raise RecipeError(
                f"--out {self.root}: holds {', '.join(names[:3])}"
                f"{' and more' if len(names) > 3 else ''}, and no export of the same corpus with "
                "the same options. Choose an empty folder"
            )
        write_bytes(self.root, UNFINISHED, self._request)
        self._progress = ExportProgress(self.root, self._request)
        for path in self.root.rglob(f"*{TEMPORARY}") if names else ():
            if is_temporary(path.name):
                path.unlink()
        for name in (SUMS, DESCRIPTION):
            (self.root / name).unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        """Return whether what is in the folder is this export, unfinished or finished."""
        unfinished, finished = self.root / UNFINISHED, self.root / DESCRIPTION
        if unfinished.is_file():
            return unfinished.read_bytes() == self._request
        try:
            description = msgspec.json.decode(finished.read_bytes(), type=ExportDescription)
        except (OSError, *NO_JSON):
            return False
        same = (description.format, description.corpus, description.options)
        return same == (self.description.format, self.description.corpus, self.description.options)


class Spool:
    """Numbers of one type that are appended, then read back in order; in a file without a name."""

    def __init__(self, folder: Path, dtype: str) -> None:
        """`folder` is where there is room for them."""
        self.dtype = np.dtype(dtype)
        self.count = 0
        self._file = cast("BinaryIO", tempfile.TemporaryFile(dir=folder))

    def append(self, values: np.ndarray) -> None:
        with machine_errors(Path(tempfile.gettempdir())):
            self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.count += len(values)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield all numbers, in blocks."""
        self._file.seek(0)
        while data := self._file.read(_BLOCK * self.dtype.itemsize):
            yield np.frombuffer(data, self.dtype)

    def close(self) -> None:
        self._file.close()


def read_description(folder: Path) -> ExportDescription | None:
    """Return the gristmill.json of a folder; None: it has none. Raises RecipeError if it cannot be
    read, or the export is unfinished.
    """
    path = folder / DESCRIPTION
    if (folder / UNFINISHED).exists():
        raise RecipeError(f"{folder}: an export that is not finished. Run the export again")
    if not path.exists() and not path.is_symlink():
        return None
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_DESCRIPTION:
        raise RecipeError(f"{path}: not the description of an export")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MachineError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        description = msgspec.json.decode(data, type=ExportDescription)
    except NO_JSON as error:
        raise RecipeError(f"{path}: not the description of an export: {error}") from error
    if description.version != 1:
        raise RecipeError(f"{path}: version {description.version}; this gristmill reads version 1")
    return description
