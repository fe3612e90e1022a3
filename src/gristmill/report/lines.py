"""Lines: the most repeated lines of a corpus, and in how many documents each stood before it was
cut.
"""

from pathlib import Path
from typing import Any

from gristmill import schema
from gristmill.errors import RecipeError
from gristmill.phases.relations.frequent_lines import LIST
from gristmill.report.verify import published
from gristmill.store.parts import read_batches

TOP = 20


def frequent(corpus: Path | str, *, top: int = TOP) -> dict[str, Any]:
    """The most repeated lines: what the funnel counts of them, and the first `top` rows of the
    list, as `lines`.

    A row has `documents`, `text` (its first 500 characters), `earliest` document, `hash`, `source`
    (null: of all). Raises RecipeError where the recipe lists none (no [deduplicate.lines]),
    VerificationError where the corpus is not finished.
    """
    root = Path(corpus)
    manifest, _ = published(root)
    if all(part.path != LIST for part in manifest.parts):
        raise RecipeError(
            f"{root}: lists no lines. Write [deduplicate.lines] into its recipe, with most = "
            "10 or so"
        )
    found: list[dict[str, Any]] = []
    for batch in read_batches(root / LIST):
        found += batch.slice(0, top - len(found)).to_pylist()
        if len(found) >= top:
            break
    return {**manifest.funnel["lines"], "lines": found}


def lines(told: dict[str, Any]) -> list[str]:
    """For people: a row a line, documents first."""
    out = [f"{'documents':>12}  {'earliest':<12}  line"]
    for row in told["lines"]:
        text = " ".join(row["text"].split())
        source = f"[{row['source']}] " if row["source"] is not None else ""
        shown = f"{text[:100]}{'...' if len(text) > 100 else ''}"
        out.append(
            f"{row['documents']:>12,}  {schema.document_name(row['earliest']):<12}  {source}{shown}"
        )
    if len(told["lines"]) < told["listed"]:
        out.append(f"and {told['listed'] - len(told['lines']):,} more")
    return out
