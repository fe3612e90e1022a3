"""Main text of a page by kernels: tokens, elements and blocks in arrays, a row of numbers for
each block, a forest of small trees, and the page's own threshold (docs/adr/0026-main-text.md).

The forest is main_text.npz beside this file; scripts/main_text_forest.py makes it, and says of
which pages.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.filters.extract import page_metadata
from gristmill.kernels.html import blocks, copies, counts, features, parts, tokens, written
from gristmill.kernels.html.names import ATTRIBUTE, ELEMENT
from gristmill.kernels.models import page_forest, page_types

BETAS = {"balanced": 0.75, "precision": 0.5, "recall": 1.5}
DOCUMENTATION_BETA = 1.5  # in balanced mode, of pages whose likeliest type is documentation
# Types of pages (WCXB's): `collection` lists what the site has, `service` is what a firm says of
# itself, `listing` are items with a text each.
TYPES = ("article", "collection", "documentation", "forum", "listing", "product", "service")
LEAST_ROOM = 1 << 20
HTML, LANG = ELEMENT["html"], ATTRIBUTE["lang"]
NOTHING = np.empty(0, np.float64)
# MathJax or KaTeX, which show it is in the page; that all begin with one letter makes it fast
TEX_IN_TEXT = re.compile(rb"a(?:(?<=[Mm]a)th[Jj]ax|(?<=[Kk]a)[Tt]e[Xx])")
FIRST_TAGS = 8  # of which one may be <html>
_FIRST_SUBTAG = re.compile(r"\s*([A-Za-z]{1,8})(?:[-_\s]|$)")  # RFC 5646, 2.1


class MainText(NamedTuple):
    """What was found in one page."""

    text: str
    title: str | None  # of <title>
    language: str | None  # the first subtag of <html lang>
    blocks: int
    kept: int  # blocks
    words: int  # of all blocks
    words_kept: int
    letters_kept: int  # bytes that are no white space
    linked_kept: int  # of them in links
    depth: int  # elements that lie in one another
    types: np.ndarray  # of each of TYPES how likely it is, (7,) float64
    metadata: page_metadata.PageMetadata | None  # where it is asked for


class Forests(NamedTuple):
    """What main_text.npz has."""

    main_text: page_forest.Forest
    types: page_forest.Forest  # tree k is of TYPES[k mod 7]


def read_forests(path: Path) -> Forests:
    """Return the forests of a file, their columns by the names of what rows have."""
    places = {name: place for place, name in enumerate(features.NAMES)}
    with np.load(path, allow_pickle=False) as tables:

        def forest(prefix: str) -> page_forest.Forest:
            columns = np.array([places[str(name)] for name in tables[f"{prefix}names"]], np.int32)
            return page_forest.Forest(
                int(tables[f"{prefix}depth"]),
                columns[tables[f"{prefix}columns"]],
                np.ascontiguousarray(tables[f"{prefix}thresholds"], np.float32),
                np.ascontiguousarray(tables[f"{prefix}leaves"], np.float32),
            )

        return Forests(forest(""), forest("types_"))


class Modes(NamedTuple):
    """What is asked for, as Extract's parameters say (filters/extract/extract.py)."""

    favor: str = "balanced"
    markdown: bool = False
    comments: bool | None = None
    articles: str = "all"
    tables: bool = True
    lists: bool = True
    headings: bool = True
    links: bool = False
    metadata: bool = False

    def left_out(self) -> int:
        """Return the parts that are left out, as bits (kernels/html/parts.py)."""
        return (
            parts.COMMENTS * (self.comments is False)
            | parts.LATER * (self.articles == "first")
            | parts.TABLES * (not self.tables)
            | parts.LISTS * (not self.lists)
            | parts.HEADINGS * (not self.headings)
        )


