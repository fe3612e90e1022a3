"""Documents cut into pieces of at most `limit` tokens, and pieces sorted by their length.

A document longer than `limit` is cut after every `limit` tokens; or, where it is asked for, after
the last paragraph or sentence that ends in the second half of these tokens, so that no piece but a
document's last is shorter than half of `limit`.

Where paragraphs and sentences end is looked up in a table of the vocabulary, `marks`, whose bits
are:

    BREAK    the token has two line feeds with nothing but spaces between: a paragraph ends in it
    LINE     its last byte but spaces is a line feed
    NEXT     its first byte is a line feed: after LINE it ends a paragraph
    STOP     it ends with a full stop, a question or an exclamation mark
    CLOSE    it has nothing but closing quotes and brackets
    SPACE    it begins with white space: after STOP, and CLOSE between, a sentence has ended
    WIDE     it ends with a mark after which no space is needed, as in Chinese
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import INT64S, UINT32S, helper, kernel

BREAK, LINE, NEXT, STOP, CLOSE, SPACE, WIDE = (1 << bit for bit in range(7))

MARKS = types.Array(types.uint8, 1, "C", readonly=True)
UINT16S = types.Array(types.uint16, 1, "C", readonly=True)


@kernel(INT64S, types.int64, types.uint32[::1], returns=types.int64)
def _cut(documents, limit, out):
    found = np.int64(0)
    for length in documents:
        left = length
        while left > limit:
            out[found] = limit
            found += 1
            left -= limit
        if left > 0:
            out[found] = left
            found += 1
    return found


@helper
def _ends_paragraph(tokens, marks, at, least):
    """Return whether a paragraph ends before token `at`; tokens before `least` are not looked
    at.
    """
    last = marks[tokens[at - 1]]
    if last & BREAK:
        return True
    return last & NEXT != 0 and at - 2 >= least and marks[tokens[at - 2]] & LINE != 0


@helper
def _ends_sentence(tokens, marks, at, least):
    """Return whether a sentence ends before token `at`; tokens before `least` are not looked at."""
    before = marks[tokens[at - 1]]
    if before & (WIDE | LINE | BREAK):
        return True
    if marks[tokens[at]] & SPACE == 0:
        return False
    last = at - 1
    while before & CLOSE and last > least:
        last -= 1
        before = marks[tokens[last]]
    return before & STOP != 0


@helper
def _cut_before(tokens, marks, start, stop, sentences):
    """Return where the piece of tokens start to stop ends: stop, or where something ends in its
    second half. There is a token at `stop`.
    """
    least = start + (stop - start) // 2
    for at in range(stop, least, -1):
        if _ends_paragraph(tokens, marks, at, start):
            return at
        if sentences and _ends_sentence(tokens, marks, at, start):
            return at
    return stop


@helper
def _cut_texts(tokens, documents, marks, limit, sentences, out):
    found = np.int64(0)
    start = np.int64(0)
    for length in documents:
        end = start + length
        while end - start > limit:
            at = _cut_before(tokens, marks, start, start + limit, sentences)
            out[found] = at - start
            found += 1
            start = at
        if end > start:
            out[found] = end - start
            found += 1
        start = end
    return found


@kernel(
    *(UINT16S, INT64S, MARKS, types.int64, types.boolean, types.uint32[::1]), returns=types.int64
)
def _cut_texts_16(tokens, documents, marks, limit, sentences, out):
    return _cut_texts(tokens, documents, marks, limit, sentences, out)


@kernel(
    *(UINT32S, INT64S, MARKS, types.int64, types.boolean, types.uint32[::1]), returns=types.int64
)
def _cut_texts_32(tokens, documents, marks, limit, sentences, out):
    return _cut_texts(tokens, documents, marks, limit, sentences, out)


@kernel(UINT32S, types.int64, types.int64[::1], types.int64[::1])
def _sort(lengths, position, places, out):
    for length in lengths:
        out[places[length]] = position
        places[length] += 1
        position += length


def cut(documents: np.ndarray, limit: int) -> np.ndarray:
    """Return the pieces of documents of these lengths (n,) int64, in order: (pieces,) uint32, each
    at most `limit`. A document of no tokens has none.
    """
    out = np.empty(int((-(documents // -limit)).sum()), np.uint32)
    found = _cut(documents, limit, out)
    return out[:found]


def cut_texts(
    tokens: np.ndarray, documents: np.ndarray, marks: np.ndarray, limit: int, *, sentences: bool
) -> np.ndarray:
    """As `cut`, at the ends of paragraphs, and of sentences too if asked, where there are any.

    tokens uint16 or uint32, those of all the documents; marks uint8, one for each token number.
    """
    # Every two pieces that follow one another in a document have more than `limit` / 2 tokens each
    # but its last.
    most = int((documents // max(limit - limit // 2, 1)).sum()) + len(documents)
    out = np.empty(most, np.uint32)
    run = _cut_texts_16 if tokens.dtype.itemsize == 2 else _cut_texts_32
    found = run(tokens, documents, marks, limit, sentences, out)
    return out[:found]


def sort_block(lengths: np.ndarray, position: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pieces of these lengths (n,) uint32 that follow one another from a position on, sorted
    by length: how many there are of each, (limit + 1,) int64, and their positions, (n,) int64;
    positions of one length ascend.
    """
    counts = np.bincount(lengths, minlength=limit + 1)
    out = np.empty(len(lengths), np.int64)
    _sort(lengths, position, np.cumsum(counts) - counts, out)
    return counts, out
