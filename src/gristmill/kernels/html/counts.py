"""What is counted in each block of a page's text, and what the counts sum up to in each element."""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import hash_bytes
from gristmill.kernels.html.blocks import IS_TITLE, Blocks
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.html.title_words import (
    TITLE_WORDS,
    decode_three,
    is_unspaced,
    title_bits,
    title_words,
    titled_words,
)
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bytes, Float32s, Int32s, Int64s, Uint64s
from gristmill.kernels.jit.loads import count_ones, mask_of_range, valid_in

GOOD_WORDS = 10
ONE = np.uint64(1)

# Elements whose text is scored for what they lie in.
_LEAVES = "p li td th pre blockquote dd dt h1 h2 h3 h4 h5 h6 address figcaption caption"
IS_LEAF = np.zeros(256, np.uint8)
for _name in _LEAVES.split():
    IS_LEAF[ELEMENT[_name]] = 1
H1, H6, P = ELEMENT["h1"], ELEMENT["h6"], ELEMENT["p"]


class Counts(NamedTuple):
    """Of each block."""

    words: Int32s  # runs of characters between white space, and every second one of Chinese etc.
    letters: Int32s  # bytes that are no white space
    unspaced: Int32s  # characters of scripts without spaces
    commas: Int32s
    ends: Int32s  # signs that end sentences
    capitals: Int32s  # ASCII capitals
    titled: Int32s  # words that are in the title as well (html/title_words.py)
    hashes: Uint64s  # of its text
    good: Bytes  # whether it reads like prose
    closed: Bytes  # whether its last character may end a sentence


class Sums(NamedTuple):
    """Running sums over the blocks, (blocks + 1,) each: what is before a block."""

    words: Int64s
    linked: Int64s  # bytes in links
    letters: Int64s
    good: Int64s  # words of good blocks
    goods: Int64s  # good blocks
    headings: Int64s


class Scores(NamedTuple):
    """Of each element, (elements,) each; of `page` see PAGE."""

    score: Float32s  # readability's
    up: Int32s  # of the chain that leads to the top candidate: steps from that to where it leaves
    down: Int32s  # and from there to this element
    branch: Int32s  # the element below the chain that this one is in, or itself
    core_up: Int32s  # the same for the smallest element with most of the good text
    core_down: Int32s


# Places of what is known of the whole page.
TOP, CORE_50, CORE_70, CORE_90, TITLE_BLOCK, HEADING_BLOCK, FIRST_GOOD, LAST_GOOD = range(8)
PAGE = 8


@helper
def _ends_sentence(text, start, stop):
    """Return whether the last character is a sign that ends a sentence, a colon, a quote or a
    bracket.
    """
    at = stop - 1
    while at >= start and text[at] <= 0x20:
        at -= 1
    last = at + 1
    while at > start and text[at] & 0xC0 == 0x80:
        at -= 1
    if at < start:
        return False
    byte = text[at]
    if last - at == 1:
        return (
            byte == 0x2E
            or byte == 0x21
            or byte == 0x3F
            or byte == 0x3A
            or byte == 0x22
            or byte == 0x29
        )
    if last - at == 2:
        return byte == 0xD8 and text[at + 1] == 0x9F
    if last - at != 3:
        return False
    point = decode_three(text, at)
    return (
        point == 0x3002
        or point == 0xFF01
        or point == 0xFF1F
        or point == 0x2026
        or point == 0x201D
        or point == 0x300D
        or point == 0xFF1A
    )


