"""The sections that show documents: duplicates, repeated lines, contamination, samples."""

from itertools import groupby
from typing import Any

from gristmill.dedup.drops import NEAR
from gristmill.reports.page import charts
from gristmill.reports.page.facts import Documents, Facts
from gristmill.reports.page.markup import (
    Html,
    anchor,
    details,
    joined,
    number,
    section,
    share,
    table,
    tag,
)
from gristmill.reports.page.measure_sections import card
from gristmill.reports.page.pairs import Marked, Pair, ShownCluster
from gristmill.reports.page.samples import Shown
from gristmill.tables.schema import document_name

LINE = 160  # characters of a line
NAMES = {
    "deduplicate.same_url": "same URL",
    "deduplicate.exact_duplicate": "equal text",
    "deduplicate.near_duplicate": "similar text",
}


def duplicates(one: Facts) -> Html:
    """Return duplicates: how many, clusters, similarities, pairs."""
    if not one.manifest.recipe.get("deduplicate"):
        return Html("")
    counts: dict[str, int] = {}
    for (_, reason), counted in one.reasons.items():
        if reason in NAMES:
            counts[reason] = counts.get(reason, 0) + counted["documents"]
    total = sum(counts.values())
    reached = total + one.manifest.funnel.get("kept", 0)
    blocks = []
    if total:
        rows = [
            (NAMES[reason], count, f"{number(count)} · {share(count, reached)}")
            for reason, count in counts.items()
        ]
        blocks.append(
            tag(
                "article",
                tag("h3", "Why they were dropped"),
                tag("p", f"of {number(reached)} documents that were compared", class_="note"),
                charts.columns(rows),
                class_="card",
            )
        )
    if one.clusters:
        rows = [
            (
                "2 documents" if least == 2 else f"{number(least)} to {number(2 * (least - 1))}",
                count,
                number(count),
            )
            for least, count, _ in one.clusters
        ]
        blocks.append(
            tag(
                "article",
                tag("h3", "Clusters by size"),
                tag("p", "a kept document and its dropped copies", class_="note"),
                charts.columns(rows),
                class_="card",
            )
        )
    if one.similarities is not None:
        blocks.append(card(one.similarities, None))
    parts = [tag("div", *blocks, class_="cards")] if blocks else []
    if not total:
        parts.append(tag("p", "No document was dropped as a duplicate.", class_="note"))
    if one.documents is not None:
        parts += [_clusters(one.documents.largest), _pairs(one.documents.pairs)]
    lead = "Of documents that are equal or alike, the first is kept."
    return section("duplicates", "Duplicates", lead, *parts)


def _clusters(clusters: list[ShownCluster]) -> Html:
    if not clusters:
        return Html("")
    rows = [
        tag(
            "article",
            tag(
                "p",
                tag("b", number(cluster.documents), class_="n"),
                " documents: ",
                tag("span", document_name(cluster.keeper), class_="id"),
                " is kept ",
                _url(cluster.url),
            ),
            _text(cluster.text),
            class_="sample",
        )
        for cluster in clusters
    ]
    return joined([tag("h3", "Largest clusters"), tag("div", *rows, class_="samples")])


def _pairs(pairs: list[Pair]) -> Html:
    if not pairs:
        return Html("")
    shown = [
        tag(
            "article",
            tag(
                "p",
                "similarity ",
                tag("b", f"{pair.similarity:.3f}", class_="n"),
                f" (threshold {pair.threshold:g})" if pair.threshold is not None else "",
            ),
            tag(
                "div",
                _side("kept", pair.keeper, pair.kept),
                _side("dropped", pair.document, pair.dropped),
                class_="pair",
            ),
            class_="sample",
        )
        for pair in pairs
    ]
    return joined(
        [
            tag("h3", "Near duplicates, side by side"),
            tag(
                "p",
                "Those that were the least alike first. Marked words are not in the other text.",
                class_="note",
            ),
            tag("div", *shown, class_="samples"),
        ]
    )


def _side(what: str, document: int, pieces: Marked) -> Html:
    body = joined(
        tag("mark", piece) if marked and piece.strip() else piece for marked, piece in pieces
    )
    return tag(
        "div",
        tag("p", f"{what} ", tag("span", document_name(document), class_="id"), class_="note"),
        tag("div", body, class_="text", dir="auto", tabindex="0"),
    )


