"""The section of measures: each distribution with its limits, and what others would drop."""

from gristmill.reports.page import charts
from gristmill.reports.page.distributions import Constant, Distribution, LimitCurve
from gristmill.reports.page.facts import Facts
from gristmill.reports.page.markup import (
    Html,
    details,
    joined,
    number,
    section,
    share,
    slider,
    table,
    tag,
)

WORDS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}


def measures(one: Facts, other: Facts | None) -> Html:
    """Return all measures: those that a step decides by first."""
    summary = one.measured
    if not summary.distributions and not summary.constants:
        return Html("")
    theirs = {d.name: d for d in other.measured.distributions} if other else {}
    decisive = [d for d in summary.distributions if d.rules]
    rest = [d for d in summary.distributions if not d.rules]
    lead = (
        "Each step measures a document, then compares. The line is the recipe's limit; the curve "
        "below shows what share of the measured documents this limit alone would drop if it were "
        "elsewhere. Move it to see the count."
    )
    keys = [("kept", "within the limits"), ("lost", "dropped by a limit, whatever other steps say")]
    if other is not None:
        keys.append(("other", "corpus B"))
    parts = [charts.legend(*keys)] if decisive else []
    parts.append(tag("div", *(card(d, theirs.get(d.name)) for d in decisive), class_="cards"))
    if rest:
        parts.append(
            details(
                f"{len(rest)} measures without a limit",
                tag("div", *(card(d, theirs.get(d.name)) for d in rest), class_="cards"),
                open_=not decisive,
            )
        )
    if summary.constants:
        parts.append(_constants(summary.constants))
    if summary.left_out:
        parts.append(tag("p", f"{summary.left_out} more measures are not shown.", class_="note"))
    return section("measures", "What each threshold does", lead, *parts)


def _constants(constants: list[Constant]) -> Html:
    rows = [
        (constant.name, number(constant.value), number(constant.documents))
        for constant in constants
    ]
    return details(
        f"{len(constants)} measures with one value or none",
        table(("measure", "value", "documents"), rows, (1, 2)),
    )


def card(one: Distribution, other: Distribution | None) -> Html:
    """Return a distribution with its limits; with a second one over it."""
    spread = f"{number(one.least)} to {number(one.most)}"
    describe = f"Histogram of {one.name}: {number(one.documents)} documents, {spread}"
    step, _, measure = one.name.partition(".")
    outside = [
        f"{number(count)} {where} {number(edge)}"
        for count, where, edge in (
            (one.below, "up to", one.edges[0]),
            (one.above, "above", one.edges[-1]),
        )
        if count
    ]
    return tag(
        "article",
        tag("h3", tag("span", f"{step}.", class_="muted"), measure or one.name),
        tag(
            "p",
            f"{number(one.documents)} documents, {spread}",
            f"; not drawn: {', '.join(outside)}" if outside else "",
            class_="note",
        ),
        charts.histogram(one, other, describe=describe),
        *(_rule(one, rule) for rule in one.rules),
        class_="card",
    )


def _rule(one: Distribution, rule: LimitCurve) -> Html:
    """Return a limit: what it drops, and a slider over what others would."""
    curve = dict(zip(one.edges, rule.at_edges, strict=True)) | {rule.limit: rule.dropped}
    places = sorted(curve)
    dropped = [curve[place] for place in places]
    here = places.index(rule.limit)
    says = joined(
        [
            tag("b", f"{WORDS[rule.broken]} {number(rule.limit)}", class_="at"),
            " drops ",
            tag("b", share(rule.dropped, one.documents), class_="part"),
            " ",
            tag("span", f"({number(rule.dropped)})", class_="count muted"),
        ]
    )
    return tag(
        "div",
        charts.curve(one, places, dropped),
        slider(f"limit of {one.name}, {rule.reason}", 1000, 1000),
        tag(
            "p", tag("span", rule.reason, class_="reason"), " ", tag("output", says), class_="says"
        ),
        class_="rule",
        data_places=" ".join(f"{place:.12g}" for place in places),
        data_x=" ".join(f"{charts.position(one, place):.2f}" for place in places),
        data_dropped=" ".join(map(str, dropped)),
        data_documents=one.documents,
        data_word=WORDS[rule.broken],
        data_here=here,
    )
