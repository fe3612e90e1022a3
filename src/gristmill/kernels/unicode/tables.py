"""Unicode 16.0 as tables that kernels read: the class of a code point, and its lower case.

The tables ship with gristmill (scripts/unicode_tables.py makes them), so that a result does not
depend on the Unicode version of the Python that runs. Two levels: a page number for each block of
256 code points, then the distinct pages.
"""

from pathlib import Path

import numpy as np

from gristmill.kernels.jit.compile import helper

# Bits of a class.
LETTER = 1  # general category L*
NUMBER = 2  # general category N*
SPACE = 4  # White_Space, what \s is in tokenizers' patterns
PYTHON_SPACE = 8  # str.isspace, where str.split cuts: White_Space and U+001C..U+001F
SYMBOL = 16  # general category P* or S*
UNSPACED = 32  # scripts without spaces: Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar, Tibetan
LINE_BREAK = 64  # where str.splitlines cuts

# Bits of a sign, by the other table.
PUNCTUATION = 1  # datatrove's PUNCTUATION: what its Gopher rules call a symbol
TERMINAL = 2  # datatrove 0.10's TERMINAL_PUNCTUATION: what ends a sentence, in all scripts
DECIMAL = 4  # general category Nd, what \d is in Python's patterns
UPPER = 8  # Uppercase
LOWER = 16  # Lowercase, or general category Lt: a word with one is not str.isupper
ALPHANUMERIC = 32  # str.isalnum
SENTENCE = 64  # where spaCy's sentencizer ends a sentence: most of TERMINAL
CATEGORY_P = 128  # general category P*

with np.load(Path(__file__).with_name("unicode.npz")) as _tables:
    CLASS_INDEX: np.ndarray = _tables["class_index"]  # (4352,) uint8
    CLASS_PAGES: np.ndarray = _tables["class_pages"]  # (pages * 256,) uint8
    LOWER_INDEX: np.ndarray = _tables["lower_index"]  # (4352,) uint8
    LOWER_PAGES: np.ndarray = _tables[
        "lower_pages"
    ]  # (pages * 256,) int32: lower case minus itself
    SIGN_INDEX: np.ndarray = _tables["sign_index"]  # (4352,) uint8
    SIGN_PAGES: np.ndarray = _tables["sign_pages"]  # (pages * 256,) uint8


@helper
def width_of(lead):
    """Bytes of the code point that starts with this byte, in well-formed UTF-8."""
    if lead < 0x80:
        return 1
    if lead < 0xE0:
        return 2
    if lead < 0xF0:
        return 3
    return 4


@helper
def code_point(data, at, width):
    """The code point of `width` bytes at `at`, in well-formed UTF-8 (RFC 3629)."""
    lead = np.int64(data[at])
    if width == 1:
        return lead
    if width == 2:
        return ((lead & 0x1F) << 6) | (np.int64(data[at + 1]) & 0x3F)
    if width == 3:
        return (
            ((lead & 0x0F) << 12)
            | ((np.int64(data[at + 1]) & 0x3F) << 6)
            | (np.int64(data[at + 2]) & 0x3F)
        )
    return (
        ((lead & 0x07) << 18)
        | ((np.int64(data[at + 1]) & 0x3F) << 12)
        | ((np.int64(data[at + 2]) & 0x3F) << 6)
        | (np.int64(data[at + 3]) & 0x3F)
    )


@helper
def class_of(point, class_index, class_pages):
    """The class bits of a code point."""
    return np.int64(class_pages[(np.int64(class_index[point >> 8]) << 8) | (point & 0xFF)])


@helper
def sign_of(point, sign_index, sign_pages):
    """The sign bits of a code point."""
    return np.int64(sign_pages[(np.int64(sign_index[point >> 8]) << 8) | (point & 0xFF)])
