"""The recipe's `[deduplicate]`."""

from typing import Literal

import msgspec


class Near(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Near duplicates: MinHash with bands * rows permutations, candidates by bands, verified on the texts."""

    shingle: int = 5  # words
    bands: int = 32
    rows: int = 4
    threshold: float = 0.8  # Jaccard similarity of the texts' shingles
    verify: Literal["text"] = "text"

    def __post_init__(self) -> None:
        if not 1 <= self.shingle <= 100:
            raise ValueError("shingle is a number of words, 1 to 100")
        if self.bands < 1 or self.rows < 1 or self.bands * self.rows > 4096:
            raise ValueError("bands and rows are at least 1, bands * rows (the permutations) at most 4096")
        if not 0.0 < self.threshold <= 1.0:
            raise ValueError("threshold is a similarity, over 0 and at most 1")

    @property
    def permutations(self) -> int:
        """Numbers in a signature."""
        return self.bands * self.rows


class Deduplicate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which duplicates go. A document goes only for an earlier one that stays."""

    url: bool = False  # equal URL
    exact: bool = True  # equal normalised text
    near: Near | None = None
    scope: Literal["corpus", "source"] = "corpus"  # source: compare within a source only
