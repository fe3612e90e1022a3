"""What is counted in each block of a page's text, and what the counts sum up to in each element."""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, PRIME, hash_bytes
from gristmill.kernels.html.blocks import IS_TITLE, Blocks
from gristmill.kernels.html.elements import Elements
from gristmill.kernels.html.names import ELEMENT, NameTable
from gristmill.kernels.html.words import WORD_TABLE, word_bits
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bytes, Float32s, Int32s, Int64s, Uint64s

TITLE_WORDS = 64  # of a page's title that are compared
COMPARED = 64  # words of a block that are compared with the title
KEYWORDS = 6  # words of a block whose bits count
GOOD_WORDS = 10

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
    digits: Int32s
    capitals: Int32s  # ASCII capitals
    shape: Int32s  # bits: starts with a capital or a letter of no case, ends a sentence, has |, ©
    titled: Int32s  # words that are in the title as well
    bits: Uint64s  # of its first words (html/words.py)
    hashes: Uint64s  # of its text
    good: Bytes  # whether it reads like prose


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
def _count_words(text, start, stop, counts, block, titles, title_count):
    """Walk over a block's characters."""
    words = unspaced = commas = ends = digits = capitals = titled = np.int64(0)
    pipes = copyright_ = last_end = False
    at = start
    inside = False
    value = BASIS
    compared = np.int64(0)
    while at < stop:
        byte = text[at]
        if byte <= 0x20:
            if inside:
                inside = False
                if compared < COMPARED:
                    compared += 1
                    for place in range(title_count):
                        if titles[place] == value:
                            titled += 1
                            break
            at += 1
            continue
        if not inside:
            inside = True
            words += 1
            value = BASIS
        width = 1
        last_end = False
        if byte < 0x80:
            if np.uint8(byte - 0x41) < 26:
                capitals += 1
                byte |= 0x20
            elif np.uint8(byte - 0x30) < 10:
                digits += 1
            elif byte == 0x2C or byte == 0x3B:
                commas += 1
            elif byte == 0x2E or byte == 0x21 or byte == 0x3F:
                ends += 1
                last_end = True
            elif byte == 0x3A or byte == 0x22 or byte == 0x29:
                last_end = True
            elif byte == 0x7C:
                pipes = True
            if np.uint8(byte - 0x61) < 26 or np.uint8(byte - 0x30) < 10:
                value = (value ^ np.uint64(byte)) * PRIME
        else:
            value = (value ^ np.uint64(byte)) * PRIME
            if byte >= 0xE0 and at + 2 < stop:
                width = 3 if byte < 0xF0 else 4
                point = (
                    ((np.int64(byte) & 0x0F) << 12)
                    | ((np.int64(text[at + 1]) & 0x3F) << 6)
                    | (np.int64(text[at + 2]) & 0x3F)
                )
                value = (value ^ np.uint64(point)) * PRIME
                if width == 3:
                    if (
                        0x3040 <= point < 0xA000
                        or 0xAC00 > point >= 0x3400
                        or 0xE00 <= point < 0x1000
                    ):
                        unspaced += 1
                    if point == 0x3001 or point == 0xFF0C or point == 0xFF1B:
                        commas += 1
                    elif point == 0x3002 or point == 0xFF01 or point == 0xFF1F or point == 0x2026:
                        ends += 1
                        last_end = True
                    elif point == 0x201D or point == 0x300D or point == 0xFF1A:
                        last_end = True
            elif byte >= 0xC0 and at + 1 < stop:
                width = 2
                second = text[at + 1]
                value = (value ^ np.uint64(second)) * PRIME
                if byte == 0xC2 and second == 0xA9:
                    copyright_ = True
                elif byte == 0xD8 and (second == 0x8C or second == 0x9B):  # Arabic comma, semicolon
                    commas += 1
                elif byte == 0xD8 and second == 0x9F:
                    ends += 1
                    last_end = True
        at += width
    if inside and compared < COMPARED:
        for place in range(title_count):
            if titles[place] == value:
                titled += 1
                break
    counts.words[block] = max(words, unspaced // 2)
    counts.unspaced[block] = unspaced
    counts.commas[block] = commas
    counts.ends[block] = ends
    counts.digits[block] = digits
    counts.capitals[block] = capitals
    counts.titled[block] = titled
    first = text[start]
    starts = np.uint8(first - 0x41) < 26 or first >= 0x80
    counts.shape[block] = starts | (last_end << 1) | (pipes << 2) | (copyright_ << 3)


@helper
def _title_words(text, start, stop, titles):
    """The hashes of a title's words: how many."""
    count = np.int64(0)
    value = BASIS
    inside = False
    for at in range(start, stop + 1):
        byte = text[at] if at < stop else np.uint8(0x20)
        if byte <= 0x20:
            if inside and count < TITLE_WORDS:
                titles[count] = value
                count += 1
            inside = False
            value = BASIS
            continue
        inside = True
        if np.uint8(byte - 0x41) < 26:
            byte |= 0x20
        if byte >= 0x80 or np.uint8(byte - 0x61) < 26 or np.uint8(byte - 0x30) < 10:
            value = (value ^ np.uint64(byte)) * PRIME
    return count


@kernel(Bytes, Blocks, types.int64, NameTable, Counts, Sums, Uint64s)
def _count(text, blocks, count, table, counts, sums, titles):
    title_count = np.int64(0)
    for block in range(count):
        if blocks.flags[block] & IS_TITLE:
            title_count = _title_words(text, blocks.starts[block], blocks.stops[block], titles)
            break
    sums.words[0] = sums.linked[0] = sums.letters[0] = sums.good[0] = sums.goods[0] = 0
    for block in range(count):
        start = np.int64(blocks.starts[block])
        stop = np.int64(blocks.stops[block])
        _count_words(text, start, stop, counts, block, titles, title_count)
        letters = np.int64(0)
        for at in range(start, stop):
            letters += text[at] > 0x20
        counts.letters[block] = letters
        counts.bits[block] = word_bits(text, start, stop, KEYWORDS, table)
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
    """Arrays for a page of at most `longest` bytes."""
    elements, blocks = longest // 3 + 2, longest // 4 + 4
    kinds = [np.int32] * 9 + [np.uint64] * 2 + [np.uint8]
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
    _count(text, blocks, sizes[1], WORD_TABLE, work.counts, work.sums, work.titles)
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
