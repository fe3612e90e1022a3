"""Rows of HTML: which are pages, and what an extractor made of each."""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

PAGES = frozenset(("text/html", "application/xhtml+xml"))


def is_page(content_type: str | None, only_pages: bool) -> bool:
    """Return whether a row is taken for HTML."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind in PAGES if only_pages else kind != "text/plain"


class Page(NamedTuple):
    """What became of one row of HTML."""

    text: str | None = None  # null: it was not extracted
    title: str | None = None
    language: str | None = None
    depth: int | None = None  # null: at most max_depth, or not parsed
    failed: int | None = None  # null: not parsed
    steps: int | None = None  # null: as bounded before


def merge_texts(found: list[Page], before: pa.Array) -> pa.Array:
    """Return the extracted texts; what was not extracted stays as it was."""
    texts = pa.array([page.text for page in found], pa.string())
    return texts if texts.null_count == 0 else pc.coalesce(texts, before)


def page_columns(found: list[Page], batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return a page's title, and its language where none was declared; other rows keep what they
    have.
    """
    titles = pa.array([page.title for page in found], pa.string())
    languages = pa.array([page.language for page in found], pa.string())
    return {
        "title": pc.coalesce(titles, batch["title"]),
        "declared_language": pc.coalesce(batch["declared_language"], languages),
    }
