r"""Precision and recall of a text by shingles, as article-extraction-benchmark scores its own set
(evaluate.py of github.com/scrapinghub/article-extraction-benchmark): bags of runs of four words
(`\w+`, capitals as they are), and one F1 of the means of all pages' precision and recall.

Bags of single words, benchmarks/extraction.py's measure, take the mean of each page's F1.
"""

import re
from collections import Counter

WORD = re.compile(r"\w+")
SIZE = 4


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = WORD.findall(text)
    if not words:
        return Counter()
    return Counter(tuple(words[at : at + SIZE]) for at in range(max(1, len(words) - SIZE + 1)))


def of_page(kept: str, true: str) -> tuple[float | None, float | None]:
    """Precision, None where nothing is kept, and recall, None where nothing is true."""
    ours, theirs = _shingles(kept), _shingles(true)
    common = (ours & theirs).total()
    return (common / ours.total() if ours else None, common / theirs.total() if theirs else None)


def f1(pages: list[tuple[float | None, float | None]]) -> float:
    """The F1 of the mean precision and the mean recall of pages that have them."""
    columns = [
        [value for value in column if value is not None] for column in zip(*pages, strict=True)
    ]
    precision, recall = (sum(column) / max(len(column), 1) for column in columns)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