class Extractor:
    """Extracts pages one after another, in arrays that it keeps."""

    def __init__(self, modes: Modes) -> None:
        self.favor = modes.favor
        self.markdown, self.links = modes.markdown, modes.links
        self.metadata = modes.metadata
        self.comments = modes.comments
        self.left_out = modes.left_out()
        forest, self.types = read_forests(Path(__file__).with_name("main_text.npz"))
        self.scorer = page_forest.make_scorer(forest)
        self.room = -1

    def _make_room(self, size: int) -> None:
        if size > self.room:
            self.room = max(2 * self.room, size, LEAST_ROOM)
            self.tokens, self.attributes = tokens.room(self.room)
            self.work = blocks.room(self.room)
            self.counts = counts.room(self.room)

    def __call__(self, page: np.ndarray) -> MainText:
        """Return the main text of a page (bytes,) uint8 in UTF-8."""
        self._make_room(len(page))
        work = self.work
        count = tokens.tokenize(page, self.tokens, self.attributes)
        elements, block_count, size = blocks.build(page, self.tokens, self.attributes, count, work)
        counts.count(work.text, work.elements, work.blocks, (elements, block_count), self.counts)
        scores, mean = [NOTHING], page_types.Mean()
        for rows in features.features(work.elements, work.blocks, block_count, self.counts):
            scores.append(page_forest.score(rows, self.scorer))
            mean.add(rows)
        types = page_types.shares(mean.row(), self.types, len(TYPES))
        counted = self.counts.counts
        kept = page_forest.choose(
            work.blocks, block_count, counted, np.concatenate(scores), self._beta(types)
        )
        kept = copies.leave_copies(work.text, work.blocks, counted.words[:block_count], kept)
        if self.comments:
            kept = parts.add_comments(work.elements, elements, work.blocks, counted, kept)
        if self.left_out:
            kept = parts.leave_out(
                work.elements, elements, work.blocks, counted, kept, self.left_out
            )
        if self.markdown:
            text = self._markdown(page, count, elements, kept)
        else:
            text = written.write(work.text, work.elements, work.blocks, kept, size)
        block = int(self.counts.page[counts.TITLE_BLOCK])
        title = self._block(block) if block >= 0 else None
        metadata = None
        if self.metadata:
            metadata = page_metadata.read(page, self.tokens, self.attributes, count, title)
        return MainText(
            text.decode("utf-8", "replace"),
            title,
            self._language(page, count),
            block_count,
            int(np.count_nonzero(kept)),
            int(counted.words[:block_count].sum()),
            int(counted.words[:block_count][kept].sum()),
            int(counted.letters[:block_count][kept].sum()),
            int(work.blocks.linked[:block_count][kept].sum()),
            int(work.elements.depths[:elements].max()) + 1,
            types,
            metadata,
        )

    def _beta(self, types: np.ndarray) -> float:
        """Return the weight of recall for a page of these types."""
        if self.favor == "balanced" and TYPES[int(types.argmax())] == "documentation":
            return DOCUMENTATION_BETA
        return BETAS[self.favor]

    def _markdown(self, page: np.ndarray, count: int, elements: int, kept: np.ndarray) -> bytes:
        """Return the kept blocks as Markdown."""
        from gristmill.filters.extract.markdown import page_source, writer  # where asked for

        work = self.work
        source = page_source.page_source(page, self.tokens, self.attributes, count)
        raw_tex = TEX_IN_TEXT.search(source.data) is not None
        return writer.write(source, work.elements, elements, work.blocks, kept, self.links, raw_tex)

    def _block(self, block: int) -> str:
        """Return the text of a block in one line."""
        span = slice(self.work.blocks.starts[block], self.work.blocks.stops[block])
        return " ".join(self.work.text[span].tobytes().decode("utf-8", "replace").split())

    def _language(self, page: np.ndarray, count: int) -> str | None:
        """Return what <html lang> says."""
        for token in range(min(count, FIRST_TAGS)):
            if self.tokens.names[token] == HTML and self.tokens.kinds[token] == tokens.START:
                first, stop = self.tokens.attributes[token : token + 2]
                for place in range(first, stop):
                    if self.attributes.names[place] == LANG:
                        span = slice(self.attributes.starts[place], self.attributes.stops[place])
                        said = page[span].tobytes().decode("utf-8", "replace")
                        match = _FIRST_SUBTAG.match(said)
                        return match and match[1]
        return None


def make_measures(found: Sequence[MainText | None]) -> dict[str, pa.Array]:
    """Return the measures of n rows; null where there is no page."""

    def column(of: Callable[[MainText], float], kind: pa.DataType) -> pa.Array:
        return pa.array([None if page is None else of(page) for page in found], kind)

    whole, part = pa.int64(), pa.float64()
    return {
        "depth": column(lambda page: page.depth, whole),
        "blocks": column(lambda page: page.blocks, whole),
        "kept_share": column(lambda page: page.words_kept / max(page.words, 1), part),
        "link_share": column(lambda page: page.linked_kept / max(page.letters_kept, 1), part),
        "characters": column(lambda page: len(page.text), whole),
        **{f"type_{name}": column(_share_at(place), part) for place, name in enumerate(TYPES)},
    }


def _share_at(place: int) -> Callable[[MainText], float]:
    return lambda page: float(page.types[place])
