"""What people write: recipes that are none, keys by name, URLs where folders go, names of
tokenizers and models; each gets a plain answer.
"""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import gristmill
from gristmill import RecipeError, export, rejudge, run, size, train_perplexity, train_tokenizer
from gristmill.filters.api.step_inputs import find
from gristmill.recipe import for_files, load, parse
from gristmill.store.cache import Cache
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from gristmill.tokens.tokenizer import load as load_tokenizer
from gristmill.user_input import set_key
from tests.support.command import command_line
from tests.support.corpora import article, jsonl

RECIPE = """
[[source]]
name = "web"
files = ["web.jsonl"]
[[source]]
name = "docs"
files = ["docs.jsonl"]
[[step]]
use = "language"
keep = ["en"]
[[step]]
use = "gopher"
sources = ["web"]
[[step]]
use = "gopher"
sources = ["docs"]
[[step]]
use = "some.filters:shouted"
"""


def mill(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)


def test_version() -> None:
    done = mill("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, gristmill.__version__ + "\n", "")


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("step.language.min_score", 0),
        ("step.1.min_score", 1),
        ("step.gopher[0].min_score", 1),
        ("step.gopher[1].min_score", 2),
        ("step[2].min_score", 2),
        ("step.shouted.min_score", 3),
    ],
)
def test_a_step_by_its_name_and_number(key: str, place: int) -> None:
    tables = tomllib.loads(RECIPE)
    set_key(tables, key, 0.5)
    assert [number for number, step in enumerate(tables["step"]) if "min_score" in step] == [place]


def test_keys_by_name_in_a_recipe_and_what_is_said_of_others() -> None:
    changed = parse(
        RECIPE, "recipe.toml", {"step.gopher[1].min_words": "7", "source.docs.limit": "3"}
    )
    assert [step.get("min_words") for step in changed.step] == [None, None, 7, None]
    assert [source.limit for source in changed.source] == [None, 3]
    for key, said in {
        "step.gopher.min_words": (
            "there are 2 step 'gopher': write step.gopher[0] (step.1) or step.gopher[1] (step.2)"
        ),
        "step.gopher[2].min_words": (
            "no step 'gopher' number 2; there are step.0 (language), step.1 (gopher)"
        ),
        "step.gofer.min_words": "no step 'gofer'; there are step.0 (language)",
        "step.9.min_words": "there are 4 tables at '9', numbered from 0: step.0 (language)",
        "step.gopher": "name one of several tables",
        "step.0.use.x": "there is no such table",
    }.items():
        with pytest.raises(RecipeError, match=re.escape(said)):
            parse(RECIPE, "recipe.toml", {key: "1"})


