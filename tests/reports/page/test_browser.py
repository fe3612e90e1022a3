"""The report in a browser: its script runs under its policy, and axe finds nothing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import gristmill
from tests.support.skips import missing
from tests.support.table_corpora import table_corpus

AXE = "GRISTMILL_AXE"  # a file: axe.min.js of npm's axe-core


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    corpus = table_corpus(folder / "corpus", 300, shards_made=3, copies=(4, 1), hosts_made=9)
    return Path(gristmill.report(corpus)["file"])


def rendered(page: Path, folder: Path) -> tuple[str, str]:
    """(the document as scripts have left it, what the console says)."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        missing("chromium", "there is no chromium")
    done = subprocess.run(
        [
            str(browser),
            "--headless",
            "--no-sandbox",
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    said = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return done.stdout, said


def test_the_script_runs_under_the_policy_of_the_page(page: Path, tmp_path: Path) -> None:
    before = page.read_text("utf-8")
    after, console = rendered(page, tmp_path)
    assert console == ""
    sliders = before.count('type="range"')
    assert sliders == len(re.findall(r'type="range"[^>]* hidden', before)) > 5
    assert not re.search(r'type="range"[^>]* hidden', after)
    assert after.count("aria-valuetext=") == sliders
    # What the script shows at the recipe's limits is what was written.
    shown = r'<b class="part">([^<]*)</b>'
    assert re.findall(shown, after) == re.findall(shown, before)


def test_axe_finds_nothing(page: Path, tmp_path: Path) -> None:
    if AXE not in os.environ:
        missing("axe", f"{AXE} does not name axe.min.js")
    text = re.sub(r"<meta http-equiv=[^>]*>", "", page.read_text("utf-8"))
    axe = Path(os.environ[AXE]).read_text("utf-8")
    ask = (
        "for (const one of document.querySelectorAll('details')) one.open = true;"
        "axe.run().then((found) => { document.title = 'axe ' + JSON.stringify("
        "found.violations.map((one) => [one.id, one.nodes[0].html])); });"
    )
    copy = tmp_path / "axe.html"
    copy.write_text(text.replace("</body>", f"<script>{axe}</script><script>{ask}</script></body>"))
    after, _ = rendered(copy, tmp_path)
    assert "<title>axe []</title>" in after, re.findall("<title>.*</title>", after)
