"""A row of numbers for each block of a page, by which it is judged: what it is itself, what it lies
in, what stands before and behind it, how often its like comes, and what the page is.

Shares are of 0 to 1, or -1 where there is nothing to have a share of. No logarithm and no
exponential is taken, so that rows are equal on every machine.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.html.alike import find_alike
from gristmill.kernels.html.blocks import Blocks
from gristmill.kernels.html.counts import (
    CORE_50,
    CORE_70,
    CORE_90,
    FIRST_GOOD,
    HEADING_BLOCK,
    TOP,
    CountRoom,
    Counts,
    Scores,
    Sums,
)
from gristmill.kernels.html.elements import SEMANTIC, Elements
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.html.words import BITS
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Float32s, Int32s, Int64s, Uint64s

ROWS = 4096  # that are filled at a time
FAR = 50  # blocks at which a distance is cut

# Elements in an order in which neighbours are alike: a tree's split means something.
_ORDER = (
    "p blockquote pre dd li dt td th figcaption caption details summary address h1 h2 h3 h4 h5 h6 "
    "article main section div center body fieldset form figure ul ol menu dl tr tbody thead tfoot "
    "table header hgroup aside footer nav button legend"
)
RANK = np.full(256, 60, np.float32)
for _place, _name in enumerate(_ORDER.split()):
    RANK[ELEMENT[_name]] = _place
RANK[255] = 61
RANK[0] = 62
H1, H6 = ELEMENT["h1"], ELEMENT["h6"]

OWN = "words letters link_share ends capitals shape_end depth rank".split()
PLACE = (
    "place place_words place_good from_heading from_first_good headings words_before words_after "
    "goods_after"
).split()
# What is asked of the elements that a block lies in: itself, its parent, the one above, and the one
# below the chain of the top candidate.
HELD = {
    "element": "rank link_share good_share",
    "parent": "rank link_share words blocks goods page_share",
    "grand": "rank link_share words blocks words_a_block page_share",
    "branch": "rank link_share words blocks words_a_block page_share good_share goods",
}
CHAIN = "up down core_up core_down in_50 in_90 parent_score score_ratio siblings".split()
ASIDE = "rank-2 rank-1 rank+1 same_kind+1 same_kind+2".split()
WINDOWS = (3, 6, 15)  # blocks on each side
ALIKE = (
    "alike alike_words alike_links alike_good parents_alike parents_alike_words "
    "parents_alike_links same_text"
).split()
# Of the page, the same in each of its rows; then what the elements hold that its text is in.
PAGE_WIDE = (
    "words good links blocks goods good_share top_share core_depth headings unspaced"
).split()
WIDE = ("top", "core50", "core90")
WIDE_HELD = "rank words link_share good_share blocks goods words_a_block page_share".split()
# Bits: of elements that it lies in; of the class, id and role of these; of the same of the nearest
# two alone.
INSIDE_OF = (
    "article main nav header footer aside form table ul figure pre dl p dd figcaption hidden"
).split()
ABOVE = (
    "content main page text blog comment foot head nav side widget share related promo "
    "cookie popup author caption image copyright search summary grid hidden forum product question "
    "toc wrapper section single review top subscribe tag post"
).split()
NEAR = "comment nav caption item hidden review".split()
NAMES = (
    [f"own.{name}" for name in OWN]
    + [f"place.{name}" for name in PLACE]
    + [f"{holder}.{name}" for holder, names in HELD.items() for name in names.split()]
    + [f"chain.{name}" for name in CHAIN]
    + [f"aside.{name}" for name in ASIDE]
    + [f"window.links_{width}" for width in WINDOWS]
    + ["run.heading_before"]
    + [f"alike.{name}" for name in ALIKE]
    + [f"inside.{name}" for name in INSIDE_OF]
    + [f"above.{group}" for group in ABOVE]
    + [f"near.{group}" for group in NEAR]
    + [f"page.{name}" for name in PAGE_WIDE]
    + [f"{holder}.{name}" for holder in WIDE for name in WIDE_HELD]
)
OF_BLOCK = len(NAMES) - len(PAGE_WIDE) - len(WIDE) * len(WIDE_HELD)  # columns; the others: a page's


def _group_places(groups: list[str], places: dict[str, int]) -> np.ndarray:
    return np.array([places[group] for group in groups], np.uint64)


_SEMANTIC = {name: place for place, name in enumerate(SEMANTIC)}
# The places of bits: of each column of INSIDE_OF, of ABOVE and of NEAR.
BITS_OF = _group_places(INSIDE_OF, _SEMANTIC), _group_places(ABOVE, BITS), _group_places(NEAR, BITS)


@helper
def _share(part, whole):
    return np.float32(part) / np.float32(whole) if whole > 0 else np.float32(-1)


@helper
def _put_own(row, at, block, counts, blocks, elements, ranks):
    element = blocks.elements[block]
    letters = counts.letters[block]
    row[at] = np.float32(counts.words[block])
    row[at + 1] = np.float32(letters)
    row[at + 2] = _share(blocks.linked[block], letters)
    row[at + 3] = np.float32(counts.ends[block])
    row[at + 4] = _share(counts.capitals[block], letters)
    row[at + 5] = np.float32(counts.closed[block])
    row[at + 6] = np.float32(elements.depths[element])
    row[at + 7] = ranks[elements.names[element]]
    return at + 8


@helper
def _put_place(row, at, block, count, sums, page):
    heading = page[HEADING_BLOCK]
    first = page[FIRST_GOOD]
    row[at] = _share(block, count)
    row[at + 1] = _share(sums.words[block], sums.words[count])
    row[at + 2] = _share(sums.good[block], sums.good[count])
    row[at + 3] = np.float32(-1000 if heading < 0 else max(-FAR, min(block - heading, 200)))
    row[at + 4] = np.float32(-1000 if first < 0 else max(-FAR, min(block - first, FAR)))
    row[at + 5] = np.float32(sums.headings[block])
    row[at + 6] = np.float32(sums.words[block])
    row[at + 7] = np.float32(sums.words[count] - sums.words[block])
    row[at + 8] = np.float32(sums.goods[count] - sums.goods[block])
    return at + 9


@helper
def _put_holders(row, at, element, branch, count, elements, sums, ranks):
    """Return what the elements hold that a block lies in: HELD."""
    row[at] = ranks[elements.names[element]]
    row[at + 1] = _link_share(element, elements, sums)
    row[at + 2] = _share(_good(element, elements, sums), _words(element, elements, sums))
    parent = np.int64(elements.parents[element])
    _put_holder(row, at + 3, parent, elements, sums, ranks)
    row[at + 7] = np.float32(_goods(parent, elements, sums))
    row[at + 8] = _share(_good(parent, elements, sums), sums.good[count])
    grand = np.int64(elements.parents[parent])
    for place, holder in ((9, grand), (15, branch)):
        _put_holder(row, at + place, holder, elements, sums, ranks)
        words = _words(holder, elements, sums)
        row[at + place + 4] = _share(words, elements.stop[holder] - elements.first[holder])
        row[at + place + 5] = _share(_good(holder, elements, sums), sums.good[count])
    row[at + 21] = _share(_good(branch, elements, sums), _words(branch, elements, sums))
    row[at + 22] = np.float32(_goods(branch, elements, sums))
    return at + 23


@helper
def _words(element, elements, sums):
    return sums.words[elements.stop[element]] - sums.words[elements.first[element]]


@helper
def _good(element, elements, sums):
    return sums.good[elements.stop[element]] - sums.good[elements.first[element]]


@helper
def _goods(element, elements, sums):
    return sums.goods[elements.stop[element]] - sums.goods[elements.first[element]]


@helper
def _link_share(element, elements, sums):
    first = elements.first[element]
    stop = elements.stop[element]
    return _share(sums.linked[stop] - sums.linked[first], sums.letters[stop] - sums.letters[first])


@helper
def _put_holder(row, at, element, elements, sums, ranks):
    row[at] = ranks[elements.names[element]]
    row[at + 1] = _link_share(element, elements, sums)
    row[at + 2] = np.float32(_words(element, elements, sums))
    row[at + 3] = np.float32(elements.stop[element] - elements.first[element])


@helper
def _put_wide(row, at, element, count, elements, sums, ranks):
    """Return what an element holds that is known of the page: WIDE_HELD."""
    words = _words(element, elements, sums)
    good = _good(element, elements, sums)
    size = elements.stop[element] - elements.first[element]
    row[at] = ranks[elements.names[element]]
    row[at + 1] = np.float32(words)
    row[at + 2] = _link_share(element, elements, sums)
    row[at + 3] = _share(good, words)
    row[at + 4] = np.float32(size)
    row[at + 5] = np.float32(_goods(element, elements, sums))
    row[at + 6] = _share(words, size)
    row[at + 7] = _share(good, sums.good[count])
    return at + 8


@helper
def _put_chain(row, at, block, element, elements, scores, page):
    top = page[TOP]
    parent = elements.parents[element]
    best = scores.score[top]
    row[at] = np.float32(scores.up[element])
    row[at + 1] = np.float32(scores.down[element])
    row[at + 2] = np.float32(scores.core_up[element])
    row[at + 3] = np.float32(scores.core_down[element])
    wide = page[CORE_50]
    row[at + 4] = np.float32(elements.first[wide] <= block < elements.stop[wide])
    wide = page[CORE_90]
    row[at + 5] = np.float32(elements.first[wide] <= block < elements.stop[wide])
    row[at + 6] = scores.score[parent]
    row[at + 7] = scores.score[parent] / best if best > 0 else np.float32(-1)
    row[at + 8] = np.float32(elements.stop[parent] - elements.first[parent])
    return at + 9


@helper
def _put_aside(row, at, block, count, blocks, elements, ranks):
    """Of blocks before and behind: ASIDE; -2 where there is none."""
    kind = elements.kinds[blocks.elements[block]]
    for place, offset in ((0, -2), (1, -1), (2, 1)):
        other = block + offset
        inside = 0 <= other < count
        row[at + place] = (
            ranks[elements.names[blocks.elements[other]]] if inside else np.float32(-2)
        )
    for offset in (1, 2):
        other = block + offset
        row[at + 2 + offset] = np.float32(
            elements.kinds[blocks.elements[other]] == kind if other < count else -2
        )
    return at + 5


@helper
def _put_windows(row, at, block, count, sums):
    for width in (3, 6, 15):
        first = max(block - width, 0)
        stop = min(block + width + 1, count)
        row[at] = _share(
            sums.linked[stop] - sums.linked[first], sums.letters[stop] - sums.letters[first]
        )
        at += 1
    return at


@helper
def _put_alike(row, at, block, slots, totals):
    for kind in range(2):
        slot = 5 * np.int64(slots[3 * block + kind])
        row[at] = np.float32(totals[slot])
        row[at + 1] = _share(totals[slot + 1], totals[slot])
        row[at + 2] = _share(totals[slot + 2], totals[slot + 3])
        at += 3
        if kind == 0:
            row[at] = _share(totals[slot + 4], totals[slot])
            at += 1
    row[at] = np.float32(totals[5 * np.int64(slots[3 * block + 2])])
    return at + 1


@helper
def _put_bits(row, at, bits, places):
    for place in places:
        row[at] = np.float32((bits >> place) & np.uint64(1))
        at += 1
    return at


@kernel(Elements, Blocks, types.int64, Counts, Sums, Int64s, Float32s, types.float32[:, ::1])
def _fill_page(elements, blocks, count, counts, sums, page, ranks, rows):
    """What is the same in all rows, in the first of them."""
    row = rows[0]
    at = np.int64(OF_BLOCK)
    unspaced = np.int64(0)
    for block in range(count):
        unspaced += counts.unspaced[block]
    top = page[TOP]
    words = sums.words[count]
    good = sums.good[count]
    row[at] = np.float32(words)
    row[at + 1] = np.float32(good)
    row[at + 2] = _share(sums.linked[count], sums.letters[count])
    row[at + 3] = np.float32(count)
    row[at + 4] = np.float32(sums.goods[count])
    row[at + 5] = _share(good, words)
    row[at + 6] = _share(_good(top, elements, sums), good)
    row[at + 7] = np.float32(elements.depths[page[CORE_70]])
    row[at + 8] = np.float32(sums.headings[count])
    row[at + 9] = _share(unspaced, sums.letters[count])
    at += 10
    for place in (TOP, CORE_50, CORE_90):
        at = _put_wide(row, at, page[place], count, elements, sums, ranks)


class Sequence(NamedTuple):
    """What is known of blocks from others, before rows are filled."""

    slots: Int32s  # (3 * blocks,) of those that are alike (html/alike.py)
    totals: Int64s
    # BITS_OF
    inside: Uint64s
    above: Uint64s
    near: Uint64s


@kernel(
    Elements,
    Blocks,
    types.UniTuple(types.int64, 3),
    Counts,
    Sums,
    Scores,
    Int64s,
    Float32s,
    Sequence,
    types.float32[:, ::1],
)
def _fill(elements, blocks, span, counts, sums, scores, page, ranks, sequence, rows):
    first, stop, count = span
    heading = np.int64(0)  # blocks since the last heading
    while heading < FAR and heading <= first:
        if sums.headings[first - heading + 1] > sums.headings[first - heading]:
            break
        heading += 1
    if heading > first:
        heading = np.int64(FAR)
    for block in range(first, stop):
        row = rows[block - first]
        element = np.int64(blocks.elements[block])
        at = _put_own(row, 0, block, counts, blocks, elements, ranks)
        at = _put_place(row, at, block, count, sums, page)
        branch = np.int64(scores.branch[element])
        at = _put_holders(row, at, element, branch, count, elements, sums, ranks)
        at = _put_chain(row, at, block, element, elements, scores, page)
        at = _put_aside(row, at, block, count, blocks, elements, ranks)
        at = _put_windows(row, at, block, count, sums)
        if sums.headings[block + 1] > sums.headings[block]:
            heading = np.int64(0)
        row[at] = np.float32(min(heading, FAR))
        heading += 1
        at = _put_alike(row, at + 1, block, sequence.slots, sequence.totals)
        at = _put_bits(row, at, elements.inside[element], sequence.inside)
        at = _put_bits(row, at, elements.above[element], sequence.above)
        near = elements.words[element] | elements.words[elements.parents[element]]
        at = _put_bits(row, at, near, sequence.near)
        if block > first:
            for column in range(at, rows.shape[1]):
                row[column] = rows[0, column]


def features(
    elements: Elements, blocks: Blocks, count: int, work: CountRoom
) -> Iterator[np.ndarray]:
    """Yield the rows of a page's blocks, ROWS at a time: (rows, len(NAMES)) float32, used again for
    the next ones.
    """
    if not count:
        return
    counts, sums, scores, page = work.counts, work.sums, work.scores, work.page
    sequence = Sequence(*find_alike(elements, blocks, count, counts), *BITS_OF)
    rows = np.empty((min(count, ROWS), len(NAMES)), np.float32)
    _fill_page(elements, blocks, count, counts, sums, page, RANK, rows)
    for first in range(0, count, ROWS):
        stop = min(first + ROWS, count)
        span = (first, stop, count)
        _fill(elements, blocks, span, counts, sums, scores, page, RANK, sequence, rows)
        yield rows[: stop - first]
