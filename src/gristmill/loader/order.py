"""What comes at each place of the stream: a pure function of a plan's segment, in constant memory.

    windows of the stream -> (source, epoch, window of that epoch)       and back
                          -> runs of tokens

No rank, worker or clock is known here.
"""

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.kernels.loading.runs import Runs
from gristmill.loader.permutation import Permutation, derive_keys
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.plan_segments import FIXED, PlanSegment
from gristmill.loader.token_reader import TokenReader
from gristmill.loader.window_kinds import open_windows
from gristmill.loader.windows import Windows

KEPT_ORDERS = 4096  # permutations that are kept: some 100 bytes each


class SegmentOrder:
    """The stream of one segment of a plan, over the corpus that it names."""

    def __init__(self, corpus: TokenCorpus, segment: PlanSegment) -> None:
        """Open no shard. Raises VerificationError if the corpus has not the plan's windows."""
        form = {name: getattr(corpus.format, name, None) for name in FIXED}
        for name, value in form.items():
            if name not in ("seed", "split") and value != getattr(segment, name):
                raise VerificationError(
                    f"{corpus.root}: {name} is {value}, the plan says {getattr(segment, name)}: it "
                    "is not the plan of this corpus"
                )
        self.segment = segment
        self.mixture = segment.mixture
        self.names = [source.name for source in segment.sources]
        self.streams = [corpus.stream(name, segment.split) for name in self.names]
        self.windows: list[Windows | None] = []
        for source, stream in zip(segment.sources, self.streams, strict=True):
            windows = None
            if source.slots:
                windows = open_windows(
                    corpus,
                    source.name,
                    segment.split,
                    seed=segment.seed,
                    sequence_length=segment.sequence_length,
                    packing=segment.packing,
                )
            value = (stream.tokens, windows.count if windows else source.windows)
            if value != (source.tokens, source.windows):
                raise VerificationError(
                    f"{corpus.root}: source {source.name!r} has {value[0]:,} tokens and "
                    f"{value[1]:,} windows, the plan says {source.tokens:,} and "
                    f"{source.windows:,}: it is not the plan of this corpus"
                )
            self.windows.append(windows)
        self.reader = TokenReader(self.streams, segment.vocabulary)
        self._first = np.array([[s.epoch, s.rank] for s in segment.sources], np.int64)
        self._counts = np.array([max(s.windows, 1) for s in segment.sources], np.int64)
        self._orders: dict[tuple[int, int], Permutation] = {}

    def permutation(self, source: int, epoch: int) -> Permutation:
        """Return the order of an epoch of a source."""
        if (source, epoch) not in self._orders:
            if len(self._orders) >= KEPT_ORDERS:
                self._orders.clear()
            name = self.names[source]
            keys = derive_keys(self.segment.corpus, self.segment.seed, name, epoch)
            self._orders[source, epoch] = Permutation(int(self._counts[source]), keys)
        return self._orders[source, epoch]

    def place(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of windows of the stream (k,) int64, all of this segment: source, epoch, and place in the
        order of the epoch. All (k,) int64.
        """
        sources, ranks = self.mixture.place(windows - self.segment.from_window)
        epochs, places = np.divmod(ranks + self._first[sources, 1], self._counts[sources])
        return sources, epochs + self._first[sources, 0], places

    def window_of(self, source: int, epoch: int, place: int) -> int | None:
        """Return the inverse of `place`: a window of the stream, or None if it comes before the
        segment's first window (or never). It may be behind the segment's end.
        """
        first_epoch, first_rank = self._first[source].tolist()
        rank = (epoch - first_epoch) * int(self._counts[source]) + place - first_rank
        if rank < 0 or not self.segment.sources[source].slots:
            return None
        return self.segment.from_window + self.mixture.window_of(source, rank)

    def runs(self, windows: np.ndarray) -> tuple[np.ndarray, Runs]:
        """Of windows of the stream (k,) int64: their sources (k,) int64, and their tokens in rows
        0 to k - 1, positions of `reader`. Ordered by row and column.
        """
        sources, epochs, places = self.place(windows)
        # One number for a source and an epoch: epochs of a block are near each other.
        first, width = int(epochs.min()), int(np.ptp(epochs)) + 1
        pairs = sources * width + epochs - first
        kinds = np.unique(pairs)
        if len(kinds) == 1:
            return sources, self._runs_of(int(sources[0]), int(epochs[0]), places)
        parts = []
        for pair in kinds.tolist():
            rows = np.flatnonzero(pairs == pair)
            source, epoch = divmod(pair, width)
            runs = self._runs_of(source, first + epoch, places[rows])
            parts.append(runs._replace(rows=rows[runs.rows]))
        joined = [np.concatenate(fields) for fields in zip(*parts, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return sources, Runs(*(field[order] for field in joined))

    def _runs_of(self, source: int, epoch: int, places: np.ndarray) -> Runs:
        windows = self.windows[source]
        assert windows is not None
        runs = windows.runs(epoch, self.permutation(source, epoch).forward(places))
        return runs._replace(positions=runs.positions + self.reader.base[source])

    def labels(self, sources: np.ndarray, runs: Runs) -> Runs:
        """Return the runs with one token more for every row that they fill: the label of its last
        column.

        It is the token behind the row's last run, or the source's first where there is none.
        """
        length = self.segment.text_positions
        last = np.flatnonzero(np.append(runs.rows[1:] != runs.rows[:-1], True))
        full = last[runs.columns[last] + runs.lengths[last] == length]
        of = sources[runs.rows[full]]
        ends = runs.positions[full] + runs.lengths[full]
        inside = ends < self.reader.base[of + 1]
        lengths = runs.lengths.copy()
        lengths[full[inside]] += 1
        over = full[~inside]
        if not len(over):
            return runs._replace(lengths=lengths)
        return Runs(
            np.append(runs.rows, runs.rows[over]),
            np.append(runs.columns, np.full(len(over), length)),
            np.append(runs.positions, self.reader.base[of[~inside]]),
            np.append(lengths, np.ones(len(over), np.int64)),
        )


class Orders:
    """The orders of a plan's segments over one corpus, each made when it is first asked for."""

    def __init__(self, corpus: TokenCorpus, plan: LoaderPlan) -> None:
        """Open nothing."""
        self.corpus, self.plan = corpus, plan
        self._made: dict[int, SegmentOrder] = {}

    def __getitem__(self, number: int) -> SegmentOrder:
        """Of segment `number`. Raises RecipeError if the plan reads it from another corpus."""
        if number not in self._made:
            segment = self.plan.segments[number]
            if segment.corpus != self.corpus.digest:
                raise RecipeError(
                    f"{self.corpus.root}: its manifest is {self.corpus.digest[:12]}..., and the "
                    f"plan reads the windows from {segment.from_window:,} on from the corpus with "
                    f"the manifest {segment.corpus[:12]}...: open that corpus"
                )
            self._made[number] = SegmentOrder(self.corpus, segment)
        return self._made[number]

    def at(self, window: int) -> SegmentOrder:
        """Of the segment that has a window of the stream. Raises as `[]` does."""
        return self[self.plan.segment_at(window)]
