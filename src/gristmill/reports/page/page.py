"""The page: sections, style and script in one HTML file that needs no network.

Its Content-Security-Policy allows its own style and its own script, by their sha256, and nothing
else: no request, no frame, no form.
"""

import base64
import hashlib
from importlib.resources import files

from gristmill import __version__
from gristmill.reports.page import (
    document_sections,
    measure_sections,
    overview_sections,
    run_sections,
)
from gristmill.reports.page.facts import Facts
from gristmill.reports.page.markup import Html, joined, tag

NAMES = {
    "unusual": "Unusual",
    "funnel": "Dropped",
    "measures": "Thresholds",
    "sources": "Content",
    "duplicates": "Duplicates",
    "repeated": "Repeated",
    "contamination": "Contamination",
    "tokens": "Tokens",
    "samples": "Documents",
    "speed": "Speed",
    "provenance": "Origin",
}


MADE_BY = '<meta name="generator" content="gristmill report">'  # by which a page is known


def page(one: Facts, other: Facts | None = None) -> str:
    """Return the whole file."""
    sections = {
        "unusual": overview_sections.unusual(one),
        "funnel": overview_sections.funnel(one, other),
        "measures": measure_sections.measures(one, other),
        "sources": overview_sections.sources(one),
        "duplicates": document_sections.duplicates(one),
        "repeated": document_sections.repeated(one),
        "contamination": document_sections.contaminated(one),
        "tokens": run_sections.tokens(one),
        "samples": document_sections.samples(one.documents) if one.documents else Html(""),
        "speed": run_sections.speed(one),
        "provenance": run_sections.provenance(one),
    }
    names = tag(
        "nav",
        tag(
            "ul",
            *(tag("li", tag("a", NAMES[key], href=f"#{key}")) for key, s in sections.items() if s),
        ),
        aria_label="sections",
    )
    body = joined(
        [
            tag("header", _title(one, other), overview_sections.tiles(one, other)),
            names,
            tag("main", *sections.values()),
            tag(
                "footer",
                tag("p", f"gristmill {__version__}: gristmill report {one.folder}"
                    + (f" {other.folder}" if other else "")),
            ),
        ]
    )  # fmt: skip
    style, script = _file("style.css"), _file("page.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; "
        f"script-src 'sha256-{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    name = one.name + (f" and {other.name}" if other else "")
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html(MADE_BY),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            Html('<meta name="referrer" content="no-referrer">'),
            tag("title", f"{name}: corpus report"),
            Html(f"<style>{style}</style>"),
        ]
    )
    end = f"<script>{script}</script></body></html>\n"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}{end}'


def _title(one: Facts, other: Facts | None) -> Html:
    names = tag("h1", one.name) if other is None else tag("h1", f"{one.name} and {other.name}")
    if other is None:
        finished = one.run.get("finished")
        when = f"finished {finished[:16].replace('T', ' ')} UTC · " if finished else ""
        below = tag("p", when, "manifest ", tag("code", one.digest[:16]), class_="muted")
    else:
        below = tag(
            "p", "A is ", tag("b", one.folder), ", B is ", tag("b", other.folder), class_="muted"
        )
    return joined([tag("p", "gristmill corpus report", class_="kicker"), names, below])


def _file(name: str) -> str:
    return files("gristmill.reports.page").joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
