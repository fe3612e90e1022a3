"""Held-out losses: bits per byte do not depend on the tokenizer; checkpoints of others."""

import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from gristmill import Tokenizer, train_tokenizer
from gristmill.errors import RecipeError
from gristmill.reports.tokens.losses import lines, losses
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

TEXTS = ["the mill by the river grinds the wheat of the valley\n" * 12, "the wheel turns, " * 30]


def made(folder: Path, vocabulary: int) -> tuple[Path, Tokenizer]:
    """A corpus of the same texts in tokens of a tokenizer of its own."""
    folder.mkdir()
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    train_tokenizer([folder / "texts.txt"], folder / "tokenizer.json", vocabulary=vocabulary)
    data = (folder / "tokenizer.json").read_bytes()
    tokenizer = Tokenizer("tokenizer.json", data)
    end = tokenizer.end_of_text
    documents = [np.append(tokenizer.encode_text(text), end) for text in TEXTS]
    corpus = token_corpus(
        folder / "corpus",
        {"web": documents},
        {"web": documents},
        vocabulary=tokenizer.vocabulary,
        end_of_text=end,
        tokenizer=data,
    )
    return corpus, tokenizer


def test_bits_per_byte_are_comparable_over_tokenizers(tmp_path: Path) -> None:
    """A model for which every byte is as likely as every other has 8 bits a byte, in tokens of one
    byte or of many; its loss a token has another value for each tokenizer.
    """
    found = []
    for vocabulary in (257, 300):
        corpus, tokenizer = made(tmp_path / str(vocabulary), vocabulary)
        sizes = [len(tokenizer.spelling(token)) for token in range(tokenizer.vocabulary)]
        sizes[tokenizer.end_of_text] = 9  # unlikely
        scores = -math.log(256) * torch.tensor(sizes, dtype=torch.float64)
        answer = losses(
            corpus,
            lambda tokens, scores=scores: scores.expand(*tokens.shape, -1),
            sequence_length=64,
        )
        found.append(answer["all"])
        assert lines(answer)[-1].split()[2] == f"{answer['all']['bits_per_byte']:.4f}"
    assert [one["bits_per_byte"] for one in found] == pytest.approx([8, 8], abs=2e-3)
    assert found[0]["loss"] == pytest.approx(math.log(256), rel=1e-3)
    assert found[1]["loss"] > 2 * found[0]["loss"]


@pytest.mark.soak
def test_a_hugging_face_model(tmp_path: Path) -> None:
    if find_spec("transformers") is None:
        missing("transformers", "transformers is not installed (pip install 'gristmill[judges]')")
    from transformers import GPT2Config, GPT2LMHeadModel

    corpus, tokenizer = made(tmp_path / "300", 300)
    config = GPT2Config(
        vocab_size=tokenizer.vocabulary, n_positions=32, n_embd=16, n_layer=1, n_head=2
    )
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "model")
    found = losses(corpus, tmp_path / "model")
    assert found["sequence_length"] == 32
    with torch.no_grad():
        direct = losses(corpus, lambda tokens: model(tokens).logits, sequence_length=32)
    assert found == direct
    config.vocab_size = tokenizer.vocabulary - 1
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "smaller")
    with pytest.raises(RecipeError, match=r"the model has \d+ tokens, the corpus has \d+"):
        losses(corpus, tmp_path / "smaller")
