"""Which token ends a document, and which begins one: by evidence, never by a name alone."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gristmill import TokenCorpus, run, show_tokenizer, stats, status, verify
from gristmill.errors import RecipeError
from gristmill.reports.status import lines
from gristmill.store.manifest import Manifest
from gristmill.tokens.tokenizer import Tokenizer, load
from gristmill.training.show_tokenizer import lines as shown_lines
from tests.support.corpora import article
from tests.support.hostile_models import END, FLAGS, tokenizer
from tests.support.spelling_families import FAMILIES, library, template, written

ENDS = {"Gemma": "<eos>", "BERT": "[SEP]"}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_end_of_text_of_each_family(name: str) -> None:
    """Gemma's vocabulary has `</s>` as an HTML tag, which is not special."""
    ours = Tokenizer(name, written(name).encode())
    assert ours.ending.literal == ENDS.get(name, "</s>")
    assert ours.end_of_text == library(name).token_to_id(ours.ending.literal)


def test_an_html_tag_of_gemma_is_encoded_as_by_the_library() -> None:
    ours = Tokenizer("Gemma", written("Gemma").encode())
    text = "<b>bold</b> and </s>struck</s> \n\n  end"
    tokens = ours.encode([text]).tokens.tolist()
    assert tokens == library("Gemma").encode(text, add_special_tokens=False).ids
    assert library("Gemma").token_to_id("</s>") in tokens
    assert ours.decode(tokens) == text


def two_ends(**more: Any) -> bytes:
    """A file with two special tokens that end texts elsewhere."""
    names = ("<|endoftext|>", "</s>", "<|im_end|>", "<s>")
    added = [{**FLAGS, "id": 256 + place, "content": name} for place, name in enumerate(names)]
    return tokenizer(added=added, **more)


def test_between_two_that_remain_the_user_is_asked() -> None:
    with pytest.raises(
        RecipeError, match=r"</s> or <\|endoftext\|> may be its end of text"
    ) as said:
        Tokenizer("two", two_ends())
    assert 'end_of_text = "</s>"' in str(said.value)
    assert Tokenizer("two", two_ends(), "</s>").end_of_text == 257
    assert Tokenizer("two", two_ends(), 257).ending.literal == "</s>"


def test_the_template_says_which_it_is() -> None:
    found = Tokenizer("two", two_ends(post_processor=template("<s>", "A", "</s>")))
    assert found.ending.literal == "</s>"
    assert "the post-processor of its tokenizer.json" in found.ending.evidence
    sequence = {"type": "Sequence", "processors": [template("A", "<|endoftext|>")]}
    assert Tokenizer("two", two_ends(post_processor=sequence)).end_of_text == 256
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 257], "cls": ["<s>", 259]}
    assert Tokenizer("two", two_ends(post_processor=roberta)).end_of_text == 257


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", {"eos_token": "</s>"}),
        ("tokenizer_config.json", {"eos_token": {"content": "</s>", "lstrip": False}}),
        ("special_tokens_map.json", {"eos_token": "</s>"}),
        ("generation_config.json", {"eos_token_id": 257}),
        ("generation_config.json", {"eos_token_id": [258, 257]}),
    ],
)
def test_a_configuration_beside_the_file_says_which_it_is(
    tmp_path: Path, name: str, content: dict[str, Any]
) -> None:
    (tmp_path / "tokenizer.json").write_bytes(two_ends())
    (tmp_path / name).write_text(json.dumps(content))
    found = load("tokenizer.json", tmp_path, tmp_path)
    assert (found.ending.literal, found.end_of_text) == ("</s>", 257)
    assert name in found.ending.evidence


def test_configurations_that_contradict_the_rest_are_a_question(tmp_path: Path) -> None:
    """The end of a turn is no end of a text, and a name is no proof."""
    (tmp_path / "tokenizer.json").write_bytes(
        tokenizer(added=[END, {**END, "id": 257, "content": "<|im_end|>"}])
    )
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    with pytest.raises(RecipeError, match=r"tokenizer_config.json: <\|im_end\|>; its name"):
        load("tokenizer.json", tmp_path, tmp_path)
    assert load("tokenizer.json", tmp_path, tmp_path, "<|endoftext|>").end_of_text == 256
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(RecipeError, match="tokenizer_config.json beside it cannot be read"):
        load("tokenizer.json", tmp_path, tmp_path)


def test_a_name_without_special_is_none() -> None:
    with pytest.raises(RecipeError, match="no known end of text among its special tokens"):
        Tokenizer("t", tokenizer(added=[{**END, "special": False}]))
    assert Tokenizer("t", tokenizer(added=[{**END, "special": False}]), END["content"]).kernel


RECIPE = """
[[source]]
name = "web"
files = ["docs.jsonl"]
[tokens]
tokenizer = "tokenizer.json"
validation = 0.1
tokens_per_shard = 3000
"""


def made(folder: Path, family: str, more: str = "") -> Path:
    texts = [article(number) for number in range(60)]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    folder.mkdir(exist_ok=True)
    (folder / "docs.jsonl").write_text(rows)
    (folder / "tokenizer.json").write_text(written(family))
    (folder / "recipe.toml").write_text(RECIPE + more)
    run(folder / "recipe.toml", out=folder / "corpus", workers=1, cache_dir=folder / "cache")
    return folder / "corpus"


def test_manifest_status_and_show_say_the_choice(tmp_path: Path) -> None:
    folder = tmp_path / "gemma"
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<eos>"}')
    corpus = made(folder, "Gemma")
    manifest = msgspec.json.decode((corpus / "manifest.json").read_bytes(), type=Manifest)
    assert manifest.tokens is not None
    assert manifest.tokens.end_of_text == library("Gemma").token_to_id("<eos>")
    why = "tokenizer_config.json; its name among the special tokens"
    assert manifest.tokens.end_of_text_by == why
    assert status(corpus)["end_of_text_by"] == why
    assert f"end of text 1 by {why}" in lines(status(corpus))
    shown = show_tokenizer(str(folder / "tokenizer.json"))
    assert shown["end_of_text_evidence"] == why.split("; ")
    assert f"end      <eos> 1, by {why}" in shown_lines(shown)
    verify(corpus)


@pytest.mark.parametrize("family", ["Llama 2", "Gemma", "Unigram with bytes"])
def test_a_begin_of_text_stands_before_each_document(tmp_path: Path, family: str) -> None:
    begin = "<bos>" if family == "Gemma" else "<s>"
    corpus = TokenCorpus.open(made(tmp_path / "one", family, f'begin_of_text = "{begin}"\n'))
    number = library(family).token_to_id(begin)
    assert corpus.format.begin_of_text == number
    texts = set()
    tokenizer_ = Tokenizer("t", written(family).encode())
    for split in ("train", "val"):
        stream = corpus.stream("web", split)
        spans = stream.documents(0, stream.tokens)
        for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
            tokens = stream.read(start, end).tolist()
            assert (tokens[0], tokens[-1]) == (number, corpus.format.end_of_text)
            assert not {number, corpus.format.end_of_text} & set(tokens[1:-1])
            texts.add(tokenizer_.decode(tokens[1:-1]))
    assert texts == {article(place) for place in range(60)}
    found = stats(corpus.root)
    assert found["tokens_spell_text"]
    assert found["bytes"] == found["sources"][0]["bytes"] == sum(len(one.encode()) for one in texts)
    verify(corpus.root)


def test_a_begin_of_text_that_is_not_special_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="begin_of_text: '<b>' is no special token"):
        made(tmp_path / "one", "Gemma", 'begin_of_text = "<b>"\n')
