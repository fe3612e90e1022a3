"""The form in which texts are compared: the one function of all that compares texts.

    bytes     the text as it is
    folded    Unicode and white space folded; case, punctuation, signs and indentation stay
    signs     the words of that in lower case, operators and signs being words
    words     the words alone

docs/compared-text.md has the table. `compared` in corpus/formats.py is its version.
"""

from typing import Literal

import numpy as np

from gristmill.kernels.folding.spaces import fold_spaces, fold_unicode
from gristmill.kernels.folding.words import find_words
from gristmill.kernels.unicode.normalised import locate

Form = Literal["bytes", "folded", "signs", "words"]


def compared(
    offsets: np.ndarray, data: np.ndarray, form: Form, *, arabic_marks: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return what n texts are compared as: offsets (n + 1,) int32 into data (bytes,) uint8.

    Without `arabic_marks` harakat, the signs of the Quran and tatweel do not count; bytes always
    do. Returns (offsets (n + 1,) int64, data (bytes,) uint8).
    """
    if form == "bytes":
        first = int(offsets[0])
        return offsets.astype(np.int64) - first, data[first : int(offsets[-1])]
    if form == "folded":
        return fold_spaces(offsets, data, arabic_marks=arabic_marks)
    return find_words(offsets, data, signs=form == "signs", arabic_marks=arabic_marks)


def locate_words(
    offsets: np.ndarray, data: np.ndarray, *, arabic_marks: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the words of n texts' form `words` stand in the texts: offsets (n + 1,) int32
    into data (bytes,) uint8.

    Returns (word offsets (n + 1,) int64, starts (words,) int32, stops (words,) int32), bytes of
    data.
    """
    folded, text, origins = fold_unicode(offsets, data, arabic_marks=arabic_marks)
    words, starts, stops = locate(folded, text)
    # A letter and its marks have one origin: a word ends where the next origin is.
    after = origins[np.searchsorted(origins, origins[stops - 1], "right")]
    ends = np.repeat(offsets[1:], np.diff(words))
    return words, origins[starts], np.minimum(after, ends)
