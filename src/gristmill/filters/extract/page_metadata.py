"""What a page says of itself: title, author, date, site and language, out of its tokens.

In this order, the first that is there:

    title     og:title, JSON-LD headline, twitter:title, citation_title, dc.title, <title>
    author    JSON-LD author, citation_author, author, dc.creator, parsely-author, article:author
              that is no address, twitter:data1 whose label says "Written by"; several are joined by
              "; ". Else the first byline (BYLINE) whose text is a name
    date      JSON-LD datePublished, article:published_time, other names of DATES, the first
              <time datetime>: as YYYY-MM-DD, of 1990 to 2100, what is none is passed over
    site      og:site_name, JSON-LD publisher, application-name, twitter:site
    language  <html lang>, content-language, og:locale, JSON-LD inLanguage: the first subtag

Values are text: white space is one space, control characters are removed, at most 300 characters
stay. Of hostile pages at most 400 tags and 16 scripts of 256 KiB are read.
"""

import datetime
import html
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.html.names import ATTRIBUTE, ELEMENT
from gristmill.kernels.html.tokens import CLOSED, RAW, START, TEXT, Attributes, PageTokens

FIELDS = ("title", "author", "date", "site", "language")
TITLES = ("og:title", "json:headline", "twitter:title", "citation_title", "dc.title")
AUTHORS = ("json:author", "citation_author", "author", "dc.creator", "parsely-author")
DATES = (
    "json:datePublished",
    "article:published_time",
    "datepublished",
    "citation_publication_date",
    "citation_date",
    "dc.date.issued",
    "dc.date",
    "dcterms.created",
    "parsely-pub-date",
    "sailthru.date",
    "pubdate",
    "publishdate",
    "date",
    "time",
)
SITES = ("og:site_name", "json:publisher", "application-name", "twitter:site")
LANGUAGES = ("html", "content-language", "og:locale", "json:inLanguage")
MOST_TAGS, MOST_SCRIPTS, LONGEST_SCRIPT, MOST_PARTS, LONGEST = 400, 16, 1 << 18, 2000, 300
MOST_BYLINES, BYLINE_TOKENS = 40, 12  # that are looked at

