"""Counts of a corpus for its page: reasons, sources, hosts, languages, lengths, duplicates.

Each is one query over the verdicts, or a table that is small already.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gristmill.corpus.clusters import Cluster
from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.dedup.drops import NEAR
from gristmill.reports.page.distributions import Distribution, LimitCurve
from gristmill.reports.page.tables import CorpusTables

TOP = 15
MOST_TOKENS = 500_000_000  # of a corpus whose tokens are counted for a page: some seconds
SPLITS: tuple[Split, Split] = ("train", "val")
BINS = 48  # of lengths


class SourceCounts(NamedTuple):
    """A source's documents and tokens."""

    name: str
    shards: int
    missing: int
    documents: int
    kept: int
    tokens: int
    licence: str | None
    dropped: dict[str, int]  # by step


def reasons(tables: CorpusTables) -> dict[tuple[str, str], dict[str, Any]]:
    """By source and reason: documents, and the range of the thresholds."""
    if not tables.has("verdicts"):
        return {}
    rows = tables.rows(
        "select source, reason, count(*), min(threshold), max(threshold) from verdicts join shards "
        "on (document >> 32) = shard where reason is not null group by all order by source, reason"
    )
    return {
        (source, reason): {"documents": count, "least": least, "most": most}
        for source, reason, count, least, most in rows
    }


def sources(
    tables: CorpusTables, dropped: dict[tuple[str, str], dict[str, Any]]
) -> list[SourceCounts]:
    """Return the sources, in the order of the recipe."""
    manifest = tables.manifest
    notes = {entry["name"]: entry.get("licence") for entry in manifest.recipe.get("source", [])}
    tokens: dict[str, int] = {}
    for part in manifest.parts:
        pieces = part.path.split("/")
        if pieces[0] == "tokens" and part.path.endswith(".bin"):
            name = pieces[1].partition("~")[0]
            tokens[name] = tokens.get(name, 0) + part.counts.get("tokens", 0)
    rows = []
    for name in dict.fromkeys([*notes, *tokens]):
        shards = [shard for shard in manifest.raw_shards if shard.source == name]
        steps: dict[str, int] = {}
        for (source, reason), counted in dropped.items():
            if source == name:
                step = reason.partition(".")[0]
                steps[step] = steps.get(step, 0) + counted["documents"]
        rows.append(
            SourceCounts(
                name,
                len(shards),
                sum(shard.missing is not None for shard in shards),
                sum(shard.documents for shard in shards),
                sum(shard.unique_documents for shard in shards),
                tokens.get(name, 0),
                notes.get(name),
                steps,
            )
        )
    return rows


def hosts(tables: CorpusTables) -> tuple[int, list[tuple[str, int]]]:
    """Return (how many hosts the kept documents come from, those with the most documents)."""
    if not tables.has("verdicts"):
        return 0, []
    rows = tables.rows(
        "with hosts as (select lower(split_part(url, '/', 3)) as host, count(*) as documents from "
        "verdicts where reason is null and url like '%://%' group by host) select host, documents, "
        "count(*) over () from hosts where host <> '' order by documents desc, host limit ?",
        TOP,
    )
    return (rows[0][2] if rows else 0), [(host, count) for host, count, _ in rows]


