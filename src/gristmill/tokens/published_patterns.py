r"""The patterns of pieces that our kernel knows, by how a tokenizer.json spells them.

A file is taken only if its pre-tokenizer is one of these shapes and each regular expression is,
character for character, one of those below: one that is nearly right goes to the library.

    ByteLevel(use_regex)                            GPT-2, GPT-NeoX, Pythia, OLMo 1, Phi 2
    Digits(individual_digits), ByteLevel(use_regex) StarCoder, SmolLM, Cohere
    Split(regex) ..., ByteLevel                     all others

HF's regular expressions are Oniguruma's in Ruby syntax, in which `$` ends a line and `{1,3}+` is no
possessive: tiktoken's own spelling of cl100k_base means something else there, and is not known.
"""

from collections.abc import Iterator
from typing import Any

from gristmill.kernels.pieces.pattern_names import Pattern

_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS_AND_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_FOLDED = f"(?i:{_CONTRACTIONS})"
# Of tiktoken before 0.8; with two numbers in a piece nanochat's (Karpathy 2025), with one Ling's.
_OLD_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,%s}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)

_QWEN35 = (
    rf"{_FOLDED}|{_BEFORE}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_O200K = (
    rf"{_BEFORE}{_UPPER}*{_LOWER}+{_FOLDED}?|{_BEFORE}{_UPPER}+{_LOWER}*{_FOLDED}?"
    rf"|\p{{N}}{{1,3}}|{_SIGNS_AND_SLASHES}"
)
_TEKKEN = rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}|{_SIGNS_AND_SLASHES}"
_DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# The pattern of each sequence of splits.
PUBLISHED: dict[tuple[str, ...], Pattern] = {
    (rf"{_CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",): Pattern.GPT2,
    (rf"{_FOLDED}|{_BEFORE}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}",): Pattern.LLAMA3,
    (_OLD_CL100K % 3,): Pattern.LLAMA3,
    (_OLD_CL100K % 2,): Pattern.NANOCHAT,
    (_OLD_CL100K.replace("{1,%s}", ""),): Pattern.QWEN2,
    (rf"{_FOLDED}|{_BEFORE}\p{{L}}+|\p{{N}}|{_SIGNS}",): Pattern.QWEN2,
    (_QWEN35,): Pattern.QWEN35,
    (_O200K,): Pattern.O200K,
    (_TEKKEN,): Pattern.TEKKEN,
    (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK): Pattern.DEEPSEEK,
}


def find_pattern(splitting: dict[str, Any]) -> Pattern | None:
    """Return the pattern of a tokenizer.json's pre-tokenizer; None: our kernel does not know it."""
    steps = splitting.get("pretokenizers") if splitting.get("type") == "Sequence" else [splitting]
    if (
        not isinstance(steps, list)
        or not steps
        or not all(isinstance(step, dict) for step in steps)
    ):
        return None
    *before, last = steps
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space") is not False:
        return None
    cuts = last.get("use_regex", True)
    if not isinstance(cuts, bool) or not isinstance(last.get("trim_offsets"), bool):
        return None  # the library refuses it
    if cuts:
        if not before:
            return Pattern.GPT2
        digits = {"type": "Digits", "individual_digits": True}
        return Pattern.GPT2_SINGLE_NUMBERS if before == [digits] else None
    splits = tuple(_regexes(before))
    return PUBLISHED.get(splits) if len(splits) == len(before) else None


def _regexes(steps: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the regular expressions of splits that keep all of a text."""
    for step in steps:
        how = (step.get("behavior"), step.get("invert"))
        # The second form removes what matches nothing: nothing, where a single pattern has an
        # alternative for every code point. (DeepSeek's has three splits.)
        whole = how == ("Isolated", False) or (how == ("Removed", True) and len(steps) == 1)
        pattern = step.get("pattern")
        regex = pattern.get("Regex") if isinstance(pattern, dict) else None
        if step.get("type") == "Split" and whole and isinstance(regex, str):
            # A file may have line breaks themselves where others have \r and \n.
            yield regex.replace("\r", r"\r").replace("\n", r"\n")
