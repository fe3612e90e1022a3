"""Real pages for experiments, from the folder $GRISTMILL_DATA: what a crawl would have brought, and
texts to judge a model by.

`write_inputs` writes what is not a shard yet, and says which files are which source:

    pages        web pages: crawls of 2008 and 2016, sites of CleanEval and CleanPortalEval as WARC,
                 and pages that others chose to test Readability with
    government   gov.uk as text of Common Crawl, with menus and cookie banners; of 496 captures many
                 are of one page
    manuals      HTML of Debian's documentation; one page in ten is in another language
    postgresql   two versions of one manual as text, with the links to the pages beside
    books        English novels in pieces, for the mix alone

and in held_out/ what no corpus may contain: `articles` (their text as people marked it), `manuals`
(main text of packages of their own), `prose` (novels of their own). wikipedia.txt is what the
perplexity model learns from.
"""

import gzip
import hashlib
import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from gristmill import RecipeError, extract

try:
    from compression import zstd
except ImportError:  # before Python 3.14
    from backports import zstd

Extractor = Literal["resiliparse", "trafilatura", "gristmill"]
SETS = ("A_warc", "B_html", "C_neardup", "I_prose", "J_debian_docs")
CRAWLS = (
    "A_warc/cc_arc_2008/cc2008_a.warc.gz",
    "A_warc/cc_sparkwarc_CC-MAIN-2016-50/sample.wet.fixed.gz",
    "A_warc/ia_blackbook_2008/example.warc.gz",
    "B_html/_warc/cleaneval-dev.warc.gz",
    "B_html/_warc/cleanportaleval-master.warc.gz",
)
HELD_PACKAGES = ("debian-reference-en", "aptitude-doc-en", "debian-faq")
ENGLISH = ("/en-US/", "/en/", ".en.html", "/python3.11/", "/postgresql-doc-15/")
HELD_NOVELS = 5  # of 50; the others are books
PIECE, HELD_PIECE = 12_000, 3_000  # characters of a novel that are one document
LEAST = 500  # characters of a held-out text


def write_inputs(
    data: Path, out: Path, one_in: int, extractor: Extractor = "resiliparse"
) -> dict[str, list[str]]:
    """Write the inputs below `out`; the files of each source, from there or absolute.

    Of manuals one page in `one_in` is taken, the same ones each time. `extractor` takes the main
    text of the held-out manuals. Raises RecipeError where the
    data is not there.
    """
    if absent := [name for name in SETS if not (data / name).is_dir()]:
        raise RecipeError(
            f"{data} has no folder {absent[0]}: name the folder of the data by --data or "
            "GRISTMILL_DATA"
        )
    novels = sorted((data / "I_prose/english_novels").glob("*.txt"))
    kept, held = novels[HELD_NOVELS:], novels[:HELD_NOVELS]
    write(out / "pages.jsonl", readability_pages(data))
    write(out / "government.jsonl", near_texts(data / "C_neardup/govuk_cc_wet_2024a", 1))
    write(out / "postgresql.jsonl", near_texts(data / "C_neardup/postgresql_doc_13_15", one_in))
    manuals = list(manual_pages(data))
    write(
        out / "manuals.jsonl",
        (
            page
            for name, page in manuals
            if name.split("/")[0] not in HELD_PACKAGES
            and drawn(name, one_in if english(name) else 10 * one_in)
        ),
    )
    write(out / "books.jsonl", pieces(kept, PIECE))
    write(out / "held_out/articles.jsonl", shuffled(articles(data)))
    found = (
        extract(page, extractor=extractor) or ""
        for name, page in manuals
        if name.split("/")[0] in HELD_PACKAGES
    )
    found = (text for text in found if len(text) >= LEAST)
    write(out / "held_out/manuals.jsonl", shuffled(found))
    write(out / "held_out/prose.jsonl", shuffled(pieces(held, HELD_PIECE)))
    wikipedia = (data / "I_prose/wikitext-2_valid.txt").read_text(encoding="utf-8")
    (out / "wikipedia.txt").write_text(
        "\n\n".join(line.strip() for line in wikipedia.split("\n") if len(line) > LEAST)
    )
    return {
        "pages": [*(str(data / name) for name in CRAWLS), "pages.jsonl"],
        "government": ["government.jsonl"],
        "manuals": ["manuals.jsonl"],
        "postgresql": ["postgresql.jsonl"],
        "books": ["books.jsonl"],
    }


def shuffled(texts: Iterable[str]) -> list[str]:
    """Texts by their hashes: the first of them are a sample of all."""
    return sorted(texts, key=lambda text: hashlib.blake2b(text.encode()).digest())


def write(path: Path, texts: Iterable[str]) -> None:
    """Write texts as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}) + "\n")


def drawn(name: str, one_in: int) -> bool:
    """Whether a name is in a sample of one in `one_in`: by its hash, the same each time."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % one_in == 0


def readability_pages(data: Path) -> Iterator[str]:
    """The pages of Readability's tests, as HTML."""
    for path in sorted((data / "B_html/mozilla-readability").glob("*/source.html")):
        yield path.read_text(encoding="utf-8", errors="replace")


def near_texts(folder: Path, one_in: int) -> Iterator[str]:
    """Texts with near duplicates: all versions of one page in `one_in`."""
    with gzip.open(folder / "docs.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            # An id is the version and the page.
            if drawn(row["id"].partition(":")[2], one_in):
                yield row["text"]


def manual_pages(data: Path) -> Iterator[tuple[str, str]]:
    """Names and HTML of the pages of manuals."""
    with (
        zstd.open(data / "J_debian_docs/html.tar.zst", "rb") as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None and member.name.endswith((".html", ".htm")):
                yield member.name, content.read().decode("utf-8", "replace")


def english(name: str) -> bool:
    """Whether a page of a manual is an English one, by its path."""
    return any(part in name for part in ENGLISH)


def articles(data: Path) -> Iterator[str]:
    """The articles of a benchmark of extraction, as people marked them."""
    path = data / "B_html/article-extraction-benchmark/ground-truth.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    for name in sorted(found):
        if len(text := found[name]["articleBody"]) >= LEAST:
            yield text


def pieces(novels: Iterable[Path], size: int) -> Iterator[str]:
    """Novels, cut between paragraphs into pieces of about `size` characters."""
    for path in novels:
        taken: list[str] = []
        for paragraph in path.read_text(encoding="utf-8-sig").split("\n"):
            taken.append(paragraph.strip())
            if sum(map(len, taken)) >= size:
                yield "\n".join(taken)
                taken = []
