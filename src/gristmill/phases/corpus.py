"""A corpus on disk: where its parts rest, which phases are done, and how a new state takes the place of the old.

    CORPUS/manifest.json ...        the published state; never touched until the next is whole
    CORPUS/work/stage/...           new parts, under the paths that they will have
    CORPUS/work/state/...           a record for each phase that is complete: its content key, its parts, its counts
    CORPUS/work/lock                held (flock) by a run and its workers

A phase is done when its record holds the content key that it would have now. Keys are made of steps, versions, parameters and
input digests; no clock, rank or path is in them.
"""

import fcntl
import hashlib
import os
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pyarrow

import gristmill
from gristmill.errors import MachineError, VerificationError
from gristmill.store import manifest as manifests
from gristmill.store.parts import TEMPORARY, Part, machine_errors, sync_folder, write_bytes, write_json

LOCK_PATIENCE = 3.0  # seconds: workers of a killed run notice and go


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that is complete."""

    key: str
    parts: list[Part] = []
    counts: dict[str, Any] = {}

    def part(self, folder: str) -> Part:
        """Its part in a folder."""
        return next(part for part in self.parts if part.path.startswith(folder))


def versions() -> dict[str, str]:
    """What byte-identity is promised for."""
    from gristmill.phases import FORMAT_VERSIONS

    return {
        "gristmill": gristmill.__version__, "pyarrow": pyarrow.__version__,
        "resiliparse": version("resiliparse"),  # tells charsets and takes the text out of pages
        **FORMAT_VERSIONS,
    }  # fmt: skip


def content_key(phase: str, **parts: Any) -> str:
    """The hash of all that a phase's output depends on; refuses what has no one byte form."""
    data = msgspec.json.encode({"phase": phase, "versions": versions(), **parts}, order="sorted")
    return hashlib.sha256(data).hexdigest()


