"""Main text out of HTML by our own kernels (filters/extract/main_text.py); with `extractor` by
resiliparse (DCLM's) or trafilatura (RefinedWeb's and FineWeb's).

A parameter that only the libraries have (LIBRARY) asks for a library too: resiliparse, unless
`extractor` names another.

The reasons to drop a page are checked in the order of `reasons`; of a page over max_bytes nothing
is parsed.

Every row is taken for HTML but those whose content_type is text/plain; with only_pages none is but
those of text/html and application/xhtml+xml. Other rows pass unchanged, with null measures. The
step fills `title` from <title>, and `declared_language` where it is null from the first subtag of
<html lang>.

HTML's own parsing rules are quadratic and worse (kernels/html/parse_cost.py), so each page's cost
is bounded before a parser sees it. Where a page is over the bound, as much of it is parsed as is
within, to distinguish too_deep from too_costly. Resiliparse's main-content extraction is quadratic
in depth (8,000 levels: 1.8 s), which max_depth bounds. `depth` is counted on the parsed tree, but
only where the bound does not rule out that it is over max_depth; elsewhere it is null.

What trafilatura takes was measured, in steps of some 10 ns: TAG an element; CROWD for each two
elements of one paragraph (it merges the texts of all elements of a paragraph by XPath); PART for
each two stretches of text (justext, its fallback, looks for the neighbour of every short one).

    work = TAG * tags + CROWD * crowd + PART * parts squared

Settings: resiliparse `main_content=True, alt_texts=False` and its defaults besides (as DCLM's code:
Li 2024, arXiv 2406.11794); trafilatura `favor_precision=True, include_comments=False` (as
datatrove's), with `deduplicate=False`, which would make a page's text depend on those before it. No
extraction is stopped by a clock.

Our own kernels take time linear in a page's bytes whatever it holds. How likely a page is of each
type (`type_article` and so on) is 1 together.
"""

import functools
import importlib.util
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import (
    Check,
    Decision,
    Inputs,
    Measured,
    Rule,
    Step,
    check,
    decide_by,
)
from gristmill.filters.extract.page_rows import Page, is_page, merge_texts, page_columns
from gristmill.filters.extract.tree_depth import tree_depth
from gristmill.tables.columns import utf8_buffers, well_formed

# Parameters that our own extraction has not, nor this value of `format`.
LIBRARY = ("extractor", "main_content", "max_steps", "max_work", "max_tags", "favor_precision")
LIBRARY_FORMAT = "minimal_html"
MEASURES = ("bytes", "steps", "tags", "work", "depth", "failed", "characters")

WALK = 1024  # steps that one element costs where the tree is walked from Python, some 10 us
TAG, CROWD, PART = 10_000, 5, 10  # steps that trafilatura takes for an element, and for each pair

_FIRST_SUBTAG = re.compile(r"\s*([A-Za-z]{1,8})(?:[-_\s]|$)")  # RFC 5646, 2.1

PageType = Literal[
    "article", "collection", "documentation", "forum", "listing", "product", "service"
]
Extractor = Callable[[Any, str], str]  # the tree, the source -> text


