"""Block and allow lists of domains, URLs and words (datatrove 0.10's URL filter, as FineWeb uses
it), in this order:

    domain                the registered domain is in `domains`
    subdomain             the whole host is
    url                   the URL is in `urls`
    hard_blacklisted      a word of the URL is in `words`
    soft_blacklisted      soft_threshold different words of the URL are in `soft_words`
    blacklisted_subword   an entry of `subwords` stands inside the URL
    not_allowed           the host is no domain of `allow_domains`, nor under one
    no_url                the document has no URL, and `missing = "drop"`

Words are the URL's runs of ASCII letters and digits, as they are written. Subwords are looked for
in the URL in lower case, without all that is no ASCII letter or digit; the entries of the three
word lists are taken in the same way. Domains and URLs are compared as they are written, but for
`allow_domains`: A to Z as a to z. An address (192.0.2.1) has no registered domain, so that one in
`domains` never matches, as with datatrove.

A registered domain is one label under a public suffix, private ones left out, as tldextract's
default has it. The suffixes are those that ship inside tldextract (Mozilla's, publicsuffix.org), so
that no download decides over a document.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Decision, Inputs, Measured, Step
from gristmill.filters.lists import lists
from gristmill.filters.lists.domains import Suffixes, written_host
from gristmill.filters.lists.lists import Entries
from gristmill.tables.columns import utf8_buffers

SUFFIXES = "package:tldextract/.tld_set_snapshot"
LISTED = (
    "no_url",
    "domain",
    "subdomain",
    "url",
    "hard_blacklisted",
    "blacklisted_subword",
    "not_allowed",
)
_BEFORE_SOFT = ("no_url", "domain", "subdomain", "url", "hard_blacklisted")

Buffers = tuple[np.ndarray, np.ndarray]


class Url(Step, frozen=True, kw_only=True):
    """Drop documents whose URL is listed.

    Lists are paths or URLs, plain or packed; archives in UT1's way for domains and URLs.

    Lists of domains, URLs, words, pairs of soft words and parts of words block; lists of domains
    allow. Origin: datatrove's URLFilter; UT1's files.
    """

    name: ClassVar[str] = "url"
    version: ClassVar[int] = 1
    thresholds: ClassVar[frozenset[str]] = frozenset({"soft_threshold", "missing"})
    example: ClassVar[str] = 'domains = ["blocked.txt"]'
    reasons: ClassVar[Mapping[str, str]] = {
        "domain": "The registered domain is in `domains`.",
        "subdomain": "The host is in `domains`.",
        "url": "The URL is in `urls`.",
        "hard_blacklisted": "A word of the URL is in `words`.",
        "soft_blacklisted": "`soft_threshold` different words of the URL are in `soft_words`.",
        "blacklisted_subword": "The URL has an entry of `subwords` somewhere.",
        "not_allowed": "The host is not in `allow_domains`, nor below one of them.",
        "no_url": "The document has no URL, and `missing` says drop.",
    }
    measures: ClassVar[Mapping[str, str]] = {
        "list": "The first list with an entry for the URL, by its reason.",
        "match": "That entry.",
        "soft_words": "Different words of the URL that are in `soft_words`.",
        "soft_match": "Those words.",
    }

    # Lists of registered domains and hosts.
    domains: list[str] = msgspec.field(default_factory=list)
    urls: list[str] = msgspec.field(default_factory=list)  # Lists of URLs.
    # Lists of words, one of which in a URL is enough.
    words: list[str] = msgspec.field(default_factory=list)
    # Lists of words, of which `soft_threshold` different ones are enough.
    soft_words: list[str] = msgspec.field(default_factory=list)
    # Lists of parts of words, found anywhere in a URL.
    subwords: list[str] = msgspec.field(default_factory=list)
    soft_threshold: Annotated[int, Meta(ge=1)] = 2  # How many different soft words drop a document.
    # Lists of the only domains to keep.
    allow_domains: list[str] = msgspec.field(default_factory=list)
    missing: Literal["keep", "drop"] = "keep"  # What is done with documents without a URL.

    def __post_init__(self) -> None:
        if not self.inputs() and self.missing == "keep":
            raise ValueError("a url step without lists drops nothing")

    def inputs(self) -> dict[str, str]:
        """Return each location once, also where two lists are read from one archive."""
        named = {
            f"url.{key}.{place}": location
            for key in ("domains", "urls", "words", "soft_words", "subwords", "allow_domains")
            for place, location in enumerate(getattr(self, key))
        }
        if self.domains:
            named["url.suffixes"] = SUFFIXES
        once = {location: name for name, location in reversed(named.items())}
        return {name: location for name, location in named.items() if once[location] == name}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        loaded = _load(self, inputs)
        return lambda batch: _measure(loaded, batch["url"])

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        listed, count = measures["list"].cast(pa.string()), measures["soft_words"]
        # A measure that is null is no reason.
        early = pc.fill_null(pc.is_in(listed, pa.array(_BEFORE_SOFT)), False)
        soft = pc.and_(
            pc.invert(early), pc.fill_null(pc.greater_equal(count, self.soft_threshold), False)
        )
        if self.missing == "keep":
            listed = pc.if_else(pc.fill_null(pc.equal(listed, "no_url"), False), None, listed)
        return Decision(
            pc.if_else(soft, "soft_blacklisted", listed).cast(pa.string()),
            pc.if_else(soft, count, None).cast(pa.float64()),
            pc.if_else(soft, self.soft_threshold, None).cast(pa.float64()),
        )


class _List(NamedTuple):
    entries: Entries
    table: Any  # kernels.lists.entries.Table


class _LoadedLists(NamedTuple):
    """The lists, in memory; null: none is named."""

    domains: _List | None
    suffixes: Suffixes | None
    urls: _List | None
    words: _List | None  # hard and soft ones
    hard: np.ndarray  # of each entry of `words`, bool
    soft: np.ndarray
    subwords: Entries | None
    automaton: Any  # kernels.lists.aho_corasick.Automaton, of the subwords
    allow: _List | None


def _load(step: Url, inputs: Inputs) -> _LoadedLists:
    from gristmill.kernels.lists import aho_corasick
    from gristmill.kernels.lists.entries import AS_WRITTEN, LOWER_CASE, WORD, find_whole, index

    def load(
        key: str, locations: list[str], form: int = AS_WRITTEN, member: str | None = None
    ) -> _List | None:
        if not locations:
            return None
        entries = lists.read_all(f"url.{key}", locations, inputs, member=member, form=form)
        return _List(entries, index(*entries))

    both = [
        load(key, locations, WORD)
        for key, locations in (("words", step.words), ("soft_words", step.soft_words))
    ]
    there = [word_list.entries for word_list in both if word_list is not None]
    words = _List(joined := lists.join("url.words", there), index(*joined)) if there else None
    kinds = [np.zeros(len(words.entries.offsets) - 1 if words else 0, bool) for _ in both]
    for word_list, kind in zip(both, kinds, strict=True):
        if word_list is not None and words is not None:
            kind[find_whole(*word_list.entries, words.table) - 1] = True
    subwords, automaton = None, None
    if step.subwords:
        subwords = lists.read_all("url.subwords", step.subwords, inputs, form=WORD)
        try:
            automaton = aho_corasick.build(subwords.all(), fold_ascii=True)
        except ValueError as error:
            raise RecipeError(f"url.subwords: {error}") from error
    return _LoadedLists(
        load("domains", step.domains, member="domains"),
        _suffixes(inputs) if step.domains else None,
        load("urls", step.urls, member="urls"),
        words,
        kinds[0],
        kinds[1],
        subwords,
        automaton,
        load("allow_domains", step.allow_domains, LOWER_CASE, "domains"),
    )


def _suffixes(inputs: Inputs) -> Suffixes:
    suffixes = Suffixes(Path(inputs[SUFFIXES].path).read_bytes().decode("utf-8", "replace"))
    if not len(suffixes):
        raise RecipeError(f"url.suffixes: {inputs[SUFFIXES].name}: is no public suffix list")
    return suffixes


class _Findings:
    """What is found in n URLs: of each row the first list, and its entry."""

    def __init__(self, rows: int) -> None:
        self._listed = np.zeros(rows, np.int8)  # 1 + the place in LISTED; 0: none
        self._match = np.zeros(rows, np.int32)  # a place in _matches
        self._matches: list[str | None] = [None]

    def add(
        self,
        name: str,
        rows: np.ndarray,
        entries: Callable[[np.ndarray], Iterable[str]] | None = None,
    ) -> None:
        """Rows (k,) that a list names; `entries` gives its entries, of the places in `rows` that
        are new.
        """
        new = np.flatnonzero(self._listed[rows] == 0)
        self._listed[rows[new]] = 1 + LISTED.index(name)
        if entries is not None:
            self._match[rows[new]] = len(self._matches) + np.arange(len(new))
            self._matches.extend(entries(new))

    def arrays(self) -> tuple[pa.Array, pa.Array]:
        """Return the lists' names and the entries, each (n,)."""
        names, matches = (
            pa.array([None, *LISTED], pa.string()),
            pa.array(self._matches, pa.string()),
        )
        return names.take(pa.array(self._listed)), matches.take(pa.array(self._match))


