r"""ROUGE-LSum of a text against a true one (Lin 2004), as the package rouge-score computes it: F1
of the union of longest common subsequences of each true line with all lines, each word counted
once.

Words are `\w+` in lower case, so that letters of all scripts count; rouge-score's own tokenizer
knows ASCII alone. Lines are sentences. benchmarks/extraction.py compares it with the package.
"""

import re
from collections import Counter

import numpy as np

WORD = re.compile(r"\w+")


def lines_of(text: str) -> list[list[str]]:
    """The words of each line that has any."""
    return [words for line in text.lower().split("\n") if (words := WORD.findall(line))]


def _common(true: np.ndarray, kept: np.ndarray) -> set[int]:
    """The places in `true` (n,) of one longest common subsequence with `kept` (m,), the one that
    rouge-score finds.
    """
    table = np.zeros((len(true) + 1, len(kept) + 1), np.int32)
    for row, word in enumerate(true, 1):
        above = table[row - 1]
        equal = np.where(kept == word, above[:-1] + 1, 0)
        table[row, 1:] = np.maximum.accumulate(np.maximum(above[1:], equal))
    found = set()
    i, j = len(true), len(kept)
    while i and j:
        if true[i - 1] == kept[j - 1]:
            i, j = i - 1, j - 1
            found.add(i)
        elif table[i, j - 1] > table[i - 1, j]:
            j -= 1
        else:
            i -= 1
    return found


def rouge_lsum(kept: str, true: str) -> float:
    """The F1 of ROUGE-LSum; two empty texts are 1, one empty is 0."""
    ours, theirs = lines_of(kept), lines_of(true)
    if not ours or not theirs:
        return float(not ours and not theirs)
    numbers: dict[str, int] = {}
    rows = [
        [np.array([numbers.setdefault(word, len(numbers)) for word in line]) for line in lines]
        for lines in (theirs, ours)
    ]
    left_true = Counter(word for line in theirs for word in line)
    left_kept = Counter(word for line in ours for word in line)
    size_true, size_kept = left_true.total(), left_kept.total()
    sets = [frozenset(line.tolist()) for line in rows[1]]
    whole = {tuple(line.tolist()) for line in rows[1]}
    hits = 0
    for words, line in zip(theirs, rows[0], strict=True):
        places: set[int] = set()
        known = frozenset(line.tolist())
        if tuple(line.tolist()) in whole:
            places = set(range(len(line)))  # what it has in common with itself
        for other, row in zip(sets, rows[1], strict=True):
            if len(places) == len(line):
                break
            if known & other:
                places |= _common(line, row)
        for place in places:
            word = words[place]
            if left_true[word] > 0 and left_kept[word] > 0:
                left_true[word] -= 1
                left_kept[word] -= 1
                hits += 1
    precision, recall = hits / size_kept, hits / size_true
    return 2 * precision * recall / (precision + recall) if hits else 0.0