class Extract(Step, frozen=True, kw_only=True):
    """Replace HTML by its main text, by our own kernels.

    Title and language of the page become columns. With `extractor` a library extracts. Origin: this
    project (docs/adr/0026-main-text.md); DCLM; RefinedWeb, FineWeb.
    """

    name: ClassVar[str] = "extract"
    version: ClassVar[int] = 6
    takes_pages: ClassVar[bool] = True
    example: ClassVar[str] = 'format = "markdown"'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "bytes > max_bytes -> too_large: The page has more than `max_bytes` bytes.",
        "depth > max_depth -> too_deep: Elements are in one another more than `max_depth` deep.",
        "characters < 1 -> empty: No text is left. For pages of menus and scripts that is right.",
    )
    fixed: ClassVar[frozenset[str]] = frozenset({"max_bytes", "max_depth"})
    reasons: ClassVar[Mapping[str, str]] = {
        "other_type": "The types of `types` are together less likely than `min_type`."
    }
    measures: ClassVar[Mapping[str, str]] = {
        "bytes": "Bytes of the page.",
        "depth": "How deep elements are in one another.",
        "blocks": "Blocks of text on the page.",
        "kept_share": "The share of the page's words that was kept.",
        "link_share": "The share of the kept letters that is in links.",
        "characters": "Characters of the text.",
        "type_NAME": "How likely the page is of the type NAME, such as `type_article`.",
    }

    rules: Literal["gristmill"] = "gristmill"  # Our own kernels extract.
    # What the page's threshold is chosen for: the F1 of its words, or more of one of the two.
    favor: Literal["balanced", "precision", "recall"] = "balanced"
    # Plain text, or Markdown with headings, lists, tables, code, quotes and formulas as TeX.
    format: Literal["text", "markdown"] = "text"
    # Keep all comments that are prose, or none. Unset: as their scores say.
    comments: bool | None = None
    # With `first`, of several `<article>` beside each other only the first is kept.
    articles: Literal["all", "first"] = "all"
    tables: bool = True  # Keep tables.
    lists: bool = True  # Keep lists.
    headings: bool = True  # Keep headings.
    types: tuple[PageType, ...] = ()  # The types of pages that are kept; empty: all.
    # How likely the types of `types` must be together.
    min_type: Annotated[float, Meta(ge=0, le=1)] = 0.5
    # Write title, author, date, site and language of the page to the column `extra`.
    metadata: bool = False
    links: bool = False  # Write links with their targets, in Markdown.
    # Only rows of the types `text/html` and `application/xhtml+xml` are pages; otherwise all but
    # `text/plain` are.
    only_pages: bool = False
    # A page of more bytes is not parsed.
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 28)] = 4 << 20
    max_depth: Annotated[int, Meta(ge=1)] = 1000  # How deep elements may be in one another.

    @classmethod
    def variant(cls, table: Mapping[str, Any]) -> type[Step]:
        """Return our own extraction, or a library's."""
        library = any(name in table for name in LIBRARY) or table.get("format") == LIBRARY_FORMAT
        return LibraryExtract if library and "rules" not in table else cls

    def __post_init__(self) -> None:
        if self.links and self.format == "text":
            raise ValueError('links = true needs format = "markdown"')

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        """Load the forest with the first page."""
        loaded: list[Any] = []

        def measure(batch: pa.RecordBatch) -> Measured:
            from gristmill.filters.extract import main_text, page_metadata

            kinds = batch["content_type"].to_pylist()
            pages = np.array([is_page(kind, self.only_pages) for kind in kinds], bool)
            offsets, data = utf8_buffers(batch["text"])
            sizes = np.diff(offsets).astype(np.int64)
            if pages.any() and not loaded:
                modes = main_text.Modes(
                    self.favor,
                    self.format == "markdown",
                    self.comments,
                    self.articles,
                    self.tables,
                    self.lists,
                    self.headings,
                    self.links,
                    self.metadata,
                )
                loaded.append(main_text.Extractor(modes))
            main_texts = [
                loaded[0](data[offsets[row] : offsets[row + 1]])
                if pages[row] and sizes[row] <= self.max_bytes
                else None
                for row in range(len(batch))
            ]
            measures = {
                "bytes": pa.array(sizes, mask=~pages),
                **main_text.make_measures(main_texts),
            }
            columns = [
                Page() if page is None else Page(page.text, page.title, page.language)
                for page in main_texts
            ]
            filled = page_columns(columns, batch)
            if self.metadata:
                extras = zip(batch["extra"].to_pylist(), main_texts, strict=True)
                filled["extra"] = pa.array(
                    [
                        page_metadata.with_fields(extra, page.metadata)
                        if page is not None and page.metadata is not None
                        else extra
                        for extra, page in extras
                    ],
                    pa.string(),
                )
            return Measured(measures, merge_texts(columns, batch["text"]), filled)

        return measure

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        """Judge pages by what was found."""
        if not self.types:
            return check(self.comparisons, measures)
        shares = [measures[f"type_{name}"] for name in sorted(set(self.types))]
        wanted = functools.reduce(pc.add, shares)
        fits = Check("other_type", "wanted", "<", self.min_type)
        return check((*self.comparisons, fits), {**measures, "wanted": wanted})


