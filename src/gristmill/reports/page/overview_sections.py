"""The page's first sections: figures, the funnel, sources, languages, lengths."""

from collections.abc import Callable

from gristmill.reports.page import charts
from gristmill.reports.page.facts import Facts
from gristmill.reports.page.figures import SourceCounts
from gristmill.reports.page.markup import (
    Html,
    anchor,
    details,
    joined,
    number,
    section,
    share,
    short,
    signed,
    size,
    table,
    tag,
)

TOP = 15
SOURCES = 40  # of a table
MOST_FINDINGS = 30


def tiles(one: Facts, other: Facts | None) -> Html:
    """Return the headline figures."""
    cards = []
    theirs = _headline(other) if other else {}
    for name, (value, word, below) in _headline(one).items():
        lines = [
            tag("dt", name),
            tag("dd", word, class_="figure"),
            tag("dd", below, class_="below"),
        ]
        if other is not None:
            _, that, _ = theirs.get(name, (None, "–", ""))
            before = theirs[name][0] if name in theirs else None
            change = ""
            if value is not None and before is not None and value:
                change = f" ({signed(round(100 * (before - value) / value, 1))} %)"
            lines[-1] = tag("dd", f"B: {that}{change}", class_="below")
        cards.append(tag("div", *lines))
    return tag("dl", *cards, class_="tiles")


def _headline(one: Facts) -> dict[str, tuple[float | None, str, str]]:
    """By name: the value, as it is shown, and a line below it."""
    funnel = one.manifest.funnel
    figures: dict[str, tuple[float | None, str, str]] = {}
    documents, kept = funnel.get("documents"), funnel.get("kept")
    if documents is not None:
        shards = sum(shard.missing is None for shard in one.manifest.raw_shards)
        figures["documents in"] = (documents, short(documents), f"from {number(shards)} raw shards")
    if kept is not None and documents is not None:
        figures["kept"] = (kept, short(kept), f"{share(kept, documents)} of them")
    copies = sum(
        counted["documents"]
        for (_, reason), counted in one.reasons.items()
        if reason.startswith("deduplicate.")
    )
    if one.manifest.recipe.get("deduplicate"):
        reached = copies + (kept or 0)
        figures["duplicates"] = (
            copies,
            short(copies),
            f"{share(copies, reached)} of what filters kept",
        )
    if "bytes" in funnel:
        raw = sum(shard.decompressed_bytes for shard in one.manifest.raw_shards)
        below = f"of {size(raw)} read" if raw else ""
        figures["text kept"] = (funnel["bytes"], size(funnel["bytes"]), below)
    if "tokens" in funnel:
        split = share(funnel.get("validation_tokens", 0), funnel["tokens"])
        figures["tokens"] = (funnel["tokens"], short(funnel["tokens"]), f"{split} for validation")
    if "tokens_per_byte" in funnel:
        value = funnel["tokens_per_byte"]
        below = f"{1 / value:.2f} bytes a token" if value else ""
        figures["tokens per byte"] = (value, f"{value:.3f}", below)
    return figures


def unusual(one: Facts) -> Html:
    """Return figures that `gristmill check` names."""
    if not one.unusual:
        return Html("")
    rows = [
        tag(
            "li",
            tag("b", finding.figure),
            tag("span", f" Usual: {finding.usual}. {finding.why[:1].upper()}{finding.why[1:]}. "),
            tag("code", finding.command),
        )
        for finding in one.unusual[:MOST_FINDINGS]
    ]
    return section("unusual", "Unusual figures", "", tag("ul", *rows, class_="findings"))


def funnel(one: Facts, other: Facts | None) -> Html:
    """Return documents in, what each step dropped and why, what is left."""
    stored = one.manifest.funnel
    total = stored.get("documents", 0)
    if "steps" not in stored:
        return Html("")
    rows = [_funnel_row("documents in", total, 0, total, {}, False)]
    for step in stored["steps"]:
        rows.append(
            _funnel_row(step["step"], step["left"], step["dropped"], total, step["reasons"], True)
        )
    lead = "Each step takes its documents out of what the steps before it left."
    parts = [tag("ol", *rows, class_="funnel")]
    parts.append(charts.legend(("kept", "left after the step"), ("lost", "dropped by the step")))
    if other is not None:
        parts.append(_two_funnels(one, other))
    return section("funnel", "What was dropped", lead, *parts)


def _funnel_row(
    name: str, left: int, dropped: int, total: int, reasons: dict[str, int], step: bool
) -> Html:
    figures = (
        tag("span", f"−{number(dropped)}" if dropped else "0", class_="dropped n"),
        tag("span", share(dropped, total), class_="n muted"),
        tag("span", number(left), class_="n"),
        tag("span", share(left, total), class_="n muted"),
    )
    chips = [
        tag(
            "li",
            tag("a", reason.partition(".")[2], href=f"#reason-{anchor(reason)}"),
            " ",
            tag("span", number(count), class_="n muted"),
        )
        for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        if count
    ]
    label = f"{name}: {number(dropped)} dropped, {number(left)} left"
    return tag(
        "li",
        tag("span", name, class_="name"),
        charts.bar(left, dropped, total, label),
        tag("span", *(figures if step else figures[2:]), class_="figures"),
        tag("ul", *chips, class_="chips") if chips else None,
    )


