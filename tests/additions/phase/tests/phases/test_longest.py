"""The phase `longest` runs where it is asked for, and again when its key or its input changes."""

import json
from pathlib import Path

import pytest

from gristmill import verify
from gristmill.errors import RecipeError
from gristmill.recipe import from_stored, parse, stored
from tests.support.corpora import jsonl, pages
from tests.support.every_phase import phases_of

RECIPE = '[[source]]\nname = "web"\nfiles = ["raw/*"]\n'


def test_it_runs_when_its_key_or_input_changes(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name, count in (("a", 5), ("b", 9), ("c", 7)):
        (tmp_path / f"raw/{name}.jsonl").write_bytes(jsonl(pages(count, name)))
    recipe, corpus = tmp_path / "recipe.toml", tmp_path / "corpus"
    recipe.write_text(RECIPE)
    plain = phases_of(recipe, corpus)
    assert "longest" not in plain
    recipe.write_text(f"{RECIPE}[longest]\nmost = 2\n")
    assert phases_of(recipe, corpus) == ["longest"]
    assert json.loads((corpus / "judgement/longest.json").read_text()) == [1, 2]
    verify(corpus)
    assert phases_of(recipe, corpus) == []
    recipe.write_text(f"{RECIPE}[longest]\nmost = 1\n")
    assert phases_of(recipe, corpus) == ["longest"]
    recipe.write_text(f"{RECIPE}limit = 4\n[longest]\nmost = 1\n")
    assert "longest" in phases_of(recipe, corpus)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("moost = 2", "longest.moost: unknown key; did you mean 'most'"),
        ("most = 0", "recipe:5: longest.most: Expected `int` >= 1"),
    ],
)
def test_its_table_is_checked(table: str, why: str) -> None:
    with pytest.raises(RecipeError, match=why):
        parse(f"{RECIPE}[longest]\n{table}\n", "recipe")
    recipe = parse(RECIPE, "recipe", {"longest.most": "4"})
    assert from_stored(stored(recipe)) == recipe
    assert stored(recipe)["longest"] == {"most": 4}
