"""Documents in their shuffled order, each read where tokenizing wrote it: for a source whose tokens
fit the memory that the system keeps files in. Nothing is written but token shards.

    tokens of raw shards -> ordered -> OrderedDocuments.blocks: a part of the order

A read of a document is then a copy. Where its file is not in memory it is a read of the disk: for
such sources runs are sorted first (sorted_runs.py). The order is the same.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from gristmill.engine.pread import read_all_pieces
from gristmill.store.parts import BLOCK
from gristmill.tokens.shards import Block, TokenizedShard, slice_blocks
from gristmill.tokens.sorted_runs import Piece

# Of tokens, read together: they are hashed and written while they are in the processor's cache. A
# file's buffer is smaller, so that they are not copied into it.
READ_BYTES = BLOCK * 5 // 4


class OrderedDocuments(NamedTuple):
    """Where n documents are, in their order."""

    handles: np.ndarray  # (files,) int64 descriptors
    files: np.ndarray  # (n,) int64
    starts: np.ndarray  # (n,) int64, tokens of a file before it
    documents: np.ndarray  # (n,) int64 numbers
    lengths: np.ndarray  # (n,) int64, tokens
    ends: np.ndarray  # (n,) int64, tokens of the order

    @property
    def tokens(self) -> int:
        """Return how many tokens there are."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def blocks(self, piece: Piece, dtype: np.dtype) -> Iterator[Block]:
        """Return the documents of a piece, of whose first bucket all are. The tokens of a block are
        overwritten by the next. Raises OSError.
        """
        first = int(np.searchsorted(self.ends, piece.skip, "right"))
        before = int(self.ends[first - 1]) if first else 0
        return slice_blocks(self._from(first, before, dtype), piece.skip - before, piece.tokens)

    def _from(self, start: int, before: int, dtype: np.dtype) -> Iterator[Block]:
        """Yield all documents from one on, which has `before` tokens before it."""
        most = READ_BYTES // dtype.itemsize
        buffer = np.empty(max(most, int(self.lengths.max(initial=0))), dtype)
        while start < len(self.ends):
            stop = max(start + 1, int(np.searchsorted(self.ends, before + most, "right")))
            end = int(self.ends[stop - 1])
            tokens, lengths = buffer[: end - before], self.lengths[start:stop]
            starts = self.starts[start:stop] * dtype.itemsize
            pieces = (self.files[start:stop], starts, lengths * dtype.itemsize)
            read_all_pieces(self.handles, pieces, tokens.view(np.uint8))
            yield tokens, self.documents[start:stop], lengths
            start, before = stop, end


def ordered(shards: list[TokenizedShard], key: int, files: ExitStack) -> OrderedDocuments:
    """Return the documents of raw shards, which were checked, in the order of a key; opens their
    files, which `files` closes.
    """
    from gristmill.kernels.hashing import shuffle

    handles = [files.enter_context(open(shard.tokens, "rb", 0)).fileno() for shard in shards]
    documents = np.concatenate([shard.documents for shard in shards])
    order = np.argsort(shuffle.order_keys(documents, key))
    places = [np.cumsum(shard.lengths) - shard.lengths for shard in shards]
    counts = [len(shard.documents) for shard in shards]
    lengths = np.concatenate([shard.lengths for shard in shards])[order]
    return OrderedDocuments(
        np.array(handles, np.int64),
        np.repeat(np.arange(len(shards)), counts)[order],
        np.concatenate(places)[order],
        documents[order],
        lengths,
        np.cumsum(lengths),
    )
