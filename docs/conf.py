"""The site: `make docs` builds it from the Markdown of this repository (adr/0034-guide.md).

Pages keep their places, so that their links are right here, on a code host and in an editor. The
navigation is read from README.md of this folder: its headings and the links in its lists.
"""

import html
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
project = "gristmill"
author = copyright = "The gristmill developers"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "benchmarks/*.md"]
exclude_patterns = ["site", "src", "tests", "demo", "build", "dist", ".*"]
myst_heading_anchors = 4
highlight_language = "none"
html_theme = "furo"
html_title = "gristmill"
html_copy_source = html_use_index = False
html_show_sphinx = False

# The pages of a folder, below its own README.md.
BELOW = "\n\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def navigation() -> str:
    """The tables of contents that docs/README.md describes, as directives of MyST."""
    found = ["```{toctree}\n:hidden:\n\ndocs/README\n```"]
    text = (ROOT / "docs/README.md").read_text("utf-8")
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        caption, body = part.split("\n", 1)
        links = re.findall(r"^\* \[([^\]]+)\]\(([^)#]+)\.md\)", body, re.MULTILINE)
        named = [(title, _place(link)) for title, link in links]
        pages = [f"{title} <{place}>" for title, place in named if place != root_doc]
        if pages:
            found.append(
                "```{toctree}\n:hidden:\n:caption: " + "\n".join([caption, "", *pages, "```"])
            )
    return "\n\n" + "\n\n".join(found) + "\n"


def _place(link: str) -> str:
    return str((ROOT / "docs" / link).resolve().relative_to(ROOT))


def with_anchors(name: str, text: str) -> str:
    """Make links to anchors in HTML, which MyST does not know, links in HTML."""

    def link(found: re.Match[str]) -> str:
        shown, page, anchor = found.groups()
        path = (ROOT / f"{name}.md").parent / page if page else ROOT / f"{name}.md"
        if not path.is_file() or f'<a id="{anchor}">' not in path.read_text("utf-8"):
            return found[0]
        code = re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(shown))
        return f'<a href="{page.removesuffix(".md") + ".html" if page else ""}#{anchor}">{code}</a>'

    return re.sub(r"\[((?:`[^`]*`|[^\]`])*)\]\(([\w./-]*)#([^)]+)\)", link, text)


def read(_app: Any, name: str, source: list[str]) -> None:
    """Give the first page the navigation, and the README.md of a folder its pages."""
    source[0] = with_anchors(name, source[0])
    if name == root_doc:
        source[0] += navigation()
    elif name.startswith("docs/") and name.endswith("/README") and name != "docs/README":
        source[0] += BELOW


def open_with(app: Any, error: Exception | None) -> None:
    """Write an index.html that leads to the first page."""
    if error is None and app.builder.format == "html":
        refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
        page = f'<!doctype html><title>gristmill</title>{refresh}<a href="{root_doc}.html">Go</a>\n'
        Path(app.outdir, "index.html").write_text(page, "utf-8")


def setup(app: Any) -> None:
    """Connect the two to Sphinx's events."""
    app.connect("source-read", read)
    app.connect("build-finished", open_with)
