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

import json
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.errors import NO_JSON, RecipeError, VerificationError
from gristmill.loader.parameters import MOST_WINDOWS, whole_number
from gristmill.loader.plan_segments import FIXED, GROWING, PlanSegment, make_segment, opened
from gristmill.loader.window_kinds import Packing, parse_packing
from gristmill.store.parts import machine_errors, write_bytes
from gristmill.store.proof import PROOF, proven, seal, unseal
from gristmill.system.ownership import refuse_file
from gristmill.tokens.growth_record import record_version
from gristmill.user_input import local

FORMAT = 1
LARGEST = 16 << 20  # bytes of a plan: some 10,000 changes


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
        """Return the plan of a run that begins. `weights` are shares of tokens by source.

        Raises RecipeError if it cannot be read so, VerificationError if the corpus is damaged.
        """
        corpus = opened(corpus)
        if split not in ("train", "val"):
            raise RecipeError(f"split {split!r}: it is train or val")
        if not corpus.sources(split):
            raise RecipeError(f"{corpus.root}: the split {split!r} has no tokens")
        segment = make_segment(
            corpus, 0, sequence_length, batch_size, seed, split, weights, parse_packing(packing)
        )
        return cls(segments=[segment])

    @property
    def digest(self) -> str:
        """Return the sha256 that the plan's JSON carries."""
        return str(msgspec.json.decode(seal(self))[PROOF])

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write the plan; a folder that is missing is made. Raises MachineError, and RecipeError
        for a file that is there and no plan, unless `force`.
        """
        target = local(path, "the plan")
        if target.is_dir():
            raise RecipeError(f"{target}: a folder: name the file for the plan")
        refuse_file(target, _is_plan, "mix", force=force, option="the plan")
        with machine_errors(target, every=True):
            write_bytes(target.parent, target.name, seal(self))

    @classmethod
    def load(cls, path: Path | str) -> "LoaderPlan":
        """Read a plan. Raises RecipeError if there is none, VerificationError if it was changed."""
        if not isinstance(path, str | os.PathLike):
            raise RecipeError(f"plan = {path!r}: it is a LoaderPlan, or the path of one")
        try:
            with open(path, "rb") as file:
                data = file.read(LARGEST + 1)
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            said = getattr(error, "strerror", None) or error
            raise RecipeError(f"{path}: cannot be read: {said}") from error
        return cls.decode(data, str(path))

    @classmethod
    def decode(cls, data: bytes, where: str = "the plan") -> "LoaderPlan":
        """Return the plan of its JSON. Raises VerificationError."""
        try:
            if len(data) > LARGEST:
                raise ValueError(f"more than {LARGEST >> 20} MiB")
            if (version := _plan_format(data)) > FORMAT:
                raise VerificationError(
                    f"{where}: a plan of format {version}, and this gristmill reads format "
                    f"{FORMAT}: update gristmill"
                )
            plan = msgspec.convert(unseal(data), cls)
            plan._check()
        except (ValueError, RecursionError, OverflowError, RecipeError) as error:
            raise VerificationError(
                f"{where}: no plan, or changed after it was written ({_short(error)}). A plan is "
                "not edited: take it from the checkpoint again, or make a change by "
                "LoaderPlan.changed"
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
        """Return the plan with a segment more, from a window on; what is not given stays.

        `corpus` is the corpus from there on, the same or another one of the same tokenizer or of a
        later version that has grown from it (`gristmill tokenizer grow`). Windows before
        `from_window` are those of this plan. Raises RecipeError, also where the plan would be too
        large to be read again; VerificationError.
        """
        last, corpus = self.segments[-1], opened(corpus)
        from_window = whole_number("from_window", from_window)
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
        segment = make_segment(
            corpus,
            from_window,
            last.sequence_length if sequence_length is None else sequence_length,
            last.batch_size if batch_size is None else batch_size,
            last.seed,
            last.split,
            last.weights if weights is None else weights,
            last.packing if packing is None else parse_packing(packing),
        )
        may_grow = GROWING if _has_grown_from(corpus, last.tokenizer) else ()
        for name in FIXED:
            before, now = getattr(last, name), getattr(segment, name)
            if before != now and name not in may_grow:
                raise RecipeError(
                    f"{corpus.root}: {name} is {now}, that of the plan is {before}: a run cannot "
                    "change it"
                )
        plan = LoaderPlan(segments=[*self.segments, self._continued(segment)])
        if len(seal(plan)) > LARGEST:  # no checkpoint of it could be read
            raise RecipeError(
                f"a plan of {len(plan.segments):,} segments has more than {LARGEST >> 20} MiB, and "
                "no such plan is read: begin a run of its own from the model's weights, with "
                "changes that are further apart (for a node: more shards or epochs a rotation)"
            )
        return plan

    def _continued(self, found: PlanSegment) -> PlanSegment:
        """Return a new segment whose sources go on where this plan leaves them."""
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
        begun = self._begun(found.from_window, {source.name for source in found.sources})
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

    def _begun(self, until: int, names: set[str]) -> dict[str, int]:
        """Return the last epoch of each of these sources that is begun before a window.

        From one segment to the next no source goes back, so the last one that reads it says it:
        a node's plan has a segment for each rotation, and a mix takes a millisecond to compute.
        """
        begun: dict[str, int] = {}
        end = until
        for segment in reversed(self.segments):
            if any(
                source.windows and source.name in names - begun.keys() for source in segment.sources
            ):
                begun = _last_epochs(segment, end - segment.from_window) | begun
            if names <= begun.keys():
                break
            end = segment.from_window
        return begun

    def segment_at(self, window: int) -> int:
        """Return the number of the segment that has a window."""
        numbers = [n for n, segment in enumerate(self.segments) if segment.from_window <= window]
        return numbers[-1]

    def end_of(self, number: int) -> int | None:
        """Return the window behind a segment's last; None: it has no end."""
        later = self.segments[number + 1 :]
        return later[0].from_window if later else None

    def step_of(self, window: int) -> int:
        """Return the step that has a window, counted from the beginning of the run."""
        steps = 0
        for number, segment in enumerate(self.segments):
            end = self.end_of(number)
            if end is None or window < end:
                return steps + (window - segment.from_window) // segment.batch_size
            steps += (end - segment.from_window) // segment.batch_size
        raise AssertionError

    def window_of(self, step: int) -> int:
        """Return the first window of a step. Raises RecipeError for a step that no run reaches."""
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

    def continues(self, before: "LoaderPlan", window: int) -> bool:
        """Return whether windows before this one are those of the plan `before`: it is this plan,
        or this plan has only changes from `window` on beside it.
        """
        count = len(before.segments)
        return self.segments[:count] == before.segments and all(
            segment.from_window >= window for segment in self.segments[count:]
        )

    def _check(self) -> None:
        """Raise ValueError or RecipeError where the plan says what cannot be."""
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, expected {FORMAT}")
        if not self.segments or self.segments[0].from_window != 0:
            raise ValueError("its first segment does not begin at window 0")
        for number, segment in enumerate(self.segments):
            segment.check()
            end = self.end_of(number)
            if end is not None and (
                end <= segment.from_window or (end - segment.from_window) % segment.batch_size
            ):
                raise ValueError("its segments are not of whole steps")


