"""docs/coming-from/: the recipes beside those of others are recipes, and the names that the tables
give as ours exist.
"""

import re
from pathlib import Path

import pytest

import gristmill
from gristmill.filters.api import registry
from gristmill.recipe import keys, parse
from tests.support import ROOT

PAGES = sorted((ROOT / "docs/coming-from").glob("*.md"))
THEIRS = [path for path in PAGES if path.stem != "lessons"]


def rows(path: Path) -> list[list[str]]:
    """The cells of the tables of a page, heads left out."""
    found = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    return found[1:]


@pytest.mark.parametrize("path", THEIRS, ids=lambda path: path.stem)
def test_the_recipe_beside_theirs_is_a_recipe(path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        recipe = parse(block, path.name)
        assert recipe.all_steps(recipe.source[0].name)


@pytest.mark.parametrize("path", THEIRS, ids=lambda path: path.stem)
def test_our_names_exist(path: Path) -> None:
    """Of the second column each single word: a step, a key, an option of a verb, a public name."""
    known = {step.name for step in registry.all_built_in()} | set(gristmill.__all__) | {"use"}
    kinds = [*keys.TABLES.values()]
    for step in registry.all_built_in():
        kinds += registry.variants(step)
    known |= {key.name for kind in kinds for key in keys.table_keys(kind)}
    assert len(rows(path)) > 20
    for cells in rows(path):
        for word in re.findall(r"`([a-z_]+)(?: = [^`]*)?`", cells[1]):
            assert word in known, (word, cells)


def test_the_lessons_names_are_beside_ours() -> None:
    page = ROOT / "docs/coming-from/lessons.md"
    for cells in rows(page):
        named = re.findall(r"`gristmill\.([A-Za-z_]+)", cells[1])
        assert all(hasattr(gristmill, name) for name in named), cells
        for file in re.findall(r"`([a-z_/]+\.py)`", " ".join(cells)):
            assert (ROOT / "src/gristmill" / file).is_file(), file
