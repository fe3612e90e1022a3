"""Whether the local raw shards of a plan are still what it pinned.

    work/inputs.json   of each file, by its name in the plan: size, times of change, as they were
                       when its bytes had the digest that the plan pinned
    compare            a file with the same size and times is taken to be the same; any other is
                       hashed

The note is of a machine's files: no part of the corpus, and in no digest. Where it is lost, every
local file is hashed once. A file that was changed within `UNSURE` of a look is not noted, since a
file system may give two versions one time.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec

from gristmill.errors import RecipeError
from gristmill.phases.inputs.plan import Plan
from gristmill.store.http.urls import is_url, local_path
from gristmill.store.manifest import PackedFile
from gristmill.store.parts import hash_file, write_bytes
from gristmill.store.proof import seal, unseal

NOTE = "inputs.json"  # in work/
LONG = 1 << 30  # bytes that are hashed without a word
UNSURE = 2_000_000_000  # nanoseconds: the coarsest clock of a file system


class Look(NamedTuple):
    """What the file system says of a file."""

    size: int
    modified: int  # nanoseconds
    changed: int  # nanoseconds; a new file of the same name and `modified` has another


class InputsNote(msgspec.Struct, frozen=True, kw_only=True):
    """The note in work/inputs.json."""

    folder: str = ""  # the recipe's, which names in the plan are relative to
    files: dict[str, tuple[int, int, int]] = {}  # a Look by name
    # Names of files that lie where the corpus was made, if it was brought here by `pull`: that they
    # are not there says nothing.
    elsewhere: list[str] = []


class Compared(NamedTuple):
    """What a comparison found."""

    changed: dict[tuple[str, str], str]  # by source and name in the plan: what is another
    same: dict[str, Look]  # by name, files that have the digest of the plan


def raw_shard_path(url: str, folder: Path) -> Path | None:
    """Return where a raw shard lies on this machine; null: it comes from the network."""
    if url.startswith("file://"):
        return Path(os.fsdecode(local_path(url)))
    return None if is_url(url) else folder / url


def look(path: Path) -> Look | None:
    """Return a look at a file; null: there is no such file. Raises OSError where that is not
    known.
    """
    try:
        seen = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(seen.st_mode):
        return None
    return Look(seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def looks(urls: Iterable[str], folder: Path) -> dict[str, Look]:
    """Return a look at each local file of these that is there."""
    seen = {}
    for url in urls:
        path = raw_shard_path(url, folder)
        try:
            status = look(path) if path is not None else None
        except OSError:
            continue  # who reads it says what is wrong
        if status is not None:
            seen[url] = status
    return seen


def read_note(work: Path) -> InputsNote:
    """Return the note of earlier runs; an empty one where it is not there or damaged."""
    try:
        return msgspec.convert(unseal((work / NOTE).read_bytes()), InputsNote)
    except (OSError, ValueError, msgspec.ValidationError):
        return InputsNote()


def write_note(root: Path, folder: Path, seen: Mapping[str, Look]) -> None:
    """Note how files were when they had the digests of the plan; `root` is the corpus'."""
    latest = time.time_ns() - UNSURE
    files = {
        url: (one.size, one.modified, one.changed)
        for url, one in seen.items()
        if max(one.modified, one.changed) < latest
    }
    elsewhere = [url for url in read_note(root / "work").elsewhere if url not in seen]
    note = InputsNote(
        folder=str(folder.absolute()), files=dict(sorted(files.items())), elsewhere=elsewhere
    )
    _write(root, note)


def note_elsewhere(root: Path, urls: Iterable[str]) -> None:
    """Note that local raw shards of a corpus that is brought here lie elsewhere."""
    names = [url for url in urls if raw_shard_path(url, root) is not None]
    _write(root, msgspec.structs.replace(read_note(root / "work"), elsewhere=names))


def _write(root: Path, note: InputsNote) -> None:
    data, path = seal(note), root / "work" / NOTE
    if not path.is_file() or path.read_bytes() != data:
        write_bytes(root, f"work/{NOTE}", data)


def seen_changes(plan: Plan, work: Path, folder: Path | None) -> dict[str, str]:
    """Return what a glance says of the pinned local files, by name: those that are not there, or
    have another size or other times than the last run noted. Nothing is read of them.

    `folder` is the recipe's, where the note does not say it.
    """
    note = read_note(work)
    place = Path(note.folder) if note.folder else folder
    if place is None:
        return {}
    pinned = {
        file.url: file.size
        for shard in plan.shards
        if shard.missing is None and shard.sha256
        for file in shard.parts()
    }
    local = {url: size for url, size in pinned.items() if raw_shard_path(url, place) is not None}
    seen = looks(local, place)
    changes = {}
    for url, size in local.items():
        now, then = seen.get(url), note.files.get(url)
        if now is None and url in note.elsewhere:
            continue
        if now is None:
            changes[url] = "not there"
        elif size is not None and now.size != size:
            changes[url] = f"{size:,} bytes in the corpus, {now.size:,} now"
        elif then is not None and tuple(now) != then:
            changes[url] = "as large as it was, with other times"
    return changes


def compare(
    plan: Plan,
    folder: Path,
    note: InputsNote,
    *,
    sources: Collection[str],
    every: bool,
    on_line: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Compare the pinned local files of some sources with the plan; `every` reads them all,
    whatever the note says. A file that is not there is in neither. `on_line` gets a line where
    that takes long.

    Raises RecipeError where a file is named by its URL and is not there, or cannot be read.
    """
    pinned = {
        (shard.source, file.url): file
        for shard in plan.shards
        if shard.missing is None and shard.sha256 is not None and shard.source in sources
        for file in shard.parts()
    }
    seen = looks({url for _, url in pinned}, folder)
    for source, url in pinned:
        if url.startswith("file://") and url not in seen:
            raise RecipeError(
                f"source {source!r}: {url}: no such file. Bring it back, or take it out of `urls` "
                "and run with --remove"
            )
    known = note.files if note.folder == str(folder.absolute()) else {}
    unsure = [
        place
        for place in pinned
        if place[1] in seen and (every or known.get(place[1]) != tuple(seen[place[1]]))
    ]
    size = sum(seen[url].size for _, url in unsure)
    if size > LONG:
        on_line(
            f"{len(unsure):,} local files, {size / 1e9:,.1f} GB, are read to compare them with the "
            "plan: " + ("--check-inputs" if every else "their times are not those of the last run")
        )

    def differs(place: tuple[str, str]) -> str | None:
        return _difference(
            pinned[place], raw_shard_path(place[1], folder) or folder, seen[place[1]].size
        )

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        differences = dict(zip(unsure, threads.map(differs, unsure), strict=True))
    changed = {place: wrong for place, wrong in differences.items() if wrong is not None}
    others = {url for _, url in changed}
    return Compared(changed, {url: one for url, one in seen.items() if url not in others})


def _difference(pinned: PackedFile, path: Path, size: int) -> str | None:
    """Return what is another about a file than the plan pinned; null: nothing is."""
    if pinned.size is not None and size != pinned.size:
        return f"{pinned.size:,} bytes then, {size:,} now"
    try:
        digest = hash_file(path)[1]
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror or error}") from error
    return None if digest == pinned.sha256 else f"sha256 {pinned.sha256} then, {digest} now"
