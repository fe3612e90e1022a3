"""The experiments of examples/: runs that are kept, what is refused, and figures by hand."""

import argparse
import importlib
import json
import math
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gristmill.errors import GristmillError, MachineError, RecipeError
from tests.support import ROOT
from tests.support.skips import missing
from tests.support.token_corpora import texts_of_sizes, token_corpus

NAMES = ("crawled_pages", "small_gpt", "does_cleaning_pay", "duplicated_banner")
WORDS = (
    "--tokens 880 --parameters 3000 --vocabulary 300 --seeds 2 --length 220 --batch 1 --points 2 "
    "--judged 300 --workers 1"
).split()
VOCABULARY = 40


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The scripts as modules, in one thread."""
    if find_spec("torch") is None:
        missing("torch", "torch is not installed (pip install 'gristmill[torch]')")
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "examples"))
    yield {name: importlib.import_module(name) for name in NAMES}
    sys.path.remove(str(ROOT / "examples"))
    torch.set_num_threads(threads)


def sentences(seed: int, count: int) -> list[str]:
    """Documents of plain sentences."""
    random = np.random.default_rng(seed)
    words = "the mill by a river has one wheel and grinds wheat for bread that people buy".split()
    return [
        "\n".join(" ".join(random.choice(words, 12)) + "." for _ in range(8)) for _ in range(count)
    ]


def inputs(crawled: ModuleType, out: Path) -> dict[str, list[str]]:
    """What `write_inputs` writes, of made-up text."""
    files = {}
    for number, name in enumerate(("pages", "government", "manuals", "postgresql", "books")):
        texts = sentences(number, 30)
        if name in ("pages", "manuals"):
            texts = [f"<html><body><p>{text}</p></body></html>" for text in texts]
        crawled.write(out / f"{name}.jsonl", texts)
        files[name] = [f"{name}.jsonl"]
    for number, name in enumerate(("articles", "manuals", "prose")):
        crawled.write(out / f"held_out/{name}.jsonl", sentences(10 + number, 5))
    (out / "wikipedia.txt").write_text("\n\n".join(sentences(20, 20)))
    return files


def marked(folder: Path) -> Path:
    """A page with places for both tables."""
    page = folder / "page.md"
    marks = "".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("variants", "banner"))
    page.write_text(f"# A page\n{marks}The end.\n")
    return page


def called(monkeypatch: pytest.MonkeyPatch, script: ModuleType, *more: object) -> None:
    """A script with these words, and few tokens."""
    monkeypatch.setattr(sys, "argv", ["x", *WORDS, *map(str, more)])
    script.main()


@pytest.mark.soak
def test_the_experiments_end_to_end(
    scripts: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """From recipes of made-up text to the tables of all variants and of the banner."""
    pay, banner = scripts["does_cleaning_pay"], scripts["duplicated_banner"]
    crawled = scripts["crawled_pages"]
    monkeypatch.setattr(crawled, "write_inputs", lambda data, out, *how: inputs(crawled, out))
    page = marked(tmp_path)
    pictures = [tmp_path / "pay.svg", tmp_path / "banner.svg"]
    called(monkeypatch, pay, "--out", tmp_path, "--report", page, "--plot", pictures[0])
    text = page.read_text()
    assert all(f"| {name} |" in text for name in pay.VARIANTS)
    assert "mixed, seed 2\n" in capsys.readouterr().out
    called(monkeypatch, pay, "--out", tmp_path, "--report", page)
    assert "seed 1\n" not in capsys.readouterr().out
    assert page.read_text() == text

    monkeypatch.setattr(banner, "FRACTIONS", (0.0, 0.3, 1.0))
    words = ("--out", tmp_path, "--report", page, "--documents", 20, "--most", 2)
    called(monkeypatch, banner, *words, "--plot", pictures[1])
    said = capsys.readouterr().out
    rows = [line.split(" | ") for line in said.splitlines() if line.startswith(("| 0", "| 1"))]
    assert [row[0] for row in rows] == ["| 0", "| 0.3", "| 1"]
    # Whatever p is, the same is left; the saving is the banner's share.
    assert len({row[3] for row in rows}) == 1
    assert rows[2][2] == rows[2][4] != "0.00%"
    text = page.read_text()
    assert text.startswith("# A page\n") and text.endswith("The end.\n")
    assert all(b"<svg" in path.read_bytes() for path in pictures)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that count on."""
    random = np.random.default_rng(1)
    train = {
        name: [1 + (int(random.integers(30)) + np.arange(40)) % 30 for _ in range(40)]
        for name in ("articles", "manuals", "prose")
    }
    return token_corpus(tmp_path_factory.mktemp("learned") / "corpus", train, vocabulary=VOCABULARY)


