"""The recipe's `[deduplicate]`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

FLOOR = 0.7  # pairs of at least this similarity are stored: another threshold then reads no text
FIELD = "field:"  # before a field of the source, in an order; without it a name is a measure's
ORDER = rf"^(plan|longest|(highest|lowest) ([A-Za-z0-9_]+\.[A-Za-z0-9_]+|{FIELD}\S.*))\Z"
MOST_CANDIDATES = 16  # of a bucket: near.sql has a column for each
MOST_KEEPERS = 64  # kept documents of a bucket that an index holds for later corpora

# URL parameters that say where a visitor came from, and nothing about the page: those of campaigns
# (utm_), of clicks on advertisements, of mailings.
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
    """Near duplicates: documents that share a band of their MinHash signatures are candidates,
    which are verified.

    A document's candidates are the first `candidates` documents of each of its buckets that come
    before it; if it is a duplicate of none of them, the first `keepers` kept documents of each.
    """

    shingle: int = 5  # units of a shingle
    # In scripts written without spaces each character is a word.
    unit: Literal["words", "characters"] = "words"
    # Numbers in a signature. Null: bands * rows, the only value that is accepted.
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
            raise ValueError("shingle is a number of words or characters, from 1 to 100")
        made = self.bands * self.rows
        if self.bands < 1 or self.rows < 1 or made > 4096:
            raise ValueError(
                "bands and rows must be at least 1, and bands * rows (the permutations) at most "
                "4096"
            )
        if self.permutations not in (None, made):
            raise ValueError(
                f"permutations = {self.permutations} is not bands * rows = {self.bands} * "
                f"{self.rows} = {made}"
            )
        if not 0.0 < self.threshold <= 1.0:
            raise ValueError("threshold is a similarity: greater than 0, at most 1")
        floor = min(FLOOR, self.threshold) if self.floor is None else self.floor
        if not 0.0 < floor <= self.threshold:
            raise ValueError(
                f"floor = {floor}: it must be greater than 0 and at most threshold = "
                f"{self.threshold}; pairs below the floor are not stored"
            )
        if not 1 <= self.candidates <= MOST_CANDIDATES:
            raise ValueError(
                f"candidates is a number of documents of a bucket, from 1 to {MOST_CANDIDATES}"
            )
        if not 0 <= self.keepers <= MOST_KEEPERS:
            raise ValueError(
                f"keepers is a number of kept documents of a bucket, from 0 to {MOST_KEEPERS}"
            )
        # The stored recipe has every default filled in.
        msgspec.structs.force_setattr(self, "permutations", made)
        msgspec.structs.force_setattr(self, "floor", floor)

    @property
    def numbers(self) -> int:
        """How many numbers a signature has."""
        return self.bands * self.rows

    @property
    def least(self) -> float:
        """The floor: pairs below it are not stored."""
        return self.threshold if self.floor is None else self.floor


class FrequentLines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frequent lines: a line that is in more than `most` documents, compared as normalised text, is
    removed from them; docs/lines.md.
    """

    most: Annotated[int, Meta(ge=1)]  # documents that a line may be in
    # first: the line is kept at its first place, in the earliest document
    keep: Literal["none", "first"] = "none"
    unit: Literal["lines", "paragraphs"] = "lines"  # paragraphs have blank lines between them
    # Of a normalised line. A shorter line is never removed.
    least_characters: Annotated[int, Meta(ge=1)] = 1


class Substrings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Repeated substrings: bytes of a document whose windows of `bytes` bytes are at more than
    `most` places of the kept documents; docs/substrings.md.
    """

    bytes: Annotated[int, Meta(ge=16, le=65536)] = 500
    most: Annotated[int, Meta(ge=1)] = 1  # places that a window may be at
    # first: what occurs again is kept at its first place, in the earliest document
    keep: Literal["first", "none"] = "first"
    # where a cut may start and stop: the bounds go inward
    boundary: Literal["characters", "words", "lines"] = "words"
    action: Literal["cut", "count"] = "cut"


class Deduplicate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which duplicates to drop. A document is dropped only for an earlier one that is kept."""

    url: bool = False  # equal URL
    normal_urls: bool = True  # compare URLs in their normal form: url_form.py
    # URL parameters that a normal form leaves out; `utm_*` is every name that begins with utm_
    tracking: tuple[str, ...] = TRACKING
    exact: bool = True  # equal normalised text
    near: Near | None = None
    lines: FrequentLines | None = None
    substrings: Substrings | None = None
    # What is compared: the corpus, within each source only, or within each language (the measure
    # language.label) only; there URLs are compared in the corpus all the same.
    scope: Literal["corpus", "source", "language"] = "corpus"
    order: Annotated[str, Meta(pattern=ORDER)] = "plan"  # which duplicate is kept: order.py
    against: list[str] = []  # reference corpora, whose documents come before all of these
    index: bool = False  # write an index, so that later corpora can be compared against this one
    # The largest share of the compared documents that one document and its copies may have; a
    # larger cluster stops the run. Null: no limit.
    largest_cluster: Annotated[float, Meta(gt=0, le=1)] | None = None

    @property
    def compares(self) -> bool:
        """Whether documents are compared with each other; [deduplicate.lines] and
        [deduplicate.substrings] alone do not.
        """
        return bool(self.url or self.exact or self.near)

    def __post_init__(self) -> None:
        for name in self.tracking:
            if name in ("", "*") or name != name.lower() or "*" in name[:-1]:
                raise ValueError(
                    f"tracking: {name!r}: write the name of a URL parameter in lower case, or the "
                    "beginning of names followed by *"
                )
        if self.scope != "corpus" and (self.against or self.index):
            raise ValueError(
                f'against and index compare whole corpora; scope = "{self.scope}" compares within '
                f"a {self.scope}"
            )
        if self.scope == "language" and (self.lines or self.substrings):
            raise ValueError(
                'scope = "language": lines and substrings are compared in the corpus or within a '
                "source; leave them out"
            )
        if self.against and not self.compares:
            raise ValueError("against: no comparison is switched on; set url, exact or near")
        if self.against and self.near and self.near.group != "kept":
            raise ValueError(
                "against: a document that a reference corpus keeps must stay kept, and group = "
                '"components" may drop it; use group = "kept"'
            )
        if self.order != "plan" and (self.against or self.index):
            raise ValueError(
                f'order = "{self.order}": against and index need order = "plan", in which later '
                "documents do not change the verdicts of earlier ones"
            )
        if self.index and self.near is None:
            raise ValueError(
                "index: an index holds the bands of signatures; add [deduplicate.near]"
            )
