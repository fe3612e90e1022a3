"""Check: figures of a corpus that are unusual, each with what is usual, why it matters and what to
do next.

    manifest, funnel -> drops by step, duplicates, absent shards, splits, empty sources
    verdicts/        -> hosts                duplicates/copies.parquet -> the largest cluster
    measures/        -> languages            token shards -> lengths, characters a token
    contamination/   -> benchmark items that are kept

A corpus may be right and unusual: nothing here says that it is wrong. What is usual is stated
beside each limit, with its source where it is not ours.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.errors import NOT_ABSENT
from gristmill.reports.page import figures
from gristmill.reports.page.check_tokens import LEAST, Found, left_alike, of_statistics, of_tokens
from gristmill.reports.page.tables import CorpusTables
from gristmill.source.archives.record_window import WITHOUT_ROW

MUCH = 0.9  # of the documents that reach a step
KEPT_LEAST = 0.01
AGAINST_LABEL = 0.1  # of the documents; it was 0.8 % of 1,243 crawled pages
# Near and exact duplicates of a web crawl: 20 % after quality filters (the lab), 30 to 40 % of raw
# pages (the lesson); RefinedWeb dropped about half (Penedo 2023).
COPIES_MOST = 0.6
ONE_HOST = 0.3
OVERLAP = 0.5  # of an item's n-grams
ONE_CLUSTER = 0.05
OTHER_LANGUAGES = 0.7
LINES_CUT_MOST = 0.3  # of the characters
ABSENT_MOST = 0.02  # of the raw shards
REPAIRED_MOST = 0.001  # of the documents of a source


class Finding(NamedTuple):
    """A figure that is unusual."""

    name: str
    figure: str  # what was found
    usual: str
    why: str
    command: str  # what to look at next


def check(corpus: Path | str) -> dict[str, Any]:
    """Unusual figures of a finished corpus: `findings`, a list of `name`, `figure`, `usual`, `why`
    and `command`, and `checked`, the names of all checks that could be made.

    Raises VerificationError where the corpus is not finished or damaged.
    """
    with CorpusTables(corpus) as tables:
        checked, findings = unusual(tables)
    return {"checked": checked, "findings": [finding._asdict() for finding in findings]}


def unusual(
    tables: CorpusTables, counted: dict[str, Any] | None = None
) -> tuple[list[str], list[Finding]]:
    """Return (the names of the checks that could be made, what they found). `counted`: its
    statistics of tokens, if they are known.
    """
    findings: list[Finding] = []
    checked: list[str] = []
    for name, look in CHECKS.items():
        answer = look(tables)
        if answer is not None and name == "tokens":
            answer = answer + of_statistics(tables, counted)
        if answer is not None:
            checked.append(name)
            findings += [Finding(name, *fields) for fields in answer]
    return checked, findings


def _steps(tables: CorpusTables) -> Found:
    """Return steps that drop nothing, or nearly everything that reaches them."""
    steps = tables.manifest.funnel.get("steps")
    if steps is None:
        return None
    findings = []
    filters = {
        step.get("use", "").rpartition(":")[2] for step in tables.manifest.recipe.get("step", [])
    }
    for step in steps:
        reached = step["left"] + step["dropped"]
        if reached < LEAST:
            continue
        share = step["dropped"] / reached
        name = step["step"]
        if share > MUCH:
            reason = max(step["reasons"], key=lambda one: step["reasons"][one])
            findings.append(
                (
                    f"{name} drops {share:.1%} of {reached:,} documents, most for {reason}",
                    f"below {MUCH:.0%}",
                    (
                        "its limits may be meant for texts of another kind, or an earlier step "
                        "changed its texts"
                    ),
                    f"gristmill report {tables.root}",
                )
            )
        elif not step["dropped"] and name in filters and _judges(name):
            findings.append(
                (
                    f"{name} drops none of {reached:,} documents",
                    "some",
                    (
                        "the step may look at the wrong field, or its limits at values that no "
                        "document has"
                    ),
                    f"gristmill report {tables.root}",
                )
            )
    return findings


def _judges(name: str) -> bool:
    """Return whether a step's purpose is to drop documents: others rewrite, measure, or look for
    what most corpora lack.
    """
    from gristmill.filters.api.registry import find_step

    step = find_step(name)
    return step is not None and step.__module__.split(".")[2] in ("rules", "language")


def _decoding(tables: CorpusTables) -> Found:
    """Heads of records without a row, and pages that were decoded against their label."""
    funnel = tables.manifest.funnel
    if lost := funnel.get("decoding", {}).get(WITHOUT_ROW, 0):
        return [
            (
                f"{lost:,} heads of records in archives have no row",
                "none",
                "records may be lost, or texts quote heads in part; raw_shards say in which files",
                f"gristmill status {tables.root}",
            )
        ]
    if funnel.get("documents", 0) < LEAST:
        return None
    count = funnel.get("decoding", {}).get("against_label", 0)
    share = count / funnel["documents"]
    if share <= AGAINST_LABEL:
        return []
    return [
        (
            f"{count:,} of {funnel['documents']:,} pages were decoded against their label",
            f"at most {AGAINST_LABEL:.0%}",
            "a server may label all its pages alike; where texts are mojibake, its label is right",
            f"gristmill explore {tables.root}",
        )
    ]


def _kept(tables: CorpusTables) -> Found:
    funnel = tables.manifest.funnel
    if "kept" not in funnel or funnel.get("documents", 0) < LEAST:
        return None
    share = funnel["kept"] / funnel["documents"]
    if share >= KEPT_LEAST:
        return []
    return [
        (
            f"{share:.2%} of {funnel['documents']:,} documents are kept",
            f"at least {KEPT_LEAST:.0%}; FineWeb-Edu keeps about 10 % of a crawl, the lab 23 %",
            "a step that drops nearly everything hides what later ones do",
            f"gristmill report {tables.root}",
        )
    ]


def _sources(tables: CorpusTables) -> Found:
    """Return sources of which nothing is kept, and raw shards that are absent."""
    if not tables.manifest.raw_shards:
        return None
    kept: dict[str, list[int]] = {
        source["name"]: [0, 0]
        for source in tables.manifest.recipe.get("source", [])
        if source.get("enabled", True)
    }
    for shard in tables.manifest.raw_shards:
        counted = kept.setdefault(shard.source, [0, 0])
        counted[0] += shard.documents
        counted[1] += shard.unique_documents
    lost = _lost(tables)
    findings = [
        (
            f"source {name} has {documents:,} documents, and none is kept{lost.get(name, '')}",
            "some",
            "its text field, language or limits may be wrong; the corpus lacks it",
            f"gristmill report {tables.root}",
        )
        for name, (documents, left) in kept.items()
        if not left
    ]
    alone = [
        shard
        for shard in tables.manifest.raw_shards
        if shard.documents
        and not shard.unique_documents
        and kept[shard.source][1]
        and (shard.documents > 1 or shard.decompressed_bytes > 1 << 20)
    ]
    if alone:
        names = ", ".join(f"{shard.number} ({shard.url})" for shard in alone[:3])
        findings.append(
            (
                f"nothing is kept of {len(alone):,} raw shards, such as {names}",
                "some",
                "a file whose text has another field or language looks like that",
                f"gristmill status {tables.root}",
            )
        )
    findings += _repaired(tables)
    absent = [shard for shard in tables.manifest.raw_shards if shard.missing not in NOT_ABSENT]
    if len(absent) > ABSENT_MOST * len(tables.manifest.raw_shards):
        findings.append(
            (
                f"{len(absent):,} of {len(tables.manifest.raw_shards):,} raw shards are absent",
                f"at most {ABSENT_MOST:.0%}",
                "what is absent is seldom a random part: one host, one month, one language",
                f"gristmill status {tables.root}",
            )
        )
    return findings


def _repaired(tables: CorpusTables) -> list[tuple[str, str, str, str]]:
    """Return sources with documents that hold bytes that are no UTF-8."""
    counts: dict[str, list[int]] = {}
    for shard in tables.manifest.raw_shards:
        counted = counts.setdefault(shard.source, [0, 0])
        counted[0] += shard.documents
        counted[1] += (shard.decoding or {}).get("replaced", 0)
    return [
        (
            f"{repaired:,} of {documents:,} documents of source {name} have bytes not in UTF-8",
            f"at most {REPAIRED_MOST:.1%}",
            "U+FFFD stands in their place: the files may be in another encoding, or were cut",
            f"gristmill status {tables.root}",
        )
        for name, (documents, repaired) in counts.items()
        if repaired > REPAIRED_MOST * documents
    ]


def _lost(tables: CorpusTables) -> dict[str, str]:
    """By source: which reason drops most of it."""
    most: dict[str, tuple[int, str]] = {}
    total: dict[str, int] = {}
    for (source, reason), counted in figures.reasons(tables).items():
        total[source] = total.get(source, 0) + counted["documents"]
        most[source] = max(most.get(source, (0, "")), (counted["documents"], reason))
    return {
        source: f": {reason} drops {count / total[source]:.0%}"
        for source, (count, reason) in most.items()
    }


def _duplicates(tables: CorpusTables) -> Found:
    settings = tables.manifest.recipe.get("deduplicate")
    step = next(
        (
            entry
            for entry in tables.manifest.funnel.get("steps", [])
            if entry["step"] == "deduplicate"
        ),
        None,
    )
    if not settings or step is None or step["left"] + step["dropped"] < LEAST:
        return None
    reached = step["left"] + step["dropped"]
    share = step["dropped"] / reached
    command = f"gristmill duplicates {tables.root}"
    findings = []
    if share > COPIES_MOST:
        findings.append(
            (
                f"{share:.1%} of {reached:,} documents are duplicates",
                f"below {COPIES_MOST:.0%}; 20 to 40 % of a web crawl",
                "a template or a repeated source can make different texts look alike",
                command,
            )
        )
    if not step["dropped"] and reached >= 10 * LEAST:
        findings.append(
            (
                f"no duplicate among {reached:,} documents",
                "20 to 40 % of a web crawl",
                "deduplicated before, or made unequal by a field such as a date in the text",
                command,
            )
        )
    _, largest = figures.clusters(tables)
    if largest and largest[0].documents > max(ONE_CLUSTER * reached, LEAST):
        findings.append(
            (
                f"one cluster has {largest[0].documents:,} of {reached:,} documents",
                f"below {ONE_CLUSTER:.0%}",
                "its members may only share a menu or a template",
                command,
            )
        )
    return findings


def _hosts(tables: CorpusTables) -> Found:
    count, largest = figures.hosts(tables)
    kept = tables.manifest.funnel.get("kept", 0)
    if not largest or kept < LEAST:
        return None
    name, documents = largest[0]
    if count < 2 or documents <= ONE_HOST * kept:
        return []
    return [
        (
            f"{documents / kept:.1%} of the kept documents are from {name}, of {count:,} hosts",
            f"below {ONE_HOST:.0%}",
            "a model learns the style and the boilerplate of one site",
            f"gristmill report {tables.root}",
        )
    ]


def _languages(tables: CorpusTables) -> Found:
    keep = {
        label
        for step in tables.manifest.recipe.get("step", [])
        if step.get("use") == "language"
        for label in step.get("keep", [])
    }
    labels = figures.languages(tables, tables.columns("measures")) if keep else []
    if not labels:
        return None
    total = sum(count for _, count, _ in labels)
    reached = next(
        (entry for entry in tables.manifest.funnel.get("steps", []) if entry["step"] == "language"),
        None,
    )
    if total < LEAST or reached is None:
        return None
    lost = reached["reasons"].get("language.other", 0)
    share = lost / max(1, reached["left"] + reached["dropped"])
    if share <= OTHER_LANGUAGES:
        return []
    top = labels[0][0]
    return [
        (
            (
                f"{share:.1%} of the documents are in other languages than "
                f"{', '.join(sorted(keep))}; most are {top}"
            ),
            f"below {OTHER_LANGUAGES:.0%}; about 40 % of Common Crawl for English",
            "`keep` or the source may be for another language",
            f"gristmill report {tables.root}",
        )
    ]


def _contamination(tables: CorpusTables) -> Found:
    if not tables.has("contamination/"):
        return None
    hits = tables.rows(
        "select count(distinct document) from contamination join verdicts using (document) "
        "where verdicts.reason is null and overlap >= ?",
        OVERLAP,
    )[0][0]
    if not hits:
        return []
    return [
        (
            f"{hits:,} kept documents hold at least half of a benchmark item",
            "none",
            "scores on that benchmark would count what the model has read",
            f"gristmill contamination {tables.root}",
        )
    ]


def _lines(tables: CorpusTables) -> Found:
    """Return lines that were cut, and lines that are left."""
    funnel = tables.manifest.funnel
    if "lines" not in funnel or not funnel.get("characters"):
        return None
    cut = funnel["lines"]["characters"]
    share = cut / (cut + funnel["characters"])
    if share <= LINES_CUT_MOST:
        return []
    return [
        (
            f"{share:.1%} of the characters were in lines that occur too often, and were cut",
            f"below {LINES_CUT_MOST:.0%}",
            "`most` may be too low for this corpus, or extraction leaves menus in the text",
            f"gristmill lines {tables.root}",
        )
    ]


CHECKS: dict[str, Callable[[CorpusTables], Found]] = {
    "steps": _steps,
    "decoding": _decoding,
    "kept": _kept,
    "sources": _sources,
    "duplicates": _duplicates,
    "similar": left_alike,
    "hosts": _hosts,
    "languages": _languages,
    "contamination": _contamination,
    "lines": _lines,
    "tokens": of_tokens,
}


def lines(result: dict[str, Any]) -> Iterator[str]:
    """For people: a finding in four lines."""
    for finding in result["findings"]:
        yield f"{finding['name']}: {finding['figure']}"
        yield f"  usual: {finding['usual']}"
        yield f"  why it matters: {finding['why']}"
        yield f"  next: {finding['command']}"
    count = len(result["findings"])
    names = ", ".join(result["checked"])
    what = f"{count} unusual figure{'s' if count != 1 else ''}" if count else "nothing unusual"
    yield f"{what}; checked: {names}"