@helper
def _count_words(text, start, stop, counts, block):
    """Count a block's characters: 64 bytes of ASCII by masks, others one by one."""
    words = unspaced = commas = ends = capitals = letters = np.int64(0)
    at = start
    inside = np.uint64(0)  # whether the byte before is of a word
    while at < stop:
        valid = valid_in(at, stop)
        solid = mask_of_range(text, at, 0x21, 0xDE) & valid
        if mask_of_range(text, at, 0x80, 0x7F) & valid == 0:
            letters += count_ones(solid)
            words += count_ones(solid & ~((solid << ONE) | inside))
            inside = solid >> np.uint64(63)
            capitals += count_ones(mask_of_range(text, at, 0x41, 25) & valid)
            signs = mask_of_range(text, at, 0x2C, 0) | mask_of_range(text, at, 0x3B, 0)
            commas += count_ones(signs & valid)
            signs = mask_of_range(text, at, 0x2E, 0) | mask_of_range(text, at, 0x21, 0)
            ends += count_ones((signs | mask_of_range(text, at, 0x3F, 0)) & valid)
            at += 64
            continue
        until = min(at + 64, stop)
        while at < until:
            byte = text[at]
            if byte <= 0x20:
                inside = np.uint64(0)
                at += 1
                continue
            words += inside == 0
            inside = ONE
            if byte < 0x80:
                capitals += np.uint8(byte - 0x41) < 26
                commas += byte == 0x2C or byte == 0x3B
                ends += byte == 0x2E or byte == 0x21 or byte == 0x3F
                letters += 1
                at += 1
                continue
            width = np.int64(1)
            if byte >= 0xE0 and at + 2 < stop:
                width = 3 if byte < 0xF0 else 4
                if width == 3:
                    point = decode_three(text, at)
                    unspaced += is_unspaced(point)
                    if point == 0x3001 or point == 0xFF0C or point == 0xFF1B:
                        commas += 1
                    elif point == 0x3002 or point == 0xFF01 or point == 0xFF1F or point == 0x2026:
                        ends += 1
            elif byte >= 0xC0 and at + 1 < stop:
                width = 2
                second = text[at + 1]
                if byte == 0xD8 and (second == 0x8C or second == 0x9B):  # Arabic comma, semicolon
                    commas += 1
                elif byte == 0xD8 and second == 0x9F:
                    ends += 1
            letters += width
            at += width
    counts.words[block] = max(words, unspaced // 2)
    counts.letters[block] = letters
    counts.unspaced[block] = unspaced
    counts.commas[block] = commas
    counts.ends[block] = ends
    counts.capitals[block] = capitals
    counts.closed[block] = _ends_sentence(text, start, stop)


@kernel(Bytes, Blocks, types.int64, Counts, Sums, Uint64s)
def _count(text, blocks, count, counts, sums, titles):
    title_count = np.int64(0)
    for block in range(count):
        if blocks.flags[block] & IS_TITLE:
            title_count = title_words(text, blocks.starts[block], blocks.stops[block], titles)
            break
    known = title_bits(titles, title_count)
    sums.words[0] = sums.linked[0] = sums.letters[0] = sums.good[0] = sums.goods[0] = 0
    for block in range(count):
        start = np.int64(blocks.starts[block])
        stop = np.int64(blocks.stops[block])
        _count_words(text, start, stop, counts, block)
        counts.titled[block] = titled_words(text, start, stop, titles, title_count, known)
        letters = np.int64(counts.letters[block])
        counts.hashes[block] = hash_bytes(text, start, stop)
        words = counts.words[block]
        title = blocks.flags[block] & IS_TITLE != 0
        good = (
            not title
            and words >= GOOD_WORDS
            and 3 * np.int64(blocks.linked[block]) < letters
            and counts.commas[block] + counts.ends[block] > 0
        )
        counts.good[block] = good
        if title:
            words = np.int32(0)
            letters = np.int64(0)
        sums.words[block + 1] = sums.words[block] + words
        sums.letters[block + 1] = sums.letters[block] + letters
        sums.linked[block + 1] = sums.linked[block] + (0 if title else blocks.linked[block])
        sums.good[block + 1] = sums.good[block] + (words if good else 0)
        sums.goods[block + 1] = sums.goods[block] + good


@helper
def _chain(target, count, elements, up, down, branch, branched):
    """From every element the way to a target: up its chain, then down."""
    for element in range(count):
        up[element] = -1
    element = target
    steps = np.int32(0)
    while True:
        up[element] = steps
        down[element] = 0
        if branched:
            branch[element] = element
        if element == 0:
            break
        element = np.int64(elements.parents[element])
        steps += np.int32(1)
    for element in range(count):
        if up[element] < 0:
            parent = elements.parents[element]
            up[element] = up[parent]
            down[element] = down[parent] + 1
            if branched:
                branch[element] = element if down[parent] == 0 else branch[parent]


@kernel(Elements, types.int64, Blocks, types.int64, Bytes, Counts, Sums, Scores, Int64s)
def _score(elements, count, blocks, block_count, leaves, counts, sums, scores, page):
    score = scores.score
    for element in range(count):
        score[element] = 0
    page[:] = 0
    page[TITLE_BLOCK] = page[HEADING_BLOCK] = page[FIRST_GOOD] = page[LAST_GOOD] = -1
    best = np.int64(0)
    sums.headings[0] = 0
    for block in range(block_count):
        element = np.int64(blocks.elements[block])
        name = elements.names[element]
        heading = H1 <= name <= H6
        sums.headings[block + 1] = sums.headings[block] + heading
        if blocks.flags[block] & IS_TITLE:
            page[TITLE_BLOCK] = block
            continue
        words = np.int64(counts.words[block])
        # What names the page: the heading, or short block, that shares most words with its title.
        match = (
            4 * np.int64(counts.titled[block]) - words + 2 * heading * (counts.titled[block] > 0)
        )
        match += 2 * (name == H1) * (counts.titled[block] > 0)
        if match > best and 2 * counts.titled[block] >= words > 1:
            best = match
            page[HEADING_BLOCK] = block
        if counts.good[block]:
            if page[FIRST_GOOD] < 0:
                page[FIRST_GOOD] = block
            page[LAST_GOOD] = block
        if words < 5 or heading:
            continue
        value = np.float32(1 + counts.commas[block]) + np.float32(min(words, 60)) / np.float32(20)
        if leaves[name]:
            element = np.int64(elements.parents[element])
        for level in range(1, 4):
            score[element] += value / np.float32(level)
            if element == 0:
                break
            element = np.int64(elements.parents[element])
    top = np.int64(0)
    total = sums.good[block_count]
    for element in range(count):
        first = elements.first[element]
        stop = elements.stop[element]
        letters = sums.letters[stop] - sums.letters[first]
        linked = sums.linked[stop] - sums.linked[first]
        if letters > 0:
            score[element] *= np.float32(letters - linked) / np.float32(letters)
        if score[element] > score[top]:
            top = np.int64(element)
        good = sums.good[stop] - sums.good[first]
        if total > 0:
            if 10 * good >= 5 * total:
                page[CORE_50] = element
            if 10 * good >= 7 * total:
                page[CORE_70] = element
            if 10 * good >= 9 * total:
                page[CORE_90] = element
    page[TOP] = top
    _chain(top, count, elements, scores.up, scores.down, scores.branch, True)
    core = page[CORE_70]
    _chain(core, count, elements, scores.core_up, scores.core_down, scores.branch, False)


class CountRoom(NamedTuple):
    """Arrays for one page at a time."""

    counts: Counts
    sums: Sums
    scores: Scores
    page: np.ndarray
    titles: np.ndarray


def room(longest: int) -> CountRoom:
    """Return arrays for a page of at most `longest` bytes."""
    elements, blocks = longest // 3 + 2, longest // 4 + 4
    kinds = [np.int32] * 7 + [np.uint64] + [np.uint8] * 2
    return CountRoom(
        Counts(*[np.empty(blocks, kind) for kind in kinds]),
        Sums(*(np.empty(blocks, np.int64) for _ in Sums._fields)),
        Scores(np.empty(elements, np.float32), *(np.empty(elements, np.int32) for _ in range(5))),
        np.zeros(PAGE, np.int64),
        np.zeros(TITLE_WORDS, np.uint64),
    )


def count(
    text: np.ndarray, elements: Elements, blocks: Blocks, sizes: tuple[int, int], work: CountRoom
) -> None:
    """Count in every block of a page, and score its elements; sizes: of elements and blocks."""
    _count(text, blocks, sizes[1], work.counts, work.sums, work.titles)
    _score(
        elements,
        sizes[0],
        blocks,
        sizes[1],
        IS_LEAF,
        work.counts,
        work.sums,
        work.scores,
        work.page,
    )
