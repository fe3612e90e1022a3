"""The guide as a site: every page is in the navigation, and Sphinx builds it without a warning."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.skips import missing

FOLDER = ROOT / "docs"


def test_every_page_is_in_the_navigation() -> None:
    """docs/README.md names each page, or the README.md of the page's folder."""
    text = (FOLDER / "README.md").read_text("utf-8")
    named = {(FOLDER / link).resolve() for link in re.findall(r"\]\(([^)#]+\.md)\)", text)}
    lacking = [
        str(page.relative_to(ROOT))
        for page in FOLDER.glob("**/*.md")
        if page not in named and page.parent / "README.md" not in named
    ]
    assert lacking == ["docs/README.md"], "name these pages in docs/README.md"
    assert [str(page) for page in named if not page.exists()] == []


@pytest.mark.soak  # a quarter of a minute
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if find_spec("sphinx") is None or find_spec("myst_parser") is None or find_spec("furo") is None:
        missing("docs", "the site's builder is not installed (pip install 'gristmill[docs]')")
    site = tmp_path / "site"
    words = ["-q", "-W", "--keep-going", "-n", "-d", tmp_path / "trees", "-c", FOLDER, ROOT, site]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    first = (site / "README.html").read_text("utf-8")
    for caption in ("Start", "How-to", "Explanation", "Reference"):
        assert f'class="caption-text">{caption}<' in first
    assert 'href="docs/how-to/slurm.html"' in first
    assert 'url=README.html"' in (site / "index.html").read_text("utf-8")
    # From a file system: nothing is fetched from elsewhere, and the search's index is a script.
    for page in site.glob("**/*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"([^\"]*)\"", page.read_text())
        assert [url for url in loaded if re.match(r"(https?:)?//", url)] == [], page
    assert (site / "searchindex.js").read_text().startswith("Search.setIndex(")
