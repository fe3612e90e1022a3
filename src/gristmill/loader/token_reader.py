"""Tokens and documents of many sources at once, by address: what fills a batch.

The streams lie one behind another in one row of positions; `base[s]` is where stream s begins. A
shard is mapped when it is read. Where there are more than MOST_MAPPED, those least recently used
are unmapped: a process may have 65,530 mappings (Linux, vm.max_map_count), and a shard has two.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np

from gristmill.corpus.token_corpus import TokenStream
from gristmill.errors import VerificationError
from gristmill.kernels.loading.runs import DONE, Runs, Shards, find_spans, gather
from gristmill.loader.batch import Segments

MOST_MAPPED = 8192  # shards: 16,384 mappings
RUNS_TOGETHER = 2048  # that are looked up together where not all shards may be mapped


class TokenReader:
    """Reads runs of tokens of several streams of one dtype."""

    def __init__(self, streams: Sequence[TokenStream], vocabulary: int | None = None) -> None:
        """Nothing is opened yet. `vocabulary`: a token that is not below it is refused."""
        self._vocabulary = vocabulary
        self.dtype = streams[0].dtype
        # (streams + 1,) int64: where each begins
        self.base = np.cumsum([0, *(stream.tokens for stream in streams)], dtype=np.int64)
        self._of = [
            (stream, number)
            for stream in streams
            for number in range(len(stream.shards))
            if stream.starts[number] < stream.starts[number + 1]
        ]
        starts = [
            base + stream.starts[:-1][np.diff(stream.starts) > 0]
            for base, stream in zip(self.base.tolist(), streams, strict=False)
        ]
        # The mapped ones, those least recently used first: tokens and documents of each
        self._kept: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()
        counts = [stream.shards[number].counts["documents"] for stream, number in self._of]
        self._shards = Shards(
            np.concatenate([*starts, self.base[-1:]]).astype(np.int64),
            np.zeros(len(self._of), np.int64),
            np.zeros(len(self._of), np.int64),
            np.array(counts, np.int64),
        )

    def gather(self, runs: Runs, tokens: np.ndarray) -> None:
        """Copy runs into the rows of `tokens`, (b, width) of `dtype`. Raises VerificationError."""
        for some in self._pieces(runs):
            while (missing := gather(self._shards, some, tokens)) != DONE:
                self._map(missing)
        # A shard of another tokenizer; a model would look up what it does not have.
        if self._vocabulary is not None and tokens.size and int(tokens.max()) >= self._vocabulary:
            self._refuse(runs)

    def _refuse(self, runs: Runs) -> None:
        """Raise VerificationError for the first token of runs that is not of the vocabulary."""
        assert self._vocabulary is not None
        for start, length in zip(runs.positions.tolist(), runs.lengths.tolist(), strict=True):
            for shard in range(len(self._of)):
                stream, number = self._of[shard]
                base, end = self._shards.starts[shard : shard + 2].tolist()
                low, high = max(start, base), min(start + length, end)
                if low >= high:
                    continue
                some = stream.shard(number)[low - base : high - base]
                if int(some.max()) >= self._vocabulary:
                    at = int(np.argmax(some >= self._vocabulary))
                    raise VerificationError(
                        f"{stream.shards[number].path}: token {low - base + at:,} is "
                        f"{some[at]:,}, and the tokenizer has {self._vocabulary:,} tokens: the "
                        "shard is of another tokenizer, or damaged. Fetch it again, or run the "
                        "recipe again"
                    )

    def segments(self, runs: Runs) -> Segments:
        """Return the documents of runs. Raises VerificationError."""
        pieces = [self._segments(some) for some in self._pieces(runs)]
        if len(pieces) == 1:
            return pieces[0]
        return Segments(*(np.concatenate(fields) for fields in zip(*pieces, strict=True)))

    def _segments(self, runs: Runs) -> Segments:
        while True:
            missing, broken, spans = find_spans(self._shards, runs)
            if broken != DONE:
                stream, number = self._of[broken]
                raise VerificationError(
                    f"{stream.shards[number].path}: its .docs ends before its tokens. Fetch it "
                    "again, or run the recipe again"
                )
            if missing == DONE:
                return Segments(*spans)
            self._map(missing)

    def _pieces(self, runs: Runs) -> Iterator[Runs]:
        """Runs that are looked up together. While they are, none of their shards is unmapped."""
        if len(self._of) <= MOST_MAPPED:
            yield runs
            return
        for start in range(0, max(len(runs.rows), 1), RUNS_TOGETHER):
            some = Runs(*(field[start : start + RUNS_TOGETHER] for field in runs))
            last = some.positions + np.maximum(some.lengths - 1, 0)
            places = np.concatenate([some.positions, last])
            needed = np.unique(np.searchsorted(self._shards.starts, places, "right") - 1)
            for shard in needed[needed < len(self._of)].tolist():
                if shard in self._kept:
                    self._kept.move_to_end(shard)
                else:
                    self._map(shard)
            yield some
            while len(self._kept) > MOST_MAPPED:
                shard, _ = self._kept.popitem(last=False)
                self._shards.tokens[shard] = self._shards.documents[shard] = 0

    def _map(self, shard: int) -> None:
        stream, number = self._of[shard]
        tokens, (documents, _) = stream.shard(number), stream.boundaries(number)
        self._kept[shard] = (tokens, documents)
        self._shards.tokens[shard] = tokens.ctypes.data
        self._shards.documents[shard] = documents.ctypes.data
