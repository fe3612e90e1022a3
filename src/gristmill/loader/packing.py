"""Packings other than concat: best fit, and windows that begin with a document.

`best_fit`: no document is cut but those longer than a window. Documents are cut into pieces of at
most L tokens, and pieces are packed into windows of L by best-fit decreasing (Ding et al. 2024,
arXiv 2404.10830). The plan depends on the lengths alone and is the same in every epoch; which
document of a length is in which window is another in each epoch. Nothing is discarded; what a
window has left is padding.

`aligned`: a window begins at the first document that begins at or behind the end of the window
before, and has the L tokens from there on. Documents are cut at its end, and their rest is
discarded; with `keep_rest`, a rest of L tokens or more is a window. There is no padding. Windows
are the same in every epoch, in another order.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from gristmill.corpus.token_corpus import Split, TokenCorpus, TokenStream
from gristmill.errors import Damaged, RecipeError
from gristmill.kernels.loading.runs import Runs
from gristmill.kernels.packing import aligned, choose
from gristmill.loader.packing_index import IndexWriter, PackingIndex, default_cache, opened
from gristmill.loader.packing_pieces import (
    document_lengths,
    mark_tokens,
    piece_lengths,
    token_spellings,
)
from gristmill.loader.permutation import Permutation, derive_keys

LONGEST = 1 << 20  # positions of a packed window


class PackedSource(msgspec.Struct, frozen=True, kw_only=True):
    """What is packed, and how long windows are."""

    corpus: TokenCorpus
    source: str
    split: Split
    sequence_length: int

    @property
    def stream(self) -> TokenStream:
        """Return its tokens."""
        return self.corpus.stream(self.source, self.split)

    def made_from(self, **parameters: object) -> dict[str, object]:
        """Return what an index is made from."""
        return {
            "corpus": self.corpus.digest,
            "source": self.source,
            "split": self.split,
            "sequence_length": self.sequence_length,
            **parameters,
        }

    def check(self) -> None:
        """Raise RecipeError for a sequence length that cannot be packed."""
        if not 1 <= self.sequence_length <= LONGEST:
            raise RecipeError(
                f"sequence_length = {self.sequence_length:,}: a packed window has 1 to {LONGEST:,} "
                "positions"
            )

    def refuse_longer(self) -> None:
        """Raise RecipeError if documents are longer than a window."""
        count = longest = 0
        for documents in document_lengths(self.stream):
            count += int(np.count_nonzero(documents > self.sequence_length))
            longest = max(longest, int(documents.max(initial=0)))
        if count:
            raise RecipeError(
                f"source {self.source!r} has {count:,} documents longer than a window of "
                f"{self.sequence_length:,} tokens, the longest of {longest:,}: use a longer "
                'window, or longer = "cut", and they are cut into pieces'
            )


class BestFitWindows:
    """Best fit: the windows of one source."""

    def __init__(
        self, of: PackedSource, seed: int, split_at: str | None = None, longer: str = "cut"
    ) -> None:
        """Open the index of pieces, or makes it. `split_at`: cut long documents at the ends of
        "paragraph"s or "sentence"s. `longer`: "cut" documents longer than a window, or "refuse".

        Raises RecipeError, VerificationError, MachineError.
        """
        of.check()
        self._of, self._key = of, (of.corpus.digest, seed, of.source)

        def pieces() -> Iterator[np.ndarray]:
            marks = None if split_at is None else mark_tokens(token_spellings(of.corpus))
            sentences = split_at == "sentence"
            return piece_lengths(of.stream, of.sequence_length, marks, sentences=sentences)

        def make(writer: IndexWriter) -> np.ndarray:
            if longer == "refuse":
                of.refuse_longer()
            return writer.sort(pieces(), of.sequence_length)

        made_from = of.made_from(packing="best_fit", split_at=split_at)
        if longer == "refuse":
            made_from["longer"] = longer
        self.index: PackingIndex = opened(default_cache(), made_from, make)
        self.plan = choose.plan_pieces(self.index.counts)
        self.tokens = of.stream.tokens
        self.count = int(self.plan.first[-1])
        self.unused = 0
        if self.count == 0:
            raise RecipeError(f"source {of.source!r} has no tokens: give it weight 0")

    def _keys(self, epoch: int) -> np.ndarray:
        return derive_keys(*self._key, epoch, "pieces")

    def runs(self, epoch: int, windows: np.ndarray) -> Runs:
        """As `Windows.runs`. Raises Damaged if the index is."""
        pieces = choose.choose(windows, self.plan, self.index.positions, self._keys(epoch))
        self.index.check(pieces.items)
        runs = pieces.runs
        if len(runs.rows) and int((runs.positions + runs.lengths).max()) > self.tokens:
            raise Damaged(
                f"{self.index.folder}: it is not of these tokens. Remove it, and start again"
            )
        return runs

    def locate(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """As `Windows.locate`; looks the pieces of each length up."""
        plan, keys = self.plan, self._keys(epoch)
        numbers = [np.empty(0, np.int64)]
        by_place = np.argsort(plan.places, kind="stable")
        places = plan.places[by_place]
        for length in np.flatnonzero(self.index.counts).tolist():
            first, end = int(plan.starts[length]), int(plan.starts[length + 1])
            positions = self.index.positions[first:end]
            low, high = np.searchsorted(positions, [start - length + 1, stop])
            if low == high:
                continue
            self.index.check(np.arange(first + low, first + high))
            order = Permutation(end - first, choose.salted(keys, length))
            at = first + order.inverse(np.arange(low, high))
            rows = by_place[np.searchsorted(places, at, "right") - 1]
            groups = np.searchsorted(plan.offsets, rows, "right") - 1
            numbers.append(plan.first[groups] + (at - plan.places[rows]) // plan.times[rows])
        return np.unique(np.concatenate(numbers))


class AlignedWindows:
    """Windows that begin with a document: those of one source."""

    def __init__(self, of: PackedSource, *, keep_rest: bool = False) -> None:
        """Open the index of windows, or makes it. Raises RecipeError, VerificationError,
        MachineError.
        """
        of.check()
        self._of = of
        stream, length = of.stream, of.sequence_length

        def make(writer: IndexWriter) -> np.ndarray:
            state, first = np.zeros(1, np.int64), 0
            with open(writer.folder / "positions", "wb") as file:
                for documents in document_lengths(stream):
                    ends = first + np.cumsum(documents)
                    starts = aligned.starts(ends, first, length, state, keep_rest=keep_rest)
                    # The last window may end behind the last token; then it is none.
                    starts = starts[starts + length <= stream.tokens]
                    file.write(starts.astype("<i8", copy=False).data)
                    first = int(ends[-1]) if len(ends) else first
            return np.empty(0, np.int64)

        made_from = of.made_from(packing="aligned", keep_rest=keep_rest)
        self.index: PackingIndex = opened(default_cache(), made_from, make)
        self.tokens = stream.tokens
        self.count = len(self.index.positions)
        self.unused = self.tokens - self.count * length
        if self.count == 0:
            raise RecipeError(
                f"source {of.source!r} has {self.tokens:,} tokens, fewer than a window of "
                f"{length:,}: use a shorter sequence length, or give the source weight 0"
            )

    def runs(self, epoch: int, windows: np.ndarray) -> Runs:
        """As `Windows.runs`. Raises Damaged if the index is."""
        self.index.check(windows)
        positions = self.index.positions[windows].astype(np.int64)
        length = self._of.sequence_length
        if len(positions) and int(positions.max()) + length > self.tokens:
            raise Damaged(
                f"{self.index.folder}: it is not of these tokens. Remove it, and start again"
            )
        columns, lengths = np.zeros(len(windows), np.int64), np.full(len(windows), length, np.int64)
        return Runs(np.arange(len(windows)), columns, positions, lengths)

    def locate(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """As `Windows.locate`."""
        before = start - self._of.sequence_length + 1
        low, high = np.searchsorted(self.index.positions, [before, stop])
        return np.arange(low, high)
