"""A filter class of your own, as docs/custom-filters.md shows it: parameters, a threshold, a
rewrite, a rank and a table, through run, rejudge, why and verify.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, export, rejudge, run, verify, why
from gristmill.pipeline import dry_run
from gristmill.recipe import load, stored, with_classes
from gristmill.store.manifest import decode
from tests.support import ROOT
from tests.support.corpora import article, digests, jsonl

RECIPE = """
[[source]]
name = "web"
files = ["a.jsonl"]

[[step]]
use = "shop.filters:Shouting"
max_share = 0.4

[[step]]
use = "simple"
min_words = 1
max_upper = 1.0
"""


def shown_class() -> str:
    """The class that docs/custom-filters.md shows."""
    page = (ROOT / "docs/custom-filters.md").read_text("utf-8")
    return next(
        body for body in re.findall(r"```python\n(.*?)```", page, re.S) if "class Shouting" in body
    )


def texts() -> list[str]:
    """Articles whose first words are in capitals, more of them in each."""
    out = []
    for number in range(40):
        words = article(f"shout {number}", 3).split(" ")
        loud = len(words) * number // 60
        out.append(" ".join([*(word.upper() for word in words[:loud]), *words[loud:]]) + " Go!!!")
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").write_text("")
    (tmp_path / "shop/filters.py").write_text(shown_class())
    rows = [{"url": f"https://x.example/{n}", "text": text} for n, text in enumerate(texts())]
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def read(path: Path) -> list[dict[str, Any]]:
    return [row for part in sorted(path.iterdir()) for row in pq.read_table(part).to_pylist()]


def share(text: str) -> float:
    """The slow twin of the class's measure."""
    return sum(map(str.isupper, text)) / max(sum(map(str.isalpha, text)), 1)


def test_a_class_runs_is_judged_again_and_explained(folder: Path) -> None:
    recipe, corpus = folder / "recipe.toml", folder / "corpus"
    run(recipe, out=corpus, workers=2, allow_code=True)
    verify(corpus)
    measured = read(corpus / "measures")
    assert [row["Shouting.share"] for row in measured] == [share(text) for text in texts()]
    loud = [number for number, text in enumerate(texts()) if share(text) > 0.4]
    verdicts = read(corpus / "verdicts")
    dropped = [n for n, row in enumerate(verdicts) if row["reason"] == "Shouting.capitals"]
    assert dropped == loud and 0 < len(loud) < 40
    assert all(row["text"].endswith(" Go!") for row in read(corpus / "documents"))
    (answer,) = why(corpus, f"0:{loud[0]}")
    assert (answer["reason"], answer["threshold"]) == ("Shouting.capitals", 0.4)
    # What the table of its own holds: a row for each document with a run of signs.
    assert [row["document"] for row in read(corpus / "tables/Shouting")] == list(range(40))
    manifest = decode((corpus / "manifest.json").read_bytes())
    assert manifest.recipe["step"][0] == {
        "use": "shop.filters:Shouting",
        "sources": None,
        "max_share": 0.4,
        "drop_highest": None,
        "sign": "!",
        "after_dedup": False,
    }
    assert list(manifest.inputs) == ["own.Shouting"]


@pytest.mark.parametrize(
    "change",
    [{"step.Shouting.max_share": "0.2"}, {"step.Shouting.drop_highest": "0.25"}],
    ids=["threshold", "rank"],
)
def test_thresholds_and_ranks_are_judged_again(folder: Path, change: dict[str, str]) -> None:
    recipe, corpus = folder / "recipe.toml", folder / "corpus"
    run(recipe, out=corpus, workers=1, allow_code=True)
    run(recipe, out=folder / "fresh", workers=1, allow_code=True, settings=change)
    fresh = decode((folder / "fresh/manifest.json").read_bytes()).funnel
    told = rejudge(recipe, out=corpus, settings=change, allow_code=True)
    assert told["kept"]["now"] == fresh["kept"] < told["kept"]["was"]
    assert told["unread"] == told["anew"] == 0
    run(recipe, out=corpus, workers=1, allow_code=True, settings=change)
    assert digests(corpus) == digests(folder / "fresh")
    if "drop_highest" in json.dumps(change):
        (rule,) = json.loads((corpus / "judgement/rules.json").read_text())
        assert (rule["step"], rule["measure"], rule["end"]) == ("Shouting", "share", "highest")


def test_nothing_is_imported_without_leave(folder: Path) -> None:
    recipe, corpus = folder / "recipe.toml", folder / "corpus"
    run(recipe, out=corpus, workers=1, allow_code=True)
    code = folder / "shop/filters.py"
    good = code.read_text()
    code.write_text(f"import pathlib\npathlib.Path({str(folder / 'ran')!r}).touch()\n" + good)
    with pytest.raises(RecipeError, match="--allow-code"):
        run(recipe, out=folder / "other")
    with pytest.raises(RecipeError, match="--allow-code"):
        rejudge(recipe, out=corpus)
    dry_run(recipe, out=folder / "other")
    assert not (folder / "ran").exists()
    with pytest.raises(RecipeError, match="not what the corpus was made with"):
        rejudge(recipe, out=corpus, allow_code=True)
    assert (folder / "ran").exists()