class Corpus:
    """The folder of a corpus. A value: workers make their own from the same path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.stage = self.work / "stage"

    # -- parts

    def find(self, path: str) -> Path:
        """A part as this run sees it: the staged one, else the published one."""
        staged = self.stage / path
        return staged if staged.exists() else self.root / path

    def is_whole(self, part: Part) -> bool:
        """Whether a part is there in its full size."""
        try:
            return self.find(part.path).stat().st_size == part.size
        except OSError:
            return False

    # -- records

    def _record_path(self, phase: str, name: str) -> str:
        return f"state/{phase}/{name}.json"

    def done(self, phase: str, name: str, key: str) -> Record | None:
        """The record of a phase that is complete under this key, its parts in place; else None."""
        record = self.last(phase, name)
        if record is None or record.key != key or not all(self.is_whole(part) for part in record.parts):
            return None
        return record

    def last(self, phase: str, name: str) -> Record | None:
        """The record of the last time that a phase was complete, under whatever key."""
        try:
            return msgspec.json.decode((self.work / self._record_path(phase, name)).read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            return None

    def record(self, phase: str, name: str, record: Record) -> Record:
        """Say that a phase is complete; the last thing it does."""
        write_json(self.work, self._record_path(phase, name), record)
        return record

    def forget(self, phase: str, name: str) -> None:
        """Take a phase's record away, before what it tells of outside the parts (work/) is written anew."""
        (self.work / self._record_path(phase, name)).unlink(missing_ok=True)

    # -- states

    def published(self) -> tuple[manifests.Manifest, bytes] | None:
        """The published manifest, its lock checked; None where nothing is published. Raises VerificationError."""
        try:
            data = (self.root / manifests.MANIFEST).read_bytes()
        except FileNotFoundError:
            if (self.root / manifests.LOCK).exists():
                raise VerificationError(
                    f"{self.root}: {manifests.LOCK} without {manifests.MANIFEST}: the manifest was removed. "
                    "Restore it, or remove the lock to finish the corpus again"
                ) from None
            return None
        try:
            lock: bytes | None = (self.root / manifests.LOCK).read_bytes()
        except FileNotFoundError:
            lock = None
        try:
            manifests.check_lock(data, lock)
        except VerificationError as error:
            raise VerificationError(f"{self.root}: {error}") from None
        return manifests.decode(data), data

    def publish(self, manifest: manifests.Manifest) -> bytes:
        """Make a state the published one; a kill at any point is completed by the next `recover`."""
        data = manifests.encode(manifest)
        before = self.published()
        named = {part.path for part in manifest.parts}
        obsolete = [part.path for part in before[0].parts if part.path not in named] if before else []
        write_json(self.work, OBSOLETE, obsolete)
        write_bytes(self.root, manifests.MANIFEST + manifests.NEXT, data)
        write_bytes(self.root, manifests.LOCK + manifests.NEXT, manifests.lock_of(data))
        self.recover()
        return data

    def recover(self) -> None:
        """Complete a publication that was begun, if one was: parts into place, manifest, lock, then old parts go."""
        coming = self.root / (manifests.MANIFEST + manifests.NEXT)
        coming_lock = self.root / (manifests.LOCK + manifests.NEXT)
        try:
            lock = coming_lock.read_bytes()
        except FileNotFoundError:
            coming.unlink(missing_ok=True)  # half of a beginning
            return
        if coming.exists():
            data = coming.read_bytes()
            manifests.check_lock(data, lock)
            manifest = manifests.decode(data)
            touched = set()
            for part in manifest.parts:
                staged, place = self.stage / part.path, self.root / part.path
                if staged.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    staged.rename(place)
                    touched.add(place.parent)
                elif not place.exists():
                    raise VerificationError(f"{self.root}: {part.path} vanished while the corpus was being published")
            for folder in touched:
                sync_folder(folder)
            write_bytes(self.root, manifests.SUMS, manifests.sums(manifest.parts))
            coming.rename(self.root / manifests.MANIFEST)
            sync_folder(self.root)
        manifests.check_lock((self.root / manifests.MANIFEST).read_bytes(), lock)
        coming_lock.rename(self.root / manifests.LOCK)
        sync_folder(self.root)
        shutil.rmtree(self.stage, ignore_errors=True)
        self.sweep()

    def sweep(self) -> None:
        """Remove the parts that the state before the published one had, and no other file: it may be somebody's."""
        if (self.root / (manifests.LOCK + manifests.NEXT)).exists():
            return
        try:
            obsolete = msgspec.json.decode((self.work / OBSOLETE).read_bytes(), type=list[str])
        except (OSError, msgspec.DecodeError):
            return
        published = self.published()
        named = {part.path for part in published[0].parts} if published else set()
        for path in obsolete:
            manifests.check_path(path)
            if path not in named:
                (self.root / path).unlink(missing_ok=True)
                remove_if_empty((self.root / path).parent, self.root)
        (self.work / OBSOLETE).unlink()

    # -- one run at a time

    def hold(self) -> int:
        """Take the corpus for this run; returns the lock's descriptor, which workers inherit. Raises MachineError."""
        with machine_errors(self.root):
            found = ", ".join(name for name in (*FOLDERS, *FILES) if (self.root / name).exists())
            if found and not self.work.exists() and not (self.root / manifests.MANIFEST).exists():
                raise MachineError(
                    f"{self.root}: holds {found}, and no corpus of ours. Choose an empty folder, so that nothing of yours is mixed in"
                )
            self.work.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.work / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        until = time.monotonic() + LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    os.close(handle)
                    raise MachineError(
                        f"{self.root}: another run is at work on this corpus. Wait for it, or choose another folder"
                    ) from None
                time.sleep(0.05)
        # What writers left when they were killed.
        for left in self.root.rglob(f"*{TEMPORARY}"):
            left.unlink(missing_ok=True)
        return handle


OBSOLETE = "obsolete.json"  # under work/: parts to remove when the state that is being published is there
FOLDERS = (
    "documents",
    "measures",
    "signatures",
    "verdicts",
    "samples",
    "judgement",
    "contamination",
    "duplicates",
    "finished",
    "index",
    "text",
    "tokens",
    "tokenizer",
)


FILES = ("plan.json", "recipe.toml", "funnel.json", "run.json", manifests.SUMS)


def part_folders(root: Path) -> list[Path]:
    """The folders that hold parts, and nothing else."""
    return [root / name for name in FOLDERS if (root / name).is_dir()]


def remove_if_empty(folder: Path, root: Path) -> None:
    """Remove a folder below the root that holds nothing any more, and those above it."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
