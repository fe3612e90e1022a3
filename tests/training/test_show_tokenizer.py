"""What `tokenizer show` says of tokenizers, and of texts by source and language."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gristmill import RecipeError, Tokenizer, run, train_tokenizer
from gristmill.training.show_tokenizer import TEXT, lines, show_tokenizer
from tests.support.command import command_line

TEXTS = ["one two  three", "four five\nsix", "", "zwölf Äpfel"]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    train_tokenizer([file], tmp_path / "t.json", vocabulary=264, pattern="qwen2")
    return tmp_path


def test_a_tokenizer_alone(made: Path) -> None:
    shown = show_tokenizer(str(made / "t.json"))
    assert (shown["vocabulary"], shown["pattern"]) == (264, "qwen2")
    assert shown["special"] == {"<|endoftext|>": 0}
    assert shown["longest"][0]["bytes"] == max(one["bytes"] for one in shown["longest"]) > 1
    assert "".join(shown["pieces"]) == "Raw web in, verified training tokens out."
    text = "\n".join(lines(shown))
    assert "264 tokens" in text
    assert "special  <|endoftext|> 0" in text
    assert show_tokenizer(str(made / "t.json"), text="zwölf")["pieces"][0][0] == "z"


def change(table: dict[str, Any], what: str) -> None:
    """Make a tokenizer.json one that only the library encodes."""
    model, added = table["model"], table["added_tokens"]
    if what == "pre-tokenizer":  # of Falcon: punctuation is split off first
        steps = table["pre_tokenizer"]["pretokenizers"]
        steps.insert(0, {"type": "Punctuation", "behavior": "Contiguous"})
    elif what == "normalizer":
        table["normalizer"] = {"type": "Lowercase"}
    elif what == "model":
        vocabulary = [[token, -1.0] for token in model["vocab"]]
        table["model"] = {"type": "Unigram", "unk_id": 0, "vocab": vocabulary}
    elif what == "byte":
        del model["vocab"]["Ġ"]
        model["merges"] = []
    elif what == "added":
        added.append({**added[0], "id": 264, "content": "<x>", "special": False, "lstrip": True})


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("pre-tokenizer", "its pre-tokenizer is none that the kernel knows"),
        ("normalizer", "its normalizer does more than NFC"),
        ("model", "its model is Unigram, not BPE"),
        ("byte", "it has no token for some byte"),
        ("added", "its added token '<x>' takes the space around it, or whole words only"),
    ],
)
def test_which_of_the_two_encodes_and_why(what: str, reason: str, made: Path) -> None:
    table = json.loads((made / "t.json").read_text("utf-8"))
    shown = show_tokenizer(str(made / "t.json"))
    assert (shown["kernel"], shown["library_reason"]) == (True, None)
    assert "encoded by gristmill's kernel" in lines(shown)[0]
    change(table, what)
    (made / "changed.json").write_text(json.dumps(table), "utf-8")
    shown = show_tokenizer(str(made / "changed.json"))
    assert (shown["kernel"], shown["library_reason"]) == (False, reason)
    text = lines(shown)
    assert "encoded by the tokenizers library, which is slower" in text[0]
    assert f"library  {reason}" in text
    if what == "model":  # whose tokens are a list: their numbers are the places
        assert "".join(shown["pieces"]).replace("Ġ", " ") == TEXT


def test_texts_of_files(made: Path) -> None:
    shown = show_tokenizer(str(made / "t.json"), [made / "a.jsonl"])
    assert "tokens" not in shown
    tokens = Tokenizer("t", (made / "t.json").read_bytes()).encode(TEXTS).tokens
    row = shown["all"]
    words = sum(len(text.split()) for text in TEXTS)
    size = sum(len(text.encode()) for text in TEXTS)
    assert (row["documents"], row["words"], row["bytes"], row["tokens"]) == (
        *(3, words, size),
        len(tokens),
    )
    assert row["tokens_per_word"] == len(tokens) / words
    assert row["bytes_per_token"] == size / len(tokens)
    assert [one["source"] for one in shown["texts"]] == ["files"]
    assert shown["unused"]["tokens"] == 263 - len(set(tokens.tolist()))
    assert shown["unused"]["share"] == shown["unused"]["tokens"] / 263
    for one in shown["unused"]["some"]:
        assert one["token"] not in tokens
    assert "unused" in "\n".join(lines(shown))
    sampled = show_tokenizer(str(made / "t.json"), [made / "a.jsonl"], sample=2)
    assert sampled["all"]["documents"] == 2


ENGLISH = "The weather was fine this morning, and we walked along the river to the old mill. "
GERMAN = "Das Wetter war heute Morgen schön, und wir gingen am Fluss entlang zur alten Mühle. "
RECIPE = """
[[source]]
name = "left"
files = ["left.jsonl"]
[[source]]
name = "right"
files = ["right.jsonl"]
[[step]]
use = "language"
keep = ["en", "de"]
"""


def test_a_corpus_by_source_and_language(made: Path) -> None:
    for name, texts in (("left", [ENGLISH, GERMAN, ENGLISH * 2]), ("right", [GERMAN * 2])):
        rows = [json.dumps({"text": text}) for text in texts]
        (made / f"{name}.jsonl").write_text("\n".join(rows), "utf-8")
    (made / "recipe.toml").write_text(RECIPE, "utf-8")
    run(made / "recipe.toml", out=made / "corpus", workers=1)
    shown = show_tokenizer(str(made / "t.json"), [made / "corpus"])
    found = {(row["source"], row["language"]): row["documents"] for row in shown["texts"]}
    assert found == {("left", "en"): 2, ("left", "de"): 1, ("right", "de"): 1}
    for name in ("documents", "words", "bytes", "tokens"):
        assert shown["all"][name] == sum(row[name] for row in shown["texts"])


def test_what_cannot_be_shown_is_refused(made: Path) -> None:
    with pytest.raises(RecipeError, match="no such file"):
        show_tokenizer(str(made / "t.json"), ["some text"])
    (made / "empty.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(RecipeError, match="no text to encode"):
        show_tokenizer(str(made / "t.json"), [made / "empty.jsonl"])
    (made / "bad.json").write_text("{}")
    with pytest.raises(RecipeError, match="not a tokenizer.json"):
        show_tokenizer(str(made / "bad.json"))


def test_the_verb(made: Path) -> None:
    words = ("tokenizer", "show", made / "t.json", made / "a.jsonl", "--text", "one")
    done = subprocess.run(command_line(*words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tokens/word" in done.stdout
    done = subprocess.run(
        command_line(*words, "--json"), capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["all"]["documents"] == 3
