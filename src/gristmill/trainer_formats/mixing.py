"""Several sources as one stream of documents, by weights of tokens.

A document's time is the number of its source's tokens before it, divided by the source's weight;
documents come in the order of their times, sources in order where times are equal (fair queueing,
Demers, Keshav and Shenker 1989). So at every place in the stream each source has its share of the
tokens, but for at most one document of each source. Nothing is random, and no document is repeated:
the stream ends where the first source ends, and what is left of the others is reported. With
weights in proportion to tokens, all sources end together and every document is in the stream.

This order is for files that a trainer reads from front to back. gristmill's own loader interleaves
windows, of a corpus whose sources stay apart (docs/format.md).
"""

import re
from collections.abc import Iterator

import numpy as np

from gristmill.corpus.token_corpus import TokenStream
from gristmill.errors import RecipeError
from gristmill.trainer_formats.token_blocks import BLOCK, TokenBlock, read_blocks, whole

PROPORTIONAL = "proportional"


def parse_mix(given: str, sources: list[str]) -> dict[str, float] | None:
    """Return the value of `--mix`: `web=0.7,books=0.3`, or `proportional` (None). Raises
    RecipeError.
    """
    if given == PROPORTIONAL:
        return None
    weights: dict[str, float] = {}
    for pair in given.split(","):
        name, equals, value = pair.strip().rpartition("=")
        if not equals or not re.fullmatch(r"\d+(\.\d+)?([eE][-+]?\d+)?", value):
            raise RecipeError(
                f"--mix {given}: write a weight for each source, as in web=0.7,books=0.3, or "
                f"{PROPORTIONAL}"
            )
        if name not in sources:
            raise RecipeError(f"--mix {given}: no source {name!r}; there are {', '.join(sources)}")
        if name in weights or not 0 < float(value) < 1e9:
            raise RecipeError(
                f"--mix {given}: give each source one weight above 0, and leave out those that the "
                "mix does not have"
            )
        weights[name] = float(value)
    total = sum(weights.values())
    return {name: value / total for name, value in weights.items()}


def mixed(
    streams: list[TokenStream], weights: list[float] | None, size: int = BLOCK
) -> Iterator[TokenBlock]:
    """Yield the documents of several streams as one stream of whole documents; `sources` are places
    in `streams`. `weights` None: in proportion to their tokens.
    """
    shares = [float(stream.tokens) for stream in streams] if weights is None else weights
    # All documents that begin before the first source is used up.
    until = min(stream.tokens / share for stream, share in zip(streams, shares, strict=True))
    queues = [
        _Queue(stream, place, share, size)
        for place, (stream, share) in enumerate(zip(streams, shares, strict=True))
    ]
    while True:
        for queue in queues:
            queue.fill(until)
        live = [queue for queue in queues if len(queue.times)]
        if not live:
            return
        # What a queue does not hold yet comes after its last document.
        horizon = min(float(queue.times[-1]) for queue in live)
        yield _merged([queue.take(horizon) for queue in live])


class _Queue:
    """The next documents of a source, with their times."""

    def __init__(self, stream: TokenStream, place: int, share: float, size: int) -> None:
        self._blocks = whole(read_blocks(stream, place, size))
        self._share = share
        self._taken = 0  # tokens before the block
        self._block: TokenBlock | None = None
        self.times = np.empty(0, np.float64)

    def fill(self, until: float) -> None:
        """Have the next block, if nothing is left of the last one."""
        if len(self.times):
            return
        self._block = next(self._blocks, None)
        if self._block is None:
            return
        stops = np.cumsum(self._block.lengths)
        times = (self._taken + stops - self._block.lengths) / self._share
        self._taken += int(stops[-1])
        self.times = times[times < until]

    def take(self, horizon: float) -> tuple[TokenBlock, np.ndarray]:
        """Return the documents up to a time, and their times; the rest stays."""
        assert self._block is not None
        block, times = self._block, self.times
        count = int(np.searchsorted(times, horizon, "right"))
        at = int(block.lengths[:count].sum())
        self._block = TokenBlock(
            block.tokens[at:],
            block.documents[count:],
            block.lengths[count:],
            block.sources[count:],
            True,
            True,
        )
        self.times = times[count:]
        taken = TokenBlock(
            block.tokens[:at],
            block.documents[:count],
            block.lengths[:count],
            block.sources[:count],
            True,
            True,
        )
        return taken, times[:count]


def _merged(taken: list[tuple[TokenBlock, np.ndarray]]) -> TokenBlock:
    from gristmill.kernels.hashing.shuffle import gather

    blocks = [block for block, _ in taken]
    sources = np.concatenate([block.sources for block in blocks])
    order = np.lexsort((sources, np.concatenate([times for _, times in taken])))
    lengths = np.concatenate([block.lengths for block in blocks])
    tokens = np.concatenate([block.tokens for block in blocks])
    stops = np.cumsum(lengths)
    documents = np.concatenate([block.documents for block in blocks])
    return TokenBlock(
        gather(tokens, stops - lengths, stops, order),
        documents[order],
        lengths[order],
        sources[order],
        True,
        True,
    )
