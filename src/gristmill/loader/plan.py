"""The plan of a training run: what decides which tokens come at which place, and nothing else.

A plan is a list of segments, each from a window of the stream on. The first is of window 0; a
change of corpus, mix, sequence length, packing or batch size adds one. A plan is small JSON with a
digest of itself; a loader's state names it.

    plan = LoaderPlan.start(corpus, sequence_length=2048, batch_size=512)
    plan = plan.changed(corpus, from_window=1_024_000, weights={"web": 0.5, "books": 0.5})
    plan.save("plan.json")

When weights or the batch size change, each source goes on where it is. When corpus, sequence length
or packing change, each source begins an epoch that no segment before has begun, so that no cut is
used twice; `unread` is how many windows of the epoch under way stay unread.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.loader.mixture import Mixture, slots_of, weights_of
from gristmill.loader.window_kinds import Packing, packing_of, windows_of
from gristmill.store.parts import write_bytes
from gristmill.store.proof import PROOF, proven, seal, unseal
from gristmill.tokens.growth_record import version_of
from gristmill.user_input import local

FORMAT = 1
MOST_WINDOWS = 1 << 48  # in a stream: more than any run reads, and no sum of tokens overflows
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
    def mixture(self) -> Mixture:
        """Its mix, computed from the slots at each call."""
        return Mixture([source.slots for source in self.sources])


class LoaderPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Segments in order; the first begins at window 0."""

    format: int = FORMAT
    segments: list[PlanSegment]

    @classmethod
    def start(
        cls,
        corpus: TokenCorpus | Path | str,
        *,
        sequence_length: int,
        batch_size: int,
        seed: int = 0,
        split: Split = "train",
        weights: Mapping[str, float] | None = None,
        packing: Packing = "concat",
    ) -> "LoaderPlan":
        """The plan of a run that begins. `weights` are shares of tokens by source.

        Raises RecipeError if it cannot be read so, VerificationError if the corpus is damaged.
        """
        corpus = opened(corpus)
        if split not in ("train", "val"):
            raise RecipeError(f"split {split!r}: it is train or val")
        if not corpus.sources(split):
            raise RecipeError(f"{corpus.root}: the split {split!r} has no tokens")
        found = _segment(
            corpus, 0, sequence_length, batch_size, seed, split, weights, packing_of(packing)
        )
        return cls(segments=[found])

    @property
    def digest(self) -> str:
        """The sha256 that the plan's JSON carries."""
        return str(msgspec.json.decode(seal(self))[PROOF])

    def save(self, path: Path | str) -> None:
        """Write the plan. Raises MachineError."""
        target = local(path, "the plan")
        write_bytes(target.parent, target.name, seal(self))

    @classmethod
    def load(cls, path: Path | str) -> "LoaderPlan":
        """Read a plan. Raises RecipeError if there is none, VerificationError if it was changed."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
        return cls.decode(data, str(path))

    @classmethod
    def decode(cls, data: bytes, where: str = "the plan") -> "LoaderPlan":
        """The plan of its JSON. Raises VerificationError."""
        try:
            plan = msgspec.convert(unseal(data), cls)
            plan._check()
        except ValueError as error:
            raise VerificationError(
                f"{where}: not a plan as it was written: {error}. A plan is not edited: take it "
                "from the checkpoint again, or make a change by LoaderPlan.changed"
            ) from error
        return plan

    def changed(
        self,
        corpus: TokenCorpus | Path | str,
        *,
        from_window: int,
        weights: Mapping[str, float] | None = None,
        sequence_length: int | None = None,
        batch_size: int | None = None,
        packing: Packing | None = None,
    ) -> "LoaderPlan":
        """The plan with a segment more, from a window on; what is not given stays.

        `corpus` is the corpus from there on, the same or another one of the same tokenizer or of a
        later version that has grown from it (`gristmill tokenizer grow`). Windows before
        `from_window` are those of this plan. Raises RecipeError, VerificationError.
        """
        last, corpus = self.segments[-1], opened(corpus)
        if from_window <= last.from_window:
            raise RecipeError(
                f"window {from_window:,}: the plan already changes at window {last.from_window:,}; "
                "a change comes behind the last one"
            )
        if (over := (from_window - last.from_window) % last.batch_size) != 0:
            raise RecipeError(
                f"window {from_window:,} is not the first of a step of {last.batch_size:,} "
                f"windows; {from_window - over:,} and {from_window - over + last.batch_size:,} are"
            )
        found = _segment(
            corpus,
            from_window,
            last.sequence_length if sequence_length is None else sequence_length,
            last.batch_size if batch_size is None else batch_size,
            last.seed,
            last.split,
            last.weights if weights is None else weights,
            last.packing if packing is None else packing_of(packing),
        )
        may_grow = GROWING if _has_grown_from(corpus, last.tokenizer) else ()
        for name in FIXED:
            before, now = getattr(last, name), getattr(found, name)
            if before != now and name not in may_grow:
                raise RecipeError(
                    f"{corpus.root}: {name} is {now}, that of the plan is {before}: a run cannot "
                    "change it"
                )
        return LoaderPlan(segments=[*self.segments, self._continued(found)])

    def _continued(self, found: PlanSegment) -> PlanSegment:
        """A new segment whose sources go on where this plan leaves them."""
        last = self.segments[-1]
        same = ("corpus", "sequence_length", "packing")
        goes_on = all(getattr(last, name) == getattr(found, name) for name in same)
        places = {
            source.name: (source.epoch, source.rank, source.windows) for source in last.sources
        }
        read = last.mixture.before(found.from_window - last.from_window).tolist()
        for source, count in zip(last.sources, read, strict=True):
            if source.windows:
                epochs, rank = divmod(source.rank + count, source.windows)
                places[source.name] = source.epoch + epochs, rank, source.windows
        begun = self._begun(found.from_window)
        sources = []
        for source in found.sources:
            epoch, rank, count = places.get(source.name, (0, 0, 0))
            unread, windows = 0, source.windows or count
            if not goes_on:
                unread, windows = (count - rank if rank else 0), source.windows
                epoch, rank = begun.get(source.name, -1) + 1, 0
            place = {"epoch": epoch, "rank": rank, "windows": windows, "unread": unread}
            sources.append(msgspec.structs.replace(source, **place))
        return msgspec.structs.replace(found, sources=sources)

    def _begun(self, until: int) -> dict[str, int]:
        """The last epoch of each source that is begun before a window."""
        ends = [*(segment.from_window for segment in self.segments[1:]), until]
        begun: dict[str, int] = {}
        for segment, end in zip(self.segments, ends, strict=True):
            _update(begun, segment, end - segment.from_window)
        return begun

    def segment_at(self, window: int) -> int:
        """The number of the segment that has a window."""
        numbers = [n for n, one in enumerate(self.segments) if one.from_window <= window]
        return numbers[-1]

    def end_of(self, number: int) -> int | None:
        """The window behind a segment's last; None: it has no end."""
        later = self.segments[number + 1 :]
        return later[0].from_window if later else None

    def step_of(self, window: int) -> int:
        """The step that has a window, counted from the beginning of the run."""
        steps = 0
        for number, segment in enumerate(self.segments):
            end = self.end_of(number)
            if end is None or window < end:
                return steps + (window - segment.from_window) // segment.batch_size
            steps += (end - segment.from_window) // segment.batch_size
        raise AssertionError

    def window_of(self, step: int) -> int:
        """The first window of a step. Raises RecipeError for a step that no run reaches."""
        steps = 0
        for number, segment in enumerate(self.segments):
            end = self.end_of(number)
            first = segment.from_window + (step - steps) * segment.batch_size
            if first > MOST_WINDOWS:
                raise RecipeError(
                    f"step {step:,}: it begins at window {first:,}; a run has at most "
                    f"{MOST_WINDOWS:,} windows"
                )
            if end is None or first < end:
                return first
            steps += (end - segment.from_window) // segment.batch_size
        raise AssertionError

    def is_of(self, digest: str, window: int) -> bool:
        """Whether windows before this one are those of the plan with this digest: it is this plan,
        or this plan has only changes from `window` on beside it.
        """
        for count in range(len(self.segments), 0, -1):
            if LoaderPlan(segments=self.segments[:count]).digest == digest:
                return all(one.from_window >= window for one in self.segments[count:])
        return False

    def _check(self) -> None:
        """Raises ValueError where the plan contradicts itself."""
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, expected {FORMAT}")
        if not self.segments or self.segments[0].from_window != 0:
            raise ValueError("its first segment does not begin at window 0")
        for number, segment in enumerate(self.segments):
            end = self.end_of(number)
            if segment.batch_size < 1 or segment.sequence_length < 1:
                raise ValueError("a batch size or sequence length below 1")
            if end is not None and (
                end <= segment.from_window or (end - segment.from_window) % segment.batch_size
            ):
                raise ValueError("its segments are not of whole steps")
            if not any(source.slots for source in segment.sources):
                raise ValueError("a segment has no slots")
            for source in segment.sources:
                if min(source.slots, source.epoch, source.rank) < 0 or (
                    source.slots and not 0 <= source.rank < max(source.windows, 1)
                ):
                    raise ValueError(f"source {source.name}: numbers out of range")