def _two_funnels(one: Facts, other: Facts) -> Html:
    """Return the funnels of two corpora in one table."""

    def flat(facts: Facts) -> dict[str, int]:
        funnel = facts.manifest.funnel
        counts = {"documents in": funnel.get("documents", 0)}
        for step in funnel.get("steps", []):
            counts[step["step"]] = -step["dropped"]
            counts |= {reason: -count for reason, count in step["reasons"].items()}
        return counts | {"kept": funnel.get("kept", 0)}

    a, b = flat(one), flat(other)
    names = [*(name for name in a if name != "kept"), *(n for n in b if n not in a), "kept"]
    rows = []
    for name in names:
        mine, theirs = a.get(name, 0), b.get(name, 0)
        shares = [
            100 * abs(value) / max(abs(facts["documents in"]), 1)
            for value, facts in ((mine, a), (theirs, b))
        ]
        inner = tag("span", name.partition(".")[2], class_="reason") if "." in name else name
        points = signed(round(shares[1] - shares[0], 2))
        cells = (number(mine), f"{shares[0]:.1f} %", number(theirs), f"{shares[1]:.1f} %", points)
        rows.append((inner, *cells))
    head = ("", "A", "of A", "B", "of B", "points")
    return joined([tag("h3", "Both funnels"), table(head, rows, (1, 2, 3, 4, 5))])


def sources(one: Facts) -> Html:
    """Return sources, languages, hosts, lengths."""
    parts = []
    if one.sources:
        order = [step["step"] for step in one.manifest.funnel.get("steps", [])]
        parts.append(_source_table(one.sources, order))
    blocks = []
    if one.languages:
        total = sum(count for _, count, _ in one.languages)
        rows = [
            (f"{label}{'' if kept else ' (dropped)'}", count, share(count, total))
            for label, count, kept in one.languages[:TOP]
        ]
        rest = len(one.languages) - TOP
        blocks.append(
            _block(
                "Languages",
                f"of {number(total)} documents that reached the step language",
                charts.columns(rows),
                f"and {rest} more" if rest > 0 else None,
            )
        )
    count, largest = one.hosts
    if largest:
        kept = one.manifest.funnel.get("kept", 0)
        rows = [(host, documents, share(documents, kept)) for host, documents in largest]
        blocks.append(
            _block(
                "Hosts of kept documents",
                f"{number(count)} hosts",
                charts.columns(rows),
                f"and {number(count - len(largest))} more" if count > len(largest) else None,
            )
        )
    if one.lengths is not None:
        text = (
            f"{number(one.lengths.least)} to {number(one.lengths.most)} tokens, "
            f"{number(one.lengths.documents)} documents"
        )
        blocks.append(
            _block(
                "Lengths of kept documents",
                text,
                charts.histogram(one.lengths, describe=f"Histogram of lengths: {text}"),
                "tokens, end of text included",
            )
        )
    parts.append(tag("div", *blocks, class_="cards"))
    return section("sources", "What is in it", "", *parts)


def _source_table(sources: list[SourceCounts], order: list[str]) -> Html:
    """Return the sources; what each step, in the order of the funnel, dropped of them."""
    steps = sorted({step for source in sources for step in source.dropped}, key=_place(order))
    has_tokens = any(source.tokens for source in sources)
    head = ["source", "documents", "kept", "share", *(["tokens"] if has_tokens else [])]
    rows = [
        [
            tag(
                "span",
                source.name,
                tag("span", source.licence or "no licence noted", class_="under"),
            ),
            number(source.documents),
            number(source.kept),
            share(source.kept, source.documents),
            *([short(source.tokens)] if has_tokens else []),
        ]
        for source in sources[:SOURCES]
    ]
    parts = [table(head, rows, range(1, 5))]
    if len(sources) > SOURCES:
        parts.append(tag("p", f"and {len(sources) - SOURCES} more", class_="note"))
    if len(sources) > 1 and steps:
        lost = [
            [source.name, *(share(source.dropped.get(step, 0), source.documents) for step in steps)]
            for source in sources[:SOURCES]
        ]
        parts.append(
            details(
                "What each step dropped of each source",
                table(["source", *steps], lost, range(1, len(steps) + 1)),
            )
        )
    return joined(parts)


def _place(order: list[str]) -> Callable[[str], tuple[int, str]]:
    return lambda step: (order.index(step) if step in order else len(order), step)


def _block(title: str, note: str, *inner: object) -> Html:
    last = inner[-1]
    return tag(
        "article",
        tag("h3", title),
        tag("p", note, class_="note"),
        *inner[:-1],
        tag("p", last, class_="note") if last else None,
        class_="card",
    )