_META, _HTML, _TIME, _SCRIPT = (ELEMENT[name] for name in ("meta", "html", "time", "script"))
_KEYS = {ATTRIBUTE[name] for name in ("name", "property", "itemprop", "http-equiv")}
_CONTENT, _LANG, _DATETIME, _TYPE = (
    ATTRIBUTE[name] for name in ("content", "lang", "datetime", "type")
)
_OF_BYLINE = np.array([ATTRIBUTE[name] for name in ("class", "rel", "itemprop", "href")])
_DATE = re.compile(r"(?<!\d)(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_SUBTAG = re.compile(r"\s*([A-Za-z]{2,8})(?:[-_\s,]|$)")  # RFC 5646, 2.1
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]+")
# Of a byline: what an element's class, rel, itemprop or the path that it links to has in it.
BYLINE = (b"author", b"byline")
# What names a byline in twitter:label1.
_WRITTEN_BY = ("written by", "verfasst von", "geschrieben von", "écrit par", "escrito por")
_BY = re.compile(r"\A(?:(?:written|posted|published|words)\s+)?by\b:?\s*", re.IGNORECASE)
_BETWEEN_NAMES = re.compile(r"\s+(?:and|&)\s+|,\s+")
_NAME = re.compile(r"[^\W\d_][\w.'\u2019-]*")
_PARTICLE = re.compile("de|del|der|den|van|von|da|di|dos|du|la|le|al|bin|ben|el|y|e")
_NO_NAME = re.compile(
    "about|authors?|written|posted|published|by|more|posts?|editors?|editorial|view|all|follow|share|"
    "profile|contributors?|staff|the|meet|our|read|latest|articles?|updated|reviewed|team|on|in|at|"
    "for|subscribe",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\s*(?:https?:|//|www\.|@)", re.IGNORECASE)


class PageMetadata(NamedTuple):
    """What a page says of itself; null: nothing."""

    title: str | None
    author: str | None
    date: str | None
    site: str | None
    language: str | None


def _clean(value: str) -> str:
    """Return a value in one line, bounded."""
    text = " ".join(_CONTROL.sub(" ", html.unescape(value[: 8 * LONGEST])).split())[:LONGEST]
    return text.encode("utf-8", "ignore").decode().strip()


class _Reader:
    """What the tags of a page say, by lower-case name."""

    def __init__(self, page: np.ndarray, tokens: PageTokens, attributes: Attributes) -> None:
        self.page, self.tokens, self.attributes = page, tokens, attributes
        self.said: dict[str, list[str]] = {}

    def text(self, start: int, stop: int) -> str:
        return self.page[start:stop].tobytes().decode("utf-8", "replace")

    def add(self, name: str, value: object) -> None:
        if isinstance(value, str) and (text := _clean(value)):
            values = self.said.setdefault(name, [])
            if len(values) < 20 and text not in values:
                values.append(text)

    def attributes_of(self, token: int) -> dict[int, str]:
        first, stop = self.tokens.attributes[token : token + 2]
        names, starts, stops = self.attributes
        longest = 8 * LONGEST
        return {
            int(names[k]): self.text(starts[k], min(stops[k], starts[k] + longest))
            for k in range(first, min(stop, first + 20))
        }

    def read(self, count: int) -> None:
        names, kinds = self.tokens.names[:count], self.tokens.kinds[:count]
        wanted = (names == _META) | (names == _HTML) | (names == _TIME) | (names == _SCRIPT)
        wanted &= (kinds == START) | (kinds == CLOSED)
        scripts = 0
        places = np.flatnonzero(wanted)
        others = places[names[places] != _SCRIPT][:MOST_TAGS]
        for token in others.tolist():
            attributes = self.attributes_of(token)
            if names[token] == _META:
                for key in _KEYS & attributes.keys():
                    self.add(attributes[key].strip().lower(), attributes.get(_CONTENT))
            elif names[token] == _HTML:
                self.add("html", attributes.get(_LANG))
            else:
                self.add("time", attributes.get(_DATETIME))
        for token in places[names[places] == _SCRIPT][:MOST_TAGS].tolist():
            if scripts < MOST_SCRIPTS and token + 1 < count and kinds[token + 1] == RAW:
                kind = self.attributes_of(token).get(_TYPE, "").lower()
                start, stop = self.tokens.starts[token + 1], self.tokens.stops[token + 1]
                if "ld+json" in kind and stop - start <= LONGEST_SCRIPT:
                    scripts += 1
                    self.read_json(self.text(start, stop))

    def read_json(self, text: str) -> None:
        try:
            data = json.loads(text.strip().rstrip(";"), strict=False)
        except (ValueError, RecursionError):
            return
        for part in _objects(data):
            if "headline" not in part and "datePublished" not in part:
                continue
            for name in ("headline", "datePublished", "inLanguage"):
                self.add(f"json:{name}", part.get(name))
            for name in ("author", "publisher"):
                for value in _names(part.get(name)):
                    self.add(f"json:{name}", value)

    def byline(self, count: int) -> str | None:
        """Return the name in the first element that is an author's."""
        starts = self.tokens.starts[:count]
        last = -1
        for at in _places(self.page.tobytes().lower()):
            token = int(np.searchsorted(starts, at, "right")) - 1
            if token <= last or self.tokens.kinds[token] != START:
                continue
            first, stop = self.tokens.attributes[token : token + 2]
            names, begins, ends = (column[first:stop] for column in self.attributes)
            inside = (begins <= at) & (at < ends)
            if not (inside & np.isin(names, _OF_BYLINE)).any():
                continue
            last = token
            for place in range(token + 1, min(token + 1 + BYLINE_TOKENS, count)):
                if self.tokens.kinds[place] == TEXT:
                    begin = int(starts[place])
                    end = min(int(self.tokens.stops[place]), begin + LONGEST)
                    if name := _name_in(_clean(self.text(begin, end))):
                        return name
        return None

    def first(self, names: tuple[str, ...]) -> str | None:
        return next((self.said[name][0] for name in names if name in self.said), None)


def _objects(found: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON value, outer ones first, at most MOST_PARTS."""
    todo, place = [found], 0
    while place < min(len(todo), MOST_PARTS):
        part = todo[place]
        place += 1
        if isinstance(part, dict):
            yield part
            todo += [value for value in part.values() if isinstance(value, dict | list)]
        elif isinstance(part, list):
            todo += part[:MOST_PARTS]


def _names(value: Any) -> Iterator[object]:
    """Yield the names of a person, of several, or of an organisation."""
    for part in value[:20] if isinstance(value, list) else [value]:
        yield part.get("name") if isinstance(part, dict) else part


def _places(page: bytes) -> list[int]:
    """Return where the words of BYLINE are in a page, the first of them."""
    places = []
    for word in BYLINE:
        at = page.find(word)
        for _ in range(MOST_BYLINES):
            if at < 0:
                break
            places.append(at)
            at = page.find(word, at + len(word))
    return sorted(places)


def _name_in(text: str) -> str | None:
    """Return the names that a byline's text is; None: it is something else."""
    names = []
    for name in _BETWEEN_NAMES.split(_BY.sub("", text)[:LONGEST])[:4]:
        words = name.split()
        known = all(_NAME.fullmatch(word) and not _NO_NAME.fullmatch(word) for word in words)
        large = [word for word in words if not _PARTICLE.fullmatch(word.lower())]
        small = any(word[0].islower() for word in large)
        if not known or not large or small or not 2 <= len(words) <= 4:
            break
        names.append(" ".join(words))
    return "; ".join(names) or None


def _date(said: dict[str, list[str]]) -> str | None:
    """Return the first date that is one."""
    for name in DATES:
        for value in said.get(name, ()):
            for match in _DATE.finditer(value):
                try:
                    date = datetime.date(*map(int, match.groups()))
                except ValueError:
                    continue
                if 1990 <= date.year <= 2100:
                    return date.isoformat()
    return None


def read(
    page: np.ndarray, tokens: PageTokens, attributes: Attributes, count: int, title: str | None
) -> PageMetadata:
    """Return what a page (bytes,) uint8 of `count` tokens says of itself; title: that of
    <title>.
    """
    reader = _Reader(page, tokens, attributes)
    reader.read(count)
    said = reader.said
    authors = next(([*said[name]] for name in AUTHORS if name in said), [])
    authors = authors or said.get("article:author", [])
    authors = [author for author in authors if not _ADDRESS.match(author)]
    if not authors and said.get("twitter:label1", [""])[0].lower() in _WRITTEN_BY:
        authors = said.get("twitter:data1", [])
    if not authors and (name := reader.byline(count)):
        authors = [name]
    language = next(
        (
            match[1].lower()
            for name in LANGUAGES
            for value in said.get(name, ())
            if (match := _SUBTAG.match(value))
        ),
        None,
    )
    return PageMetadata(
        reader.first(TITLES) or (title and _clean(title)) or None,
        "; ".join(authors)[:LONGEST] or None,
        _date(said),
        reader.first(SITES),
        language,
    )


def with_fields(extra: str | None, found: PageMetadata) -> str | None:
    """Return the JSON of `extra` with page_title, page_author and the like, those that a page
    has.
    """
    fields = {
        f"page_{name}": value
        for name, value in zip(FIELDS, found, strict=True)
        if value is not None
    }
    if not fields:
        return extra
    before = json.loads(extra) if extra else {}
    return json.dumps({**before, **fields}, ensure_ascii=False, separators=(",", ":"))
