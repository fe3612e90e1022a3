"""All that the page says of one corpus, collected once."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gristmill.errors import GristmillError
from gristmill.reports.documents.contamination import contamination
from gristmill.reports.documents.top_substrings import repeated
from gristmill.reports.page import figures, pairs, samples
from gristmill.reports.page.check import Finding, unusual
from gristmill.reports.page.distributions import Distribution, MeasureTable, measured
from gristmill.reports.page.tables import CorpusTables
from gristmill.reports.page.thresholds import limits
from gristmill.reports.tokens.stats import stats
from gristmill.store.manifest import Manifest
from gristmill.store.proof import unseal

LINES = 20
READ = 1200  # characters of a span, before it is redacted
RUN = "run.json"


class Documents(NamedTuple):
    """Documents to look at."""

    dropped: list[samples.Shown]
    kept: list[samples.Shown]
    pairs: list[pairs.Pair]
    largest: list[pairs.ShownCluster]


class Facts(NamedTuple):
    """A corpus, as its page shows it."""

    name: str
    folder: str
    manifest: Manifest
    digest: str
    reasons: dict[tuple[str, str], dict[str, Any]]
    sources: list[figures.SourceCounts]
    hosts: tuple[int, list[tuple[str, int]]]
    languages: list[tuple[str, int, int]]
    lengths: Distribution | None
    measured: MeasureTable
    similarities: Distribution | None
    clusters: list[tuple[int, int, int]]
    lines: list[tuple[int, str, str | None]]  # documents, text, source
    spans: list[tuple[int, int, str]]  # places, bytes, text
    contamination: list[dict[str, Any]]
    stats: dict[str, Any] | None  # null: no tokens, or too many to count them here
    unusual: list[Finding]
    documents: Documents | None  # null: of a second corpus
    run: dict[str, Any]  # run.json: when, how fast and where; empty if it cannot be read


def collect(
    tables: CorpusTables, on_line: Callable[[str], None], first: Facts | None = None
) -> Facts:
    """Return the facts of a corpus; with `first`, of the second of two, its values over the first
    one's edges and without documents.
    """
    on_line("verdicts")
    reasons = figures.reasons(tables)
    columns = tables.columns("measures") if tables.has("measures/") else {}
    sizes, biggest = figures.clusters(tables)
    on_line("measures")
    values = _measured(tables, columns, first)
    on_line("tokens")
    counted = _stats(tables)
    lengths = figures.lengths(tables, first.lengths if first else None)
    on_line("documents")
    return Facts(
        tables.root.resolve().name or str(tables.root),
        str(tables.root),
        tables.manifest,
        tables.digest,
        reasons,
        figures.sources(tables, reasons),
        figures.hosts(tables),
        figures.languages(tables, columns),
        lengths,
        values,
        figures.similarities(tables),
        sizes,
        _lines(tables) if first is None else [],
        _spans(tables) if first is None else [],
        _contamination(tables),
        counted,
        unusual(tables, counted)[1],
        None
        if first
        else Documents(
            samples.dropped(tables),
            samples.kept(tables),
            pairs.pairs(tables),
            pairs.largest(tables, biggest),
        ),
        _run(tables),
    )


def _measured(
    tables: CorpusTables, columns: Mapping[str, Any], first: Facts | None
) -> MeasureTable:
    if not columns:
        return MeasureTable([], [], 0)
    edges = None
    if first is not None:
        edges = {
            distribution.name: (distribution.log, distribution.edges)
            for distribution in first.measured.distributions
        }
    return measured(tables, columns, limits(tables, columns), edges)


def _stats(tables: CorpusTables) -> dict[str, Any] | None:
    tokens = tables.manifest.funnel.get("tokens", 0)
    if tables.manifest.tokens is None or not 0 < tokens <= figures.MOST_TOKENS:
        return None
    return stats(tables.root)


def _lines(tables: CorpusTables) -> list[tuple[int, str, str | None]]:
    """Return the most frequent lines that were cut, redacted."""
    if not tables.has("lines"):
        return []
    rows = tables.rows(
        "select documents, substr(text, 1, 300), source from lines "
        f"order by documents desc, hash limit {LINES}"
    )
    clean = samples.redacted([row[1] for row in rows])
    return [(row[0], text or "", row[2]) for row, text in zip(rows, clean, strict=True)]


def _spans(tables: CorpusTables) -> list[tuple[int, int, str]]:
    """Return the repeated spans that are at most places, redacted."""
    if not tables.has("substrings"):
        return []
    rows = repeated(tables.root, top=LINES)["spans"]
    clean = samples.redacted([(row["text"] or "")[:READ] for row in rows])
    return [
        (row["places"], row["end_byte"] - row["first_byte"], (text or "")[:300])
        for row, text in zip(rows, clean, strict=True)
    ]


def _contamination(tables: CorpusTables) -> list[dict[str, Any]]:
    if not tables.has("contamination/"):
        return []
    benchmarks = contamination(tables.root)["benchmarks"]
    return list(benchmarks)


def _run(tables: CorpusTables) -> dict[str, Any]:
    try:
        return unseal((tables.root / RUN).read_bytes())
    except (OSError, ValueError, GristmillError):
        return {}
