"""An engine of a user's own: `--engine module:VALUE`, searched from the current folder."""

from pathlib import Path

import pytest

from gristmill import run
from gristmill.errors import RecipeError
from tests.support.corpora import jsonl, pages

CODE = """
from gristmill.engine.engine import EngineKind
from tests.support.every_phase import InProcess

HERE = EngineKind(name="here", shown="here", pattern=".*", start=lambda *given, **more: InProcess())
"""


def test_it_does_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raw.jsonl").write_bytes(jsonl(pages(20, "a")))
    (tmp_path / "engines_of_own.py").write_text(CODE)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[[source]]\nname = "web"\nfiles = ["raw.jsonl"]\n')
    monkeypatch.chdir(tmp_path)
    run(recipe, out=tmp_path / "here", engine="engines_of_own:HERE")
    run(recipe, out=tmp_path / "local", workers=1)
    here, local = (tmp_path / name / "manifest.json" for name in ("here", "local"))
    assert here.read_bytes() == local.read_bytes()
    with pytest.raises(RecipeError, match="it is no EngineKind, but <class"):
        run(recipe, out=tmp_path / "other", engine="engines_of_own:InProcess")
    with pytest.raises(RecipeError, match="no such engine; write local"):
        run(recipe, out=tmp_path / "other", engine="local://x")
