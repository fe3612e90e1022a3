"""Gopher's line rules, and the lab's counts: bullets, ellipses and the commonest 2- and 3-grams of
every text, all exact.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, kernel
from gristmill.kernels.jit.groups import Int64s
from gristmill.kernels.text import ngrams
from gristmill.kernels.text.words import WordBounds

HYPHEN, ASTERISK, DOT = 0x2D, 0x2A, 0x2E


class GopherLineCounts(NamedTuple):
    """What the lab's rules are made of; each is (n,) int64."""

    bullets: Int64s  # lines that start with `•`, `-` or `*`
    ellipses: Int64s  # lines that end in `...` or `…`
    top_2_gram: Int64s  # count of the commonest 2-gram; -1: more words than `most_words`
    top_3_gram: Int64s


@kernel(BYTES, WordBounds, types.boolean, types.int64[::1], types.int64[::1])
def _count_lines(data, bounds, asterisk, bullets, ellipses):
    """A line's first and last characters that are no white space are those of its first and last
    word.
    """
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    line_offsets, line_stops = bounds.line_offsets, bounds.line_stops
    for i in range(len(word_offsets) - 1):
        word = word_offsets[i]
        end = word_offsets[i + 1]
        bulleted = np.int64(0)
        trailing = np.int64(0)
        for line in range(line_offsets[i], line_offsets[i + 1]):
            line_stop = line_stops[line]
            first = word
            while word < end and starts[word] < line_stop:
                word += 1
            if word == first:
                continue
            at = np.int64(starts[first])
            size = np.int64(stops[first]) - at
            lead = data[at]
            if lead == HYPHEN or (asterisk and lead == ASTERISK):
                bulleted += 1
            elif lead == 0xE2 and size >= 3 and data[at + 1] == 0x80 and data[at + 2] == 0xA2:
                bulleted += 1
            at = np.int64(stops[word - 1]) - 3
            if at < starts[first]:
                continue
            if data[at] == 0xE2 and data[at + 1] == 0x80 and data[at + 2] == 0xA6:
                trailing += 1
            elif data[at] == DOT and data[at + 1] == DOT and data[at + 2] == DOT:
                trailing += 1
        bullets[i] = bulleted
        ellipses[i] = trailing


def count_lines(
    data: np.ndarray, bounds: WordBounds, *, asterisk: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return lines that start with a bullet (`•`, `-`, and `*` if `asterisk`), and that end in
    `...` or `…`; (n,) int64 each.
    """
    texts = len(bounds.word_offsets) - 1
    bullets, ellipses = np.empty(texts, np.int64), np.empty(texts, np.int64)
    _count_lines(data, bounds, asterisk, bullets, ellipses)
    return bullets, ellipses


def count(data: np.ndarray, bounds: WordBounds, *, most_words: int) -> GopherLineCounts:
    """Count what the lab's rules need for n texts, given their words and lines
    (kernels.text.words).

    data (bytes,) uint8 is the texts' buffer. N-grams are counted for texts of at most `most_words`
    words.
    """
    two, three = ngrams.top(data, bounds, (2, 3), most_words=most_words)
    return GopherLineCounts(*count_lines(data, bounds, asterisk=True), two.counts, three.counts)
