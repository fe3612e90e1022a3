"""The lab's quality rules in plain Python: as a course teaches them, and as fast as plain Python
gets.

The course leaves `top_ngram_fraction` to its reader. `joined` writes it in the course's own idiom,
n-grams as joined strings; `zipped` counts tuples from `zip`, which costs a third. Verdicts are
equal.
"""

import itertools
from collections import Counter

import numpy as np


def top_ngram_fraction(words: list[str], n: int) -> float:
    """The commonest n-gram's share of all n-grams."""
    ngrams = Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))
    return ngrams.most_common(1)[0][1] / max(1, sum(ngrams.values()))


def joined(text: str) -> str:
    """The verdict of one document, line for line as taught; "ok" keeps it."""
    words = text.split()
    n_words = len(words)
    if n_words < 50 or n_words > 100_000:
        return "length"

    mean_word_len = np.mean([len(w) for w in words])
    if mean_word_len < 3 or mean_word_len > 10:
        return "word_len"

    symbol_ratio = sum(1 for c in text if c in "#…") / max(1, len(text))
    if symbol_ratio > 0.10:
        return "symbol_ratio"

    bullet_lines = sum(1 for line in text.splitlines() if line.lstrip().startswith(("•", "-", "*")))
    if bullet_lines / max(1, len(text.splitlines())) > 0.90:
        return "too_bulleted"

    ellipsis_lines = sum(1 for line in text.splitlines() if line.rstrip().endswith("…"))
    if ellipsis_lines / max(1, len(text.splitlines())) > 0.30:
        return "too_truncated"

    if top_ngram_fraction(words, 2) > 0.20:
        return "repeat_2gram"
    if top_ngram_fraction(words, 3) > 0.18:
        return "repeat_3gram"

    return "ok"


def zipped(text: str) -> str:
    """The same verdict by the fastest plain Python."""
    words = text.split()
    count = len(words)
    if count < 50 or count > 100_000:
        return "length"
    if not 3 <= len("".join(words)) / count <= 10:
        return "word_len"
    if (text.count("#") + text.count("…")) / len(text) > 0.10:
        return "symbol_ratio"
    lines = text.splitlines()
    if sum([line.lstrip().startswith(("•", "-", "*")) for line in lines]) / len(lines) > 0.90:
        return "too_bulleted"
    if "…" in text and sum([line.rstrip().endswith("…") for line in lines]) / len(lines) > 0.30:
        return "too_truncated"
    if max(Counter(itertools.pairwise(words)).values()) / (count - 1) > 0.20:
        return "repeat_2gram"
    if max(Counter(zip(words, words[1:], words[2:], strict=False)).values()) / (count - 2) > 0.18:
        return "repeat_3gram"
    return "ok"