def _has_grown_from(corpus: TokenCorpus, tokenizer: str) -> bool:
    """Return whether the tokenizer of a corpus is a later version of one, by its sha256. Raises
    VerificationError if its file is damaged.
    """
    if corpus.format.tokenizer == tokenizer:
        return False
    paths = [part.path for part in corpus.manifest.parts if part.path.startswith("tokenizer/")]
    data = proven(corpus.root / paths[0], corpus.format.tokenizer).read_bytes() if paths else b""
    version = record_version(data)
    return version is not None and tokenizer in version.previous


def _last_epochs(segment: PlanSegment, windows: int) -> dict[str, int]:
    """Return the last epoch of each source that the first windows of a segment begin, or go on
    with.
    """
    begun = {}
    for source, count in zip(segment.sources, segment.mixture.before(windows), strict=True):
        if source.windows and (count or source.rank):
            epochs = (source.rank + max(int(count), 1) - 1) // source.windows
            begun[source.name] = source.epoch + epochs
    return begun


def _plan_format(data: bytes) -> int:
    """Return the format that a plan says it has; 0 if it says none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return 0
    value = value.get("format") if isinstance(value, dict) else None
    return value if isinstance(value, int) else 0


def _short(error: Exception) -> str:
    return str(error) if len(str(error)) <= 200 else f"{str(error)[:200]}..."


def _is_plan(path: Path) -> bool:
    """Return whether a file is a plan, or one that was changed after it was written."""
    try:
        with open(path, "rb") as file:
            fields = msgspec.json.decode(file.read(LARGEST), type=dict[str, msgspec.Raw])
    except (OSError, *NO_JSON):
        return False
    return {"format", "segments", PROOF} <= fields.keys()
