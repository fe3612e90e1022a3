"""The recipe's `[deduplicate]`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

FLOOR = 0.7  # pairs from here on are stored, so that another threshold reads no text
MOST_CANDIDATES = 16  # of a bucket: a column each in near.sql


class Near(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Near duplicates: MinHash signatures in bands, candidates from the documents that share a band, verified.

    A document's candidates are the first `candidates` documents of each of its buckets that come before it.
    """

    shingle: Annotated[int, Meta(ge=1, le=100)] = 5
    unit: Literal["words", "characters"] = (
        "words"  # of a shingle; scripts written without spaces have a word a character
    )
    permutations: int | None = None  # numbers in a signature; null: bands * rows, the only number that is right
    bands: Annotated[int, Meta(ge=1)] = 32
    rows: Annotated[int, Meta(ge=1)] = 4
    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.8  # Jaccard similarity
    floor: Annotated[float, Meta(gt=0, le=1)] | None = None  # null: 0.7, or the threshold if that is lower
    candidates: Annotated[int, Meta(ge=1, le=MOST_CANDIDATES)] = 8
    verify: Literal["text", "signatures", "none"] = "text"
    group: Literal["kept", "components"] = "kept"

    def __post_init__(self) -> None:
        made = self.bands * self.rows
        if made > 4096:
            raise ValueError("bands * rows, the permutations, is at most 4096")
        if self.permutations not in (None, made):
            raise ValueError(
                f"permutations = {self.permutations} is not bands * rows = {self.bands} * {self.rows} = {made}"
            )
        floor = min(FLOOR, self.threshold) if self.floor is None else self.floor
        if self.threshold < floor:
            raise ValueError(
                f"threshold = {self.threshold} lies below floor = {floor}: pairs below the floor are not known"
            )
        # The recipe that is stored has every default filled in.
        msgspec.structs.force_setattr(self, "permutations", made)
        msgspec.structs.force_setattr(self, "floor", floor)

    @property
    def numbers(self) -> int:
        """How many numbers a signature has."""
        return self.bands * self.rows

    @property
    def least(self) -> float:
        """The floor: no pair below it is known."""
        return self.threshold if self.floor is None else self.floor


class Deduplicate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which duplicates go. A document goes only for an earlier one that stays."""

    url: bool = False  # equal URL
    exact: bool = True  # equal normalised text
    near: Near | None = None
    scope: Literal["corpus", "source"] = "corpus"  # source: compare within a source only
