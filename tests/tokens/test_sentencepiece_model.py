"""SentencePiece's models: the numbers of its own library."""

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import RecipeError
from gristmill.tokens.sentencepiece_model import is_sentencepiece, tokenizer_json
from gristmill.tokens.tokenizer import Tokenizer, load
from tests.support.corpora import article
from tests.support.hostile_models import tokenizer

sentencepiece = pytest.importorskip("sentencepiece")

LINES = [
    *(line for number in range(40) for line in article(number).splitlines()),
    *(
        "naïve café Zoë über Straße",
        "ñandú, çà et là",
        "文字 中文 漢字",
        "привет мир",
        "<>/skun0x4_1",
    ),
] * 2
ODD = [
    *("", " ", "  ", " x", "x ", "  a  b ", "a\n\nb\t c", "aaaaaaaaaaaaaaaa", "😀 中文 ไทย"),
    *("Ⅳ ﬁ café e\u0301 Å", "ｈａｌｆ ｱｲｳ", "<s> </s> <unk> <0x41>"),
]
PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
SHAPES: dict[str, dict[str, Any]] = {
    "Llama 2": {"byte_fallback": True, **PLAIN},
    "Gemma": {"byte_fallback": True, "add_dummy_prefix": False, **PLAIN},
    "defaults": {},
    "T5": {"normalization_rule_name": "nmt_nfkc_cf"},
    "user-defined": {"add_dummy_prefix": False, "user_defined_symbols": ["<x>"], **PLAIN},
}


def model(kind: str, **settings: Any) -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=out,
        model_type=kind,
        vocab_size=700,
        hard_vocab_limit=False,
        character_coverage=0.9999,
        minloglevel=3,
        num_threads=1,
        **settings,
    )
    return out.getvalue()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_are_sentencepieces(kind: str, shape: str, tmp_path: Path) -> None:
    data = model(kind, **SHAPES[shape])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    (tmp_path / "tokenizer.model").write_bytes(data)
    ours = load("tokenizer.model", tmp_path, tmp_path)
    assert ours.end_of_text == theirs.eos_id()
    assert ours.vocabulary == theirs.vocab_size()
    texts = [*ODD, *LINES[:200], *(a + b + c for a in ODD for b in LINES[-5:] for c in ODD[:4])]
    if shape == "user-defined":
        texts += ["a<x>b", "<x> <x><x>c"]
    offsets, tokens = ours.encode(texts)
    found = [tokens[start:stop].tolist() for start, stop in pairwise(offsets)]
    assert found == [theirs.encode(text) for text in texts]


def test_bytes_of_its_tokens_are_the_bytes_of_the_text() -> None:
    ours = Tokenizer("m", model("bpe", **SHAPES["Llama 2"]))
    known = ours.token_bytes
    for text in (*ODD, *LINES[:50]):
        tokens = ours.encode([text]).tokens
        size = known.sizes[tokens].sum() - known.leads[tokens[:1]].sum()
        assert size == len(text.encode())
        assert ours.decode(tokens) == text


def test_what_cannot_be_followed_is_refused_with_the_way_out() -> None:
    data = model("bpe", user_defined_symbols=["<x>"])
    with pytest.raises(RecipeError, match="user-defined pieces.*convert it with the tool"):
        Tokenizer("m", data)
    with pytest.raises(RecipeError, match="of type 4: expected Unigram"):
        Tokenizer("m", model("char"))


def test_a_damaged_model_is_refused() -> None:
    data = model("bpe")
    for size in (*range(5, 60), len(data) // 2, len(data) - 1):
        if is_sentencepiece(data[:size]):
            with pytest.raises(ValueError, match="it is cut off|it is damaged"):
                tokenizer_json(data[:size])


def test_tekken_is_refused_with_the_way_out() -> None:
    data = b'{"config": {"default_vocab_size": 9}, "vocab": [{"rank": 0, "token_bytes": "AA=="}]}'
    with pytest.raises(RecipeError, match="Mistral's tekken.json.*use the tokenizer.json"):
        Tokenizer("tekken.json", data)
    assert Tokenizer("plain", tokenizer()).kernel
