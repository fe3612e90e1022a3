"""Slow twins of kernels/bpe_training: pieces counted by a Counter, and all pairs of all pieces
counted anew before each merge.
"""

import itertools
from collections import Counter


class PieceCounter:
    """Pieces of two or more bytes, and how often each stands between two marks."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()

    def count(self, marks: list[int], data: bytes) -> None:
        for start, stop in itertools.pairwise(marks):
            if stop - start > 1:
                self.counts[data[start:stop]] += 1

    def add(self, other: "PieceCounter") -> None:
        self.counts.update(other.counts)


def choose_merges(
    pieces: dict[bytes, int],
    byte_tokens: list[int],
    merges: int,
    given: list[tuple[int, int]] | None = None,
    least: int = 1,
) -> list[tuple[int, int]]:
    """The pairs that merge, in order; the token of merge i is 256 + i."""
    words = [([byte_tokens[byte] for byte in piece], count) for piece, count in pieces.items()]
    chosen: list[tuple[int, int]] = []
    for pair in given or []:
        words = [(_merged(word, pair, 256 + len(chosen)), count) for word, count in words]
        chosen.append(pair)
    while len(chosen) < merges + len(given or []):
        counts: Counter[tuple[int, int]] = Counter()
        for word, count in words:
            for pair in itertools.pairwise(word):
                counts[pair] += count
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        if counts[best] < least:
            break
        words = [(_merged(word, best, 256 + len(chosen)), count) for word, count in words]
        chosen.append(best)
    return chosen[len(given or []) :]


def _merged(word: list[int], pair: tuple[int, int], token: int) -> list[int]:
    out: list[int] = []
    at = 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            out.append(token)
            at += 2
        else:
            out.append(word[at])
            at += 1
    return out
