"""Small tokenizer.json files of families that are not byte-level, in the shape of the published
ones: Llama 2, Mistral, Gemma, T5, XLM-R, BERT. The vocabulary is trained here on a few texts.
"""

import json
from functools import cache
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from tests.support.tokenizer_families import TEXTS

SPACE = "▁"
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
PREPEND = {"type": "Prepend", "prepend": SPACE}


def metaspace(scheme: str, *, split: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split}


def template(*pieces: str) -> dict[str, Any]:
    """A post-processor; `A` is the text."""
    single = [
        {"Sequence": {"id": "A", "type_id": 0}}
        if piece == "A"
        else {"SpecialToken": {"id": piece, "type_id": 0}}
        for piece in pieces
    ]
    special = {
        piece: {"id": piece, "ids": [number], "tokens": [piece]}
        for number, piece in enumerate(pieces)
        if piece != "A"
    }
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": single,
        "special_tokens": special,
    }


def _table(made: tokenizers.Tokenizer) -> dict[str, Any]:
    return dict(json.loads(made.to_str()))


def _bpe(special: list[str], plain: tuple[str, ...] = ()) -> dict[str, Any]:
    """A BPE over `▁`, with byte fallback."""
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", SPACE)
    made.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=[*special, *plain, *BYTE_PIECES], show_progress=False
    )
    made.train_from_iterator([text for text in TEXTS if text.isascii()], trainer)
    table = _table(made)
    kept = {*special, *plain}
    table["added_tokens"] = [
        {**token, "special": token["content"] in special}
        for token in table["added_tokens"]
        if token["content"] in kept
    ]
    return table | {"pre_tokenizer": None}


def _unigram(special: list[str], *, fallback: bool) -> dict[str, Any]:
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    pieces = [*special, *(BYTE_PIECES if fallback else [])]
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=pieces, unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    table = _table(made)
    table["model"]["byte_fallback"] = fallback
    table["added_tokens"] = [
        token for token in table["added_tokens"] if token["content"] in special
    ]
    return table


def _llama_2() -> dict[str, Any]:
    table = _bpe(["<unk>", "<s>", "</s>"])
    normalizer = {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}
    return table | {"normalizer": normalizer, "post_processor": template("<s>", "A")}


def _mistral() -> dict[str, Any]:
    """As Mistral 7B v0.3 and Llama 2 with `legacy = False`."""
    return _bpe(["<unk>", "<s>", "</s>"]) | {
        "normalizer": None,
        "pre_tokenizer": metaspace("first", split=False),
    }


def _gemma() -> dict[str, Any]:
    """Its vocabulary has HTML tags, `</s>` among them, and runs of spaces."""
    plain = ("</s>", "<b>", "\n\n", SPACE * 2, SPACE * 3)
    table = _bpe(["<pad>", "<eos>", "<bos>", "<unk>"], plain)
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"}
    return table | {
        "normalizer": REPLACE,
        "pre_tokenizer": {**split, "invert": False},
        "post_processor": template("<bos>", "A"),
    }


def _t5() -> dict[str, Any]:
    table = _unigram(["<pad>", "</s>", "<unk>"], fallback=False)
    return table | {"normalizer": {"type": "NFKC"}, "post_processor": template("A", "</s>")}


def _xlm_r() -> dict[str, Any]:
    table = _unigram(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], fallback=False)
    return table | {"normalizer": {"type": "NFKC"}, "post_processor": template("<s>", "A", "</s>")}


def _unigram_with_bytes() -> dict[str, Any]:
    """As a SentencePiece model with `byte_fallback`, without normalization."""
    table = _unigram(["<unk>", "<s>", "</s>"], fallback=True)
    return table | {"pre_tokenizer": metaspace("always", split=True)}


def _bert() -> dict[str, Any]:
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    return _table(made) | {"post_processor": template("[CLS]", "A", "[SEP]")}


_MAKERS = {
    "Llama 2": _llama_2,
    "Mistral": _mistral,
    "Gemma": _gemma,
    "T5": _t5,
    "XLM-R": _xlm_r,
    "Unigram with bytes": _unigram_with_bytes,
    "BERT": _bert,
}
FAMILIES = tuple(_MAKERS)


@cache
def written(name: str) -> str:
    """A family's tokenizer.json."""
    return json.dumps(_MAKERS[name](), ensure_ascii=False)


@cache
def library(name: str) -> tokenizers.Tokenizer:
    """A family's tokenizer by the library."""
    made = tokenizers.Tokenizer.from_str(written(name))
    made.encode_special_tokens = True
    return made
