"""Card: a corpus described in Markdown, for those who get it: what is in it and from where, what
was dropped how, how to check it, and what not to expect.
"""

from pathlib import Path
from typing import Any

from gristmill.errors import MachineError
from gristmill.network.hub import corpus_card
from gristmill.network.hub.dataset_facts import Sample
from gristmill.network.releases.samples import text_samples, token_samples
from gristmill.reports.documents.contamination import contamination
from gristmill.reports.page import figures
from gristmill.reports.page.report import page_path
from gristmill.reports.page.tables import CorpusTables
from gristmill.store.parts import machine_errors
from gristmill.system.ownership import by_head, refuse_file

NAME = "-card.md"
MADE_BY = "<!-- gristmill card -->"  # the first line, by which a card is known
TOP = 20


def card(
    corpus: Path | str, *, out: Path | str | None = None, force: bool = False
) -> dict[str, Any]:
    """Write the card of a finished corpus.

    The file is `out`, by default beside the corpus' folder: `corpus-card.md`. The same corpus gives
    the same bytes. An earlier card is replaced, another file with `force` alone. Returns `file` and
    `bytes`. Raises what `report` raises.
    """
    with CorpusTables(corpus) as tables:
        target = page_path(tables.root, None, out, NAME)
        ours = by_head(lambda head: head.startswith(MADE_BY.encode()))
        refuse_file(target, ours, "card", force=force)
        data = _text(tables).encode("utf-8", "backslashreplace")
    try:
        with machine_errors(target):
            target.write_bytes(data)
    except OSError as error:
        raise MachineError(f"{target}: cannot be written: {error.strerror}") from error
    return {"file": str(target), "bytes": len(data)}


def _text(tables: CorpusTables) -> str:
    manifest = tables.manifest
    name = tables.root.resolve().name
    blocks = [
        MADE_BY,
        f"# {name}",
        (
            "A corpus made by gristmill from raw data: "
            f"{_size(manifest.funnel)}. Every byte can be checked, and of every document it is "
            "known why it was kept or dropped."
        ),
        *corpus_card.about(manifest),
        *_languages(tables),
        *_items(tables),
        *corpus_card.tokens(manifest),
        *corpus_card.limits(manifest),
        (
            "## How to check it\n\n```\ngristmill verify "
            f"{name}\nsha256sum -c manifest.lock && sha256sum --quiet -c SHA256SUMS\n```\n\n"
            "The second line works without gristmill, in the corpus' folder."
        ),
        *corpus_card.digests(manifest, tables.digest),
        *corpus_card.recipe(manifest),
        *corpus_card.samples(_samples(tables)),
    ]
    return "\n\n".join(blocks) + "\n"


def _size(funnel: dict[str, Any]) -> str:
    words = [
        f"{funnel[key]:,} {word}"
        for key, word in (("kept", "documents"), ("bytes", "bytes of text"), ("tokens", "tokens"))
        if key in funnel
    ]
    return ", ".join(words) or "nothing is counted"


def _languages(tables: CorpusTables) -> list[str]:
    """Return what the step language found, dropped documents included."""
    if not tables.has("measures"):
        return []
    languages = figures.languages(tables, tables.columns("measures"))
    if not languages:
        return []
    rows = [(label, f"{count:,}") for label, count, _ in languages[:TOP]]
    more = f"\n\nand {len(languages) - TOP:,} more" if len(languages) > TOP else ""
    head = ("label", "documents")
    return ["What it found, in dropped documents too:\n\n" + corpus_card.table(head, rows) + more]


def _items(tables: CorpusTables) -> list[str]:
    """Benchmark items in documents."""
    if not tables.has("contamination/"):
        return []
    rows = [
        (
            benchmark["name"],
            f"{benchmark['items']:,}",
            f"{benchmark['found']:,}",
            f"{benchmark['documents']:,}",
        )
        for benchmark in contamination(tables.root)["benchmarks"]
    ]
    head = ("benchmark", "items", "found", "documents with one")
    return [
        "## Benchmarks\n\nItems in documents, whether these were dropped for it or not.\n\n"
        + corpus_card.table(head, rows)
    ]


def _samples(tables: CorpusTables) -> list[Sample]:
    """Return the first documents of each source."""
    if tables.manifest.tokens is not None:
        return token_samples(tables.root)
    first: dict[str, Path] = {}
    for part in tables.manifest.parts:
        pieces = part.path.split("/")
        if pieces[0] == "text":
            first.setdefault(pieces[1], tables.root / part.path)
    return text_samples(first)
