"""Tokens and documents of many sources at once, by address: what fills a batch.

The streams lie one behind another in one row of positions; `base[s]` is where stream s begins. A
shard is mapped when it is first read.
"""

from collections.abc import Sequence

import numpy as np

from gristmill.corpus.token_corpus import TokenStream
from gristmill.errors import VerificationError
from gristmill.kernels.loading.runs import DONE, Runs, Shards, find_spans, gather
from gristmill.loader.batch import Segments


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
        counts = [stream.shards[number].counts["documents"] for stream, number in self._of]
        self._shards = Shards(
            np.concatenate([*starts, self.base[-1:]]).astype(np.int64),
            np.zeros(len(self._of), np.int64),
            np.zeros(len(self._of), np.int64),
            np.array(counts, np.int64),
        )

    def gather(self, runs: Runs, tokens: np.ndarray) -> None:
        """Copy runs into the rows of `tokens`, (b, width) of `dtype`. Raises VerificationError."""
        while (missing := gather(self._shards, runs, tokens)) != DONE:
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
        """The documents of runs. Raises VerificationError."""
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

    def _map(self, shard: int) -> None:
        stream, number = self._of[shard]
        # The stream keeps the mappings; they live as long as it does.
        self._shards.tokens[shard] = stream.shard(number).ctypes.data
        self._shards.documents[shard] = stream.boundaries(number)[0].ctypes.data
