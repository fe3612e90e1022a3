"""A step of an installed package: an entry point of the group `gristmill.steps`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.errors import RecipeError
from gristmill.filters.api import registry
from gristmill.recipe import parse
from tests.support.corpora import jsonl
from tests.support.every_phase import phases_of

CODE = """
from typing import ClassVar
import pyarrow as pa
import pyarrow.compute as pc
from gristmill.filters import Check, Measured, Step, check

class Shouted(Step, frozen=True, kw_only=True):
    name: ClassVar[str] = "shouted"
    version: ClassVar[int] = 1
    most: int = 0

    def load(self, inputs):
        return lambda batch: Measured({"marks": pc.count_substring(batch["text"], "!")})

    def decide(self, measures):
        return check((Check("loud", "marks", ">", self.most),), measures)
"""
RECIPE = """
[[source]]
name = "web"
files = ["raw.jsonl"]
[[step]]
use = "shouted"
most = 1
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The metadata of an installed package with the step."""
    folder = tmp_path / "site/shouts_of_own-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: shouts-of-own\nVersion: 1.0\n")
    points = "[gristmill.steps]\nshouted = shouts_of_own:Shouted\n"
    (folder / "entry_points.txt").write_text(points)
    (tmp_path / "site/shouts_of_own.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(registry.STEPS, "_installed", _installed())
    yield folder
    sys.modules.pop("shouts_of_own", None)


def _installed() -> object:
    """The entry points that there are now: a process reads them once."""
    fresh = registry.Plugins("gristmill.filters", ("Step",), "{}", "gristmill.steps", classes=True)
    return fresh._installed


def test_a_recipe_names_it_and_its_version_is_an_input(package: Path, tmp_path: Path) -> None:
    rows = [{"text": "Quiet."}, {"text": "Loud!! And long."}]
    (tmp_path / "raw.jsonl").write_bytes(jsonl(rows))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    phases_of(tmp_path / "recipe.toml", tmp_path / "corpus")
    manifest = json.loads((tmp_path / "corpus/manifest.json").read_text())
    assert manifest["inputs"]["own.shouted"]["name"] == "shouts-of-own 1.0"
    assert manifest["recipe"]["step"] == [{"use": "shouted", "sources": None, "most": 1}]
    reasons = {step["step"]: step["reasons"] for step in manifest["funnel"]["steps"]}
    assert reasons["shouted"] == {"shouted.loud": 1}
    assert phases_of(tmp_path / "recipe.toml", tmp_path / "corpus") == []
    text = (package / "METADATA").read_text().replace("Version: 1.0", "Version: 1.1")
    (package / "METADATA").write_text(text)
    assert "process" in phases_of(tmp_path / "recipe.toml", tmp_path / "corpus")


def test_its_parameters_are_checked(package: Path) -> None:
    with pytest.raises(RecipeError, match=r"step\[0\].mots: unknown key; did you mean 'most'"):
        parse(RECIPE.replace("most", "mots"), "recipe")
    with pytest.raises(RecipeError, match="no such step; did you mean 'shouted'"):
        parse(RECIPE.replace('"shouted"', '"shoutd"'), "recipe")
