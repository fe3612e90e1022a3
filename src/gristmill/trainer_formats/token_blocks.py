"""The documents of token shards as a stream of blocks, and what an export does to such a stream:
the end of text on another side, whole documents, several sources mixed.

Memory: one block (BLOCK tokens) a source; `whole` and `mixed` also hold the longest document.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from gristmill.corpus.token_corpus import TokenStream
from gristmill.errors import VerificationError

BLOCK = 1 << 22  # tokens read at a time
Side = Literal["after", "before", "none"]


class TokenBlock(NamedTuple):
    """Consecutive documents of a stream."""

    tokens: np.ndarray  # (m,) of the corpus' type
    documents: np.ndarray  # (n,) int64 document numbers
    lengths: np.ndarray  # (n,) int64 tokens of each in this block
    sources: np.ndarray  # (n,) int32 place of each document's source among those of the export
    begins: bool  # the first document begins in this block
    ends: bool  # the last document ends in this block

    def started(self) -> np.ndarray:
        """Return (n,) bool: the document begins in this block."""
        mask = np.ones(len(self.documents), np.bool_)
        mask[:1] &= self.begins
        return mask

    def ended(self) -> np.ndarray:
        """Return (n,) bool: the document ends in this block."""
        mask = np.ones(len(self.documents), np.bool_)
        mask[-1:] &= self.ends
        return mask


def read_blocks(stream: TokenStream, place: int, size: int = BLOCK) -> Iterator[TokenBlock]:
    """Yield a source's documents in blocks of at most `size` tokens, which may cut documents.
    Withdrawn documents are left out.
    """
    begins = True
    for start in range(0, stream.tokens, size):
        stop = min(start + size, stream.tokens)
        spans = stream.documents(start, stop)
        ends = not bool(spans.continues[-1])
        sources = np.full(len(spans.documents), place, np.int32)
        block = TokenBlock(
            stream.read(start, stop),
            spans.documents,
            spans.ends - spans.starts,
            sources,
            begins,
            ends,
        )
        begins = ends
        if (spans.documents < 0).any():
            block = _without_withdrawn(block)
        if len(block.documents):
            yield block


def _without_withdrawn(block: TokenBlock) -> TokenBlock:
    keep = block.documents >= 0
    return TokenBlock(
        block.tokens[np.repeat(keep, block.lengths)],
        block.documents[keep],
        block.lengths[keep],
        block.sources[keep],
        block.begins or not keep[0],
        block.ends or not keep[-1],
    )


def with_side(
    blocks: Iterable[TokenBlock], end_of_text: int, has: Side, wanted: Side
) -> Iterator[TokenBlock]:
    """Yield the stream with its end of text on the side that is wanted: before or after each
    document.

    A document that has none where the corpus says gets one all the same.
    """
    for block in blocks:
        yield block if has == wanted else _move_mark(block, end_of_text, has, wanted)


def _move_mark(block: TokenBlock, end_of_text: int, has: Side, wanted: Side) -> TokenBlock:
    stops = np.cumsum(block.lengths)
    starts = stops - block.lengths
    lengths = block.lengths.copy()
    keep = np.ones(len(block.tokens), np.bool_)
    if has != "none":
        here = block.ended() if has == "after" else block.started()
        at = (stops - 1 if has == "after" else starts)[here]
        # A document of an imported corpus may have been cut before its end of text.
        mask = block.tokens[at] == end_of_text
        at = at[mask]
        here[here] = mask
        keep[at] = False
        lengths[here] -= 1
    add = np.zeros(len(lengths), np.bool_)
    if wanted != "none":
        add = block.ended() if wanted == "after" else block.started()
    kept = block.tokens[keep]
    ends = np.cumsum(lengths)
    places = (ends if wanted == "after" else ends - lengths)[add]
    tokens = np.insert(kept, places, np.asarray(end_of_text, kept.dtype))
    return block._replace(tokens=tokens, lengths=lengths + add)


class InnerEnds:
    """Counts the end-of-text tokens of a stream that end no document: an imported document may
    have some, and a reader that divides documents at that token takes it for several.
    """

    def __init__(self, end_of_text: int, side: Side) -> None:
        self._end, self._side = end_of_text, side
        self._counted = False  # whether the document under way is among `documents`
        self.tokens = self.documents = 0

    def count(self, blocks: Iterable[TokenBlock]) -> Iterator[TokenBlock]:
        """Yield the blocks, counted as they pass."""
        for block in blocks:
            places = np.flatnonzero(block.tokens == self._end)
            stops = np.cumsum(block.lengths)
            of = np.searchsorted(stops, places, "right")
            if self._side == "after":
                outer = (places == stops[of] - 1) & block.ended()[of]
            else:
                outer = (places == (stops - block.lengths)[of]) & block.started()[of]
            inner = np.unique(of[~outer])
            self.tokens += int((~outer).sum())
            going_on = not block.begins and self._counted
            self.documents += len(inner) - (going_on and 0 in inner[:1])
            last = len(block.documents) - 1
            self._counted = last in inner[-1:] or (going_on and last == 0)
            self._counted &= not block.ends
            yield block


def whole(blocks: Iterable[TokenBlock]) -> Iterator[TokenBlock]:
    """Yield the same documents in blocks that cut none."""
    held: list[TokenBlock] = []
    for block in blocks:
        held.append(block)
        if len(block.documents) == 1 and not block.ends:
            continue
        joined = _joined(held)
        held = []
        if not joined.ends:
            size = int(joined.lengths[-1])
            last = len(joined.tokens) - size
            held = [_part(joined, len(joined.documents) - 1, len(joined.documents), last)]
            held[0] = held[0]._replace(ends=False)
            joined = _part(joined, 0, len(joined.documents) - 1, 0, last)
        if len(joined.documents):
            yield joined
    if held:
        raise VerificationError(
            f"document {held[0].documents[-1]} has no end in its shards: verify the corpus"
        )


def _part(
    block: TokenBlock, first: int, stop: int, start: int, end: int | None = None
) -> TokenBlock:
    """Return documents `first` to `stop` of a block, with the tokens `start` to `end`."""
    return TokenBlock(
        block.tokens[start:end],
        block.documents[first:stop],
        block.lengths[first:stop],
        block.sources[first:stop],
        True,
        True,
    )


def _joined(pieces: list[TokenBlock]) -> TokenBlock:
    """Return pieces of a stream as one; a document that was cut between two is one again."""
    if len(pieces) == 1:
        return pieces[0]
    lengths = [piece.lengths.copy() for piece in pieces]
    documents, sources = [piece.documents for piece in pieces], [p.sources for p in pieces]
    for place in range(len(pieces) - 1, 0, -1):
        if not pieces[place].begins:
            lengths[place - 1][-1] += lengths[place][0]
            lengths[place] = lengths[place][1:]
            documents[place], sources[place] = documents[place][1:], sources[place][1:]
    return TokenBlock(
        np.concatenate([piece.tokens for piece in pieces]),
        np.concatenate(documents),
        np.concatenate(lengths),
        np.concatenate(sources),
        pieces[0].begins,
        pieces[-1].ends,
    )