def _measure(loaded: _LoadedLists, column: pa.Array) -> Measured:
    """Measure n URLs. Kernels see all of them; Python those that a list may name, and hosts that
    are not all ASCII.
    """
    from gristmill.kernels.lists.entries import find_whole
    from gristmill.kernels.lists.urls import find_subwords, find_words

    column = pc.fill_null(column, "")
    buffers = utf8_buffers(column)
    findings = _Findings(len(column))
    none = np.diff(buffers[0]) == 0
    findings.add("no_url", np.flatnonzero(none))
    if loaded.domains is not None and loaded.suffixes is not None:
        _add_domains(findings, column, buffers, loaded.domains, loaded.suffixes)
    if loaded.urls is not None:
        rows = np.flatnonzero(find_whole(*buffers, loaded.urls.table))
        findings.add("url", rows, lambda new: column.take(pa.array(rows[new])).to_pylist())
    counts, soft_match = np.zeros(len(column), np.int32), pa.nulls(len(column), pa.string())
    if loaded.words is not None:
        words = find_words(*buffers, loaded.words.table)
        counts, soft_match = _add_words(findings, words.offsets, words.entries, loaded)
    if loaded.subwords is not None:
        subwords, numbers = loaded.subwords, find_subwords(*buffers, loaded.automaton)
        rows = np.flatnonzero(numbers)
        findings.add(
            "blacklisted_subword",
            rows,
            lambda new: map(subwords.text, (numbers[rows[new]] - 1).tolist()),
        )
    if loaded.allow is not None:
        findings.add("not_allowed", _not_allowed(column, buffers, loaded.allow))
    listed, match = findings.arrays()
    soft_words = pa.array(counts, mask=none)
    return Measured(
        {"list": listed, "match": match, "soft_words": soft_words, "soft_match": soft_match}
    )


