"""A batch: rows of tokens as inputs and targets, and which documents they are of.

Everything is numpy; tokens have the dtype of the shards (uint16 or uint32) until they are on the
device that trains. What attention, positions and the loss need to know of the documents is computed
when it is asked for (masks.py).
"""

from typing import NamedTuple

import numpy as np

from gristmill.loader import masks


class Segments(NamedTuple):
    """The documents in the rows of a batch: n segments, ordered by row and by column."""

    rows: np.ndarray  # (n,) int64
    starts: np.ndarray  # (n,) int64 the first column of each
    lengths: np.ndarray  # (n,) int64 columns
    # (n,) int64 document numbers; below 0: ~number of a withdrawn document (docs/withdrawal.md)
    documents: np.ndarray
    begins: np.ndarray  # (n,) bool: its first token here is the document's first token
    # (n,) bool: the token behind it in the corpus is of the same document: the label of its last
    # column, where that is the row's last
    continues: np.ndarray
    # (n,) int64 tokens of the document before its first column here; one less where that is the
    # token before a window (packing "concat" with `begin`)
    offsets: np.ndarray


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
        """Return (b, L): what the model reads."""
        return self.tokens[:, :-1]

    @property
    def targets(self) -> np.ndarray:
        """Return (b, L): of each position the token behind it."""
        return self.tokens[:, 1:]

    def cu_seqlens(self, size: int | None = None) -> np.ndarray:
        """Return (segments + 1,) or (size,) int32, for FlashAttention: masks.cu_seqlens."""
        return masks.cu_seqlens(self, size)

    def max_seqlen(self) -> int:
        """Return the length of the longest segment."""
        return masks.max_seqlen(self)

    def document_ids(self) -> np.ndarray:
        """Return (b, L) int32, for FlexAttention; -1: padding."""
        return masks.document_ids(self)

    def position_ids(self, *, restart: bool = True) -> np.ndarray:
        """Return (b, L) int32 from 0 on in each segment, or in each document if not `restart`."""
        return masks.position_ids(self, restart=restart)

    def document_starts(self) -> np.ndarray:
        """Return (b, L) bool: the first position of each segment."""
        return masks.document_starts(self)

    def loss_mask(self, *, mask_boundaries: bool = True) -> np.ndarray:
        """Return (b, L) bool: the positions whose target is a label."""
        return masks.loss_mask(self, mask_boundaries=mask_boundaries)

    def labels(self, *, mask_boundaries: bool = True) -> np.ndarray:
        """Return (b, L) int64: the targets; -100 where there is no label."""
        return masks.labels(self, mask_boundaries=mask_boundaries)

    def dense_mask(self) -> np.ndarray:
        """Return (b, L, L) bool: which position attends to which."""
        return masks.dense_mask(self)

    def token_bytes(
        self,
        table: np.ndarray,
        *,
        mask_boundaries: bool = True,
        leads: np.ndarray | None = None,
        begins: bool = False,
    ) -> np.ndarray:
        """Return (b, L): the bytes that each label stands for, by masks.token_bytes of the corpus;
        `leads` and `begins` as in masks.bytes_of_labels.
        """
        return masks.bytes_of_labels(
            self, table, mask_boundaries=mask_boundaries, leads=leads, begins=begins
        )
