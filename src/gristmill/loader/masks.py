"""What attention, positions and the loss need to know of the documents in a batch.

Everything comes from the recorded boundaries of documents, never from the end-of-text token. A
*segment* is a document's part in a row. Padding at the end of a row is a segment of its own for
attention, and no document for anything else.

    cu_seqlens, max_seqlen   FlashAttention's varlen functions, over the flattened batch
    document_ids             FlexAttention: mask_mod = causal and equal ids
    position_ids             rotary or learned positions that restart with each document
    document_starts          where a linear attention or a state-space model resets its state
    loss_mask, labels        which positions have a label
    dense_mask               the whole block-diagonal causal mask, for tests and small models
    bytes_of_labels          bytes that each label stands for: bits per byte

`mask_boundaries` leaves out the label of a document's last token, which is the first token of
another document. Labels that are no tokens of the corpus (padding) and those of withdrawn documents
(docs/withdrawal.md) are always left out.
"""

from typing import TYPE_CHECKING

import numpy as np

from gristmill.errors import RecipeError
from gristmill.kernels.packing import row_documents as kernels

if TYPE_CHECKING:
    from gristmill.corpus.token_corpus import TokenCorpus
    from gristmill.loader.batch import Batch, Segments

IGNORED = -100  # the label that torch's cross entropy leaves out


def token_bytes(corpus: "TokenCorpus") -> np.ndarray:
    """Return how many bytes of text each token stands for, (vocabulary,) uint16; the end of text:
    0.

    By the tokenizer in the corpus. Raises RecipeError if it has none that can be read.
    """
    from gristmill.loader.packing_pieces import token_spellings

    return np.array([min(len(spelling), 0xFFFF) for spelling in token_spellings(corpus)], np.uint16)


def leading_tokens(corpus: "TokenCorpus") -> np.ndarray:
    """Return which tokens have a byte less as the first of a document, (vocabulary,) bool: the
    tokenizer puts a space before a text (Llama 2, T5). None are, of most tokenizers.

    By the tokenizer in the corpus. Raises RecipeError if it has none that can be read.
    """
    from gristmill.loader.packing_pieces import token_bytes_of_corpus

    return token_bytes_of_corpus(corpus).leads


def _shape(batch: "Batch") -> tuple[int, int]:
    return batch.tokens.shape[0], batch.tokens.shape[1] - 1


def _fields(segments: "Segments") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    fields = segments.rows, segments.starts, segments.lengths
    rows, starts, lengths = map(np.ascontiguousarray, fields)
    return rows, starts, lengths


def cu_seqlens(batch: "Batch", size: int | None = None) -> np.ndarray:
    """Return (segments + 1,) int32: where the segments of the flattened batch begin, and b x L.

    `size`: (size,) int32 whatever the number of segments, for CUDA graphs and torch.compile: the
    last value is repeated, which is segments of no tokens. Raises RecipeError if it is too small.
    """
    rows, length = _shape(batch)
    segments, padded = batch.segments, np.flatnonzero(batch.padding)
    starts = segments.rows * length + segments.starts
    if len(padded):
        starts = np.sort(
            np.concatenate([starts, (padded + 1) * length - batch.padding[padded]]), kind="stable"
        )
    entries = len(starts) + 1
    if size is not None and entries > size:
        raise RecipeError(
            f"cu_seqlens of size {size:,}: this batch has {entries - 1:,} segments; use a size of "
            f"{entries:,} or more"
        )
    out = np.full(size or entries, rows * length, np.int32)
    out[: entries - 1] = starts
    return out


def max_seqlen(batch: "Batch") -> int:
    """Return the length of the longest segment, padding included; the sequence length where a value
    that stays the same is better.
    """
    longest = batch.segments.lengths.max(initial=0)
    return max(int(longest), int(batch.padding.max(initial=0)))


def document_ids(batch: "Batch") -> np.ndarray:
    """Return (b, L) int32: 0, 1 and so on for the documents of a row; -1: padding."""
    out = np.full(_shape(batch), -1, np.int32)
    kernels.number(*_fields(batch.segments), out)
    return out


