"""A tiny classification model with its tokenizer, made here: BERT of two layers, random weights."""

import json
from pathlib import Path

import pytest

from tests.support.corpora import WORDS
from tests.support.skips import missing


def make_judge(folder: Path, labels: int = 3) -> Path:
    """The folder of a model, as transformers writes it; skips where the packages are absent."""
    try:
        import torch
        import transformers
    except ImportError as error:
        missing("transformers", f"{error.name} is not installed")
        raise pytest.skip.Exception(str(error)) from error
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {word: place for place, word in enumerate(["[PAD]", "[UNK]", *dict.fromkeys(WORDS)])}
    pieces = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    pieces.pre_tokenizer = Whitespace()
    settings = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=256,
        num_labels=labels,
        pad_token_id=0,
        initializer_range=0.6,  # so that labels differ
    )
    if labels > 1:
        settings.id2label = {place: f"topic{place}" for place in range(labels)}
    torch.manual_seed(3)
    model = transformers.BertForSequenceClassification(settings).eval()
    model.save_pretrained(folder)
    pieces.save(str(folder / "tokenizer.json"))
    table = json.loads((folder / "config.json").read_text())
    table["auto_map"] = {"AutoModelForSequenceClassification": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(table))
    return folder
