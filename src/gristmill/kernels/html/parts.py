"""Parts of a page that are asked for or left out whatever their scores: comments, tables, lists,
headings, and every article but the first.

A part that holds more than half of the page's words is no part but what the page is laid out in:
a table of the whole page, a class `comments-open` of the body.
"""

import numpy as np
from numba import types

from gristmill.kernels.html.blocks import IS_TITLE, Blocks
from gristmill.kernels.html.counts import Counts
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.html.words import BITS
from gristmill.kernels.jit.compile import kernel
from gristmill.kernels.jit.groups import Bools, Int64s

# What is marked, as bits.
COMMENTS, TABLES, LISTS, HEADINGS, LATER = (1 << k for k in range(5))
ARTICLE_WORDS = 40  # of which an article has as many at least
COMMENT_BIT = np.uint64(1 << BITS["comment"])
TABLE, UL, OL, DL, H1, H6, ARTICLE = (
    ELEMENT[name] for name in ("table", "ul", "ol", "dl", "h1", "h6", "article")
)


@kernel(Elements, types.int64, Int64s, types.int64, Bools)
def _mark(elements, count, sums, what, marked):
    total = sums[len(sums) - 1]
    after_first = np.int64(-1)  # the block behind the first article
    marked[:] = False
    for element in range(1, count):
        if marked[elements.parents[element]]:
            marked[element] = True
            continue
        name = elements.names[element]
        first = np.int64(elements.first[element])
        stop = np.int64(elements.stop[element])
        held = sums[stop] - sums[first]
        if name == ARTICLE and what & LATER and held >= ARTICLE_WORDS:
            if after_first < 0:
                after_first = stop
            elif first >= after_first:
                marked[element] = True
        if what & HEADINGS and H1 <= name <= H6:
            marked[element] = True
        if 2 * held > total:
            continue
        if what & TABLES and name == TABLE:
            marked[element] = True
        elif what & LISTS and (name == UL or name == OL or name == DL):
            marked[element] = True
        elif what & COMMENTS and elements.words[element] & COMMENT_BIT:
            marked[element] = True


def _marked(elements: Elements, many: int, words: np.ndarray, what: int) -> np.ndarray:
    """Return which of `many` elements are in a part, (elements,) bool; words (blocks,): what counts
    of each block.
    """
    sums = np.zeros(len(words) + 1, np.int64)
    np.cumsum(words, out=sums[1:])
    marked = np.zeros(many, np.bool_)
    _mark(elements, many, sums, what, marked)
    return marked


def leave_out(
    elements: Elements, many: int, blocks: Blocks, counts: Counts, kept: np.ndarray, what: int
) -> np.ndarray:
    """Return what stays of the blocks that are kept, (blocks,) bool, without the parts `what`
    (bits).
    """
    count = len(kept)
    marked = _marked(elements, many, counts.words[:count] * kept, what)
    stays: np.ndarray = kept & ~marked[blocks.elements[:count]]
    return stays


def add_comments(
    elements: Elements, many: int, blocks: Blocks, counts: Counts, kept: np.ndarray
) -> np.ndarray:
    """Return the blocks that are kept, (blocks,) bool, and those of comments: prose of at most a
    third of links, and what of one sentence or more stands beside it.
    """
    count = len(kept)
    words = counts.words[:count]
    marked = _marked(elements, many, words * (counts.good[:count] != 0), COMMENTS)
    prose = (words >= 3) & (3 * blocks.linked[:count] < counts.letters[:count])
    prose &= (counts.ends[:count] > 0) & (blocks.flags[:count] & IS_TITLE == 0)
    found: np.ndarray = kept | (prose & marked[blocks.elements[:count]])
    return found
