"""What a person does with a corpus that is finished: its folder, and three commands."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from gristmill.store.parts import read_batches
from gristmill.tables.schema import document_name

FEW = 10_000  # rows of verdicts that are looked through for one that was dropped


def next_lines(root: Path) -> list[str]:
    """Return the folder, and commands that work as they are written here."""
    corpus = shlex.quote(_short(root))
    commands = {
        f"{program()} report {corpus}": "a page to look at",
        f"{program()} verify {corpus}": "every byte and count against the manifest",
    }
    if (document := _example(root)) is not None:
        why = f"{program()} why {corpus} {document_name(document)}"
        commands[why] = "why a document was kept or dropped"
    commands[f"{program()} explore {corpus}"] = "search and filter the documents"
    width = max(map(len, commands))
    return [
        f"The corpus is {_short(root)}. Next:",
        *(f"  {command:{width}}  {what}" for command, what in commands.items()),
    ]


def next_lines_in_store(url: str) -> list[str]:
    """Return the same for a corpus in an object store."""
    command = f"{program()} pull {shlex.quote(url)} FOLDER"
    return [
        f"The corpus is {url}. Next:",
        f"  {command}  a copy, every byte of it compared; the other verbs read that folder",
    ]


def program() -> str:
    """Return how this program is called here: by its path where it is not on PATH."""
    return "gristmill" if shutil.which("gristmill") else shlex.quote(_short(Path(sys.argv[0])))


def _short(path: Path) -> str:
    """Return a path relative to the current folder, where it is below it."""
    try:
        return os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path)
    except OSError:  # the current folder was removed
        return str(path)


def _example(root: Path) -> int | None:
    """Return the first document that was dropped, of the first rows; or the first document."""
    first = None
    rows = 0
    for path in sorted((root / "verdicts").glob("*.parquet")):
        for batch in read_batches(path, ["document", "reason"]):
            dropped = batch.filter(batch["reason"].is_valid())
            if len(dropped):
                return int(dropped["document"][0].as_py())
            first = int(batch["document"][0].as_py()) if first is None and len(batch) else first
            rows += len(batch)
            if rows >= FEW:
                return first
    return first
