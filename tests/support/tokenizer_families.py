"""The tokenizer.json of each family, as published: pre-tokenizer, normalizer, kinds of added tokens
and flags; the vocabulary is a small one, trained here on a few texts.
"""

import json
from functools import cache
from typing import Any, NamedTuple

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from gristmill.kernels.pieces.pattern_names import Pattern

END_OF_TEXT = "<|endoftext|>"
TEXTS = [
    "The quick brown fox doesn't jump over the lazy dog, and they'll say WE'VE seen it 1234 times.",
    "  def main():\n        return 'nothing'\n\n\n    # the end ...\n\t\tHelloWorld HTTPServer //x",
    "naïve café Zoë über Straße, ab abab aaaa aaaaaaaa bbbb",
    "文字 文字 中文 ひらがな カタカナ ไทย हिन्दी 😀😀",
    "2024 12345678 1,000,000 3.14159 ١٢٣٤ a1b22c333",
    "\r\n\r\n   \r\n x = y + z; <tool> <think> --- ===",
] * 3


class Family(NamedTuple):
    """What a family's tokenizer.json has besides its vocabulary."""

    pattern: Pattern
    pre_tokenizer: dict[str, Any]
    normalizer: dict[str, Any] | None = None
    ignore_merges: bool = False
    plain_added: tuple[str, ...] = ()  # added tokens that are not special
    normalized: bool = False  # these are found in composed text


def byte_level(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def split(*regexes: str, removed: bool = False) -> dict[str, Any]:
    """Splits by regular expressions, then the byte-level alphabet."""
    how = {"behavior": "Removed", "invert": True}
    how = how if removed else {"behavior": "Isolated", "invert": False}
    steps = [{"type": "Split", "pattern": {"Regex": regex}, **how} for regex in regexes]
    return {"type": "Sequence", "pretokenizers": [*steps, byte_level(use_regex=False)]}


DIGITS = {
    "type": "Sequence",
    "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level(use_regex=True)],
}
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
QWEN2 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
QWEN35 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"""
    r"""| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
CL100K_OLD = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"""
)
NANOCHAT = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}"""
    r"""| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"""
)
O200K = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"""
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
TEKKEN = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
    r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"""
    r"""|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
# In the file the line breaks are themselves, not \r and \n.
DEEPSEEK = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    (
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
        "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
    ),
)
NFC = {"type": "NFC"}
SPACES = tuple(" " * count for count in range(2, 25))

FAMILIES = {
    "GPT-2": Family(Pattern.GPT2, byte_level(use_regex=True)),
    "GPT-2, split": Family(Pattern.GPT2, split(GPT2)),
    "GPT-NeoX, Pythia, OLMo 1": Family(
        Pattern.GPT2, byte_level(use_regex=True), NFC, False, SPACES, True
    ),
    "Phi 2": Family(
        Pattern.GPT2, byte_level(use_regex=True), None, False, (*SPACES, "\t\t", "\t\t\t"), True
    ),
    "StarCoder, SmolLM": Family(Pattern.GPT2_SINGLE_NUMBERS, DIGITS),
    "Cohere": Family(Pattern.GPT2_SINGLE_NUMBERS, DIGITS, NFC),
    "Llama 3": Family(Pattern.LLAMA3, split(LLAMA3), None, True),
    "OLMo 2, Phi 4": Family(Pattern.LLAMA3, split(LLAMA3, removed=True)),
    "cl100k, old": Family(Pattern.LLAMA3, split(CL100K_OLD)),
    "nanochat": Family(Pattern.NANOCHAT, split(NANOCHAT)),
    "Ling, LLaDA": Family(Pattern.QWEN2, split(CL100K_OLD.replace("{1,3}", ""))),
    "MiniMax M2": Family(Pattern.O200K, split(O200K, removed=True)),
    "Qwen 2": Family(Pattern.QWEN2, split(QWEN2), NFC),
    "Qwen 2.5, 3": Family(
        Pattern.QWEN2, split(QWEN2), NFC, False, ("<tool_call>", "</tool_call>", "<think>")
    ),
    "Qwen 3.5": Family(Pattern.QWEN35, split(QWEN35), NFC, False, ("<think>", "</think>")),
    "gpt-oss, Llama 4": Family(Pattern.O200K, split(O200K), None, True),
    "Mistral NeMo": Family(Pattern.TEKKEN, split(TEKKEN), None, True),
    "DeepSeek V3, R1": Family(
        Pattern.DEEPSEEK, split(*DEEPSEEK), {"type": "Sequence", "normalizers": []}, False,
        ("<｜User｜>", "<｜fim▁hole｜>"),
    ),
}  # fmt: skip


@cache
def written(name: str) -> str:
    """A family's tokenizer.json with a small vocabulary."""
    family = FAMILIES[name]
    made = tokenizers.Tokenizer(models.BPE())
    table = json.loads(made.to_str()) | {"pre_tokenizer": family.pre_tokenizer}
    made = tokenizers.Tokenizer.from_str(json.dumps(table))
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    made.add_tokens(
        [
            tokenizers.AddedToken(content, special=False, normalized=family.normalized)
            for content in family.plain_added
        ]
    )
    table = json.loads(made.to_str()) | {"normalizer": family.normalizer}
    table["model"]["ignore_merges"] = family.ignore_merges
    return json.dumps(table)


@cache
def library(name: str) -> tokenizers.Tokenizer:
    """A family's tokenizer by the library."""
    made = tokenizers.Tokenizer.from_str(written(name))
    made.encode_special_tokens = True
    return made