def languages(tables: CorpusTables, columns: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return (label, documents that have it, how many of them are kept), the most frequent first;
    none without the step `language`.
    """
    if "language.label" not in columns:
        return []
    kept = {
        label
        for step in tables.manifest.recipe.get("step", [])
        if step.get("use") == "language"
        for label in step.get("keep", [])
    }
    rows = tables.rows(
        'select "language.label" as label, count(*) as documents from measures where '
        '"language.label" is not null group by label order by documents desc, label'
    )
    return [(label, count, int(label in kept)) for label, count in rows]


def clusters(tables: CorpusTables) -> tuple[list[tuple[int, int, int]], list[Cluster]]:
    """Return (clusters by size: least, clusters, documents; the largest ones)."""
    if not tables.has("copies"):
        return [], []
    sizes = tables.rows(
        "select cast(floor(log2(copies)) as bigint) as power, count(*), "
        "cast(sum(copies + 1) as bigint) from copies where keeper_corpus is null "
        "group by power order by power"
    )
    rows = tables.rows(
        "select keeper, copies + 1 from copies where keeper_corpus is null "
        "order by copies desc, keeper limit 6"
    )
    return (
        [(int(2**power) + 1, count, documents) for power, count, documents in sizes],
        [Cluster(*row) for row in rows],
    )


def similarities(tables: CorpusTables) -> Distribution | None:
    """Return the similarities of the pairs that were compared, with the recipe's threshold; without
    it where languages have thresholds of their own.
    """
    settings = tables.manifest.recipe.get("deduplicate") or {}
    near = settings.get("near")
    if not near or not tables.has("pairs"):
        return None
    limit = float(near["threshold"])
    edges = [place / 100 for place in range(101)]
    rows = tables.rows(
        "select cast(least(floor(similarity * 100 + 1e-9), 99) as bigint) as place, count(*), "
        "count(*) filter (where similarity >= ?) from pairs where similarity is not null "
        "group by place order by place",
        limit,
    )
    if not rows:
        return None
    counts = [0] * 100
    for place, count, _ in rows:
        counts[place] = count
    over = [sum(counts[place:]) for place in range(101)]
    first = next(place for place, count in enumerate(counts) if count)
    first = min(first, int(limit * 100) - 5)
    rule = LimitCurve(
        NEAR.partition(".")[2], ">=", limit, sum(row[2] for row in rows), over[first:]
    )
    total = over[0]
    return Distribution(
        "pairs.similarity", total, 0.0, 1.0, False, edges[first:], counts[first:], 0, 0,
        [] if settings.get("by_language") else [rule],
    )  # fmt: skip


def lengths(tables: CorpusTables, like: Distribution | None = None) -> Distribution | None:
    """Return the lengths of kept documents in tokens, from the ends of documents beside token
    shards; with `like`, over the same edges.
    """
    if tables.manifest.tokens is None:
        return None
    opened = TokenCorpus.open(tables.root)
    powers = np.zeros(64 * 8, np.int64)
    least, most, documents = 1 << 62, 0, 0
    for split in SPLITS:
        for source in opened.sources(split):
            for sizes in _lengths(opened, source, split):
                if len(sizes):
                    places = np.floor(np.log2(sizes) * 8).astype(np.int64)
                    powers += np.bincount(places, minlength=len(powers))
                    least, most = min(least, int(sizes.min())), max(most, int(sizes.max()))
                    documents += len(sizes)
    if not documents:
        return None
    used = np.flatnonzero(powers)
    first, last = int(used[0]), int(used[-1]) + 1
    if like is not None:
        first = round(8 * math.log2(like.edges[0]))
        last = first + len(like.counts)
    edges = [float(2 ** (place / 8)) for place in range(first, last + 1)]
    below, above = int(powers[:first].sum()), int(powers[last:].sum())
    return Distribution(
        "tokens of a document", documents, least, most, True, edges,
        powers[first:last].tolist(), below, above, [],
    )  # fmt: skip


def _lengths(opened: TokenCorpus, source: str, split: Split) -> Iterator[np.ndarray]:
    """Yield the tokens of each document of a stream, shard by shard; a document that goes on in the
    next shard is counted with its parts together.
    """
    stream = opened.stream(source, split)
    open_number, open_tokens = None, 0
    for place in range(len(stream.shards)):
        numbers, ends = stream.boundaries(place)
        sizes = np.diff(ends.astype(np.int64), prepend=0)
        if not len(sizes):
            continue
        if open_number is not None and int(numbers[0]) == open_number:
            sizes[0] += open_tokens
        elif open_number is not None:
            yield np.array([open_tokens])
        open_number, open_tokens = int(numbers[-1]), int(sizes[-1])
        yield sizes[:-1]
    if open_number is not None:
        yield np.array([open_tokens])
