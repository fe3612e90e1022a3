"""The recipe's `[deduplicate]`."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gristmill.store.defaults import without_defaults

FLOOR = 0.7  # pairs of at least this similarity are stored: another threshold then reads no text
FIELD = "field:"  # before a field of the source, in an order; without it a name is a measure's
ORDER = rf"^(plan|longest|(highest|lowest) ([A-Za-z0-9_]+\.[A-Za-z0-9_]+|{FIELD}\S.*))\Z"
MOST_CANDIDATES = 16  # of a bucket: an index has as many of each
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


ExactForm = Literal["bytes", "folded", "words"]


class Near(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Near duplicates: documents that share a band of their MinHash signatures are candidates,
    which are verified.

    A document's candidates are the first `candidates` documents of each of its buckets that come
    before it; if it is a duplicate of none of them, the first `keepers` kept documents of each.
    """

    shingle: int = 5  # Words (or characters) of a shingle, from 1 to 100.
    # Whether operators and signs (`<=`, `+`, `-5`) are words; otherwise they are left out.
    signs: bool = True
    arabic_marks: bool = True  # Whether Arabic vowel marks and tatweel count.
    # What a shingle is made of. In scripts written without spaces each character is a word.
    unit: Literal["words", "characters"] = "words"
    # Numbers in a signature. Only bands * rows is accepted; unset: that number.
    permutations: int | None = None
    # Bands of a signature. Two documents with one equal band are compared; more bands find more
    # pairs. `gristmill curve` shows the effect.
    bands: int = 32
    rows: int = 4  # Numbers of a band; more rows find fewer pairs. bands * rows is at most 4096.
    threshold: float = 0.8  # The least Jaccard similarity of duplicates, above 0 and at most 1.
    # Compared pairs from this similarity on are stored for `rejudge`. Unset: 0.7, or the threshold
    # if that is lower.
    floor: float | None = None
    # How many earlier documents of each bucket a document is compared with, from 1 to 16.
    candidates: int = 8
    # How many kept documents of each bucket it is compared with after that, from 0 to 64.
    keepers: int = 64
    # How a pair is verified: by the texts, by signatures alone (an estimate, reads no text), or not
    # at all.
    verify: Literal["text", "signatures", "none"] = "text"
    # `components` keeps one document of each connected component, for comparison with other tools.
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
    def form(self) -> Literal["signs", "words"]:
        """Return what texts are compared as."""
        return "signs" if self.signs else "words"

    @property
    def numbers(self) -> int:
        """Return how many numbers a signature has."""
        return self.bands * self.rows

    @property
    def least(self) -> float:
        """Return the floor: pairs below it are not stored."""
        return self.threshold if self.floor is None else self.floor


class FrequentLines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frequent lines: a line that is in more than `most` documents, compared as normalised text, is
    removed from them; docs/lines.md.
    """

    most: Annotated[int, Meta(ge=1)]  # A line in more documents than this is removed from them.
    # With `first` the line is kept at its first place, in the earliest document.
    keep: Literal["none", "first"] = "none"
    # What is compared. Paragraphs have blank lines between them; of sentences every three that
    # follow each other are compared together, and each place counts (C4).
    unit: Literal["lines", "paragraphs", "sentences"] = "lines"
    arabic_marks: bool = True  # Whether Arabic vowel marks and tatweel count.
    # A line with fewer characters, once normalised, is never removed.
    least_characters: Annotated[int, Meta(ge=1)] = 1

    def key(self) -> dict[str, Any]:
        """Return what keys are made of. They have `arabic_marks` at its default too; a stored
        recipe has not.
        """
        return {**without_defaults(self), "arabic_marks": self.arabic_marks}


class Substrings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Repeated substrings: bytes of a document whose windows of `bytes` bytes are at more than
    `most` places of the kept documents; docs/substrings.md.
    """

    # The length of the windows that are compared, in bytes.
    bytes: Annotated[int, Meta(ge=16, le=65536)] = 500
    # At how many places a window may be; one at more places is repeated.
    most: Annotated[int, Meta(ge=1)] = 1
    # With `first` repeated text is kept at its first place, in the earliest document.
    keep: Literal["first", "none"] = "first"
    # Where a cut may start and stop. A cut is made smaller until it fits.
    boundary: Literal["characters", "words", "lines"] = "words"
    # `cut` removes repeated text; `count` only measures it.
    action: Literal["cut", "count"] = "cut"


