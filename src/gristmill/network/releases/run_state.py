"""What the next run of a corpus needs besides its parts, so that it goes on from a store alone: the
records of finished work, and the files under work/ that they name.

    publish --with state    the files are objects, and one more lists them and holds the records;
                            the release names it
    pull                    puts them where a run looks for them

A run holds every file against its record before it uses it, as always.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from gristmill.corpus.corpus import Corpus, Record
from gristmill.errors import NO_JSON, RecipeError, VerificationError
from gristmill.network.releases.layout import Release
from gristmill.phases.all_phases import PHASES
from gristmill.store.manifest import Manifest, check_path
from gristmill.store.parts import Part, to_json, write_bytes
from gristmill.store.proof import damage, unseal

FORMAT = 1
STATE = "state"  # what --with calls it
LARGEST = 1 << 30  # bytes of the list
FOLDERS = {
    folder.removeprefix("work/")
    for phase in PHASES
    for folder in phase.writes
    if folder.startswith("work/")
}


class StateList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The records of finished work, and the files that they name."""

    format: int = FORMAT
    records: dict[str, str]  # by path from work/state/, as they were written
    files: list[Part]  # paths from work/


class RunState(NamedTuple):
    """What is published of it."""

    data: bytes  # the list
    files: list[tuple[Path, str, int]]  # path, sha256, size


def needed_for_next_run(root: Path, manifest: Manifest) -> RunState:
    """Return what the next run of a finished corpus would use of its work/. Raises RecipeError
    where that is not there any more.
    """
    corpus = Corpus(root)
    parts = {part.path: part.sha256 for part in manifest.parts}
    records: dict[str, str] = {}
    files: dict[str, Part] = {}
    for path in sorted((corpus.work / "state").rglob("*.json")):
        data = path.read_bytes()
        try:
            record = msgspec.convert(unseal(data), Record[dict])  # type: ignore[type-arg]
        except (ValueError, msgspec.ValidationError):
            continue
        # A record of an earlier state, or of a raw shard that its source does not need.
        if any(parts.get(part.path) not in (None, part.sha256) for part in record.parts) or (
            record.parts and not any(part.path in parts for part in record.parts)
        ):
            continue
        if all(not damage(corpus.work / part.path, part.sha256) for part in record.work):
            records[path.relative_to(corpus.work / "state").as_posix()] = data.decode()
            files |= {part.path: part for part in record.work}
    if not records:
        raise RecipeError(
            f"{root}: --with {STATE}: its work/ is not there, and the next run would compute all "
            f"again. Publish without {STATE}, or right after a run"
        )
    listed = StateList(records=records, files=sorted(files.values(), key=lambda part: part.path))
    objects = [(corpus.work / part.path, part.sha256, part.size) for part in listed.files]
    return RunState(to_json(listed), objects)


def read_objects(data: bytes) -> set[str]:
    """Return the digests of the files that a list names. Raises VerificationError."""
    try:
        return {part.sha256 for part in msgspec.json.decode(data, type=StateList).files}
    except NO_JSON as error:
        raise VerificationError(f"the state of a release: {error}") from error


def restore(
    release: Release,
    read: Callable[[str, int], bytes],
    bring: Callable[[list[tuple[Path, str, int]]], None],
    work: Path,
) -> int:
    """Put the state of a release under work/; how many files that were. `read` gets a small object,
    `bring` has files (path, sha256, size) in their places. Raises VerificationError.
    """
    if release.state is None:
        return 0
    try:
        listed = msgspec.json.decode(read(release.state, release.state_size), type=StateList)
    except NO_JSON as error:
        raise VerificationError(f"the state of release {release.number}: {error}") from error
    if listed.format != FORMAT:
        raise VerificationError(
            f"the state of release {release.number} has format {listed.format}; this gristmill "
            f"reads {FORMAT}"
        )
    for path in (*(part.path for part in listed.files), *listed.records):
        check_path(path)
    names = {phase.name for phase in PHASES}
    if not {part.path.partition("/")[0] for part in listed.files} <= FOLDERS or not all(
        name.split("/")[0] in names and name.endswith(".json") and name.count("/") == 1
        for name in listed.records
    ):
        raise VerificationError(f"the state of release {release.number} names files of no run")
    bring([(work / part.path, part.sha256, part.size) for part in listed.files])
    for name, text in listed.records.items():
        write_bytes(work, f"state/{name}", text.encode())
    return len(listed.files)