def _add_domains(
    found: _Findings, column: pa.Array, buffers: Buffers, domains: _List, suffixes: Suffixes
) -> None:
    """Where some domain above a host is listed: whether it is the registered one, or the host."""
    from gristmill.kernels.lists.entries import find_whole
    from gristmill.kernels.lists.urls import find_domains

    # Neither a registered domain nor a host with a public suffix is one label alone.
    rows = np.flatnonzero(find_domains(*buffers, domains.table, least_dots=1))
    splits = [suffixes.split(url) for url in column.take(pa.array(rows)).to_pylist()]
    registered, hosts = [split.registered for split in splits], [split.host for split in splits]
    for name, texts in (("domain", registered), ("subdomain", hosts)):
        listed = np.flatnonzero(
            find_whole(*utf8_buffers(pa.array(texts, pa.string())), domains.table)
        )
        found.add(name, rows[listed], partial(_some, [texts[place] for place in listed.tolist()]))


def _some(texts: list[str], places: np.ndarray) -> list[str]:
    return [texts[place] for place in places.tolist()]


def _add_words(
    found: _Findings, offsets: np.ndarray, entries: np.ndarray, loaded: _LoadedLists
) -> tuple[np.ndarray, pa.Array]:
    """Of each URL the first hard word; how many soft ones there are, and which."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    words = cast("_List", loaded.words).entries
    hard = np.flatnonzero(loaded.hard[entries])
    hard_rows, first = np.unique(rows[hard], return_index=True)
    found.add(
        "hard_blacklisted",
        hard_rows,
        lambda new: map(words.text, entries[hard[first[new]]].tolist()),
    )
    soft = np.flatnonzero(loaded.soft[entries])
    counts = np.bincount(rows[soft], minlength=len(offsets) - 1).astype(np.int32)
    named = pa.array([words.text(entry) for entry in entries[soft].tolist()], pa.string())
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), named), " ")
    return counts, pc.if_else(pa.array(counts > 0), joined, None).cast(pa.string())


def _not_allowed(column: pa.Array, buffers: Buffers, allow: _List) -> np.ndarray:
    """Return the rows whose host is not under a domain of the list."""
    from gristmill.kernels.lists.urls import find_domains

    numbers = find_domains(*buffers, allow.table, fold=True)
    uncut = np.flatnonzero(numbers < 0)
    hosts = pa.array(
        [written_host(url) for url in column.take(pa.array(uncut)).to_pylist()], pa.string()
    )
    numbers[uncut] = find_domains(*utf8_buffers(hosts), allow.table, cut=False, fold=True)
    return np.flatnonzero(numbers == 0)
