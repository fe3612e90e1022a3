"""What a page says of its use: its robots directives and its licence, as measures; and pages that
are dropped for them.

    robots     a directive of `drop` is among those of the page
    licence    `keep` is not empty, and the licence has none of its entries in it, or there is none

Before `extract`, which takes the markup out. Of a page are read

    <meta name="robots" content="noindex, noai">, and of the names of `agents`
    <link rel="license" href="...">, and <a>; <meta> of the names of LICENCES

and of any document the first of `fields` among the fields that it came with (a column of JSONL or
Parquet). A field comes before the page's markup. Markup in comments counts as well.

The header X-Robots-Tag, which the readers of WARC and ARC keep as the field `x_robots_tag` (a list
with a string for each header; a column may have a string), adds its directives to those of the
markup. `googlebot: noindex, nofollow` is for one agent, to the end of the header or to the next
agent; what comes before any agent, or after `robots` or `*`, is for all.

Sources: RFC 9309 and its extensions by search engines, Google's and Bing's pages on X-Robots-Tag,
the rel value `license` of HTML's standard (4.6.7), Dublin Core's rights and license.
"""

import html
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.filters.api.step import Decision, Inputs, Measured, Step
from gristmill.tables.schema import X_ROBOTS_TAG

LICENCES = ("dc.rights", "dc.rights.license", "dcterms.license", "dcterms.rights", "license")
LONGEST = 300  # characters of a licence, and of all directives
MOST = 64  # tags of a page that are looked at
MOST_HEADERS = 2000  # characters of X-Robots-Tag that are read
# Directives with a value, which a colon follows that ends no agent's name.
VALUED = ("max-image-preview", "max-snippet", "max-video-preview", "unavailable_after")
# What a page must have in it to be looked at more closely, for RE2.
_LOOK = r"(?i)<(?:meta|link|a)\s[^>]*(?:robots|licen[cs]e|rights|AGENTS)"
_TAG = re.compile(r"<(meta|link|a)\s([^<>]{0,2000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([a-zA-Z:-]{1,40})\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_AGENT = re.compile(r"\s*([^\s:]+)\s*:(.*)", re.DOTALL)
_WANTED = re.compile(r"robots|licen[cs]e|rights", re.IGNORECASE)


class Rights(Step, frozen=True, kw_only=True):
    """Keep what pages say of their use, and drop pages for it.

    Put it before `extract`. It measures directives (`robots`) and licences. The HTTP header
    X-Robots-Tag counts like the page's own directives: readers of WARC and ARC keep it in the
    column `extra` as `x_robots_tag`, a list with a string for each header. In a header
    `googlebot: noindex, noai` both directives are that agent's alone. Origin: RFC 9309's
    extensions; Google's X-Robots-Tag; HTML's `rel=license`; Dublin Core.
    """

    name: ClassVar[str] = "rights"
    version: ClassVar[int] = 2
    thresholds: ClassVar[frozenset[str]] = frozenset({"drop", "keep"})
    example: ClassVar[str] = 'drop = ["noai"]'
    reasons: ClassVar[Mapping[str, str]] = {
        "robots": "The page's robots directives have one of `drop`.",
        "licence": "The licence is none of `keep`, or there is none.",
    }
    measures: ClassVar[Mapping[str, str]] = {
        "robots": "The robots directives of page and header, sorted, with commas between them.",
        "licence": "The licence that the page, or a field of the document, names.",
    }

    drop: tuple[str, ...] = ()  # Directives that drop a page, such as `noai` and `noindex`.
    # Licences that are kept: a part of their name or address, such as `creativecommons.org`. Empty:
    # all.
    keep: tuple[str, ...] = ()
    # Names of crawlers whose directives count, besides `robots`, such as `googlebot`.
    agents: tuple[str, ...] = ()
    # Fields of documents that name a licence; the first that is there.
    fields: tuple[str, ...] = ("license", "licence")

    def __post_init__(self) -> None:
        for what in ("drop", "keep", "agents", "fields"):
            if any(not entry.strip() for entry in getattr(self, what)):
                raise ValueError(f"{what}: an entry is empty")

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        names = "|".join(re.escape(agent) for agent in self.agents)
        look = _LOOK.replace("|AGENTS", f"|{names}" if names else "")
        agents = {"robots", *(agent.lower() for agent in self.agents)}
        return lambda batch: self._measure(batch, look, agents)

    def _measure(self, batch: pa.RecordBatch, look: str, agents: set[str]) -> Measured:
        kind = batch["content_type"]
        page = pc.fill_null(pc.match_substring(kind, "html"), True)
        page = pc.and_(page, pc.match_substring_regex(batch["text"], look))
        robots: list[set[str]] = []
        licence: list[str | None] = []
        for extra in batch["extra"].to_pylist():
            given = self._given(extra)
            robots.append(of_headers(given.get(X_ROBOTS_TAG), agents))
            values = (given.get(field) for field in self.fields)
            named = (_clean(value) for value in values if isinstance(value, str) and value.strip())
            licence.append(next(named, None))
        for row in np.flatnonzero(page.to_numpy(zero_copy_only=False)).tolist():
            directives, of_page = said(batch["text"][row].as_py(), agents)
            robots[row] |= directives
            licence[row] = licence[row] or of_page
        shown = [",".join(sorted(value))[:LONGEST] or None for value in robots]
        return Measured(
            {"robots": pa.array(shown, pa.string()), "licence": pa.array(licence, pa.string())}
        )

    def _given(self, extra: str | None) -> dict[str, Any]:
        """Return the fields that a document came with; empty where it has none that are read."""
        if extra is None or not any(field in extra for field in (X_ROBOTS_TAG, *self.fields)):
            return {}
        return dict(json.loads(extra))

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        robots, licence = measures["robots"], measures["licence"]
        barred = np.zeros(len(robots), bool)
        for directive in self.drop:
            word = rf"(?:^|,){re.escape(directive.lower())}(?:,|$)"
            barred |= _true(pc.match_substring_regex(robots, word))
        other = np.full(len(robots), bool(self.keep))
        for part in self.keep:
            other &= ~_true(pc.match_substring(licence, part, ignore_case=True))
        reasons = np.where(barred, "robots", "licence")
        nothing = pa.nulls(len(robots), pa.float64())
        dropped = pa.array(reasons, pa.string(), mask=~(barred | other))
        return Decision(dropped, nothing, nothing)


def of_headers(value: object, agents: set[str]) -> set[str]:
    """Return the directives for `agents` (with `robots`) of X-Robots-Tag: a header, or a list of
    them.
    """
    directives: set[str] = set()
    left = MOST_HEADERS
    for header in value if isinstance(value, list) else [value]:
        if not isinstance(header, str) or left <= 0:
            continue
        shown = header[:left].lower()
        left -= len(shown) + 1
        wanted = True
        for part in shown.split(","):
            named = _AGENT.match(part)
            words = set(part.split())
            if named is not None and named[1] in VALUED:
                words = {f"{named[1]}:{named[2].strip()}"}
            elif named is not None:
                wanted, words = named[1] == "*" or named[1] in agents, set(named[2].split())
            if wanted:
                directives |= words
    return directives


def said(page: str, agents: set[str]) -> tuple[set[str], str | None]:
    """Return the robots directives and the licence of a page."""
    directives: set[str] = set()
    licence: str | None = None
    seen = 0
    for tag in _TAG.finditer(page):
        if not (_WANTED.search(tag[2]) or any(agent in tag[2].lower() for agent in agents)):
            continue
        seen += 1
        if seen > MOST:
            break
        own: dict[str, Any] = {}
        for name, *values in _ATTRIBUTE.findall(tag[2]):
            own.setdefault(name.lower(), html.unescape(next(filter(None, values), "")))
        if tag[1].lower() == "meta":
            name = own.get("name", own.get("property", "")).strip().lower()
            if name in agents:
                directives |= set(re.split(r"[,\s]+", own.get("content", "").lower())) - {""}
            elif name in LICENCES:
                licence = licence or _clean(own.get("content", ""))
        elif "license" in own.get("rel", "").lower().split():
            licence = licence or _clean(own.get("href", ""))
    return directives, licence


def _clean(value: str) -> str | None:
    """Return a value in one line, bounded; nothing: null."""
    shown = "".join(character if character.isprintable() else " " for character in value[:LONGEST])
    return " ".join(shown.split()) or None


def _true(column: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False))
