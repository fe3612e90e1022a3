"""What a node has seen: a log that only grows, and that is enough to make the same batches again.

FOLDER/seen.jsonl           one entry a line: rotations, losses, resumed checkpoints
FOLDER/views/<sha256>.json  the manifests of the shards that rotations name
FOLDER/plan.json            the plan so far, for `gristmill seen`
FOLDER/lock                 held (flock) by the process that writes

A rotation's entry has its segment of the plan, so that the plan at any place of the log follows
from the entries before it. An entry is one write; a killed process may leave a last line without
its end, which is dropped.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from gristmill.errors import NO_JSON, MachineError, RecipeError, VerificationError
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.plan_segments import PlanSegment
from gristmill.store import manifest as manifests
from gristmill.store.parts import machine_errors, write_bytes
from gristmill.store.proof import seal

FORMAT = 1
LOG = "seen.jsonl"

Reason = Literal["start", "exhausted", "plateau"]


class Began(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="began"):
    """A process began to train as this node."""

    format: int = FORMAT
    node: str
    url: str
    assignment: str
    shards: int  # of a rotation


class Rotated(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="rotated"):
    """From this window of the stream on, the node reads these shards."""

    window: int
    rotation: int
    reason: Reason
    release: int
    manifest: str  # sha256 of the release's manifest
    shards: list[str]
    left_out: dict[str, int]  # sources with too few tokens for a window, and how many they have
    segment: PlanSegment  # its `corpus` is the sha256 of the view's manifest


class Loss(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="loss"):
    """The trainer reported a loss; `window` is the first behind the steps that it had then."""

    window: int
    loss: float | None  # null: not a finite number


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="resumed"):
    """Training went on from a checkpoint: earlier entries behind its window do not count."""

    window: int
    segments: int  # of the plan in the checkpoint


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="closed"):
    """The node was closed before this window."""

    window: int


Entry = Began | Rotated | Loss | Resumed | Closed


class NodeLog:
    """The log of one node, written by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Raise MachineError if another process writes it, or it cannot be written."""
        self.folder = folder
        with machine_errors(folder):
            (folder / "views").mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(self._lock)
                raise MachineError(
                    f"{folder}: another process trains as this node. Give each node an id of its "
                    "own; of the ranks of one job, rank 0 writes the log"
                ) from error
            self._file = os.open(folder / LOG, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._file, _whole_bytes(folder / LOG))
            os.lseek(self._file, 0, os.SEEK_END)

    def write(self, entry: Entry) -> None:
        """Append an entry. Raises MachineError."""
        with machine_errors(self.folder):
            place = os.lseek(self._file, 0, os.SEEK_CUR)
            data = msgspec.json.encode(entry) + b"\n"
            try:
                written = os.write(self._file, data)
                if written < len(data):
                    os.write(self._file, data[written:])
            except OSError:
                os.ftruncate(self._file, place)  # no half of a line before the next entry
                os.lseek(self._file, place, os.SEEK_SET)
                raise

    def rotated(self, entry: Rotated, view: manifests.Manifest, plan: LoaderPlan) -> None:
        """Write a rotation: the manifest of its view first. Raises MachineError."""
        name = f"views/{entry.segment.corpus}.json"
        if not (self.folder / name).exists():
            write_bytes(self.folder, name, manifests.encode(view))
        self.write(entry)
        with machine_errors(self.folder):
            os.fsync(self._file)
        plan.save(self.folder / "plan.json")

    def close(self) -> None:
        """Let another process write it."""
        if self._file >= 0:
            os.close(self._file)
            os.close(self._lock)
            self._file = self._lock = -1


def read_log(folder: Path) -> Iterator[Entry]:
    """Yield the entries of a log, in order. Raises RecipeError if there is none, VerificationError
    if a line of it is not an entry.
    """
    path = folder / LOG
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    entry = msgspec.json.decode(line, type=Entry)
                except NO_JSON as error:
                    raise VerificationError(
                        f"{path}, line {number}: not an entry of a node's log: {error}"
                    ) from error
                if isinstance(entry, Began) and entry.format != FORMAT:
                    raise VerificationError(
                        f"{path}: format {entry.format}; this gristmill reads format {FORMAT}"
                    )
                yield entry
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}: no log of a node") from error


def plan_of_log(folder: Path) -> tuple[LoaderPlan, int]:
    """Return the plan that a node has followed since it last began at window 0, and the window up
    to which its log says that it was followed: that of the last loss, or of the node's end. Raises
    RecipeError, VerificationError.
    """
    segments: list[PlanSegment] = []
    until = 0
    for entry in read_log(folder):
        if isinstance(entry, Rotated):
            segments = [*(segments if entry.window else []), entry.segment]
        elif isinstance(entry, Resumed):
            segments = segments[: entry.segments]
        if not isinstance(entry, Began):
            until = entry.window
    if not segments:
        raise RecipeError(f"{folder / LOG}: the node has read nothing yet")
    plan = LoaderPlan.decode(seal(LoaderPlan(segments=segments)), str(folder / LOG))
    return plan, until


def view_manifest(folder: Path, digest: str) -> manifests.Manifest:
    """Return the manifest of a view that a log names. Raises VerificationError."""
    path = folder / "views" / f"{digest}.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise VerificationError(f"{path}: cannot be read: {error.strerror}") from error
    manifests.check_lock(data, f"{digest}  {manifests.MANIFEST}\n".encode())
    return manifests.decode(data)


def _whole_bytes(path: Path) -> int:
    """Return the bytes of a file up to the end of its last whole line."""
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        for start in range(max(size - 1, 0) // 4096 * 4096, -1, -4096):
            file.seek(start)
            newline = file.read(4096).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
    return 0
