"""How a source is cut into windows: which tokens each window of an epoch has.

A *window* is `sequence_length` positions of one source, the unit of order, of the mix and of the
loader's state. `Windows` is what every packing offers; `ConcatWindows` is concat and chunk.

    runs(epoch, [7, 2])   ->  tokens 13,000 to 15,048 into row 0, 2,760 to 4,808 into row 1
    locate(epoch, a, b)   ->  the windows of that epoch that have any of tokens a to b

Windows are numbered 0 to count - 1 in every epoch, before they are permuted (permutation.py).
"""

from typing import Protocol

import numpy as np

from gristmill.errors import RecipeError
from gristmill.kernels.loading.runs import Runs
from gristmill.loader.permutation import derive_keys


class Windows(Protocol):
    """The windows of one source."""

    count: int  # windows of an epoch, the same for each
    tokens: int  # tokens of the source
    unused: int  # tokens of the source that are in no window of an epoch

    def runs(self, epoch: int, windows: np.ndarray) -> Runs:
        """Return what windows (k,) int64 of an epoch have: window i in row i, ordered by row and
        column.

        The runs of a row fill it from column 0 on without gaps; columns behind them are padding.
        Positions are of the source's TokenStream; a run lies within it. The label behind a row's
        last column is the token behind its last run, or the source's first token if that is none.
        """
        ...

    def locate(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """Return the windows of an epoch that have any of tokens start to stop of the source, (k,)
        int64, ascending.
        """
        ...


class ConcatWindows:
    """Concat and chunk: all tokens of a source as a ring, cut every `sequence_length` tokens.

    Each epoch begins its cut at an offset of its own, 0 to sequence_length - 1: the same boundaries
    do not repeat, and the `unused` tokens at the end of the cut are others in each epoch.
    """

    def __init__(
        self, corpus: str, seed: int, source: str, tokens: int, sequence_length: int
    ) -> None:
        """`corpus` is the sha256 of the manifest, `tokens` those of the source and split.

        Raises RecipeError if the source has fewer tokens than a window.
        """
        if tokens < sequence_length:
            raise RecipeError(
                f"source {source!r} has {tokens:,} tokens, fewer than a window of "
                f"{sequence_length:,}: use a shorter sequence length, or give the source weight 0"
            )
        self.tokens = tokens
        self.count = tokens // sequence_length
        self.unused = tokens % sequence_length
        self._length = sequence_length
        self._key = corpus, seed, source
        self._offsets: dict[int, int] = {}

    def offset(self, epoch: int) -> int:
        """Return where the cut of an epoch begins."""
        if epoch not in self._offsets:
            word = int(derive_keys(*self._key, epoch, "offset")[0])
            self._offsets[epoch] = word % self._length
        return self._offsets[epoch]

    def runs(self, epoch: int, windows: np.ndarray) -> Runs:
        """As `Windows.runs`; a window over the end of the source is two runs."""
        length = self._length
        positions = self.offset(epoch) + windows * length
        positions -= np.where(positions >= self.tokens, self.tokens, 0)
        rows = np.arange(len(windows))
        room = self.tokens - positions
        if not len(room) or room.min() >= length:
            zeros = np.zeros(len(windows), np.int64)
            return Runs(rows, zeros, positions, np.full(len(windows), length, np.int64))
        # Of at most one window the ring's end is inside.
        split = np.flatnonzero(room < length)
        at = split + 1
        return Runs(
            np.insert(rows, at, rows[split]),
            np.insert(np.zeros(len(rows), np.int64), at, room[split]),
            np.insert(positions, at, 0),
            np.insert(np.minimum(room, length), at, length - room[split]),
        )

    def locate(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """As `Windows.locate`."""
        offset, used = self.offset(epoch), self.count * self._length
        ranges: list[np.ndarray] = []
        # Tokens before the offset are at the ring's end.
        for low, high in (
            (start - offset, stop - offset),
            (start - offset + self.tokens, stop - offset + self.tokens),
        ):
            low, high = max(low, 0), min(high, used)
            if low < high:
                ranges.append(np.arange(low // self._length, -(-high // self._length)))
        return np.unique(np.concatenate(ranges)) if ranges else np.empty(0, np.int64)
