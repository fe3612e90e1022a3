"""What lies where in the folder of a corpus, and what is done before a run with what should not lie
there.

A link is refused: what is written or removed behind it would be somebody's. In work/, which is a
run's alone, a folder in the place of a file is removed, and a file in the place of a folder.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from gristmill.errors import MachineError, RecipeError, VerificationError
from gristmill.store import manifest as manifests
from gristmill.store.parts import TEMPORARY, is_temporary
from gristmill.system.ownership import claim_folder

WORK = "work"
# Under work/, twice: parts to remove when the new state is there.
OBSOLETE = ("obsolete.json", "obsolete.copy.json")
FOLDERS = (
    "documents",
    "measures",
    "signatures",
    "verdicts",
    "samples",
    "judgement",
    "contamination",
    "tables",
    "duplicates",
    "finished",
    "index",
    "text",
    "tokens",
    "tokenizer",
)
WITHDRAWN = "withdrawn.txt"  # the list of withdrawn documents, if there are any
FILES = ("plan.json", "recipe.toml", "funnel.json", "run.json", WITHDRAWN, manifests.SUMS)
PROOFS = tuple(
    name + end for name in (manifests.MANIFEST, manifests.LOCK) for end in ("", manifests.NEXT)
)


def part_folders(root: Path) -> list[Path]:
    """Return the folders that hold parts, and nothing else."""
    return [root / name for name in FOLDERS if (root / name).is_dir()]


def remove_if_empty(folder: Path, root: Path) -> None:
    """Remove a folder below the root that holds nothing any more, and those above it."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def links(root: Path, *, work: bool = True) -> list[Path]:
    """Return the links among what is a corpus' own, its work/ included where asked."""
    own = [root / name for name in (*((WORK,) if work else ()), *FOLDERS, *FILES, *PROOFS)]
    return [path for top in own for path in (top, *_below(top)) if path.is_symlink()]


def refuse_links(root: Path) -> None:
    """Raise MachineError where a corpus holds a link."""
    paths = links(root)
    if paths:
        raise MachineError(
            f"{paths[0]}: a link to {os.readlink(paths[0])!r}, and a run writes and removes "
            "files there. Put the folder or file itself "
            "there, or choose another output folder"
        )


def refuse_imported(root: Path) -> None:
    """Raise RecipeError where a corpus was imported: no recipe can go on with it."""
    try:
        data = (root / manifests.MANIFEST).read_bytes()
        imported = b'"imported"' in data and manifests.decode(data).imported
    except (OSError, VerificationError):
        return  # what reads the corpus says what is wrong
    if isinstance(imported, manifests.Imported):
        raise RecipeError(
            f"{root}: its tokens were imported ({imported.format}), and no recipe made them. "
            "Choose another folder for the run"
        )


def own(root: Path) -> None:
    """Have a folder be a corpus' own: an empty one, one that has the marker, or a corpus of an
    earlier version. Raises MachineError for any other.
    """
    claim_folder(root, "corpus", lambda _: is_corpus(_file(root)))


def is_corpus(read: Callable[[str], bytes | None]) -> bool:
    """Return whether a manifest and its lock are there and fit; `read` gives a file of the place.
    Raises VerificationError for a manifest of a later version.
    """
    data, lock = read(manifests.MANIFEST), read(manifests.LOCK)
    if data is None or lock is None:
        return False
    try:
        manifests.check_lock(data, lock)
    except VerificationError:
        return False
    manifests.decode(data)
    return True


def _file(root: Path) -> Callable[[str], bytes | None]:
    def read(name: str) -> bytes | None:
        try:
            return (root / name).read_bytes()
        except OSError:
            return None

    return read


def tidy(root: Path, on_line: Callable[[str], None]) -> None:
    """Remove what writers left when they were killed, and in work/ what is of the wrong kind;
    `on_line` gets a line for each.
    """
    for path in root.glob(f"*{TEMPORARY}"):
        if is_temporary(path.name) and not path.is_dir():
            path.unlink(missing_ok=True)
    for name in (WORK, *FOLDERS):
        for path in list(_below(root / name)):
            if is_temporary(path.name) and not path.is_dir():
                path.unlink(missing_ok=True)
            elif name == WORK and path.exists():
                _set_right(path, path.relative_to(root / WORK).parts, on_line)


def _below(folder: Path) -> Iterator[Path]:
    """Yield all that lies in a folder and those in it; no link is followed."""
    for top, folders, files in [] if folder.is_symlink() else os.walk(folder):
        yield from (Path(top) / name for name in (*folders, *files))


def _set_right(path: Path, pieces: tuple[str, ...], on_line: Callable[[str], None]) -> None:
    is_folder = path.is_dir()
    if _is_folder(pieces) is (not is_folder):
        on_line(
            f"{path}: a {'folder' if is_folder else 'file'} is there, and a "
            f"{'file' if is_folder else 'folder'} should: it is removed"
        )
        if is_folder:
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_folder(pieces: tuple[str, ...]) -> bool | None:
    """Return whether a path below work/ is a folder's; null: it may be either."""
    match pieces:
        case (
            (
                "state"
                | "stage"
                | "process"
                | "corpus_filters"
                | "deduplicate"
                | "count_lines"
                | "frequent_lines"
                | "repeated_substrings"
                | "tokens"
                | "assemble"
                | "seen",
            )
            | ("state", _)
            | ("assemble", _)
        ):
            return True
        case ("stage", "text" | "tokens" | "tables", _):
            return True
        case ("stage", name):
            return name in FOLDERS
        case (
            (_,)
            | ("process" | "count_lines" | "tokens", _)
            | ("deduplicate" | "corpus_filters", "drops.parquet")
            | ("state", _, _)
        ):
            return False
        case ("stage", "text" | "tokens" | "tables", _, _):
            return False
        case ("stage", _, _):
            return False
    return None
