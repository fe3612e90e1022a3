"""The recipe's `[deduplicate]`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

FLOOR = 0.7  # pairs from here on are stored, so that another threshold reads no text
# before the name of a documents' own field, where another name would be a measure's
FIELD = "field:"
ORDER = rf"^(plan|longest|(highest|lowest) ([A-Za-z0-9_]+\.[A-Za-z0-9_]+|{FIELD}\S.*))\Z"
MOST_CANDIDATES = 16  # of a bucket: a column each in near.sql
MOST_KEEPERS = 64  # of a bucket: what an index holds of it for later corpora

# Parameters that say how a visitor came, and nothing about the page: of campaigns (utm_), of
# advertisers' clicks, of mailings.
TRACKING = (
    "utm_*",
    "fbclid",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "msclkid",
    "yclid",
    "ttclid",
    "twclid",
    "igshid",
    "mc_cid",
    "mc_eid",
    "_hsenc",
    "_hsmi",
    "mkt_tok",
    "vero_id",
)


class Near(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Near duplicates: MinHash signatures in bands, candidates from the documents that share a
    band, verified.

    A document's candidates are the first `candidates` documents of each of its buckets that come
    before it; and if it goes for none of them, the first `keepers` documents of each that are kept.
    """

    shingle: int = 5
    # of a shingle; scripts written without spaces have a word a character
    unit: Literal["words", "characters"] = "words"
    # numbers in a signature; null: bands * rows, the only number that is right
    permutations: int | None = None
    bands: int = 32
    rows: int = 4
    threshold: float = 0.8  # Jaccard similarity
    floor: float | None = None  # null: 0.7, or the threshold if that is lower
    candidates: int = 8
    keepers: int = 64
    verify: Literal["text", "signatures", "none"] = "text"
    group: Literal["kept", "components"] = "kept"

    def __post_init__(self) -> None:
        if not 1 <= self.shingle <= 100:
            raise ValueError("shingle is a number of words or characters, 1 to 100")
        made = self.bands * self.rows
        if self.bands < 1 or self.rows < 1 or made > 4096:
            raise ValueError(
                "bands and rows are at least 1, bands * rows (the permutations) at most 4096"
            )
        if self.permutations not in (None, made):
            raise ValueError(
                f"permutations = {self.permutations} is not bands * rows = {self.bands} * "
                f"{self.rows} = {made}"
            )
        if not 0.0 < self.threshold <= 1.0:
            raise ValueError("threshold is a similarity, over 0 and at most 1")
        floor = min(FLOOR, self.threshold) if self.floor is None else self.floor
        if not 0.0 < floor <= self.threshold:
            raise ValueError(
                f"floor = {floor} is a similarity, over 0 and at most threshold = "
                f"{self.threshold}: pairs below it are not known"
            )
        if not 1 <= self.candidates <= MOST_CANDIDATES:
            raise ValueError(
                f"candidates is a number of a bucket's documents, 1 to {MOST_CANDIDATES}"
            )
        if not 0 <= self.keepers <= MOST_KEEPERS:
            raise ValueError(
                f"keepers is a number of a bucket's kept documents, 0 to {MOST_KEEPERS}"
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


class Lines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frequent lines: what stands in more than `most` documents, compared as normalised text, is
    cut out of them; docs/lines.md.
    """

    most: Annotated[int, Meta(ge=1)]  # documents that a line may stand in
    # first: it stays where it stands first, in the earliest document
    keep: Literal["none", "first"] = "none"
    unit: Literal["lines", "paragraphs"] = "lines"  # paragraphs: with blank lines between them
    # of a normalised line; a shorter one is never cut
    least_characters: Annotated[int, Meta(ge=1)] = 1


class Deduplicate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which duplicates go. A document goes only for an earlier one that stays."""

    url: bool = False  # equal URL
    normal_urls: bool = True  # by their normal form: urls.py
    # parameters that a normal form leaves out; `utm_*` stands for all that begin so
    tracking: tuple[str, ...] = TRACKING
    exact: bool = True  # equal normalised text
    near: Near | None = None
    lines: Lines | None = None
    scope: Literal["corpus", "source"] = "corpus"  # source: compare within a source only
    order: Annotated[str, Meta(pattern=ORDER)] = "plan"  # who stays: order.py
    against: list[str] = []  # older corpora, whose documents come before all of these
    index: bool = False  # leave an index, so that later corpora can be compared against this one
    # The share of what is compared that one document and its copies may be; a larger cluster stops
    # the run. null: no guard.
    largest_cluster: Annotated[float, Meta(gt=0, le=1)] | None = None

    @property
    def compares(self) -> bool:
        """Whether documents are compared with one another: the lines of [deduplicate.lines] are
        not.
        """
        return bool(self.url or self.exact or self.near)

    def __post_init__(self) -> None:
        for name in self.tracking:
            if name in ("", "*") or name != name.lower() or "*" in name[:-1]:
                raise ValueError(
                    f"tracking: {name!r}: write a parameter's name in small letters, or how "
                    "names begin and then *"
                )
        if self.scope == "source" and (self.against or self.index):
            raise ValueError(
                'against and index compare whole corpora; scope = "source" compares within a source'
            )
        if self.against and not self.compares:
            raise ValueError("against: nothing is compared (url, exact, near)")
        if self.against and self.near and self.near.group != "kept":
            raise ValueError(
                'against: what stays in an older corpus stays; group = "components" may want '
                "it gone"
            )
        if self.order != "plan" and (self.against or self.index):
            raise ValueError(
                f'order = "{self.order}": against and index need order = "plan", in which '
                "later documents change nothing"
            )
        if self.index and self.near is None:
            raise ValueError("index: it holds the bands of signatures, and there is no near")
