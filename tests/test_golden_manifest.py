"""The manifest that docs/format.md shows is one that a run wrote.

After a change of what a manifest holds: `python -c "from tests.test_golden_manifest import write;
write()"`.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gristmill
from gristmill.corpus.formats import FORMAT_VERSIONS, PACKAGES
from gristmill.recipe import Recipe, stored
from gristmill.store import manifest as manifests
from tests.support import ROOT
from tests.support.corpora import article, jsonl

PAGE = ROOT / "docs/format.md"
SAMPLE = re.compile(r"(A real manifest.*?\n\n```json\n)(.*?\n)(```\n)", re.DOTALL)
RECIPE = """\
[[source]]
name = "web"
files = ["pages.jsonl"]
[[step]]
use = "language"
keep = ["en"]
[deduplicate]
near = {}
[tokens]
tokenizer = "tokenizer.json"
validation = 0.2
"""


def made(folder: Path) -> bytes:
    """The manifest of a recipe over one JSONL file of eight pages, of which one is a copy."""
    texts = [article(f"page {number}", 60) for number in range(7)]
    (folder / "pages.jsonl").write_bytes(jsonl([{"text": text} for text in [*texts, texts[2]]]))
    gristmill.train_tokenizer([folder / "pages.jsonl"], folder / "tokenizer.json", vocabulary=1024)
    (folder / "recipe.toml").write_text(RECIPE)
    gristmill.run(folder / "recipe.toml", out=folder / "corpus", workers=1)
    return (folder / "corpus/manifest.json").read_bytes()


def write() -> None:
    """Put the manifest of a run into the page."""
    with tempfile.TemporaryDirectory() as folder:
        data = made(Path(folder)).decode()
    page = PAGE.read_text("utf-8")
    PAGE.write_text(SAMPLE.sub(lambda found: found[1] + data + found[3], page), "utf-8")


def shown() -> dict[str, Any]:
    found = SAMPLE.search(PAGE.read_text("utf-8"))
    assert found is not None
    table: dict[str, Any] = json.loads(found[2])
    return table


def test_the_manifest_on_the_page_is_of_today() -> None:
    table = shown()
    versions = {k: v for k, v in table["versions"].items() if k in FORMAT_VERSIONS}
    assert versions == FORMAT_VERSIONS
    assert table["format"] == manifests.FORMAT
    # With all defaults: no key is missing and none is of another time.
    recipe = msgspec.convert({"output": "corpus", **table["recipe"]}, Recipe)
    assert json.loads(msgspec.json.encode(stored(recipe))) == table["recipe"]


@pytest.mark.soak
def test_a_run_writes_the_manifest_on_the_page(tmp_path: Path) -> None:
    table, found = shown(), json.loads(made(tmp_path))
    if {name: table["versions"][name] for name in PACKAGES} == {
        name: found["versions"][name] for name in PACKAGES
    }:
        assert table == found
    else:  # another pyarrow packs rows otherwise
        assert table["funnel"] == found["funnel"]
        assert [part["path"] for part in table["parts"]] == [p["path"] for p in found["parts"]]