def budget(scripts: dict[str, ModuleType], **changed: Any) -> Any:
    """A budget of a few steps."""
    found = scripts["small_gpt"].Budget(4096, 20_000, 32, 4, 3e-3, 2, 500, "cpu")
    return found._replace(**changed)


def test_a_model_learns_what_is_in_its_corpus(
    scripts: dict[str, ModuleType], corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = texts_of_sizes([0] + [1] * (VOCABULARY - 1))
    monkeypatch.setattr("gristmill.reports.tokens.losses.token_texts", lambda corpus: texts)
    train = scripts["small_gpt"].train
    given = {"phrase": [5, 6, 7, 8], "on_line": lambda line: None}
    found = train(corpus, corpus, budget(scripts, rate=2e-2, tokens=4096), 1, **given)
    again = train(corpus, corpus, budget(scripts, rate=2e-2, tokens=4096), 1, **given)
    assert found == again
    first, last = found["curve"]
    assert last["tokens"] == 4096
    assert last["all"] == pytest.approx((last["articles"] + last["manuals"] + last["prose"]) / 3)
    assert last["all"] < first["all"] < math.log2(VOCABULARY)
    assert found["phrase"] < 3 * math.log2(VOCABULARY)


def test_finished_runs_are_kept(
    scripts: dict[str, ModuleType],
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    """A run that is not in the results is made, alone, and comes to the same figures."""
    if find_spec("scipy") is None or find_spec("matplotlib") is None:
        missing("matplotlib", "scipy, matplotlib: pip install 'gristmill[mix]'")
    texts = texts_of_sizes([0] + [1] * (VOCABULARY - 1))
    monkeypatch.setattr("gristmill.reports.tokens.losses.token_texts", lambda corpus: texts)
    pay = scripts["does_cleaning_pay"]
    corpora = dict.fromkeys(("held_out", "raw", "filtered"), corpus)
    monkeypatch.setattr(pay, "make_corpora", lambda options, variants: corpora)
    page = marked(tmp_path)
    words = ("--out", tmp_path, "--report", page, "--variants", "raw", "filtered")
    called(monkeypatch, pay, *words, "--plot", tmp_path / "pay.svg")
    assert "raw, seed 1\n" in capsys.readouterr().out
    path = tmp_path / "results.json"
    results = json.loads(path.read_text())
    assert list(results["runs"]) == ["raw/1", "filtered/1", "raw/2", "filtered/2"]
    points = results["runs"]["raw/2"]["curve"]
    assert [(point["step"], point["tokens"]) for point in points] == [(2, 440), (4, 880)]
    # Both variants are one corpus here, and the seeds are the same.
    assert results["runs"]["filtered/2"] == results["runs"]["raw/2"] != results["runs"]["raw/1"]
    text = page.read_text()
    assert "* `filtered` against `raw`: articles no difference, manuals no" in text
    assert b"<svg" in (tmp_path / "pay.svg").read_bytes()
    gone = results["runs"].pop("raw/2")
    path.write_text(json.dumps(results))
    called(monkeypatch, pay, *words)
    said = capsys.readouterr().out
    assert ("raw, seed 2\n" in said, "seed 1\n" in said) == (True, False)
    assert json.loads(path.read_text())["runs"]["raw/2"] == gone
    assert page.read_text() == text
    with pytest.raises(RecipeError, match=r"has runs with another rate: name another folder"):
        called(monkeypatch, pay, *words, "--rate", "0.1")


def test_losses_that_are_not_finite_and_models_that_are_too_large(
    scripts: dict[str, ModuleType], corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = scripts["small_gpt"].train
    with pytest.raises(GristmillError, match=r"seed 1, step [1-9]\d*: the loss is nan: lower the"):
        train(corpus, corpus, budget(scripts, rate=1e30, points=1), 1)
    monkeypatch.setattr("gristmill.mixing.proxy.free_memory", lambda: 1_000_000)
    with pytest.raises(MachineError, match="needs about"):
        train(corpus, corpus, budget(scripts), 1)


def test_what_is_refused(
    scripts: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay = scripts["does_cleaning_pay"]

    def asked(*words: str) -> argparse.Namespace:
        monkeypatch.setattr(sys, "argv", ["x", *words])
        return pay.asked()  # type: ignore[no-any-return]

    with pytest.raises(RecipeError, match="no variant 'clean'; there are raw, filtered"):
        asked("--variants", "raw", "clean")
    budget_of = scripts["small_gpt"].budget_of
    with pytest.raises(RecipeError, match="--seeds 0: it is 1 or more"):
        budget_of(asked("--seeds", "0"))
    with pytest.raises(RecipeError, match="less than one step of 4 windows of 128"):
        budget_of(asked("--tokens", "511"))
    with pytest.raises(RecipeError, match="--device cuda:9: torch finds no CUDA device"):
        budget_of(asked("--device", "cuda:9"))
    with pytest.raises(RecipeError, match=r"has no folder A_warc: name the folder of the data"):
        scripts["crawled_pages"].write_inputs(tmp_path, tmp_path / "inputs", 1)
    (tmp_path / "page.md").write_text("no marks\n")
    with pytest.raises(RecipeError, match="has no lines <!-- variants -->"):
        scripts["small_gpt"].write_section(tmp_path / "page.md", "variants", [])


def test_figures_by_hand(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    small_gpt = scripts["small_gpt"]
    if find_spec("scipy") is None:
        missing("scipy", "scipy is not installed (pip install 'gristmill[mix]')")
    # Student's t with two degrees of freedom: 4.3027.
    assert small_gpt.interval([1.0, 2.0, 3.0]) == (2.0, pytest.approx(4.3027 / math.sqrt(3), 1e-4))
    assert math.isnan(small_gpt.interval([1.0])[1])
    pay = scripts["does_cleaning_pay"]
    same, less = [1.0, 1.1, 0.9], [0.8, 0.9, 0.71]
    end = {"raw": [same] * 4, "filtered": [less, same, [1.2, 1.3, 1.11], less]}
    (said,) = pay.verdicts(end)
    assert said.startswith("* `filtered` against `raw`: articles better, manuals no difference, ")
    assert said.endswith("prose worse, the mean better.")
    banner = scripts["duplicated_banner"]
    texts = sentences(1, 50)
    few, many = banner.with_banner(texts, 0.1), banner.with_banner(texts, 0.5)
    assert sum(banner.BANNER in text for text in few) == 5
    # More of it moves none.
    assert all(one == other for one, other in zip(few, many, strict=True) if banner.BANNER in one)
    assert banner.with_banner(texts, 0.0) == texts
    novel = tmp_path / "novel.txt"
    novel.write_text("\n".join("abcde" for _ in range(9)))
    assert list(scripts["crawled_pages"].pieces([novel], 20)) == ["abcde\nabcde\nabcde\nabcde"] * 2