class NearOfLanguage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Near duplicates of one language."""

    # The least Jaccard similarity of duplicates, at least `near.floor` and at most 1.
    threshold: Annotated[float, Meta(gt=0, le=1)]


class DeduplicateOfLanguage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs for the documents of one language; the rest is as in the corpus."""

    # Whether equal texts are dropped. Unset: as in the corpus.
    exact: bool | None = None
    # The threshold of near duplicates, or false: none are looked for. Unset: as in the corpus.
    near: NearOfLanguage | Literal[False] | None = None


class Deduplicate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which duplicates to drop. A document is dropped only for an earlier one that is kept."""

    url: bool = False  # Drop a document with the URL of an earlier one.
    # Compare URLs in a normal form: http as https, hosts in lower case, no fragment, no tracking
    # parameters.
    normal_urls: bool = True
    # URL parameters that the normal form leaves out; `utm_*` is every name that begins with `utm_`.
    tracking: tuple[str, ...] = TRACKING
    # Drop a document whose text is equal to an earlier one's: with `folded`, which is what true
    # means, once Unicode and white space are folded (docs/compared-text.md); with `words` by its
    # words in lower case alone; with `bytes` as it is.
    exact: bool | ExactForm = True
    # Whether Arabic vowel marks and tatweel count when texts are compared. With false they do not
    # for near duplicates and frequent lines either.
    arabic_marks: bool = True
    near: Near | None = None  # How near duplicates are found. Without the table none are.
    # How frequent lines are removed. Without the table none are.
    lines: FrequentLines | None = None
    # How repeated substrings are cut. Without the table none are.
    substrings: Substrings | None = None
    # With `source` documents are compared within their source only, with `language` within their
    # language (the measure `language.label`) only; URLs are then still compared in the corpus.
    scope: Literal["corpus", "source", "language"] = "corpus"
    # With `scope = "language"`: by label what differs (`exact`, `near`), or false: neither equal
    # texts nor near duplicates are looked for.
    by_language: dict[str, DeduplicateOfLanguage | Literal[False]] | None = None
    # Which of several duplicates is kept: `plan` (the first), `longest`, or `highest STEP.MEASURE`,
    # `lowest STEP.MEASURE`, `highest field:NAME`, `lowest field:NAME`.
    order: Annotated[str, Meta(pattern=ORDER)] = "plan"
    # Folders of reference corpora, made with `index = true`. Their documents come before all of
    # these.
    against: list[str] = []
    index: bool = False  # Write an index, so that later corpora can be compared against this one.
    # The largest share of the compared documents that one document and its copies may be; a larger
    # cluster stops the run. Unset: no limit.
    largest_cluster: Annotated[float, Meta(gt=0, le=1)] | None = None

    @property
    def compares(self) -> bool:
        """Return whether documents are compared with each other; [deduplicate.lines] and
        [deduplicate.substrings] alone do not.
        """
        return bool(self.url or self.compares_texts or self.near)

    @property
    def form(self) -> ExactForm:
        """Return what equal texts are equal in."""
        return "folded" if isinstance(self.exact, bool) else self.exact

    @property
    def compares_texts(self) -> bool:
        """Return whether equal texts are looked for, in any language."""
        return bool(self.exact) or any(
            entry is not False and bool(entry.exact) for entry in (self.by_language or {}).values()
        )

    def __post_init__(self) -> None:
        if not self.arabic_marks:
            for name in ("near", "lines"):
                if (part := getattr(self, name)) is not None:
                    part = msgspec.structs.replace(part, arabic_marks=False)
                    msgspec.structs.force_setattr(self, name, part)
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
        self._check_languages()
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

    def _check_languages(self) -> None:
        if self.by_language and self.scope != "language":
            raise ValueError(
                f'by_language: with scope = "{self.scope}" documents are compared with those of '
                'other languages, which may have other settings; set scope = "language"'
            )
        for label, entry in (self.by_language or {}).items():
            near = entry.near if entry is not False else None
            if near is None or near is False:
                continue
            if self.near is None:
                raise ValueError(
                    f"by_language: {label}.near: there is no [deduplicate.near], whose signatures "
                    "find the pairs; add it"
                )
            if self.near.verify == "none":
                raise ValueError(
                    f'by_language: {label}.near.threshold: with near.verify = "none" no similarity '
                    "is measured; leave it out or verify"
                )
            if near.threshold < self.near.least:
                raise ValueError(
                    f"by_language: {label}.near.threshold = {near.threshold} is below near.floor = "
                    f"{self.near.least}: pairs below the floor are not compared; set near.floor = "
                    f"{near.threshold} or less"
                )
