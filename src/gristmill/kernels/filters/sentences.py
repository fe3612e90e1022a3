"""Sentences of texts, as C4's rules count them: a line has one, and one more after each end; and
where they are.
"""

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.text import words
from gristmill.kernels.text.lines import Lines
from gristmill.kernels.text.words import WordBounds
from gristmill.kernels.unicode.tables import (
    CATEGORY_P,
    SENTENCE,
    SIGNS,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)


@helper
def _ends_sentence(data, start, stop, whole, signs):
    """Return whether a word ends a sentence: it is such a sign, or (not `whole`) its last character
    is one, closing signs behind it aside.
    """
    at = stop
    while at > start:
        behind = at
        at -= 1
        while (data[at] & 0xC0) == 0x80:
            at -= 1
        sign = unicode_bits(code_point(data, at, behind - at), signs)
        if sign & SENTENCE:
            return at == start or not whole
        if whole or not sign & CATEGORY_P:
            return False
    return False


@helper
def _is_punctuation(data, start, stop, signs):
    """Return whether all characters are of category P."""
    at = start
    while at < stop:
        width = lead_width(data[at])
        if not unicode_bits(code_point(data, at, width), signs) & CATEGORY_P:
            return False
        at += width
    return True


@kernel(BYTES, WordBounds, types.boolean, PointBits, types.int64[::1])
def _count_sentences(data, bounds, whole, signs, sentences):
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    line_offsets, line_stops = bounds.line_offsets, bounds.line_stops
    for i in range(len(word_offsets) - 1):
        word = word_offsets[i]
        count = np.int64(0)
        for line in range(line_offsets[i], line_offsets[i + 1]):
            count += 1
            ended = False
            while word < word_offsets[i + 1] and starts[word] < line_stops[line]:
                start = np.int64(starts[word])
                stop = np.int64(stops[word])
                if ended and not _is_punctuation(data, start, stop, signs):
                    count += 1
                    ended = False
                ended = ended or _ends_sentence(data, start, stop, whole, signs)
                word += 1
        sentences[i] = count


def count_sentences(data: np.ndarray, bounds: WordBounds, *, whole_words: bool) -> np.ndarray:
    """Return the sentences of n texts, (n,) int64: each line has one at least, and one more for
    each word behind an end.

    A word ends a sentence if its last character, closing signs aside, is one of SENTENCE
    (kernels.unicode.tables). `whole_words` is for words by a tokenizer that gives such signs as
    words of their own (spaCy's sentencizer's rule). Words that are signs alone start none.
    """
    sentences = np.empty(len(bounds.word_offsets) - 1, np.int64)
    _count_sentences(data, bounds, whole_words, SIGNS, sentences)
    return sentences


@kernel(OFFSETS, BYTES, WordBounds, PointBits, Lines, returns=types.int64)
def _find_sentences(offsets, data, bounds, signs, out):
    """Write the sentences; how many there are."""
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    line_offsets, line_stops = bounds.line_offsets, bounds.line_stops
    count = np.int64(0)
    for i in range(len(word_offsets) - 1):
        out.offsets[i] = count
        first = count
        word = word_offsets[i]
        for line in range(line_offsets[i], line_offsets[i + 1]):
            begins = True
            ended = False
            while word < word_offsets[i + 1] and starts[word] < line_stops[line]:
                start = np.int64(starts[word])
                stop = np.int64(stops[word])
                if begins or (ended and not _is_punctuation(data, start, stop, signs)):
                    # White space before the first sentence is of it.
                    out.starts[count] = start if count > first else np.int64(offsets[i])
                    out.blank[count] = False
                    count += 1
                    begins = False
                    ended = False
                out.stops[count - 1] = stop
                ended = ended or _ends_sentence(data, start, stop, False, signs)
                word += 1
        if count == first and offsets[i + 1] > offsets[i]:
            out.starts[count] = offsets[i]
            out.stops[count] = offsets[i]
            out.blank[count] = True
            count += 1
    out.offsets[len(offsets) - 1] = count
    out.starts[count] = offsets[len(offsets) - 1]
    return count


def find_sentences(offsets: np.ndarray, data: np.ndarray) -> Lines:
    """Return the sentences of n texts in UTF-8, offsets (n + 1,) int32 into data (bytes,) uint8:
    each from its first word to its last, the white space behind it being its end. A text without
    words has one that is blank.
    """
    bounds = words.separate(offsets, data, words.find(offsets, data))
    size = len(bounds.starts) + len(offsets)
    found = Lines(
        np.empty(len(offsets), np.int64),
        np.empty(size + 1, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.bool_),
    )
    count = _find_sentences(offsets, data, bounds, SIGNS, found)
    return Lines(found.offsets, found.starts[: count + 1], found.stops[:count], found.blank[:count])
