"""A batch: rows of tokens as inputs and targets, and which documents they are of.

Everything is numpy; tokens have the dtype of the shards (uint16 or uint32) until they are on the
device that trains.
"""

from typing import NamedTuple

import numpy as np


class Segments(NamedTuple):
    """The documents in the rows of a batch: n segments, ordered by row and by column."""

    rows: np.ndarray  # (n,) int64
    starts: np.ndarray  # (n,) int64 the first column of each
    lengths: np.ndarray  # (n,) int64 columns
    documents: np.ndarray  # (n,) int64 document numbers
    begins: np.ndarray  # (n,) bool: its first token here is the document's first token
    # (n,) bool: the token behind it in the corpus is of the same document: the label of its last
    # column, where that is the row's last
    continues: np.ndarray


class Batch(NamedTuple):
    """b windows of L positions."""

    # (b, L + 1) uint16 or uint32: inputs and targets are views of it, so that one copy moves both
    tokens: np.ndarray
    segments: Segments
    sources: np.ndarray  # (b,) int64: index into the plan's list of sources
    windows: np.ndarray  # (b,) int64: numbers in the whole job's stream
    padding: np.ndarray  # (b,) int64: columns at a row's end that are of no document

    @property
    def inputs(self) -> np.ndarray:
        """(b, L): what the model reads."""
        return self.tokens[:, :-1]

    @property
    def targets(self) -> np.ndarray:
        """(b, L): of each position the token behind it."""
        return self.tokens[:, 1:]
