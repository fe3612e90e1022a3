"""The order of a plan as one long list, in plain Python: what a loader must yield."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gristmill import LoaderPlan, TokenCorpus
from gristmill.loader.permutation import derive_keys
from tests.support import naive_loading


class Window(NamedTuple):
    """One window of the stream."""

    source: str
    epoch: int
    number: int  # in its epoch
    tokens: list[int]  # sequence_length + 1


def stream(corpus: TokenCorpus, plan: LoaderPlan, windows: int) -> Iterator[Window]:
    """The first windows of a plan's stream; all segments are of this corpus, and concat."""
    for number, segment in enumerate(plan.segments):
        end = min(windows, plan.end_of(number) or windows)
        length = segment.sequence_length
        pattern = segment.mixture.sources.tolist()
        places = {one.name: [one.epoch, one.rank] for one in segment.sources}
        rings = {
            one.name: corpus.stream(one.name, segment.split).read(0, one.tokens).tolist()
            for one in segment.sources
        }
        orders: dict[tuple[str, int], list[int]] = {}
        for at in range(end - segment.from_window):
            name = segment.sources[pattern[at % len(pattern)]].name
            place, ring = places[name], rings[name]
            key = corpus.digest, segment.seed, name, place[0]
            count = len(ring) // length
            if (name, place[0]) not in orders:
                orders[name, place[0]] = naive_loading.permute(count, derive_keys(*key).tolist())
            window = orders[name, place[0]][place[1]]
            first = int(derive_keys(*key, "offset")[0]) % length + window * length
            row = [ring[(first + column) % len(ring)] for column in range(length + 1)]
            yield Window(name, place[0], window, row)
            place[1] += 1
            if place[1] == count:
                place[:] = [place[0] + 1, 0]


def numbered(seed: int, documents: int, most: int) -> list[np.ndarray]:
    """Documents of random lengths whose tokens are their places, end of text 0 included."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, most + 1, documents)
    tokens = np.arange(1, lengths.sum() + 1)
    found = np.split(tokens, np.cumsum(lengths)[:-1])
    for document in found:
        document[-1] = 0
    return found
