"""Documents to look at: of each reason a few that were dropped, of each source a few that are kept.

They are the first by a hash of their numbers: the same corpus gives the same documents. Personal
data is redacted as the step `private` finds it, whatever the recipe redacts, before texts are cut
to the length that is shown.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pyarrow as pa

from gristmill.filters.api.step_inputs import installed_inputs
from gristmill.filters.pii.private import Private
from gristmill.reports.page.tables import CorpusTables

SHOWN = 700  # characters of a text
READ = 4 * SHOWN  # characters that are read of it: what is redacted becomes shorter
EACH = 3  # documents of a reason, and of a source
MOST_REASONS = 60
MOST_SOURCES = 12
# The order of documents by their hash as one number: of equal hashes the lower document is first.
ORDER = "(cast(sample_key(document) as hugeint) << 63) + document"
MASK = (1 << 63) - 1


class Shown(NamedTuple):
    """A document, as the page shows it."""

    document: int
    source: str
    url: str | None
    reason: str | None  # null: kept
    value: float | None
    threshold: float | None
    keeper: int | None  # the document that it was dropped for
    text: str | None  # redacted, its beginning; null: no part has it
    cut: bool  # whether the text goes on


def dropped(tables: CorpusTables) -> list[Shown]:
    """Of each reason the first documents by hash of those whose text is stored; else any."""
    if not tables.has("verdicts"):
        return []
    first = f"min({ORDER}, {EACH})"
    every = f"select reason, {first} from verdicts where reason is not null group by reason"
    chosen: dict[str, list[int]] = dict(tables.rows(every))
    if tables.has("samples"):
        chosen |= dict(
            tables.rows(
                f"select verdicts.reason, {first} from verdicts join "
                "(select document from samples) using (document) "
                "where verdicts.reason is not null group by verdicts.reason"
            )
        )
    names = sorted(chosen, key=_order(tables))[:MOST_REASONS]
    return _shown(tables, [key & MASK for name in names for key in chosen[name]])


def _order(tables: CorpusTables) -> Callable[[str], tuple[int, str]]:
    """Return the order of reasons: that of the funnel's steps."""
    steps = [step["step"] for step in tables.manifest.funnel.get("steps", [])]

    def place(reason: str) -> tuple[int, str]:
        step = reason.partition(".")[0]
        return (steps.index(step) if step in steps else len(steps), reason)

    return place


def kept(tables: CorpusTables) -> list[Shown]:
    """Of each source the first kept documents by hash."""
    if not tables.has("verdicts"):
        return []
    rows = tables.rows(
        f"select source, min({ORDER}, {EACH}) from verdicts join shards on "
        "(document >> 32) = shard where reason is null group by source order by source"
    )
    return _shown(tables, [key & MASK for _, keys in rows[:MOST_SOURCES] for key in keys])


def _shown(tables: CorpusTables, documents: list[int]) -> list[Shown]:
    """Return some documents, in their order."""
    if not documents:
        return []
    records = tables.rows(
        "select document, url, reason, value, threshold, keeper from "
        f"{tables.files(tables.of_shards('verdicts', documents))} "
        f"where document in ({', '.join(map(str, documents))})"
    )
    by_number = {row[0]: row for row in records}
    rows = [by_number[document] for document in documents]
    texts = read_beginnings(tables, documents, READ)
    clean = redacted([texts.get(document) for document in documents])
    urls = redacted([row[1] for row in rows])
    return [
        Shown(
            row[0],
            tables.sources.get(row[0] >> 32, ""),
            url,
            row[2],
            row[3],
            row[4],
            row[5],
            None if text is None else text[:SHOWN],
            text is not None and (len(text) > SHOWN or len(texts[row[0]]) >= READ),
        )
        for row, text, url in zip(rows, clean, urls, strict=True)
    ]


def read_beginnings(tables: CorpusTables, documents: Iterable[int], most: int) -> dict[int, str]:
    """Return the beginnings of the texts of documents, from documents/, text/ or samples/; those
    that no part has are left out.
    """
    wanted = sorted(set(documents))
    texts: dict[int, str] = {}
    for folder in ("samples", "documents"):
        left = [document for document in wanted if document not in texts]
        paths = tables.of_shards(folder, left)
        if left and paths:
            rows = tables.rows(
                f"select document, substr(text, 1, {most}) from {tables.files(paths)} "
                f"where document in ({', '.join(map(str, left))}) order by document"
            )
            texts |= dict(rows)
    return texts


def redacted(texts: list[str | None]) -> list[str | None]:
    """Return texts without personal data, as the step `private` finds it; null stays null."""
    given = [text for text in texts if text is not None]
    if not given:
        return list(texts)
    step = Private()
    batch = pa.RecordBatch.from_arrays([pa.array(given, pa.string())], ["text"])
    clean = step.load(installed_inputs(step))(batch).text
    assert clean is not None
    left = iter(clean.to_pylist())
    return [None if text is None else next(left) for text in texts]
