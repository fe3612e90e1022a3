"""A source format of a user's own: `kind = "module:VALUE"`, in a run with --allow-code."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill import run
from gristmill.errors import RecipeError
from tests.support import ROOT

CODE = (ROOT / "tests/additions/source/src/gristmill/source/form_feeds.py").read_text("utf-8")
RECIPE = """
[[source]]
name = "manuals"
files = ["raw/*"]
kind = "formats_of_own:FORM_FEEDS"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/manual").write_bytes(b"\fThe first page.\n\fThe second page.\n")
    (tmp_path / "formats_of_own.py").write_text(CODE)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    yield tmp_path / "recipe.toml"
    sys.modules.pop("formats_of_own", None)


def texts(folder: Path) -> list[str]:
    return pq.read_table(folder / "corpus/documents")["text"].to_pylist()


def test_it_reads_and_another_file_reads_again(recipe: Path) -> None:
    folder = recipe.parent
    with pytest.raises(RecipeError, match="formats_of_own:FORM_FEEDS.*--allow-code"):
        run(recipe, out=folder / "corpus", workers=1)
    run(recipe, out=folder / "corpus", workers=1, allow_code=True)
    assert texts(folder) == ["The first page.\n", "The second page.\n"]
    (folder / "formats_of_own.py").write_text(CODE.replace("[1:]", "[2:]"))
    run(recipe, out=folder / "corpus", workers=1, allow_code=True)
    assert texts(folder) == ["The second page.\n"]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("jsonk", "no such format; did you mean 'json'"),
        ("formats_of_own:read", "it is no SourceFormat"),
        ("formats_of_own:GONE", "has no GONE"),
        ("gone_of_own:X", "there is no module gone_of_own"),
    ],
)
def test_what_is_wrong_is_named(recipe: Path, kind: str, why: str) -> None:
    recipe.write_text(RECIPE.replace("formats_of_own:FORM_FEEDS", kind))
    with pytest.raises(Exception, match=why):
        run(recipe, out=recipe.parent / "corpus", workers=1, allow_code=True)
