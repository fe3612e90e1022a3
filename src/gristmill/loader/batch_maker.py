"""Makes the batches of one rank: any step of a plan, in any order, without state.

Batches are made in blocks of a few steps: the windows of a block are looked up together and copied
into one array, of which its batches are views.
"""

from typing import NamedTuple

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.balance import deal
from gristmill.loader.batch import Batch, Segments
from gristmill.loader.order import Orders, SegmentOrder
from gristmill.loader.parameters import whole_number
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.plan_segments import PlanSegment
from gristmill.loader.prefetch import Block

# The most of a block; a step that is larger is a block of its own.
BLOCK_TOKENS, BLOCK_BATCHES = 1 << 19, 32


class Ranks(NamedTuple):
    """Who reads: rank `rank` of `world_size`, in batches of `micro_batch_size` rows (None: all of a
    step's rows together). Ranks have slices of a step; with `balance`, windows are dealt to them so
    that the sums of the documents' squared lengths are about the same.
    """

    rank: int
    world_size: int
    micro_batch_size: int | None = None
    balance: bool = False


class Turns(NamedTuple):
    """The batches of one of `workers` processes that make a rank's batches in turn, `group` at a
    time. Batches of a rank are counted from the beginning of the run.
    """

    first: int  # the batch with which its turns begin
    at: int  # none before this one is made
    workers: int
    group: int = 1

    def batch(self, given: int) -> int:
        """Return the number of the batch that comes when `given` of them were made, from `first`
        on.
        """
        turns, within = divmod(given, self.group)
        return self.first + turns * self.workers * self.group + within

    def mine(self, batches: np.ndarray) -> np.ndarray:
        """Return which of these batches (n,) int64 it makes, (n,) bool."""
        turns = (batches - self.first) // self.group
        return np.asarray((batches >= self.at) & (turns % self.workers == 0))


def make_ranks(
    rank: int, world_size: int, micro_batch_size: int | None = None, *, balance: bool = False
) -> Ranks:
    """Ranks, of numbers that a caller gives. Raises RecipeError."""
    world_size, rank = whole_number("world_size", world_size, 1), whole_number("rank", rank)
    if not 0 <= rank < world_size:
        raise RecipeError(f"rank {rank} of {world_size}: ranks are 0 to {world_size - 1}")
    if micro_batch_size is not None:
        micro_batch_size = whole_number("micro_batch_size", micro_batch_size, 1)
    return Ranks(rank, world_size, micro_batch_size, bool(balance))