class LibraryExtract(Step, frozen=True, kw_only=True):
    """Replace HTML by its main text, by a library."""

    name: ClassVar[str] = "extract"
    version: ClassVar[int] = 2
    takes_pages: ClassVar[bool] = True
    example: ClassVar[str] = 'extractor = "resiliparse"'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "bytes > max_bytes -> too_large: The page has more than `max_bytes` bytes.",
        "depth > max_depth -> too_deep: Elements are in one another more than `max_depth` deep.",
        "steps > max_steps -> too_costly: To parse it may take more than `max_steps`, `max_work` "
        "or `max_tags`.",
        "work > most_work -> too_costly",
        "tags > most_tags -> too_costly",
        "failed > 0 -> failed: The parser or the library raised an error.",
        "characters < 1 -> empty: No text is left. For pages of menus and scripts that is right.",
    )
    fixed: ClassVar[frozenset[str]] = frozenset({"max_bytes", "max_depth", "max_steps"})
    measures: ClassVar[Mapping[str, str]] = {
        "bytes": "Bytes of the page.",
        "steps": "A bound on the cost of parsing it, in steps of some 10 ns.",
        "tags": "Tags of the page.",
        "work": "A bound on trafilatura's cost, in the same steps.",
        "depth": "How deep elements are in one another; null: within `max_depth` for certain.",
        "failed": "1: the parser or the library raised an error.",
        "characters": "Characters of the text.",
    }

    extractor: Literal["resiliparse", "trafilatura"] = "resiliparse"  # The library that extracts.
    main_content: bool = True  # With false the text of the whole page; resiliparse only.
    # Only rows of the types `text/html` and `application/xhtml+xml` are pages; otherwise all but
    # `text/plain` are.
    only_pages: bool = False
    max_bytes: Annotated[int, Meta(ge=1)] = 4 << 20  # A page of more bytes is not parsed.
    # How deep elements may be in one another.
    max_depth: Annotated[int, Meta(ge=1, le=1000)] = 1000
    # The most that parsing a page may cost, in steps of some 10 ns.
    max_steps: Annotated[int, Meta(ge=1, le=1 << 32)] = 1 << 28
    # The most that trafilatura may cost on a page, in the same steps.
    max_work: Annotated[int, Meta(ge=1, le=1 << 40)] = 600_000_000
    # The most elements of a page for trafilatura; for recipes older than `max_work`.
    max_tags: Annotated[int, Meta(ge=1)] | None = None
    favor_precision: bool = True  # For trafilatura: rather too little text than too much.
    # What is written: plain text, trafilatura's Markdown, or resiliparse's reduced HTML.
    format: Literal["text", "markdown", "minimal_html"] = "text"

    def __post_init__(self) -> None:
        if self.extractor == "trafilatura" and not self.main_content:
            raise ValueError(
                "trafilatura gives main content only: main_content = false needs resiliparse"
            )
        if self.extractor == "resiliparse" and self.format == "markdown":
            raise ValueError(
                'resiliparse writes no Markdown: format = "markdown" needs extractor = '
                '"trafilatura" or rules = "gristmill"'
            )
        if self.extractor == "trafilatura" and self.format == "minimal_html":
            raise ValueError(
                'format = "minimal_html" is resiliparse\'s: trafilatura has "markdown"'
            )

    def inputs(self) -> dict[str, str]:
        """Return the version of trafilatura and of what it parses and judges with; that of
        resiliparse is in every manifest.
        """
        libraries = ("trafilatura", "lxml", "justext") if self.extractor == "trafilatura" else ()
        return {f"extract.{library}": f"version:{library}" for library in libraries}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        """Load the extractor with the first page.

        Trafilatura is an extra: without it pages are a RecipeError.
        """
        loaded: list[Extractor] = []

        def measure(batch: pa.RecordBatch) -> Measured:
            pages = np.array(
                [is_page(kind, self.only_pages) for kind in batch["content_type"].to_pylist()], bool
            )
            if not pages.any():
                nothing = pa.nulls(len(batch), pa.int64())
                return Measured(dict.fromkeys(MEASURES, nothing), batch["text"])
            if not loaded:
                loaded.append(
                    self._trafilatura() if self.extractor == "trafilatura" else self._resiliparse()
                )
            return self._measure(batch, pages, loaded[0])

        return measure

    @property
    def most_work(self) -> int | None:
        """Return the most steps that trafilatura may take, if it extracts."""
        return self.max_work if self.extractor == "trafilatura" else None

    @property
    def most_tags(self) -> int | None:
        """Return the most tags, if trafilatura extracts."""
        return self.max_tags if self.extractor == "trafilatura" else None

    def _resiliparse(self) -> Extractor:
        from resiliparse.extract.html2text import extract_plain_text

        formatting: Literal[True, "minimal_html"] = (
            "minimal_html" if self.format == "minimal_html" else True
        )
        return lambda tree, _: extract_plain_text(
            tree, preserve_formatting=formatting, main_content=self.main_content, alt_texts=False
        )

    def _trafilatura(self) -> Extractor:
        if importlib.util.find_spec("trafilatura") is None:
            raise RecipeError(
                'extract: extractor = "trafilatura" needs the package trafilatura: pip '
                'install "gristmill[trafilatura]"'
            )
        from trafilatura import extract

        def text_of(tree: Any, source: str) -> str:
            return (
                extract(
                    source,
                    favor_precision=self.favor_precision,
                    include_comments=False,
                    deduplicate=False,
                    output_format="txt" if self.format == "text" else "markdown",
                )
                or ""
            )

        return text_of

    def _measure(self, batch: pa.RecordBatch, pages: np.ndarray, extract: Extractor) -> Measured:
        from gristmill.kernels.html import parse_cost

        offsets, data = utf8_buffers(batch["text"])
        sizes = np.diff(offsets)
        bounds = parse_cost.bound(
            offsets, data, most_bytes=self.max_bytes, most_steps=self.max_steps
        )
        parsed = pages & (sizes <= self.max_bytes)
        whole = parsed & (bounds.steps <= self.max_steps)
        work = None
        if self.extractor == "trafilatura":
            work = TAG * bounds.tags + CROWD * bounds.crowd + PART * bounds.parts * bounds.parts
            whole &= work <= self.max_work
            if self.max_tags is not None:
                whole &= bounds.tags <= self.max_tags
        column, results = batch["text"], []
        for row in range(len(batch)):
            if whole[row]:
                results.append(self._page(column[row].as_py(), int(bounds.depth[row]), extract))
            elif parsed[row]:
                # What lies within the bound; it ends before a tag.
                start = offsets[row]
                head = data[start : start + bounds.cut[row]].tobytes().decode()
                results.append(self._page(head, int(bounds.depth[row]), None))
            else:
                results.append(Page())
        measures = {
            "bytes": pa.array(sizes.astype(np.int64), mask=~pages),
            "steps": pa.array(
                [
                    page.steps or int(bound)
                    for page, bound in zip(results, bounds.steps, strict=True)
                ],
                pa.int64(),
                mask=~parsed,
            ),
            "tags": pa.array(bounds.tags, mask=~parsed),
            "work": pa.nulls(len(batch), pa.int64())
            if work is None
            else pa.array(work, mask=~parsed),
            "depth": pa.array([page.depth for page in results], pa.int64()),
            "failed": pa.array([page.failed for page in results], pa.int64()),
            "characters": pa.array(
                [None if page.text is None else len(page.text) for page in results], pa.int64()
            ),
        }
        return Measured(measures, merge_texts(results, column), page_columns(results, batch))

    def _page(self, source: str, most_deep: int, extract: Extractor | None) -> Page:
        """Return one page: its depth where it may be over max_depth; with an extractor its text."""
        from resiliparse.parse.html import HTMLTree

        depth = None
        try:
            tree = HTMLTree.parse(source)
            root = tree.document.document_element if tree.document is not None else None
            if root is not None and most_deep > self.max_depth:
                steps = WALK * len(root.get_elements_by_tag_name("*"))
                if steps > self.max_steps:
                    return Page(failed=0, steps=steps)
                depth = tree_depth(root, self.max_depth + 1)
            if extract is None or (depth is not None and depth > self.max_depth):
                return Page(depth=depth, failed=0)
            title = " ".join(well_formed(tree.title or "").split()) or None
            language = (
                _FIRST_SUBTAG.match(root.getattr("lang", "") or "") if root is not None else None
            )
            text = well_formed(extract(tree, source))
            return Page(text, title, language and language.group(1), depth, 0)
        except Exception:  # noqa: BLE001 - hostile pages; the verdict counts it
            return Page(depth=depth, failed=1)
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # of Rust, through PyO3
                return Page(depth=depth, failed=1)
            raise
