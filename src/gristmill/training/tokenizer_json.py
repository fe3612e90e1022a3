"""Writes tokenizer.json, byte for byte as HF tokenizers writes it (`to_str(pretty=True)`): a
byte-level BPE with one of the published patterns of pieces.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gristmill.errors import RecipeError
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.tokens.byte_level import BYTE_LEVEL
from gristmill.tokens.published_patterns import PUBLISHED


class PublishedPattern(NamedTuple):
    """How a pattern is written in a tokenizer.json, and which of the kernel's it is."""

    kernel: Pattern
    splits: tuple[str, ...]  # regular expressions, one after another; (): GPT-2's, by its flag


def _first_spelling(pattern: Pattern) -> PublishedPattern:
    """Return the first spelling of a pattern."""
    return PublishedPattern(pattern, next(key for key in PUBLISHED if PUBLISHED[key] == pattern))


# cl100k is written as HF publishes it, which is Llama 3's; tiktoken's own differs from it only in
# white space at the end of a text, and Oniguruma does not read it.
PATTERNS = {
    "gpt2": PublishedPattern(Pattern.GPT2, ()),
    "cl100k": _first_spelling(Pattern.LLAMA3),
    "llama3": _first_spelling(Pattern.LLAMA3),
    "qwen2": _first_spelling(Pattern.QWEN2),
    "o200k": _first_spelling(Pattern.O200K),
    "deepseek": _first_spelling(Pattern.DEEPSEEK),
}
# The bytes in the order of their characters: HF's trainer sorts its alphabet so.
BYTES_BY_CHARACTER = sorted(range(256), key=lambda byte: BYTE_LEVEL[byte])


class BytePairTokenizer(NamedTuple):
    """A byte-level BPE: the numbers of its tokens are those of `special` first (or last), then of
    the bytes in the order of `bytes`, then of the merges.
    """

    pattern: str  # of PATTERNS
    special: Sequence[str]
    special_first: bool
    bytes: Sequence[int]  # (256,)
    merges: Sequence[tuple[int, int]]  # bytes are 0 to 255 in their order, merge i makes 256 + i


def named_pattern(name: str) -> PublishedPattern:
    """Return a pattern by its name. Raises RecipeError."""
    if name not in PATTERNS:
        raise RecipeError(f"--pattern {name}: no such pattern; there are {', '.join(PATTERNS)}")
    return PATTERNS[name]


def spellings(tokenizer: BytePairTokenizer) -> list[str]:
    """Return the bytes and merged tokens in the byte-level alphabet, in order."""
    spelled = [BYTE_LEVEL[byte] for byte in tokenizer.bytes]
    for left, right in tokenizer.merges:
        spelled.append(spelled[left] + spelled[right])
    return spelled


def write_tokenizer_json(
    tokenizer: BytePairTokenizer, record: dict[str, Any] | None = None
) -> bytes:
    """Return the bytes of tokenizer.json. `record` is put into the model as `gristmill`, where HF
    tokenizers ignores it (a field of its own at the top would be refused).
    """
    spelled = spellings(tokenizer)
    count = len(tokenizer.special)
    base = count if tokenizer.special_first else 0
    first = 0 if tokenizer.special_first else len(spelled)
    special = [*zip(tokenizer.special, range(first, first + count), strict=True)]
    vocabulary = special if tokenizer.special_first else []
    vocabulary = [*vocabulary, *((token, base + i) for i, token in enumerate(spelled))]
    head = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(token, number) for token, number in special],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer(PATTERNS[tokenizer.pattern].splits),
        "post_processor": None,
        "decoder": _byte_level(add_prefix_space=True, use_regex=True),
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
        **({} if record is None else {"gristmill": record}),
    }
    lines = [_pretty(head)[:-2], ",\n", '  "model": ']
    lines.append(_pretty(model).replace("\n", "\n  ")[: -len("\n  }")])
    lines.append(',\n    "vocab": ')
    lines.append(_block("{}", (f"{_quoted(token)}: {number}" for token, number in vocabulary)))
    lines.append(',\n    "merges": ')
    merges = (
        f"[\n        {_quoted(spelled[left])},\n        {_quoted(spelled[right])}\n      ]"
        for left, right in tokenizer.merges
    )
    lines.append(_block("[]", merges))
    return "".join([*lines, "\n  }\n}"]).encode()


def _block(brackets: str, items: Iterator[str]) -> str:
    """Return the items between brackets, a line each, as values of the model."""
    inside = ",\n      ".join(items)
    return f"{brackets[0]}\n      {inside}\n    {brackets[1]}" if inside else brackets


def _pretty(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _quoted(token: str) -> str:
    return json.dumps(token, ensure_ascii=False)


def _added(token: str, number: int) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": token, **flags, "special": True}


def _byte_level(*, add_prefix_space: bool, use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def pre_tokenizer(splits: tuple[str, ...]) -> dict[str, Any]:
    """Return the part of tokenizer.json that splits text into pieces, of
    `PublishedPattern.splits`.
    """
    if not splits:
        return _byte_level(add_prefix_space=False, use_regex=True)
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}
        for split in splits
    ]
    return {
        "type": "Sequence",
        "pretokenizers": [*steps, _byte_level(add_prefix_space=False, use_regex=False)],
    }
