"""A segment of a plan: what decides the stream from one window on, and what it may say.

`make_segment` makes one from a corpus; `check` refuses one whose values no loader wrote, because a
plan comes from a file that anyone may have sealed.
"""

import math
import os
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.mixture import MOST_SLOTS, Mixture, assign_slots, fill_weights
from gristmill.loader.parameters import MOST_STEP_TOKENS, MOST_WINDOWS, whole_number
from gristmill.loader.window_kinds import open_windows, parse_packing, text_positions

MOST_TOKENS = 1 << 60  # of a source
LONGEST_NAME = 255  # of a source: it is the name of a folder
# What may differ from one segment to the next; everything else stays.
FIXED = (
    "seed",
    "split",
    "tokenizer",
    "vocabulary",
    "dtype",
    "end_of_text",
    "end_of_text_side",
    "labels",
)


# What a later version of a tokenizer that grows may change: numbers of tokens keep their meaning.
GROWING = ("tokenizer", "vocabulary", "dtype")


class PlanSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source in a segment of a plan."""

    name: str
    tokens: int
    windows: int  # of an epoch; 0 where it has never had slots
    unused: int  # tokens that are in no window of an epoch
    slots: int  # of the mix' period; 0: it is not read
    epoch: int  # in which it goes on at the segment's first window ...
    rank: int  # ... and how many windows of that epoch have been read then
    unread: int = 0  # windows of the epoch under way before, which no step reads

    def check(self) -> None:
        """Raise ValueError for values that cannot be."""
        if not 0 < len(self.name) <= LONGEST_NAME:
            raise ValueError(f"a source's name has {len(self.name):,} characters")
        below = {
            "tokens": MOST_TOKENS,
            "windows": self.tokens,
            "unused": self.tokens,
            "slots": MOST_SLOTS,
            "epoch": MOST_WINDOWS,
            "rank": max(self.windows - 1, 0),
            "unread": MOST_TOKENS,
        }
        for name, most in below.items():
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"source {self.name}: {name} is {getattr(self, name)}")
        if self.slots and not self.windows:
            raise ValueError(f"source {self.name}: it is read, and has no windows")


class PlanSegment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stream from one window on."""

    from_window: int
    batch_size: int  # windows of a step, of all ranks together
    sequence_length: int
    packing: dict[str, Any]
    weights: dict[str, float] | None  # as asked; null: in proportion to tokens
    corpus: str  # sha256 of manifest.json
    seed: int
    split: Split
    tokenizer: str
    vocabulary: int
    dtype: str
    end_of_text: int
    end_of_text_side: str
    labels: str
    sources: list[PlanSource]

    @property
    def text_positions(self) -> int:
        """Return how many positions of a window are tokens of the corpus."""
        return text_positions(self.sequence_length, self.packing)

    @property
    def mixture(self) -> Mixture:
        """Return its mix, computed from the slots at each call."""
        return Mixture([source.slots for source in self.sources])

    def check(self) -> None:
        """Raise ValueError for values that cannot be, RecipeError for such a packing."""
        if not 0 <= self.from_window <= MOST_WINDOWS:
            raise ValueError(f"from_window is {self.from_window:,}")
        if self.batch_size < 1 or self.sequence_length < 1:
            raise ValueError("a batch size or sequence length below 1")
        if self.batch_size * self.sequence_length > MOST_STEP_TOKENS:
            raise ValueError(f"a step of more than {MOST_STEP_TOKENS:,} tokens")
        if parse_packing(self.packing) != self.packing:
            raise ValueError(f"packing is {self.packing!r}")
        if not re.fullmatch(r"[0-9a-f]{64}", self.corpus):
            raise ValueError("corpus is not a sha256")
        for name, weight in (self.weights or {}).items():
            if not 0 <= weight < math.inf:
                raise ValueError(f"the weight of {name} is {weight}")
        names = {source.name for source in self.sources}
        if len(names) != len(self.sources):
            raise ValueError("a source is in a segment twice")
        if not 1 <= sum(source.slots for source in self.sources) <= MOST_SLOTS:
            raise ValueError(f"a segment has 1 to {MOST_SLOTS:,} slots")
        for source in self.sources:
            source.check()


def opened(corpus: TokenCorpus | Path | str) -> TokenCorpus:
    """Return a corpus, opened where it is not yet. Raises RecipeError, VerificationError."""
    if not isinstance(corpus, TokenCorpus | str | os.PathLike):
        raise RecipeError(f"corpus = {corpus!r}: it is the folder of a corpus")
    return corpus if isinstance(corpus, TokenCorpus) else TokenCorpus.open(corpus)


def make_segment(
    corpus: TokenCorpus,
    from_window: int,
    sequence_length: int,
    batch_size: int,
    seed: int,
    split: Split,
    weights: Mapping[str, float] | None,
    packing: dict[str, Any],
) -> PlanSegment:
    """Return a segment whose sources all begin at epoch 0. Raises RecipeError."""
    sequence_length = whole_number("sequence_length", sequence_length, 1, MOST_STEP_TOKENS)
    batch_size = whole_number("batch_size", batch_size, 1, MOST_STEP_TOKENS // sequence_length)
    seed = whole_number("seed", seed)
    from_window = whole_number("from_window", from_window, 0, MOST_WINDOWS)
    streams = {name: corpus.stream(name, split) for name in corpus.sources(split)}
    shares = fill_weights({name: stream.tokens for name, stream in streams.items()}, weights)
    cut = {
        name: open_windows(
            corpus, name, split, seed=seed, sequence_length=sequence_length, packing=packing
        )
        for name, share in shares.items()
        if share
    }
    # Shares are of tokens: a source whose windows are padded gets more of them.
    counts = [
        share / Fraction(cut[name].tokens - cut[name].unused, cut[name].count) if share else share
        for name, share in shares.items()
    ]
    slots = dict(zip(shares, assign_slots(counts), strict=True))
    if never := [name for name in cut if not slots[name]]:
        raise RecipeError(
            f"weights: source {never[0]!r} has less than half a slot of {MOST_SLOTS:,}, and would "
            "never be read: give it weight 0, or a larger share"
        )
    sources = []
    for name, stream in streams.items():
        read = cut.get(name)
        count, unused = (read.count, read.unused) if read is not None else (0, 0)
        sources.append(
            PlanSource(
                name=name,
                tokens=stream.tokens,
                windows=count,
                unused=unused,
                slots=slots[name],
                epoch=0,
                rank=0,
            )
        )
    form = {name: getattr(corpus.format, name) for name in FIXED if name not in ("seed", "split")}
    return PlanSegment(
        from_window=from_window,
        batch_size=batch_size,
        sequence_length=sequence_length,
        packing=packing,
        weights=None if weights is None else dict(weights),
        corpus=corpus.digest,
        seed=seed,
        split=split,
        sources=sources,
        **form,
    )