class BatchMaker:
    """The batches of one rank."""

    def __init__(
        self, corpus: TokenCorpus, plan: LoaderPlan, ranks: Ranks, turns: Turns | None = None
    ) -> None:
        """Raise RecipeError if the batch cannot be dealt out so, VerificationError if the corpus
        is not the plan's.
        """
        self.corpus, self.plan, self.ranks, self.turns = corpus, plan, ranks, turns
        for segment in plan.segments:
            self.rows_of(segment)
        self.orders = Orders(corpus, plan)

    def rows_of(self, segment: PlanSegment) -> tuple[int, int]:
        """Of a segment: the rows of a step that this rank has, and those of a batch."""
        batch, world = segment.batch_size, self.ranks.world_size
        if world > batch:
            raise RecipeError(
                f"{world} ranks for a batch of {batch} windows: each rank needs one; use a larger "
                "batch size, or fewer ranks"
            )
        if batch % world:
            raise RecipeError(
                f"a batch of {batch} windows cannot be divided by {world} ranks: use "
                f"{batch - batch % world} or {batch - batch % world + world} windows"
            )
        rows = batch // world
        micro = self.ranks.micro_batch_size or rows
        if micro < 1 or rows % micro:
            raise RecipeError(
                f"a rank has {rows} windows of a step ({batch} for {world} ranks), which cannot be "
                f"divided into batches of {micro}"
            )
        return rows, micro

    def block(self, window: int) -> Block:
        """Return the batches of some steps, from the one that begins at a window of the stream
        on.
        """
        number = self.plan.segment_at(window)
        segment, stop = self.plan.segments[number], self.plan.end_of(number)
        rows, micro = self.rows_of(segment)
        most = (BLOCK_TOKENS // (rows * segment.sequence_length), BLOCK_BATCHES * micro // rows)
        steps = max(1, min(most))
        if stop is not None:
            steps = min(steps, (stop - window) // segment.batch_size)
        firsts = window + segment.batch_size * np.arange(steps)
        order = self.orders[number]
        if self.ranks.balance:
            windows = np.concatenate([self._dealt(order, first) for first in firsts.tolist()])
        else:
            mine = np.arange(rows) + self.ranks.rank * rows
            windows = (firsts[:, None] + mine).reshape(-1)
        end = window + steps * segment.batch_size
        consumed = np.repeat(firsts, rows // micro)
        consumed[rows // micro - 1 :: rows // micro] += segment.batch_size
        if self.turns is not None:
            own = self.turns.mine(self.batches_before(window) + np.arange(len(consumed)))
            windows = windows.reshape(-1, micro)[own].reshape(-1)
            consumed = consumed[own]
            if not len(windows):
                return Block(end, [], [])
        whole = self._made(order, windows)
        batches = _cut(whole, micro) if micro < len(windows) else [whole]
        return Block(end, batches, consumed.tolist())

    def batches_before(self, window: int) -> int:
        """Return how many batches of this rank come before a window, the first of a step."""
        count = 0
        for number, segment in enumerate(self.plan.segments):
            until = min(window, self.plan.end_of(number) or window)
            rows, micro = self.rows_of(segment)
            count += max(until - segment.from_window, 0) // segment.batch_size * (rows // micro)
        return count

    def step_with(self, batch: int) -> int:
        """Return the first window of the step that has this rank's batch number `batch`."""
        for number, segment in enumerate(self.plan.segments):
            rows, micro = self.rows_of(segment)
            steps, end = batch // (rows // micro), self.plan.end_of(number)
            window = segment.from_window + steps * segment.batch_size
            if end is None or window < end:
                return window
            batch -= (end - segment.from_window) // segment.batch_size * (rows // micro)
        raise AssertionError

    def rows(self, windows: np.ndarray) -> Batch:
        """Return any windows (k,) int64 of the stream, all of one segment."""
        number = self.plan.segment_at(int(windows.min()))
        if number != self.plan.segment_at(int(windows.max())):
            raise RecipeError("windows of two segments of the plan have no common shape")
        return self._made(self.orders[number], windows)

    def _dealt(self, order: SegmentOrder, first: int) -> np.ndarray:
        """Return the windows of a step that are dealt to this rank, ascending."""
        windows = first + np.arange(order.segment.batch_size)
        segments = order.reader.segments(order.runs(windows)[1])
        costs = np.zeros(len(windows), np.int64)
        np.add.at(costs, segments.rows, segments.lengths**2)
        return np.asarray(windows[deal(costs, self.ranks.world_size) == self.ranks.rank])

    def _made(self, order: SegmentOrder, windows: np.ndarray) -> Batch:
        """Return one batch of any windows of a segment."""
        segment = order.segment
        sources, runs = order.runs(windows)
        used = np.bincount(runs.rows, runs.lengths, len(windows)).astype(np.int64)
        length = segment.text_positions
        padding = length - used
        tokens = np.empty((len(windows), length + 1), order.reader.dtype)
        if padding.any():
            tokens[padding > 0] = segment.end_of_text
        order.reader.gather(order.labels(sources, runs), tokens)
        batch = Batch(tokens, order.reader.segments(runs), sources, windows, padding)
        begin = segment.packing.get("begin")
        return batch if begin is None else _with_begin(batch, begin)


def _with_begin(batch: Batch, begin: int) -> Batch:
    """Return the batch with a token before each row, which is of the row's first segment."""
    tokens, segments = batch.tokens, batch.segments
    longer = np.empty((len(tokens), tokens.shape[1] + 1), tokens.dtype)
    longer[:, 0], longer[:, 1:] = begin, tokens
    first = segments.starts == 0
    return batch._replace(
        tokens=longer,
        segments=segments._replace(
            starts=segments.starts + ~first,
            lengths=segments.lengths + first,
            offsets=segments.offsets - first,
        ),
    )


def _cut(whole: Batch, rows: int) -> list[Batch]:
    """Return a batch as batches of some rows each, views of it."""
    edges = np.arange(0, len(whole.windows) + 1, rows)
    cuts = np.searchsorted(whole.segments.rows, edges).tolist()
    batches = []
    for number, first in enumerate(edges[:-1].tolist()):
        of = slice(cuts[number], cuts[number + 1])
        some = slice(first, first + rows)
        segments = Segments(whole.segments.rows[of] - first, *(f[of] for f in whole.segments[1:]))
        batches.append(
            Batch(
                whole.tokens[some],
                segments,
                whole.sources[some],
                whole.windows[some],
                whole.padding[some],
            )
        )
    return batches
