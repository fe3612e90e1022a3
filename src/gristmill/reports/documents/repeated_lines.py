"""The most repeated lines of a corpus, and in how many documents each was before it was removed."""

from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError
from gristmill.phases.relations.frequent_lines import LIST
from gristmill.reports.integrity.verify import finished
from gristmill.store.parts import read_batches
from gristmill.tables import schema

TOP = 20


def frequent(corpus: Path | str, *, top: int = TOP) -> dict[str, Any]:
    """Return the funnel's counts of frequent lines, and the first `top` rows of their list, as
    `lines`.

    A row has `documents`, `text` (its first 500 characters), `earliest` document, `hash`, `source`
    (null: all sources). Raises RecipeError if the recipe has no [deduplicate.lines],
    VerificationError if the corpus is not finished.
    """
    root = Path(corpus)
    manifest, _ = finished(root)
    if all(part.path != LIST for part in manifest.parts):
        raise RecipeError(
            f"{root}: it has no list of lines. Add [deduplicate.lines] to its recipe, for example "
            "with most = 10"
        )
    rows: list[dict[str, Any]] = []
    for batch in read_batches(root / LIST):
        rows += batch.slice(0, top - len(rows)).to_pylist()
        if len(rows) >= top:
            break
    return {**manifest.funnel["lines"], "lines": rows}


def lines(result: dict[str, Any]) -> list[str]:
    """Return the report as lines of text."""
    out = [f"{'documents':>12}  {'earliest':<12}  line"]
    for row in result["lines"]:
        text = " ".join(row["text"].split())
        source = f"[{row['source']}] " if row["source"] is not None else ""
        shown = f"{text[:100]}{'...' if len(text) > 100 else ''}"
        out.append(
            f"{row['documents']:>12,}  {schema.document_name(row['earliest']):<12}  {source}{shown}"
        )
    if len(result["lines"]) < result["listed"]:
        out.append(f"and {result['listed'] - len(result['lines']):,} more")
    return out
