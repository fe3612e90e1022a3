"""The manifest names what takes part in a run, and no more; another version of it makes a phase's
bytes anew.
"""

from pathlib import Path
from typing import Any

import pytest

from gristmill import run
from gristmill.store.manifest import decode
from gristmill.tokens import tokenizer as tokenizers_of
from tests.support.corpora import article, jsonl

RECIPE = """
[[source]]
name = "web"
files = ["raw.jsonl"]
[[step]]
use = "normalise"
[tokens]
tokenizer = "tokenizer.json"
"""


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A recipe whose tokenizer the library encodes with: words, not byte pairs."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    (tmp_path / "raw.jsonl").write_bytes(jsonl([{"text": article(number)} for number in range(5)]))
    made = Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(
        [article(1)],
        trainers.WordLevelTrainer(special_tokens=["<unk>", "<|endoftext|>"], show_progress=False),
    )
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path / "recipe.toml"


def versions(corpus: Path) -> dict[str, str]:
    return decode((corpus / "manifest.json").read_bytes()).versions


def go(recipe: Path) -> set[str]:
    """Run; the phases that did something."""
    told: list[dict[str, Any]] = []
    run(
        recipe,
        out=recipe.parent / "corpus",
        workers=1,
        cache_dir=recipe.parent / "cache",
        show=told.append,
    )
    return {event["phase"] for event in told if event["event"] == "phase"}


def test_the_library_that_encodes_is_named_and_another_version_encodes_again(
    words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tokenizers

    go(words)
    told = versions(words.parent / "corpus")
    assert told["tokenizers"] == tokenizers.__version__
    assert float(told["tokenizers.unicode"]) >= 12
    assert float(told["tokenizers.unicode_case"]) >= 12
    assert go(words) == set()
    other = {**tokenizers_of.library_versions(), "tokenizers.unicode": "99.0"}
    monkeypatch.setattr(tokenizers_of, "library_versions", lambda: other)
    assert "tokenize" in (ran := go(words))
    assert "process" not in ran
    assert versions(words.parent / "corpus")["tokenizers.unicode"] == "99.0"


def test_a_library_that_takes_no_part_is_not_named(words: Path) -> None:
    from gristmill.training.train_tokenizer import train_tokenizer

    train_tokenizer(
        [words.parent / "raw.jsonl"], words.parent / "tokenizer.json", vocabulary=400, force=True
    )
    go(words)
    assert not any(name.startswith("tokenizers") for name in versions(words.parent / "corpus"))


def test_pythons_unicode_is_an_input_of_the_step_that_uses_it(
    words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import unicodedata

    go(words)
    inputs = decode((words.parent / "corpus/manifest.json").read_bytes()).inputs
    assert inputs["normalise.unicode"]["name"] == f"unicodedata {unicodedata.unidata_version}"
    assert go(words) == set()
    monkeypatch.setattr(unicodedata, "unidata_version", "99.0.0")
    assert "process" in go(words)
