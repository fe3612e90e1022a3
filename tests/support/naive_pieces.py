r"""Slow twin of kernels/pieces: the published patterns themselves, by the `regex` package.

The classes that a pattern names (\p{L}, \s and others) are written out as ranges of Unicode 16.0
from our table, because `regex` has a Unicode version of its own. tests/kernels/pieces compares the
table with `unicodedata`.
"""

import re
from functools import cache

import numpy as np
import regex

from gristmill.kernels.pieces import kinds
from gristmill.kernels.pieces.pattern_names import Pattern

CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
GPT2 = rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
).replace("$", r"\Z")  # Rust's $ is the end of the text alone
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
O200K = (
    rf"{_BEFORE}{_UPPER}*{_LOWER}+(?i:{CONTRACTIONS})?"
    rf"|{_BEFORE}{_UPPER}+{_LOWER}*(?i:{CONTRACTIONS})?|\p{{N}}{{1,3}}|{_SIGNS}"
)
TEKKEN = rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}|{_SIGNS}"
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Each pattern is a list of splits: the next one splits matches, and what lies between, again.
PATTERNS = {
    Pattern.GPT2: [GPT2],
    Pattern.GPT2_SINGLE_NUMBERS: [r"\p{N}", GPT2],
    Pattern.CL100K: [CL100K],
    Pattern.LLAMA3: [LLAMA3],
    Pattern.QWEN2: [LLAMA3.replace("{1,3}", "")],
    Pattern.QWEN35: [
        LLAMA3.replace("{1,3}", "")
        .replace(r"?\p{L}+", r"?[\p{L}\p{M}]+")
        .replace(r" ?[^\s\p{L}", r" ?[^\s\p{L}\p{M}")
    ],
    Pattern.O200K: [O200K],
    Pattern.TEKKEN: [TEKKEN],
    Pattern.NANOCHAT: [LLAMA3.replace("{1,3}", "{1,2}")],
    Pattern.DEEPSEEK: [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK],
}
_CASES = kinds.CAPITAL | kinds.SMALL
# Of each class the bits of a kind, and their value.
_BITS = {
    r"\p{L}": (kinds.LETTER, kinds.LETTER),
    r"\p{N}": (kinds.NUMBER, kinds.NUMBER),
    r"\p{M}": (kinds.MARK, kinds.MARK),
    r"\p{Ll}": (kinds.SMALL, kinds.SMALL),
    r"\p{Lu}\p{Lt}": (kinds.CAPITAL, kinds.CAPITAL),
    r"\p{Lm}\p{Lo}": (kinds.LETTER | _CASES, kinds.LETTER),
    r"\p{P}\p{S}": (kinds.SIGN, kinds.SIGN),
    r"\s": (kinds.SPACE, kinds.SPACE),
}


@cache
def ranges(name: str) -> str:
    """The code points of a class, as they stand between brackets."""
    mask, value = _BITS[name]
    found = np.flatnonzero((kinds.KINDS.every() & mask) == value)
    runs = np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
    return "".join(rf"\U{run[0]:08x}-\U{run[-1]:08x}" for run in runs)


@cache
def compiled(pattern: str) -> regex.Pattern:
    """A pattern with its classes written out."""

    def bracketed(found: re.Match[str]) -> str:
        inside = found[0]
        for name in _BITS:
            inside = inside.replace(name, ranges(name))
        return inside

    # What stands in brackets already, classes alone, and \S.
    written = re.sub(r"\[(?:\\.|[^\]\\])*\]", bracketed, pattern)
    for name in _BITS:
        written = written.replace(name, f"[{ranges(name)}]")
    no_space = "[^" + ranges(r"\s") + "]"
    return regex.compile(written.replace(r"\S", no_space))


def pieces(pattern: Pattern, text: str) -> list[str]:
    """The pieces of a text."""
    found = [text] if text else []
    for number, split in enumerate(PATTERNS[pattern]):
        done: list[str] = []
        for fragment in found:
            at = 0
            for match in compiled(split).finditer(fragment):
                done += [fragment[at : match.start()], match[0]]
                at = match.end()
            done.append(fragment[at:])
        found = [fragment for fragment in done if fragment]
        assert "".join(found) == text, number
    return found
