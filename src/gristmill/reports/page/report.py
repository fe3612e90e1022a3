"""Report: a page that shows a corpus, or two of them beside each other, as one HTML file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gristmill.corpus.places import has_place
from gristmill.errors import MachineError, RecipeError
from gristmill.reports.page.facts import collect
from gristmill.reports.page.page import MADE_BY, page
from gristmill.reports.page.tables import CorpusTables
from gristmill.store.manifest import MANIFEST
from gristmill.store.parts import machine_errors
from gristmill.system.ownership import by_head, refuse_file

NAME = "-report.html"


def report(
    corpus: Path | str,
    other: Path | str | None = None,
    *,
    out: Path | str | None = None,
    force: bool = False,
    on_line: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Write a page about a finished corpus; with `other`, compare the two.

    The file is `out`, by default beside the corpus' folder: `corpus-report.html`. It needs no
    network and is a few hundred KB, whatever the corpus; the same corpus gives the same bytes.
    An earlier page is replaced, another file with `force` alone.
    `on_line` gets a line before each part of the work. Returns `file` and `bytes`.

    Raises VerificationError where a corpus is not finished or a part is not what its manifest says,
    RecipeError for a file in a corpus' own folder or that is there and no such page, MachineError
    where the file cannot be written.
    """
    say = on_line or (lambda _: None)
    with CorpusTables(corpus) as tables:
        target = page_path(tables.root, None if other is None else Path(other), out)
        refuse_file(target, by_head(lambda head: MADE_BY.encode() in head), "report", force=force)
        facts = collect(tables, say)
    theirs = None
    if other is not None:
        with CorpusTables(other) as tables:
            theirs = collect(tables, say, facts)
    data = page(facts, theirs).encode("utf-8", "backslashreplace")
    try:
        with machine_errors(target):
            target.write_bytes(data)
    except OSError as error:
        raise MachineError(f"{target}: cannot be written: {error.strerror}") from error
    return {"file": str(target), "bytes": len(data)}


def page_path(root: Path, other: Path | None, out: Path | str | None, end: str = NAME) -> Path:
    """Return where a page goes: beside the corpus, or `out`, which must be no place of a corpus'
    part. Raises RecipeError, MachineError.
    """
    if out is None:
        here = root.resolve()
        name = here.name + ("" if other is None else f"-and-{other.resolve().name}")
        return root.parent / f"{name}{end}" if root.name else here.parent / f"{name}{end}"
    target = Path(out)
    if target.is_dir():
        raise RecipeError(f"{target}: a folder; name a file in it")
    if not target.parent.is_dir():
        raise MachineError(f"{target}: cannot be written: there is no folder {target.parent}")
    for folder in (root, *([] if other is None else [other])):
        if folder.resolve() in target.resolve().parents:
            inside = target.resolve().relative_to(folder.resolve())
            if has_place(inside.as_posix()) or inside.name.startswith(MANIFEST.partition(".")[0]):
                raise RecipeError(
                    f"{target}: the place of a part of the corpus; name a file beside {folder}"
                )
    return target