def test_recipes_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = RECIPE.encode()
    (tmp_path / "folder.toml").mkdir()
    for name, data, said in [
        ("empty.toml", b" \n", "empty; `gristmill init recipe.toml` writes one"),
        ("binary.toml", b"\x89PNG\r\n\x1a\n\0\0", "not UTF-8 text (byte 0)"),
        ("zeros.toml", b"seed = 1\0", "zero bytes"),
        ("utf16.toml", RECIPE.encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        ("deep.toml", b"x = " + b"[" * 50_000, "not valid TOML"),
        ("digits.toml", b"seed = " + b"1" * 5000, "not valid TOML"),
        ("missing.toml", None, "there is no such file; `gristmill init"),
        ("folder.toml", None, "a folder, not a recipe"),
        ("-", None, "cannot be read from standard input"),
        ("a\0.toml", None, "cannot be read"),
        ("https://host/recipe.toml", None, "not a URL"),
    ]:
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(RecipeError, match=re.escape(said)):
            load(Path(name))
    for name, data in {
        "bom.toml": b"\xef\xbb\xbf" + text,
        "crlf.toml": text.replace(b"\n", b"\r\n"),
    }.items():
        (tmp_path / name).write_bytes(data)
        assert load(tmp_path / name).recipe == parse(RECIPE, "recipe.toml")
    for words in (["-"], ["folder.toml"], ["bom.toml", "crlf.toml", "--out", "corpus"]):
        done = mill("run", *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_urls_where_folders_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web.jsonl").write_bytes(jsonl([{"text": "text"}]))
    (tmp_path / "recipe.toml").write_text(
        'output = "ftp://bucket/corpus"\n[[source]]\nname = "web"\nfiles = ["web.jsonl"]\n'
    )
    said = re.escape("ftp://bucket/corpus: gristmill writes to local folders, not to URLs")
    with pytest.raises(RecipeError, match="s3://bucket/corpus: .* not to URLs"):
        rejudge("recipe.toml", out="s3://bucket/corpus")  # `run` alone writes to a store
    for out in (
        None,
        "ftp://bucket/corpus",
        Path("ftp://bucket/corpus"),
        "ftp://key:secret@bucket/corpus?token=x",
    ):
        for call in (run, rejudge, size):
            with pytest.raises(RecipeError, match=said.replace("key:secret@", "")):
                call("recipe.toml", out=out)
    for make in (
        lambda url: export("corpus", url),
        lambda url: train_tokenizer(["web.jsonl"], url),
        lambda url: train_perplexity(["web.jsonl"], url),
        lambda url: run("recipe.toml", out="corpus", cache_dir=url),
    ):
        with pytest.raises(RecipeError, match=re.escape("://bucket/x")):
            make("gs://bucket/x")
    done = mill("run", "recipe.toml", "--out", "ftp://bucket/corpus")
    assert (
        done.returncode,
        "gristmill: --out ftp://bucket/corpus: gristmill writes to" in done.stderr,
        "`gristmill publish CORPUS s3://BUCKET/PREFIX`" in done.stderr,
    ) == (2, True, True)
    assert sorted(os.listdir(tmp_path)) == ["recipe.toml", "web.jsonl"]


def test_urls_on_the_command_line_are_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": article("of a file", 9)}]))
    (tmp_path / "b.jsonl").write_bytes(jsonl([{"text": article("of a URL", 9)}]))
    monkeypatch.chdir(tmp_path)
    given = ["a.jsonl", f"file://{tmp_path}/b.jsonl?token=secret"]
    loaded, shown = for_files(given, None, None)
    assert loaded.recipe.source[0].files == ["a.jsonl"]
    assert loaded.recipe.source[0].urls == given[1:]
    assert "secret" not in shown
    done = mill("run", "a.jsonl", f"file://{tmp_path}/b.jsonl", "--out", "corpus", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "documents in                                   2" in done.stdout
    assert (
        mill("run", f"file://{tmp_path}/b.jsonl", "--out", "alone", "--workers", "1").returncode
        == 0
    )
    done = mill("run", "ftp://host/a.jsonl", "--out", "other")
    assert done.returncode == 2
    assert "'ftp://host/a.jsonl' is no URL of ours (http://, https://" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt-4", 'its text tokens are those of cl100k_base: write "cl100k_base"'),
        ("o200k_harmony", 'write "o200k_base"'),
        (
            "meta-llama/Llama-3",
            "https://huggingface.co/meta-llama/Llama-3/resolve/main/tokenizer.json (with HF_TOKEN",
        ),
        ("GPT-2", 'write "gpt2"'),
        ("openai-community/gpt2", 'write "gpt2"'),
        ("model", "name the file"),
        ("none.json", "`gristmill tokenizer train"),
    ],
)
def test_names_of_tokenizers(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/tokenizer.json").touch()
    with pytest.raises(RecipeError, match=re.escape(said)):
        load_tokenizer(name, tmp_path, tmp_path / "cache")


def test_models_are_looked_for_beside_the_recipe_and_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, here = tmp_path / "recipes", tmp_path / "here"
    beside.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    transfer = Transfer(Cache(tmp_path / "cache"), Settings())
    said = re.escape(
        f"neither {beside / 'quality.model'} nor {here / 'quality.model'}): `gristmill model "
        "train-classifier"
    )
    with pytest.raises(RecipeError, match=said):
        find("classifier.model", "quality.model", beside, transfer)
    (here / "quality.model").write_text("here")
    assert find("classifier.model", "quality.model", beside, transfer).path == str(
        here / "quality.model"
    )
    (beside / "quality.model").write_text("beside")
    assert find("classifier.model", "quality.model", beside, transfer).path == str(
        beside / "quality.model"
    )
    for what in (
        "perplexity.model",
        "toxicity.model",
        "language.model",
        "decontaminate.x",
        "url.domains.0",
        "c4.bad_words",
        "other",
    ):
        with pytest.raises(RecipeError, match="there is no such file"):
            find(what, "none", beside, transfer)
