"""Pages of manuals in many languages whose main text is known from their structure, for
scripts/main_text_forest.py.

The pages are those of Debian's documentation packages (Debian 12), unpacked one a folder
(`dpkg-deb -x PACKAGE.deb DIR/PACKAGE`): those of MANUALS. What their generator writes around the
text is known: DocBook's and Publican's navigation, the boxes of Sphinx and of LibreOffice's help.
All the rest is main text, tables of contents and listings included.

A generator is the site of its manuals: a forest is judged on the pages of a generator that it has
not seen.
"""

import gzip
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lxml.html

# Names of packages, their generator, and how many pages are taken of each language.
MANUALS = (
    ("aptitude-doc-.*", "docbook", 4),
    ("debian-edu-doc-.*", "docbook", 4),
    ("debian-faq.*", "docbook", 4),
    ("debian-reference-.*", "docbook", 4),
    ("debmake-doc", "docbook", 5),
    ("maint-guide-.*", "docbook", 4),
    ("installation-guide-amd64", "docbook", 5),
    ("postgresql-doc-15", "docbook", 25),
    ("developers-reference.*", "sphinx", 4),
    ("python3.11-doc", "sphinx", 25),
    ("python-django-doc", "sphinx", 25),
    ("python-sqlalchemy-doc", "sphinx", 20),
    ("exim4-doc-html", "exim", 15),
    ("debian-handbook", "publican", 5),
    ("libreoffice-help-.*", "libreoffice", 8),
)
MAIN = {  # what holds the main text: the first that is there
    "sphinx": ("//*[@role='main']", "//div[@class='body']", "//div[@id='docs-body']"),
    "libreoffice": ("//*[@id='DisplayArea']",),
    "exim": ("//*[@id='content']",),
}
AROUND = {  # what is not main text
    "docbook": "//div[@class='navheader' or @class='navfooter']",
    "publican": "//*[@id='banner']|//p[@id='title']|//ul[starts-with(@class,'docnav')]",
}
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code del dfn em font i ins kbd label mark q s samp small "
    "span strike strong sub sup time tt u var wbr img".split()
)
LARGEST, LEAST = 600_000, 150  # bytes of a page, letters of its text


class Manual(NamedTuple):
    """A page of a manual."""

    generator: str
    name: str  # its package, and its language where one package has several
    source: str
    truth: str


def _write(element: lxml.html.HtmlElement, out: list[str]) -> None:
    if isinstance(element.tag, str) and element.tag not in ("script", "style", "noscript"):
        line = "" if element.tag in INLINE else "\n"
        out += [line, element.text or ""]
        for child in element:
            _write(child, out)
        out.append(line)
    out.append(element.tail or "")


def main_text(source: str, generator: str) -> str | None:
    """The main text of a page, by its generator's structure; None: it has another."""
    tree = lxml.html.fromstring(re.sub(r"\A\s*<\?xml[^>]*\?>", "", source))
    body = tree.find(".//body")
    if body is None:
        return None
    if generator in MAIN:
        body = next((found[0] for path in MAIN[generator] if (found := body.xpath(path))), None)
        if body is None:
            return None
    else:
        around = body.xpath(AROUND[generator])
        if generator == "docbook" and not around:
            return None
        for element in around:
            element.drop_tree()
    for element in body.xpath(".//a[@class='headerlink']"):
        element.drop_tree()
    body.tail = None
    out: list[str] = []
    _write(body, out)
    return re.sub(r"[ \t]+", " ", "".join(out))


def _language(path: str) -> str:
    """What a path says of the language, where one package has several."""
    match = re.search(
        r"handbook/html/([^/]+)/|doc/installation-guide-amd64/([^/]+)/|debmake-.*\.([a-z-]+)\.html",
        path,
    )
    return next(filter(None, match.groups()), "") if match else ""


def manuals(folder: Path) -> Iterator[Manual]:
    """The pages of all manuals below a folder, tables of contents first, others as drawn."""
    for package in sorted(folder.iterdir()):
        kind = [row for row in MANUALS if re.fullmatch(row[0], package.name)]
        if not kind:
            continue
        _, generator, most = kind[0]
        groups: dict[str, list[Path]] = {}
        for path in sorted([*package.rglob("*.html"), *package.rglob("*.html.gz")]):
            listed = any(word in path.name for word in ("search", "genindex", "modindex"))
            outside = generator == "libreoffice" and "/text/" not in str(path)
            if not (path.is_symlink() or listed or outside):
                groups.setdefault(_language(str(path)), []).append(path)
        for language, paths in sorted(groups.items()):
            random.Random(1).shuffle(paths)
            paths.sort(key=lambda path: not path.name.startswith("index"))
            found = 0
            for path in paths:
                if found < most and (page := _read(path, generator)):
                    found += 1
                    yield Manual(generator, f"{package.name} {language}".strip(), *page)


def _read(path: Path, generator: str) -> tuple[str, str] | None:
    """A page and its main text; None: too large, too short, or of another structure."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if len(data) > LARGEST:
        return None
    charset = re.search(rb"charset=[\"']?([A-Za-z0-9_-]+)", data[:2000])
    source = data.decode(charset[1].decode() if charset else "utf-8", "replace")
    truth = main_text(source, generator)
    if truth is None or len(re.findall(r"\w", truth)) < LEAST:
        return None
    return source, truth
