"""Documents to look at: of each reason a few that were dropped, of each source a few that are kept.

They are the first by a hash of their numbers: the same corpus gives the same documents. Personal
data is redacted as the step `private` finds it, whatever the recipe redacts, before texts are cut
to the length that is shown.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from gristmill.filters.api.step_inputs import installed_inputs
from gristmill.filters.pii.private import Private
from gristmill.report_page.tables import CorpusTables

SHOWN = 700  # characters of a text
READ = 4 * SHOWN  # characters that are read of it: what is redacted becomes shorter
EACH = 3  # documents of a reason, and of a source
MOST_REASONS = 60
MOST_SOURCES = 12


class Shown(NamedTuple):
    """A document, as the page shows it."""

    document: int
    source: str
    url: str | None
    reason: str | None  # null: kept
    value: float | None
    threshold: float | None
    text: str | None  # redacted, its beginning; null: no part has it
    cut: bool  # whether the text goes on


def dropped(tables: CorpusTables) -> list[Shown]:
    """Of each reason the first documents by hash of those whose text is stored; else any."""
    if not tables.has("verdicts"):
        return []
    stored = "select document, 1 as stored from samples" if tables.has("samples") else (
        "select cast(-1 as bigint) as document, 1 as stored where false"
    )  # fmt: skip
    rows = tables.rows(
        f"with stored as ({stored}), ranked as (select document, url, reason, value, threshold, "
        "row_number() over (partition by reason order by stored nulls last, sample_key(document), "
        "document) as place from (select document, url, reason, value, threshold, stored from "
        "verdicts left join stored using (document) where reason is not null and "
        "(stored = 1 or sample_key(document) % (1 + ?) = 0 or keeper is not null))) "
        "select document, url, reason, value, threshold from ranked where place <= ? "
        "order by reason, place",
        _sparse(tables),
        EACH,
    )
    names = list(dict.fromkeys(row[2] for row in rows))[:MOST_REASONS]
    return _shown(tables, [row for row in rows if row[2] in names])


def _sparse(tables: CorpusTables) -> int:
    """Of how many documents without a stored text one is looked at: large corpora have enough."""
    return int(tables.manifest.funnel.get("documents", 0)) // 2_000_000


def kept(tables: CorpusTables) -> list[Shown]:
    """Of each source the first kept documents by hash."""
    if not tables.has("verdicts"):
        return []
    rows = tables.rows(
        "select document, url, reason, value, threshold from (select *, row_number() over "
        "(partition by source order by sample_key(document), document) as place from (select "
        "verdicts.*, source from verdicts join shards on (document >> 32) = shard "
        "where reason is null and sample_key(document) % (1 + ?) = 0)) where place <= ? "
        "order by source, place",
        _sparse(tables),
        EACH,
    )
    return _shown(tables, rows[: EACH * MOST_SOURCES])


def _shown(tables: CorpusTables, rows: list[tuple[Any, ...]]) -> list[Shown]:
    texts = texts_of(tables, [row[0] for row in rows], READ)
    clean = redacted([texts.get(row[0]) for row in rows])
    urls = redacted([row[1] for row in rows])
    return [
        Shown(
            row[0],
            tables.sources.get(row[0] >> 32, ""),
            url,
            row[2],
            row[3],
            row[4],
            None if text is None else text[:SHOWN],
            text is not None and (len(text) > SHOWN or len(texts[row[0]]) >= READ),
        )
        for row, text, url in zip(rows, clean, urls, strict=True)
    ]


def texts_of(tables: CorpusTables, documents: Iterable[int], most: int) -> dict[int, str]:
    """The beginnings of the texts of documents, from documents/, text/ or samples/; those that no
    part has are left out.
    """
    wanted = sorted(set(documents))
    found: dict[int, str] = {}
    for folder in ("samples", "documents"):
        left = [document for document in wanted if document not in found]
        paths = tables.of_shards(folder, left)
        if left and paths:
            rows = tables.rows(
                f"select document, substr(text, 1, {most}) from {tables.files(paths)} "
                f"where document in ({', '.join(map(str, left))}) order by document"
            )
            found |= dict(rows)
    return found


def redacted(texts: list[str | None]) -> list[str | None]:
    """Texts without personal data, as the step `private` finds it; null stays null."""
    given = [text for text in texts if text is not None]
    if not given:
        return list(texts)
    step = Private()
    batch = pa.RecordBatch.from_arrays([pa.array(given, pa.string())], ["text"])
    clean = step.load(installed_inputs(step))(batch).text
    assert clean is not None
    left = iter(clean.to_pylist())
    return [None if text is None else next(left) for text in texts]
