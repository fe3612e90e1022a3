"""A row of numbers for each block of a page, by which it is judged: what it is itself, what it lies
in, what stands before and behind it, how often its like comes, and what the page is.

Shares are of 0 to 1, or -1 where there is nothing to have a share of. No logarithm and no
exponential is taken, so that rows are equal on every machine.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

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
    LAST_GOOD,
    TOP,
    CountRoom,
    Counts,
    Scores,
    Sums,
)
from gristmill.kernels.html.elements import SEMANTIC, Elements
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.html.words import GROUPS
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Float32s, Int32s, Int64s

ROWS = 4096  # that are filled at a time
NO_BITS = np.uint64(0)
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

OWN = (
    "words letters link_share links word_length commas ends digits capitals unspaced "
    "shape_start shape_end shape_bar shape_copyright titled titled_share flags_break "
    "flags_continued flags_image good depth rank"
).split()
PLACE = (
    "place place_words place_good from_heading from_first_good from_last_good headings "
    "words_before words_after goods_after"
).split()
HOLDERS = ["element", "parent", "grand", "branch", "top", "core50", "core90"]
HELD = ("rank words link_share good_share blocks goods words_a_block page_share").split()
CHAIN = ("up down core_up core_down in_50 in_90 score parent_score score_ratio siblings").split()
ASIDE = [
    f"{name}{offset:+d}"
    for offset in (-2, -1, 1, 2)
    for name in ("words", "link_share", "good", "same_kind", "rank")
]
WINDOWS = [f"{name}_{width}" for width in (1, 3, 6, 15) for name in ("good", "words", "links")]
RUNS = ["good_before", "good_behind", "good_before_words", "good_behind_words", "heading_before"]
ALIKE = (
    "alike alike_words alike_links alike_good parents_alike parents_alike_words "
    "parents_alike_links same_text"
).split()
PAGE_WIDE = (
    "page_words page_good page_links page_blocks page_goods page_good_share top_share "
    "core_depth page_headings page_unspaced"
).split()
NAMES = (
    [f"own.{name}" for name in OWN]
    + [f"place.{name}" for name in PLACE]
    + [f"{holder}.{name}" for holder in HOLDERS for name in HELD]
    + [f"chain.{name}" for name in CHAIN]
    + [f"aside.{name}" for name in ASIDE]
    + [f"window.{name}" for name in WINDOWS]
    + [f"run.{name}" for name in RUNS]
    + [f"alike.{name}" for name in ALIKE]
    + [f"page.{name}" for name in PAGE_WIDE]
    + [f"inside.{name}" for name in SEMANTIC]
    + [f"above.{group.split()[0]}" for group in GROUPS]
    + [f"near.{group.split()[0]}" for group in GROUPS]
    + [f"text.{group.split()[0]}" for group in GROUPS]
    + [f"heading.{group.split()[0]}" for group in GROUPS]
)
GROUP_COUNT, SEMANTIC_COUNT = len(GROUPS), len(SEMANTIC)


@helper
def _share(part, whole):
    return np.float32(part) / np.float32(whole) if whole > 0 else np.float32(-1)


@helper
def _put_own(row, at, block, counts, blocks, elements, ranks):
    element = blocks.elements[block]
    words = counts.words[block]
    letters = counts.letters[block]
    shape = counts.shape[block]
    flags = blocks.flags[block]
    values = (
        np.float32(words),
        np.float32(letters),
        _share(blocks.linked[block], letters),
        np.float32(blocks.links[block]),
        _share(letters, words),
        np.float32(counts.commas[block]),
        np.float32(counts.ends[block]),
        _share(counts.digits[block], letters),
        _share(counts.capitals[block], letters),
        _share(counts.unspaced[block], letters),
        np.float32(shape & 1),
        np.float32((shape >> 1) & 1),
        np.float32((shape >> 2) & 1),
        np.float32((shape >> 3) & 1),
        np.float32(counts.titled[block]),
        _share(counts.titled[block], words),
        np.float32(flags & 1),
        np.float32((flags >> 1) & 1),
        np.float32((flags >> 3) & 1),
        np.float32(counts.good[block]),
        np.float32(elements.depths[element]),
        ranks[elements.names[element]],
    )
    for place in range(len(values)):
        row[at + place] = values[place]
    return at + len(values)


@helper
def _put_place(row, at, block, count, sums, page):
    heading = page[HEADING_BLOCK]
    first = page[FIRST_GOOD]
    last = page[LAST_GOOD]
    row[at] = _share(block, count)
    row[at + 1] = _share(sums.words[block], sums.words[count])
    row[at + 2] = _share(sums.good[block], sums.good[count])
    row[at + 3] = np.float32(-1000 if heading < 0 else max(-FAR, min(block - heading, 200)))
    row[at + 4] = np.float32(-1000 if first < 0 else max(-FAR, min(block - first, FAR)))
    row[at + 5] = np.float32(-1000 if last < 0 else max(-FAR, min(block - last, FAR)))
    row[at + 6] = np.float32(sums.headings[block])
    row[at + 7] = np.float32(sums.words[block])
    row[at + 8] = np.float32(sums.words[count] - sums.words[block])
    row[at + 9] = np.float32(sums.goods[count] - sums.goods[block])
    return at + 10


@helper
def _put_holder(row, at, element, count, elements, sums, ranks):
    """What an element holds."""
    first = elements.first[element]
    stop = elements.stop[element]
    words = sums.words[stop] - sums.words[first]
    good = sums.good[stop] - sums.good[first]
    row[at] = ranks[elements.names[element]]
    row[at + 1] = np.float32(words)
    row[at + 2] = _share(
        sums.linked[stop] - sums.linked[first], sums.letters[stop] - sums.letters[first]
    )
    row[at + 3] = _share(good, words)
    row[at + 4] = np.float32(stop - first)
    row[at + 5] = np.float32(sums.goods[stop] - sums.goods[first])
    row[at + 6] = _share(words, stop - first)
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
    row[at + 6] = scores.score[element]
    row[at + 7] = scores.score[parent]
    row[at + 8] = scores.score[parent] / best if best > 0 else np.float32(-1)
    row[at + 9] = np.float32(elements.stop[parent] - elements.first[parent])
    return at + 10


@helper
def _put_aside(row, at, block, count, counts, blocks, elements, ranks):
    kind = elements.kinds[blocks.elements[block]]
    for offset in (-2, -1, 1, 2):
        other = block + offset
        if 0 <= other < count:
            element = blocks.elements[other]
            row[at] = np.float32(counts.words[other])
            row[at + 1] = _share(blocks.linked[other], counts.letters[other])
            row[at + 2] = np.float32(counts.good[other])
            row[at + 3] = np.float32(elements.kinds[element] == kind)
            row[at + 4] = ranks[elements.names[element]]
        else:
            for place in range(5):
                row[at + place] = np.float32(-2)
        at += 5
    return at


@helper
def _put_windows(row, at, block, count, sums):
    for width in (1, 3, 6, 15):
        first = max(block - width, 0)
        stop = min(block + width + 1, count)
        words = sums.words[stop] - sums.words[first]
        row[at] = _share(sums.good[stop] - sums.good[first], words)
        row[at + 1] = np.float32(words)
        row[at + 2] = _share(
            sums.linked[stop] - sums.linked[first], sums.letters[stop] - sums.letters[first]
        )
        at += 3
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
def _put_bits(row, at, bits, count):
    for place in range(count):
        row[at + place] = np.float32((bits >> np.uint64(place)) & np.uint64(1))
    return at + count


@helper
def _put_page(row, at, count, sums, page, elements, unspaced):
    top = page[TOP]
    words = sums.words[count]
    good = sums.good[count]
    row[at] = np.float32(words)
    row[at + 1] = np.float32(good)
    row[at + 2] = _share(sums.linked[count], sums.letters[count])
    row[at + 3] = np.float32(count)
    row[at + 4] = np.float32(sums.goods[count])
    row[at + 5] = _share(good, words)
    row[at + 6] = _share(sums.good[elements.stop[top]] - sums.good[elements.first[top]], good)
    row[at + 7] = np.float32(elements.depths[page[CORE_70]])
    row[at + 8] = np.float32(sums.headings[count])
    row[at + 9] = _share(unspaced, sums.letters[count])
    return at + 10


@kernel(types.int64, Counts, Sums, types.float32[:, ::1], Int32s)
def _find_runs(count, counts, sums, runs, headings):
    before = np.int64(-FAR)
    heading = np.int64(-FAR)
    for block in range(count):
        runs[block, 0] = np.float32(min(block - before, FAR))
        runs[block, 2] = np.float32(
            sums.words[block] - sums.words[before + 1] if before >= 0 else -1
        )
        if counts.good[block]:
            before = np.int64(block)
        if sums.headings[block + 1] > sums.headings[block]:
            heading = np.int64(block)
        runs[block, 4] = np.float32(min(block - heading, FAR))
        headings[block] = heading
    behind = np.int64(count + FAR)
    for step in range(count):
        block = count - 1 - step
        runs[block, 1] = np.float32(min(behind - block, FAR))
        runs[block, 3] = np.float32(
            sums.words[behind] - sums.words[block + 1] if behind < count else -1
        )
        if counts.good[block]:
            behind = np.int64(block)


class Sequence(NamedTuple):
    """What is known of blocks from others, before rows are filled."""

    slots: Int32s  # (3 * blocks,) of those that are alike (html/alike.py)
    totals: Int64s
    runs: Annotated[np.ndarray, types.float32[:, ::1]]  # (blocks, 5): RUNS
    headings: Int32s  # the heading that each is or stands below; negative: none


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
    unspaced = np.int64(0)
    for block in range(count):
        unspaced += counts.unspaced[block]
    for block in range(first, stop):
        row = rows[block - first]
        element = np.int64(blocks.elements[block])
        parent = np.int64(elements.parents[element])
        at = _put_own(row, 0, block, counts, blocks, elements, ranks)
        at = _put_place(row, at, block, count, sums, page)
        at = _put_holder(row, at, element, count, elements, sums, ranks)
        at = _put_holder(row, at, parent, count, elements, sums, ranks)
        grand = np.int64(elements.parents[parent])
        at = _put_holder(row, at, grand, count, elements, sums, ranks)
        branch = np.int64(scores.branch[element])
        at = _put_holder(row, at, branch, count, elements, sums, ranks)
        for place in (TOP, CORE_50, CORE_90):
            at = _put_holder(row, at, page[place], count, elements, sums, ranks)
        at = _put_chain(row, at, block, element, elements, scores, page)
        at = _put_aside(row, at, block, count, counts, blocks, elements, ranks)
        at = _put_windows(row, at, block, count, sums)
        for place in range(5):
            row[at + place] = sequence.runs[block, place]
        at = _put_alike(row, at + 5, block, sequence.slots, sequence.totals)
        at = _put_page(row, at, count, sums, page, elements, unspaced)
        at = _put_bits(row, at, elements.inside[element], SEMANTIC_COUNT)
        at = _put_bits(row, at, elements.above[element], GROUP_COUNT)
        near = elements.words[element] | elements.words[parent]
        at = _put_bits(row, at, near, GROUP_COUNT)
        at = _put_bits(row, at, counts.bits[block], GROUP_COUNT)
        heading = sequence.headings[block]
        at = _put_bits(row, at, counts.bits[heading] if heading >= 0 else NO_BITS, GROUP_COUNT)


def features(
    elements: Elements, blocks: Blocks, count: int, work: CountRoom
) -> Iterator[np.ndarray]:
    """The rows of a page's blocks, ROWS at a time: (rows, len(NAMES)) float32, used again for the
    next ones.
    """
    counts, sums = work.counts, work.sums
    slots, totals = find_alike(elements, blocks, count, counts)
    runs, headings = np.empty((count, 5), np.float32), np.empty(count, np.int32)
    _find_runs(count, counts, sums, runs, headings)
    sequence = Sequence(slots, totals, runs, headings)
    rows = np.empty((min(count, ROWS), len(NAMES)), np.float32)
    for first in range(0, count, ROWS):
        stop = min(first + ROWS, count)
        span = (first, stop, count)
        _fill(elements, blocks, span, counts, sums, work.scores, work.page, RANK, sequence, rows)
        yield rows[: stop - first]