def test_a_class_that_waits(folder: Path) -> None:
    recipe, corpus = folder / "recipe.toml", folder / "corpus"
    recipe.write_text(RECIPE.replace("max_share = 0.4", "after_dedup = true"))
    run(recipe, out=corpus, workers=1, allow_code=True)
    assert all(row["text"].endswith(" Go!!!") for row in read(corpus / "documents"))
    assert all(row["text"].endswith(" Go!") for row in read(corpus / "text"))
    assert all(0 <= row["Shouting.share"] <= 1 for row in read(corpus / "finished"))
    export(corpus, folder / "out", to="jsonl")


WRONG = (
    ("max_share = 0.4", "max_shar = 0.4", "recipe.toml:8: step[0].max_shar: unknown key; did"),
    ("max_share = 0.4", 'max_share = "x"', "recipe.toml:8: step[0].max_share: Expected `float"),
    ("max_share = 0.4", "max_share = nan", "recipe.toml:6: step[0]: a threshold that is"),
    ("filters:Shouting", "filters:Missing", "has no Missing"),
    ("filters:Shouting", "filters:Nothing", "must be below gristmill.filters.api.step.Step"),
    ("filters:Shouting", "filters:Old", "needs a version"),
    ("filters:Shouting", "filters:Odd", "thresholds names 'max'"),
    ("filters:Shouting", "filters:Named", "a parameter cannot be called 'use'"),
    ("filters:Shouting", "filters:Waits", "after_dedup must be a parameter"),
    ("filters:Shouting", "filters:Broken", "shop.filters:Broken: document 0:0 to document 0:39"),
    ("filters:Shouting", "filters:Short", "n must be a pyarrow.Array of 40 rows"),
    ("filters:Shouting", "filters:Bad", "'Not A Reason' is no reason"),
)
MORE = """
class Nothing: pass
class Old(Step, frozen=True): pass
class Odd(Step, frozen=True):
    version: ClassVar[int] = 1
    thresholds: ClassVar[frozenset[str]] = frozenset({"max"})
class Named(Step, frozen=True):
    version: ClassVar[int] = 1
    use: str = ""
class Waits(Step, frozen=True):
    version: ClassVar[int] = 1
    after_dedup: ClassVar[bool] = True
class Broken(Step, frozen=True):
    version: ClassVar[int] = 1
    def load(self, inputs):
        return lambda batch: Measured({"n": batch["document"]}) if not len(batch) else 1 / 0
class Short(Step, frozen=True):
    version: ClassVar[int] = 1
    def load(self, inputs):
        return lambda batch: Measured({"n": batch["document"].slice(1)})
class Bad(Step, frozen=True):
    version: ClassVar[int] = 1
    def load(self, inputs):
        return lambda batch: Measured({"n": batch["document"]})
    def decide(self, measures):
        rows = len(measures["n"])
        nothing = pa.nulls(rows, pa.float64())
        return Decision(pa.array(["Not A Reason"] * rows, pa.string()), nothing, nothing)
"""


@pytest.mark.parametrize(("old", "new", "why"), WRONG, ids=[new[-9:] for _, new, _ in WRONG])
def test_what_is_wrong_is_named(folder: Path, old: str, new: str, why: str) -> None:
    (folder / "shop/filters.py").write_text(shown_class() + MORE)
    text = RECIPE.replace(old, new)
    if "filters:" in new:
        text = text.replace("max_share = 0.4\n", "")
    (folder / "recipe.toml").write_text(text)
    with pytest.raises(RecipeError) as told:
        run(folder / "recipe.toml", out=folder / "corpus", workers=1, allow_code=True)
    assert why in str(told.value)


def test_a_function_takes_no_parameters(folder: Path) -> None:
    (folder / "shop/filters.py").write_text("def Shouting(text):\n    return None\n")
    with pytest.raises(RecipeError, match=r"recipe.toml:8: step\[0\].max_share: unknown key"):
        run(folder / "recipe.toml", out=folder / "corpus", allow_code=True)


def test_a_recipe_cannot_allow_itself(folder: Path) -> None:
    text = RECIPE.replace("max_share = 0.4", '"@code" = { name = "a", path = "b", sha256 = "c" }')
    (folder / "recipe.toml").write_text(text)
    with pytest.raises(RecipeError, match="unknown key"):
        load(folder / "recipe.toml")


def test_a_class_is_stored_like_a_built_in_one(folder: Path) -> None:
    loaded = with_classes(load(folder / "recipe.toml"))
    step = loaded.recipe.steps("web")[0]
    assert (step.name, step.version, step.thresholds) == (
        "Shouting",
        1,
        {"max_share", "drop_highest"},
    )
    assert step.inputs() == {"own.Shouting": "code:shop.filters"}
    assert "@code" not in stored(loaded.recipe)["step"][0]
    assert with_classes(loaded) == loaded
