"""The loader: an iterator of batches for one rank, whose state is one integer.

    loader = Loader("corpus", sequence_length=2048, batch_size=512, rank=3, world_size=8)
    for batch in loader:            # without end: epoch after epoch
        train(batch.inputs, batch.targets)
        save(loader.state_dict())

Numpy only; `torch_dataset.py` is the layer for torch. A thread makes batches ahead.
"""

import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.loader.batch import Batch
from gristmill.loader.batch_maker import BatchMaker, Turns, make_ranks
from gristmill.loader.parameters import MOST_WINDOWS, whole_number
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.plan_segments import FIXED, opened
from gristmill.loader.prefetch import Block, Prefetch
from gristmill.loader.window_kinds import Packing, parse_packing
from gristmill.store.proof import seal

STATE_FORMAT = 1
MOST_AHEAD = 1024  # blocks of batches


class Loader:
    """An iterator of the batches of one rank, epoch after epoch.

    What it yields depends on the plan and on the windows that the whole job has consumed, and on
    nothing else: neither on `world_size` nor on earlier interruptions. Use it in one thread.
    """

    def __init__(
        self,
        corpus: TokenCorpus | Path | str,
        *,
        sequence_length: int | None = None,
        batch_size: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        micro_batch_size: int | None = None,
        seed: int | None = None,
        split: Split | None = None,
        weights: Mapping[str, float] | None = None,
        packing: Packing | None = None,
        plan: LoaderPlan | Path | str | None = None,
        state: Mapping[str, Any] | None = None,
        balance: bool = False,
        steps: int | None = None,
        prefetch: int = 2,
        verify: bool = False,
    ) -> None:
        """Open a corpus; no shard is read yet, unless `verify` asks for all digests.

        `batch_size` is the windows of a step, of all ranks together; each rank yields its
        batch_size / world_size of them in order, `micro_batch_size` rows at a time. `balance`: a
        step's windows are dealt to ranks by the cost of attention within documents. `plan`, or the
        plan of `state`, decides the rest; what is given beside it must agree. `steps`: the step
        before which it ends (default: never). `prefetch`: blocks of batches made ahead; 0: none,
        and no thread.

        Raises RecipeError and VerificationError.
        """
        if steps is not None:
            steps = whole_number("steps", steps, 1)
        self.ranks = make_ranks(rank, world_size, micro_batch_size, balance=balance)
        self._depth = whole_number("prefetch", prefetch, 0, MOST_AHEAD)
        self.corpus = opened(corpus)
        if plan is None and state is not None and (sequence_length, batch_size) == (None, None):
            plan = _read_plan(state)
        asked = {
            "sequence_length": sequence_length,
            "batch_size": batch_size,
            "seed": seed,
            "split": split,
            "weights": dict(weights) if isinstance(weights, Mapping) else weights,
            "packing": None if packing is None else parse_packing(packing),
        }
        self.plan = _agreed(self.corpus, plan, {k: v for k, v in asked.items() if v is not None})
        if verify:
            self.corpus.prove(self.plan.segments[-1].split)
        self.steps = steps
        self._maker = BatchMaker(self.corpus, self.plan, self.ranks)
        self._prefetch: Prefetch | None = None
        self._finalizer: Any = None
        self._block: Block | None = None
        self._given = 0  # batches of the block that were yielded
        self._closed = False
        self.windows = 0
        if state is not None:
            self.load_state_dict(state)
        else:
            number = self._first_segment()
            self.seek(self.plan.segments[number].from_window)

    def _first_segment(self) -> int:
        """Return the first segment of this corpus: a run that begins with it begins there."""
        here = [
            n
            for n, segment in enumerate(self.plan.segments)
            if segment.corpus == self.corpus.digest
        ]
        return here[0] if here else len(self.plan.segments) - 1

    @property
    def step(self) -> int:
        """Return the step that comes next, or that is under way."""
        return self.plan.step_of(self.windows)

    @property
    def sources(self) -> list[str]:
        """Return the names of the sources by the numbers in `Batch.sources`."""
        segment = self.plan.segments[self.plan.segment_at(self.windows)]
        return [source.name for source in segment.sources]

    def __iter__(self) -> "Loader":
        return self

    def __next__(self) -> Batch:
        """Return the next batch of this rank. Raises VerificationError if a shard is damaged,
        RecipeError if the loader is closed.
        """
        if self._closed:
            raise RecipeError(
                f"the loader is closed, at window {self.windows:,}: open another one with its "
                "state_dict(), or say where to go on by `seek` or `load_state_dict`"
            )
        while self._block is None or self._given == len(self._block.batches):
            self._block, self._given = self._next_block(), 0
        batch = self._block.batches[self._given]
        if self.steps is not None and self.plan.step_of(int(batch.windows[0])) >= self.steps:
            self._end_thread()
            raise StopIteration
        self.windows = self._block.consumed[self._given]
        self._given += 1
        return batch

    def _next_block(self) -> Block:
        start = self.windows if self._block is None else self._block.end
        if self._depth < 1:
            return self._maker.block(start)
        if self._prefetch is not None and self._prefetch.process != os.getpid():
            self._prefetch = None  # this is a fork of the process that has the thread
        if self._prefetch is None:
            self._prefetch = Prefetch(self._maker.block, start, self._depth)
            # Runs when the loader is no longer used, and when the interpreter exits.
            self._finalizer = weakref.finalize(self, self._prefetch.close)
        return self._prefetch.next()

    def share(self, number: int, workers: int, given: int = 0) -> None:
        """Yield batch `number` from here on, and every one `workers` behind it: what one of several
        workers yields that take turns. `given` of them were yielded before.
        """
        turns = Turns(self._maker.batches_before(self.windows) + number, 0, workers)
        self.take_turns(turns._replace(at=turns.batch(given)))

    def take_turns(self, turns: Turns) -> None:
        """Go on with the batches that are of these turns, and with no others."""
        self._end_thread()
        self._maker.turns = turns
        self.windows, self._closed = self._maker.step_with(turns.at), False

    def place_of(self, batch: int) -> tuple[int, int]:
        """Of batch `batch` of this rank, counted from the beginning of the run: the first window of
        its step, and how many batches of that step come before it.
        """
        window = self._maker.step_with(batch)
        return window, batch - self._maker.batches_before(window)

    @property
    def batch(self) -> int:
        """Return the number of this rank's batch that comes next, counted from the beginning of the
        run; within a step, of the first of that step.
        """
        return self._maker.batches_before(self.windows)

    def seek(self, windows: int) -> None:
        """Go on from a window of the stream, the first of a step; a closed loader is open again.
        Raises RecipeError.
        """
        windows = whole_number("windows", windows)
        if windows < 0 or self.plan.window_of(self.plan.step_of(windows)) != windows:
            size = self.plan.segments[self.plan.segment_at(max(windows, 0))].batch_size
            raise RecipeError(
                f"window {windows:,} is not the first of a step (of {size:,} windows there)"
            )
        self._maker.orders.at(windows)
        self._end_thread()
        self.windows, self._closed = windows, False
        self._maker.turns = None

    def seek_step(self, step: int) -> None:
        """Go on from a step, counted from the beginning of the run. Raises RecipeError."""
        step = whole_number("step", step)
        if step < 0:
            raise RecipeError(f"step {step}: steps are counted from 0")
        self.seek(self.plan.window_of(step))

    def state_dict(self) -> dict[str, Any]:
        """Return the windows that the whole job has consumed, and the plan: plain values, about 1
        KB.

        Within a step, of which some batches are not yielded yet, it is the state before that step.
        """
        return {"format": STATE_FORMAT, "windows": self.windows, "plan": seal(self.plan).decode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, by any number of ranks.

        Raises RecipeError if it is of another plan or corpus, VerificationError if it is damaged.
        """
        plan, windows = _read_plan(state), state.get("windows")
        if (
            isinstance(windows, bool)
            or not isinstance(windows, int)
            or not 0 <= windows <= MOST_WINDOWS
        ):
            raise VerificationError(f"state: windows = {windows!r} is not a number of windows")
        if not self.plan.continues(plan, windows):
            raise RecipeError(
                f"the state is of another plan: {_difference(plan, self.plan, windows)}. Go on "
                "with the plan of the state (LoaderPlan.load, or Loader(corpus, state=...)); a "
                "change is made by its `changed`"
            )
        self.seek(windows)

    def close(self) -> None:
        """End the thread. `next` then raises RecipeError; the state can still be asked for."""
        self._end_thread()
        self._closed = True

    def _end_thread(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._prefetch, self._finalizer, self._block = None, None, None

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """For another process: it opens the corpus again."""
        return {
            "corpus": self.corpus.root,
            **self.ranks._asdict(),
            "steps": self.steps,
            "prefetch": self._depth,
            "state": self.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _read_plan(state: Mapping[str, Any]) -> LoaderPlan:
    """Return the plan in a state. Raises VerificationError."""
    version = state.get("format") if isinstance(state, Mapping) else type(state).__name__
    if isinstance(version, int) and version > STATE_FORMAT:
        raise VerificationError(
            f"state: it has format {version}, and this gristmill reads format {STATE_FORMAT}: "
            "update gristmill"
        )
    if version != STATE_FORMAT:
        raise VerificationError(
            f"state: format {version!r}, expected {STATE_FORMAT}: not the state of a loader"
        )
    if not isinstance(state.get("plan"), str):
        raise VerificationError("state: it has no plan: not the state of a loader")
    return LoaderPlan.decode(state["plan"].encode(errors="replace"), "state")


def _agreed(
    corpus: TokenCorpus, plan: LoaderPlan | Path | str | None, asked: dict[str, Any]
) -> LoaderPlan:
    """Return the plan that is given, if what is asked agrees with it; else one that begins."""
    if plan is None:
        for name in ("sequence_length", "batch_size"):
            if name not in asked:
                raise RecipeError(f"{name} is missing: give it, or a plan")
        return LoaderPlan.start(corpus, **asked)
    if not isinstance(plan, LoaderPlan):
        plan = LoaderPlan.load(plan)
    last = plan.segments[-1]
    for name, value in asked.items():
        if getattr(last, name) != value:
            raise RecipeError(
                f"{name} is {value}, the plan says {getattr(last, name)}: leave it out, or make "
                "the change by LoaderPlan.changed"
            )
    if not any(segment.corpus == corpus.digest for segment in plan.segments):
        raise RecipeError(
            f"{corpus.root}: the plan is of another corpus: its manifest is "
            f"{last.corpus[:12]}..., that of this corpus {corpus.digest[:12]}...; open that one, "
            "or make the change by LoaderPlan.changed"
        )
    return plan


def _difference(before: LoaderPlan, now: LoaderPlan, windows: int) -> str:
    """In which values two plans first differ, for people."""
    names = ("corpus", *FIXED, "sequence_length", "batch_size", "packing", "weights")
    for number, (old, new) in enumerate(zip(before.segments, now.segments, strict=False)):
        differences = [
            f"{name} is {_short(getattr(new, name))}, the state's is {_short(getattr(old, name))}"
            for name in (*names, "from_window")
            if getattr(old, name) != getattr(new, name)
        ]
        if not differences and old != new:
            differences = ["its sources differ"]
        if differences:
            where = f"segment {number}: " if len(before.segments) > 1 else ""
            return where + "; ".join(differences)
    if len(now.segments) < len(before.segments):
        return (
            f"it lacks the state's change from window "
            f"{before.segments[len(now.segments)].from_window:,} on"
        )
    change = now.segments[len(before.segments)].from_window
    return (
        f"it has a change from window {change:,} on, and the state has already consumed "
        f"{windows:,} windows without it"
    )


def _short(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64:
        return value[:12] + "..."
    return str(msgspec.to_builtins(value))
