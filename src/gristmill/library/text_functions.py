"""Main text out of pages, and the language of texts: the steps `extract` and `language`, on texts
in memory.
"""

from typing import Any, Literal, NamedTuple, overload

import pyarrow as pa

from gristmill import filters
from gristmill.filters.api.in_memory import Texts
from gristmill.tables.user_texts import to_table

Extractor = Literal["resiliparse", "trafilatura", "gristmill"]


class TextLanguage(NamedTuple):
    """The language of a text."""

    label: str | None  # as the model says it: `en`; None: it says none
    score: float | None


@overload
def language(
    texts: str, *, model: str | None = ..., characters: int | Literal["all"] = ...
) -> TextLanguage: ...
@overload
def language(
    texts: Texts, *, model: str | None = ..., characters: int | Literal["all"] = ...
) -> pa.Table: ...
def language(
    texts: Any, *, model: str | None = None, characters: int | Literal["all"] = 1000
) -> Any:
    """Return the language of each text and the model's score: of one string a TextLanguage,
    otherwise a table with `label` and `score`, null for a missing text.

    `model` is a fastText model's path (None: lid.176.ftz); `characters` are read of each text.
    Raises ArgumentError, RecipeError.

    >>> import gristmill
    >>> gristmill.language("The mill stands by the river, and it grinds the grain.").label
    'en'
    """
    step = filters.Language(keep=["en"], min_score=0.0, model=model, characters=characters)
    table = filters.judge(to_table(texts), step)
    table = table.select(["language.label", "language.score"]).rename_columns(["label", "score"])
    return TextLanguage(**table.to_pylist()[0]) if isinstance(texts, str) else table


@overload
def extract(
    html: str | bytes,
    *,
    extractor: Extractor = ...,
    favor: Literal["balanced", "precision", "recall"] = ...,
    format: Literal["text", "markdown"] = ...,
) -> str | None: ...
@overload
def extract(
    html: Texts,
    *,
    extractor: Extractor = ...,
    favor: Literal["balanced", "precision", "recall"] = ...,
    format: Literal["text", "markdown"] = ...,
) -> pa.Table: ...
def extract(
    html: Any,
    *,
    extractor: Extractor = "gristmill",
    favor: Literal["balanced", "precision", "recall"] = "balanced",
    format: Literal["text", "markdown"] = "text",  # noqa: A002
) -> Any:
    """Return the main text of pages: of one page its text (None: there is none), otherwise the
    table of `filters.Extract`: reason, measures, `text`, `title` and `declared_language`.

    One page may be bytes: its charset is then found as a run finds it. `favor` and `format` are of
    the extractor "gristmill" alone. Raises ArgumentError, RecipeError.

    >>> import gristmill
    >>> page = "<nav><a href=/>Home</a></nav><main><p>The mill stands by the river.</p></main>"
    >>> gristmill.extract(page)
    'The mill stands by the river.'
    """
    if extractor == "gristmill":
        step: Any = filters.Extract(favor=favor, format=format)
    else:
        step = filters.Extract(extractor=extractor)
    if isinstance(html, bytes):
        from gristmill.source.archives.charset import to_utf8

        html = to_utf8(html).decode("utf-8", "replace")
    found = filters.judge(html, step)
    return found.text if isinstance(html, str) else found