def position_ids(batch: "Batch", *, restart: bool = True) -> np.ndarray:
    """Return (b, L) int32: 0, 1 and so on in each segment, and in padding.

    `restart` = False: a document that began in another window counts on from there, so that a
    position may be L or more.
    """
    shape = _shape(batch)
    rows, starts, lengths = _fields(batch.segments)
    offsets = batch.segments.offsets
    firsts = np.zeros(len(rows), np.int64) if restart else np.ascontiguousarray(offsets)
    out = np.empty(shape, np.int32)
    kernels.count(rows, starts, lengths, firsts, out)
    if not restart:
        np.maximum(out, 0, out=out)  # -1: the token before a window that begins with a document
    padded = np.flatnonzero(batch.padding)
    if len(padded):
        sizes = batch.padding[padded]
        kernels.count(padded, shape[1] - sizes, sizes, np.zeros(len(padded), np.int64), out)
    return out


def document_starts(batch: "Batch") -> np.ndarray:
    """Return (b, L) bool: the first position of each segment, and of padding."""
    rows, length = _shape(batch)
    out = np.zeros((rows, length), np.bool_)
    out[batch.segments.rows, batch.segments.starts] = True
    padded = np.flatnonzero(batch.padding)
    out[padded, length - batch.padding[padded]] = True
    return out


def loss_mask(batch: "Batch", *, mask_boundaries: bool = True) -> np.ndarray:
    """Return (b, L) bool: the positions whose target is a label."""
    rows, length = _shape(batch)
    segments = batch.segments
    out = np.ones((rows, length), np.bool_)
    lasts = segments.starts + segments.lengths - 1
    if mask_boundaries:
        # A document that is cut inside a row is followed by another one there, too.
        ended = ~segments.continues | (lasts < length - 1)
        out[segments.rows[ended], lasts[ended]] = False
    # Of a withdrawn document end-of-text tokens are left: neither they nor the way to them is
    # learned.
    for place in np.flatnonzero(segments.documents < 0).tolist():
        row, start = segments.rows[place], segments.starts[place]
        out[row, max(start - 1, 0) : lasts[place] + 1] = False
    for row in np.flatnonzero(batch.padding).tolist():
        out[row, max(length - int(batch.padding[row]) - 1, 0) :] = False
    return out


def labels(batch: "Batch", *, mask_boundaries: bool = True, ignored: int = IGNORED) -> np.ndarray:
    """Return (b, L) int64: the targets, and `ignored` where there is no label."""
    mask = loss_mask(batch, mask_boundaries=mask_boundaries)
    return np.where(mask, batch.targets.astype(np.int64), ignored)


def dense_mask(batch: "Batch") -> np.ndarray:
    """Return (b, L, L) bool: whether position i attends to position j: j is not behind i, and in
    the same segment. Padding attends to padding, so that no row of the mask is empty.
    """
    ids = document_ids(batch)
    length = ids.shape[1]
    causal = np.tri(length, dtype=np.bool_)
    return np.asarray(causal & (ids[:, :, None] == ids[:, None, :]))


def bytes_of_labels(
    batch: "Batch",
    table: np.ndarray,
    *,
    mask_boundaries: bool = True,
    leads: np.ndarray | None = None,
    begins: bool = False,
) -> np.ndarray:
    """Return (b, L) of the table's dtype: how many bytes of text each label stands for, 0 where
    there is none. `table` (vocabulary,) is `token_bytes` of the corpus.

    A document's first token is a label if boundaries are not masked, or if the corpus has a token
    before each document, which `begins` says: then `leads`, `leading_tokens` of the corpus, takes
    off the space that the tokenizer put there.

    Bits per byte are the sum of the losses of all labels, in nats, over the sum of their bytes and
    over ln 2.
    """
    mask = loss_mask(batch, mask_boundaries=mask_boundaries)
    sizes = np.asarray(table[batch.targets] * mask)
    if leads is not None and leads.any():
        segments = batch.segments
        here = (segments.offsets <= 0) & (segments.documents >= 0)
        places = segments.starts[here] - 1 + begins - segments.offsets[here]
        rows = segments.rows[here]
        inside = (places >= 0) & (segments.lengths[here] > begins)
        rows, places = rows[inside], places[inside]
        sizes[rows, places] -= (leads[batch.targets[rows, places]] & mask[rows, places]).astype(
            sizes.dtype
        )
    return sizes
