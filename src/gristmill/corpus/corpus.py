"""A corpus on disk: where its parts rest, which phases are done, and how a new state takes the
place of the old.

    CORPUS/.gristmill.json          says that the folder is a corpus' (ownership.py); comes first
    CORPUS/manifest.json ...        the finished state; never touched until the next is whole
    CORPUS/work/stage/...           new parts, under the paths that they will have
    CORPUS/work/state/...           a record for each phase that is complete: its content key, its
                                    parts, its counts
    CORPUS/work/lock                held (flock) by a run and its workers

A phase is done when its record holds the content key that it would have now (phases/phase.py). Keys
are made of steps, format versions, parameters and input digests; no clock, rank or path is in them.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow

import gristmill
from gristmill.corpus.formats import FORMAT_VERSIONS
from gristmill.corpus.layout import (
    OBSOLETE,
    own,
    refuse_imported,
    refuse_links,
    remove_if_empty,
    tidy,
)
from gristmill.corpus.lock import take
from gristmill.errors import Damaged, MachineError, VerificationError
from gristmill.store import manifest as manifests
from gristmill.store.parts import Part, has_size, machine_errors, sync_folder, write_bytes
from gristmill.store.proof import damage, damaged, is_spoilt, seal, unseal
from gristmill.user_input import refuse_store

RECORD_FORMAT = 3  # of a record: one of another format is not used
Counts = TypeVar("Counts")  # what a phase counts


class Record(msgspec.Struct, Generic[Counts], frozen=True, kw_only=True):
    """A phase that is complete."""

    key: str
    parts: list[Part] = []
    work: list[Part] = []  # files that later phases read and no corpus holds: paths from work/
    counts: Counts = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    format: int = RECORD_FORMAT

    def part(self, folder: str) -> Part:
        """Return its part in a folder."""
        return next(part for part in self.parts if part.path.startswith(folder))


def versions() -> dict[str, str]:
    """Return the manifest's `versions`: the packages of the run that wrote it, and format
    versions.
    """
    return {
        "gristmill": gristmill.__version__,
        "pyarrow": pyarrow.__version__,
        "resiliparse": version("resiliparse"),  # detects charsets and extracts the text of pages
        **FORMAT_VERSIONS,
    }


def content_key(what: str, /, **parts: Any) -> str:
    """Return the hash of all that some output depends on, 64 hexadecimal digits; raises TypeError
    for a value that has no one byte form.
    """
    data = msgspec.json.encode({"what": what, **parts}, order="sorted")
    return hashlib.sha256(data).hexdigest()


class Corpus:
    """The folder of a corpus. A value: workers make their own from the same path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.stage = self.work / "stage"
        # Finished parts, path to sha256: their sizes are enough, until a reader finds one damaged.
        self._trusted: dict[str, str] = {}

    @property
    def name(self) -> str:
        """Return what messages call it."""
        return str(self.root)

    # -- parts

    def find(self, path: str) -> Path:
        """Return a part as this run sees it: the staged one, else the finished one."""
        staged = self.stage / path
        return staged if staged.exists() else self.root / path

    def work_file(self, path: str) -> Path:
        """Return a file under work/ that an earlier phase wrote, for the process that plans."""
        return self.work / path

    def write_small(self, path: str, data: bytes) -> None:
        """Write a small file that is no part; `path` is from the root."""
        write_bytes(self.root, path, data)

    def is_placed(self, part: Part) -> bool:
        """Return whether a part of the finished state is there in its full size."""
        return has_size(self.root / part.path, part.size)

    def trust(self, parts: Sequence[Part]) -> None:
        """Take finished parts as they are, by their sizes."""
        self._trusted = {part.path: part.sha256 for part in parts}

    def distrust(self) -> None:
        """Look at finished parts again: one was damaged."""
        self._trusted = {}

    def is_whole(self, part: Part) -> bool:
        """Return whether a part is there in its full size."""
        return has_size(self.find(part.path), part.size)

    def files(self, record: Record[Any]) -> list[tuple[Path, Part]]:
        """Return the files of a record, and where they are."""
        work = [(self.work / part.path, part) for part in record.work]
        return work + [(self.find(part.path), part) for part in record.parts]

    def damage(self, record: Record[Any]) -> list[str | None]:
        """Return what is wrong with the files of a record: a line each. Null: it is not there, and
        was left out of the manifest.
        """
        problems: list[str | None] = []
        for path, part in self.files(record):
            if path == self.root / part.path and self._trusted:
                if self._trusted.get(part.path) == part.sha256 and self.is_whole(part):
                    continue
                if part.path not in self._trusted and not path.exists():
                    problems.append(None)
                    continue
            if (wrong := damage(path, part.sha256, part.size)) is not None:
                problems.append(f"{path}: not as it was written: {wrong}")
        return problems

    # -- records

    def _record_path(self, phase: str, name: str) -> str:
        return f"state/{phase}/{name}.json"

    def done(
        self,
        phase: str,
        name: str,
        key: str,
        counts: Any = dict,
        on_line: Callable[[str], None] = lambda _: None,
    ) -> Record[Any] | None:
        """Return the record of a phase that is complete under this key, its files as they were
        written; else None.

        `on_line` gets a line for each file that is not. `counts` is as in `last`.
        """
        record = self.last(phase, name, counts)
        if record is None:
            path = self.work / self._record_path(phase, name)
            if is_spoilt(path):
                on_line(f"{path}: not as it was written")
            return None
        if record.key != key:
            return None
        wrong = self.damage(record)
        for line in filter(None, wrong):
            on_line(line)
        return None if wrong else record

    def last(self, phase: str, name: str, counts: Any = dict) -> Record[Any] | None:
        """Return the record of the last time that a phase was complete, under whatever key; None
        where there is none that is whole.

        `counts` is the type of its counts: the phase's own, or a plain dict.
        """
        try:
            table = unseal((self.work / self._record_path(phase, name)).read_bytes())
            if table.get("format") != RECORD_FORMAT:
                return None
            record: Record[Any] = msgspec.convert(table, Record[counts])
        except (OSError, ValueError, msgspec.ValidationError):
            return None
        return record

    def record(self, phase: str, name: str, record: Record[Any]) -> Record[Any]:
        """Say that a phase is complete; the last thing it does."""
        write_bytes(self.work, self._record_path(phase, name), seal(record))
        return record

    def forget(self, phase: str, name: str) -> None:
        """Take a phase's record away, before the files under work/ that it names are written
        anew.
        """
        (self.work / self._record_path(phase, name)).unlink(missing_ok=True)

    # -- states

    def finished(self) -> tuple[manifests.Manifest, bytes] | None:
        """Return the manifest of the finished state, its lock checked; None where there is none.
        Raises VerificationError.
        """
        data, lock = (self._proof(name) for name in (manifests.MANIFEST, manifests.LOCK))
        if data is None:
            refuse_store(self.root)
            if lock is not None:
                raise VerificationError(manifests.without_manifest(self.name))
            return None
        try:
            manifests.check_lock(data, lock)
        except VerificationError as error:
            raise VerificationError(f"{self.name}: {error}") from None
        return manifests.decode(data), data

    def _proof(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            said = f"{self.root}: {name} cannot be read: {error.strerror}"
            raise VerificationError(said) from error

    def write_manifest(self, manifest: manifests.Manifest) -> bytes:
        """Make a state the finished one; a kill at any point is completed by the next `recover`.
        Raises Damaged, before anything is touched.
        """
        before = self.finished()
        if wrong := self._wrong(manifest, before[0] if before else None):
            raise Damaged(wrong[0])
        data = manifests.encode(manifest)
        named = {part.path for part in manifest.parts}
        old = {part.path for part in before[0].parts} if before else set()
        self._write_obsolete(sorted((old | set(self._obsolete())) - named))
        write_bytes(self.root, manifests.MANIFEST + manifests.NEXT, data)
        write_bytes(self.root, manifests.LOCK + manifests.NEXT, manifests.make_lock(data))
        self._complete(manifests.make_lock(data))
        return data

    def recover(self, on_line: Callable[[str], None] = lambda _: None) -> None:
        """Complete a state whose writing was begun, if one was: parts into place, manifest, lock,
        then old parts go.

        Where a part of it is damaged it is given up, and `on_line` gets a line for each: what is
        sound is used again by the run that comes.
        """
        coming = self.root / (manifests.MANIFEST + manifests.NEXT)
        try:
            lock = (self.root / (manifests.LOCK + manifests.NEXT)).read_bytes()
        except FileNotFoundError:
            coming.unlink(missing_ok=True)  # half of a beginning
            return
        if coming.exists():
            data = coming.read_bytes()
            manifests.check_lock(data, lock)
            manifest = manifests.decode(data)
            if wrong := self._wrong(manifest, None):
                for line in wrong:
                    on_line(line)
                self._give_up(manifest)
                return
        self._complete(lock)

    def _wrong(self, manifest: manifests.Manifest, before: manifests.Manifest | None) -> list[str]:
        """Return what is wrong with the parts of a new state; those that the state `before` has as
        well are in their places.
        """
        known = {part.path: part.sha256 for part in before.parts} if before else {}
        staged, placed = [], []
        for part in manifest.parts:
            if (self.stage / part.path).exists():
                staged.append(part)
            elif known.get(part.path) != part.sha256:
                placed.append(part)
        return damaged(staged, self.stage) + damaged(placed, self.root)

    def _give_up(self, manifest: manifests.Manifest) -> None:
        """Forget a state whose writing was begun.

        Where parts of it took the place of the old state's, there is no old state any more.

        The coming lock goes after the old one: as long as it is there, the next start does this
        again.
        """
        data = (
            (self.root / manifests.MANIFEST).read_bytes()
            if (self.root / manifests.MANIFEST).exists()
            else b""
        )
        old = {part.path: part.sha256 for part in manifests.decode(data).parts} if data else {}
        moved = [part.path for part in manifest.parts if not (self.stage / part.path).exists()]
        if any(
            old.get(part.path) != part.sha256 for part in manifest.parts if part.path in set(moved)
        ):
            self._write_obsolete(sorted({*self._obsolete(), *old, *moved}))
            for name in (manifests.LOCK, manifests.MANIFEST):
                (self.root / name).unlink(missing_ok=True)
        for name in (manifests.LOCK, manifests.MANIFEST):
            (self.root / (name + manifests.NEXT)).unlink(missing_ok=True)
        sync_folder(self.root)

    def _complete(self, lock: bytes) -> None:
        """Put the parts of a new state into place, then its manifest and
        its lock; each may be done twice.
        """
        coming = self.root / (manifests.MANIFEST + manifests.NEXT)
        if coming.exists():
            manifest = manifests.decode(coming.read_bytes())
            touched = set()
            stage, root = f"{self.stage}/", f"{self.root}/"  # a Path takes as long as a rename
            for part in manifest.parts:
                if os.path.exists(stage + part.path):
                    folder = root + os.path.dirname(part.path)
                    if folder not in touched:
                        os.makedirs(folder, exist_ok=True)
                        touched.add(folder)
                    Path(stage + part.path).rename(root + part.path)
                elif not os.path.exists(root + part.path):
                    raise VerificationError(
                        f"{self.root}: {part.path} vanished while the manifest was being written"
                    )
            for folder in touched:
                sync_folder(Path(folder))
            write_bytes(self.root, manifests.SUMS, manifests.sums(manifest.parts))
            coming.rename(self.root / manifests.MANIFEST)
            sync_folder(self.root)
        manifests.check_lock((self.root / manifests.MANIFEST).read_bytes(), lock)
        (self.root / (manifests.LOCK + manifests.NEXT)).rename(self.root / manifests.LOCK)
        sync_folder(self.root)
        shutil.rmtree(self.stage, ignore_errors=True)
        self.sweep()

    def _write_obsolete(self, paths: list[str]) -> None:
        for name in OBSOLETE:
            write_bytes(self.work, name, seal({"parts": paths}))

    def _obsolete(self) -> list[str]:
        """Return the parts that are to go; of two equal files one may be damaged."""
        for name in OBSOLETE:
            try:
                return msgspec.convert(unseal((self.work / name).read_bytes())["parts"], list[str])
            except (OSError, ValueError, KeyError, msgspec.ValidationError):
                continue
        return []

    def sweep(self) -> None:
        """Remove the parts that the state before the finished one had, and no other file: it may
        be somebody's.
        """
        if (self.root / (manifests.LOCK + manifests.NEXT)).exists():
            return
        obsolete = self._obsolete()
        finished = self.finished() if obsolete else None
        if obsolete and finished is None:
            return  # given up: the state that comes may have them again
        named = {part.path for part in finished[0].parts} if finished else set()
        for path in obsolete:
            manifests.check_path(path)
            if path not in named:
                (self.root / path).unlink(missing_ok=True)
                remove_if_empty((self.root / path).parent, self.root)
        for name in OBSOLETE:
            (self.work / name).unlink(missing_ok=True)

    # -- one run at a time

    def own(self) -> None:
        """Claim the place for this corpus before writing. Raises MachineError if it is taken."""
        own(self.root)

    def look(self) -> None:
        """Know what is there, without holding it."""

    def hold(self, on_line: Callable[[str], None] = lambda _: None) -> int:
        """Take the corpus for this run; returns the lock's descriptor, which workers inherit.
        Raises MachineError, or RecipeError for an imported corpus.

        `on_line` gets a line for what did not belong under work/ and is removed.
        """
        with machine_errors(self.root, every=True):
            self.own()
            refuse_links(self.root)
            refuse_imported(self.root)
            self.work.mkdir(parents=True, exist_ok=True)
            busy = (
                f"{self.root}: another run is at work on this corpus. Wait for it, or choose "
                "another folder"
            )
            handle = take(self.work / "lock", busy)
        try:
            with machine_errors(self.root, every=True):
                tidy(self.root, on_line)
        except MachineError:
            os.close(handle)
            raise
        return handle

    def let_go(self, handle: int) -> None:
        """Let go of what `hold` took."""
        os.close(handle)
