"""GPT-2's tokenizer.json, made from tiktoken's ranks for peers that need it."""

import base64
from typing import Any


def tokenizer_json(data: bytes) -> dict[str, Any]:
    """A tokenizer.json from tiktoken's ranks: a token's two parts are what the ranks below its own
    make of it.
    """
    from gristmill.tokens.byte_level import BYTE_LEVEL
    from gristmill.tokens.rank_files import END_OF_TEXT

    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in (line.split() for line in data.splitlines() if line)
    }
    spell = {byte: BYTE_LEVEL[byte] for byte in range(256)}
    vocabulary = {"".join(spell[byte] for byte in token): rank for token, rank in ranks.items()}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda entry: entry[1]):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            pairs = [ranks.get(parts[i] + parts[i + 1], rank) for i in range(len(parts) - 1)]
            place = pairs.index(min(pairs))
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        if len(parts) == 2:
            merges.append(["".join(spell[byte] for byte in part) for part in parts])
    end = {
        "id": len(ranks),
        "content": END_OF_TEXT,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "merges": merges,
        "vocab": {**vocabulary, END_OF_TEXT: len(ranks)},
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": model,
    }
