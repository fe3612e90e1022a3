"""How often ranges of steps have read the tokens and the documents of a source.

Only the places are kept where the number of times changes: memory grows with the windows of a
source, and not with its tokens. Windows that lie side by side and are both read have no such place
between them, so that a whole epoch leaves two.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

BUFFERED = 1 << 21  # changes that are kept as they came, before equal places are joined


class TimesRead:
    """How often each token of a source was read: at most 16 bytes for each two ends of runs, and
    the buffer.
    """

    def __init__(self, tokens: int) -> None:
        """`tokens` of the source; none was read yet."""
        self.tokens = tokens
        self.windows = self.read = 0  # what was read, repeats included
        self._places = np.empty(0, np.int64)
        self._changes = np.empty(0, np.int64)
        self._waiting: list[tuple[np.ndarray, int]] = []
        self._count = 0

    def add(self, starts: np.ndarray, lengths: np.ndarray) -> None:
        """Runs of tokens were read: (n,) int64 positions and lengths."""
        self.read += int(lengths.sum())
        self._waiting += [(starts, 1), (starts + lengths, -1)]
        self._count += 2 * len(starts)
        if self._count > BUFFERED:
            self._join()

    def _join(self) -> None:
        """Add up the changes at equal places, and drop what is no change."""
        places = np.concatenate([self._places, *(places for places, _ in self._waiting)])
        changes = np.concatenate(
            [self._changes, *(np.full(len(places), by, np.int64) for places, by in self._waiting)]
        )
        order = np.argsort(places, kind="stable")
        places, changes = places[order], changes[order]
        firsts = np.flatnonzero(np.append(True, places[1:] != places[:-1])[: len(places)])
        if len(firsts):
            sums = np.add.reduceat(changes, firsts)
            self._places, self._changes = places[firsts][sums != 0], sums[sums != 0]
        self._waiting, self._count = [], 0

    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where each stretch of tokens begins that were read equally often, and how often;
        both (n,) int64, the first of token 0.
        """
        self._join()
        inner = self._places < self.tokens
        places, times = self._places[inner], np.cumsum(self._changes)[inner]
        if not len(places) or places[0] > 0:
            places, times = np.append(0, places), np.append(0, times)
        return places, times

    def tokens_by_times(self) -> dict[str, int]:
        """Return how many tokens were read 0, 1, 2 ... times, by the number of times as text."""
        places, times = self._steps()
        counts: Counter[int] = Counter()
        sizes = np.diff(places, append=self.tokens)
        for time in np.unique(times).tolist():
            counts[time] = int(sizes[times == time].sum())
        return _as_text(counts)

    def documents_by_times(self, shards: Iterator[tuple[np.ndarray, np.ndarray]]) -> dict[str, int]:
        """Return how many documents were read whole 0, 1, 2 ... times: the least of their tokens.

        `shards` of TokenStream.every_document; one of them is in memory at a time.
        """
        places, times = self._steps()
        times = np.append(times, 0)  # reduceat wants a place behind the last
        counts: Counter[int] = Counter()
        last, least = None, 0  # the document that may go on in the next shard
        before = 0
        for documents, ends in shards:
            starts = np.concatenate([[before], ends[:-1]]) if len(ends) else ends
            before = int(ends[-1]) if len(ends) else before
            some = np.flatnonzero(ends > starts)
            if not len(some):
                continue
            low = np.searchsorted(places, starts[some], "right") - 1
            high = np.searchsorted(places, ends[some], "left")
            reads = np.minimum.reduceat(times, np.stack([low, high], axis=1).reshape(-1))[::2]
            if last is not None and last == documents[some[0]]:
                reads[0] = min(int(reads[0]), least)
            elif last is not None:
                counts[least] += 1
            last, least = int(documents[some[-1]]), int(reads[-1])
            values, sizes = np.unique(reads[:-1], return_counts=True)
            counts.update(dict(zip(values.tolist(), sizes.tolist(), strict=True)))
        if last is not None:
            counts[least] += 1
        return _as_text(counts)


def _as_text(counts: Counter[int]) -> dict[str, int]:
    return {str(time): counts[time] for time in sorted(counts) if counts[time]}