def opened(corpus: TokenCorpus | Path | str) -> TokenCorpus:
    """A corpus, opened where it is not yet."""
    return corpus if isinstance(corpus, TokenCorpus) else TokenCorpus.open(corpus)


def _has_grown_from(corpus: TokenCorpus, tokenizer: str) -> bool:
    """Whether the tokenizer of a corpus is a later version of one, by its sha256. Raises
    VerificationError if its file is damaged.
    """
    if corpus.format.tokenizer == tokenizer:
        return False
    paths = [part.path for part in corpus.manifest.parts if part.path.startswith("tokenizer/")]
    data = proven(corpus.root / paths[0], corpus.format.tokenizer).read_bytes() if paths else b""
    version = version_of(data)
    return version is not None and tokenizer in version.previous


def _segment(
    corpus: TokenCorpus,
    from_window: int,
    sequence_length: int,
    batch_size: int,
    seed: int,
    split: Split,
    weights: Mapping[str, float] | None,
    packing: dict[str, Any],
) -> PlanSegment:
    """A segment whose sources all begin at epoch 0."""
    for name, value in (("sequence_length", sequence_length), ("batch_size", batch_size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RecipeError(f"{name} = {value!r}: it is a number of 1 or more")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise RecipeError(f"seed = {seed!r}: it is a whole number")
    streams = {name: corpus.stream(name, split) for name in corpus.sources(split)}
    shares = weights_of({name: stream.tokens for name, stream in streams.items()}, weights)
    slots = dict(zip(shares, slots_of(list(shares.values())), strict=True))
    sources = []
    for name, stream in streams.items():
        count, unused = 0, 0
        if slots[name]:
            windows = windows_of(
                corpus, name, split, seed=seed, sequence_length=sequence_length, packing=packing
            )
            count, unused = windows.count, windows.unused
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


def _update(begun: dict[str, int], segment: PlanSegment, windows: int) -> None:
    """Raise the last epoch begun of each source by what the first windows of a segment begin."""
    for source, count in zip(segment.sources, segment.mixture.before(windows), strict=True):
        if source.windows and (count or source.rank):
            last = source.epoch + (source.rank + max(int(count), 1) - 1) // source.windows
            begun[source.name] = max(begun.get(source.name, -1), last)