def repeated(one: Facts) -> Html:
    """Return lines and spans that were cut."""
    funnel = one.manifest.funnel
    parts = []
    if "lines" in funnel:
        cut = funnel["lines"]
        parts.append(
            tag(
                "p",
                f"{number(cut['listed'])} different lines were cut {number(cut['cut'])} times out "
                f"of {number(cut['documents'])} documents: {number(cut['characters'])} characters.",
            )
        )
    if one.lines:
        rows = [
            (tag("span", _clip(text, LINE), dir="auto", class_="line"), number(documents))
            for documents, text, _ in one.lines
        ]
        parts.append(table(("line", "documents"), rows, (1,)))
    if "substrings" in funnel:
        cut = funnel["substrings"]
        parts.append(
            tag(
                "p",
                f"{number(cut['listed'])} repeated spans; {number(cut['cut'])} were cut out of "
                f"{number(cut['documents'])} documents: {number(cut['bytes'])} bytes.",
            )
        )
    if one.spans:
        spans = [
            (
                tag("span", _clip(text, LINE), dir="auto", class_="line"),
                number(places),
                number(size),
            )
            for places, size, text in one.spans
        ]
        parts.append(table(("span", "places", "bytes"), spans, (1, 2)))
    return section("repeated", "Repeated lines and spans", "", *parts) if parts else Html("")


def contaminated(one: Facts) -> Html:
    """Benchmark items in documents."""
    if not one.contamination:
        return Html("")
    rows = [
        (
            benchmark["name"],
            number(benchmark["items"]),
            number(benchmark["found"]),
            share(benchmark["found"], benchmark["items"]),
            number(benchmark["documents"]),
        )
        for benchmark in one.contamination
    ]
    head = ("benchmark", "items", "found", "share", "documents with one")
    lead = "Items of benchmarks that documents hold, whether they were dropped for it or not."
    note = tag(
        "p",
        "Which items, and the text around them: ",
        tag("code", f"gristmill contamination {one.folder} --benchmark NAME"),
        class_="note",
    )
    parts = (table(head, rows, (1, 2, 3, 4)), note)
    return section("contamination", "Contamination", lead, *parts)


def samples(documents: Documents) -> Html:
    """Dropped documents by reason, and kept ones."""
    parts: list[Html] = []
    for reason, group in groupby(documents.dropped, key=lambda one: one.reason or ""):
        shown = list(group)
        parts.append(
            tag(
                "details",
                tag(
                    "summary",
                    tag("span", reason, class_="reason"),
                    " ",
                    tag("span", _values(shown), class_="muted"),
                ),
                tag("div", *(_sample(one) for one in shown), class_="row"),
                id=f"reason-{anchor(reason)}",
            )
        )
    kept = len(documents.kept)
    by_source = [
        joined(
            [
                tag("p", tag("b", source), class_="note"),
                tag("div", *(_sample(one) for one in group), class_="row"),
            ]
        )
        for source, group in groupby(documents.kept, key=lambda one: one.source)
    ]
    lead = (
        "The same documents every time, drawn by a hash of their numbers. Personal data that the "
        "step private finds is redacted; names of people are not found."
    )
    return section(
        "samples",
        "Look at documents",
        lead,
        tag("h3", "Dropped, by reason") if parts else None,
        tag("div", *parts, class_="samples"),
        tag("h3", "Kept") if kept else None,
        details(f"{kept} kept documents, by source", *by_source) if kept else None,
    )


def _values(shown: list[Shown]) -> str:
    values = [sample.value for sample in shown if sample.value is not None]
    limits = {sample.threshold for sample in shown if sample.threshold is not None}
    if not values or shown[0].keeper is not None or (one_reason := shown[0].reason) is None:
        return ""
    if one_reason.startswith("read."):
        return ""
    words = ", ".join(number(round(value, 4)) for value in values)
    return f"{words} (threshold {number(min(limits))})" if len(limits) == 1 else words


def _sample(one: Shown) -> Html:
    facts: list[Any] = [tag("span", document_name(one.document), class_="id"), f" {one.source} "]
    if one.keeper is not None:
        facts += [" copy of ", tag("span", document_name(one.keeper), class_="id"), " "]
        if one.reason == NEAR and one.value is not None:
            facts.append(tag("span", f"similarity {one.value:.3f} ", class_="n"))
    elif one.reason is not None and one.reason.startswith("read."):
        pass
    elif one.value is not None:
        facts.append(tag("span", f"value {number(round(one.value, 4))}", class_="n"))
        if one.threshold is not None:
            facts.append(tag("span", f", threshold {number(one.threshold)}", class_="n muted"))
        facts.append(" ")
    return tag(
        "article", tag("p", *facts, _url(one.url)), _text(one.text, one.cut), class_="sample"
    )


def _text(text: str | None, cut: bool = False) -> Html:
    if text is None:
        return tag("p", "its text is not stored", class_="note")
    if not text.strip():
        return tag("p", "an empty text", class_="note")
    return tag("div", text.strip(), " ..." if cut else "", class_="text", dir="auto", tabindex="0")


def _url(url: str | None) -> Html:
    """Return a URL as text, not as a link: nobody should open what was dropped by a slip."""
    return tag("span", _clip(url.partition("?")[0], 100), class_="url muted") if url else Html("")


def _clip(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."
