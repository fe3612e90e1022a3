"""Unicode 16.0 as tables that kernels read: classes and scripts of code points, lower case.

The tables ship with gristmill (scripts/unicode_tables.py makes them), so that a result does not
depend on the Unicode version of the Python that runs. Two levels: a page number for each block of
256 code points, then the distinct pages.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int32s

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


class PointBits(NamedTuple):
    """A byte of every code point: CLASSES, SIGNS or SCRIPTS."""

    blocks: Bytes  # (4352,) the page of each block of 256 code points
    pages: Bytes  # (pages * 256,)

    def every(self) -> np.ndarray:
        """Return the bytes of all code points, (0x110000,) uint8."""
        bits: np.ndarray = self.pages.reshape(-1, 256)[self.blocks].reshape(-1)
        return bits


class PointSteps(NamedTuple):
    """Of every code point its lower case less itself."""

    blocks: Bytes  # (4352,)
    pages: Int32s  # (pages * 256,)


with np.load(Path(__file__).with_name("unicode.npz")) as _tables:
    CLASSES = PointBits(_tables["class_index"], _tables["class_pages"])
    SIGNS = PointBits(_tables["sign_index"], _tables["sign_pages"])
    LOWER_CASE = PointSteps(_tables["lower_index"], _tables["lower_pages"])
    # (17408,) uint64, bit j of word i is code point 64 * i + j: composition never changes it
    SETTLED: np.ndarray = _tables["settled"]
    # The script of every letter: its place in SCRIPT_CODES, from 1; 0: no letter, or of no one
    # script. Codes are ISO 15924's.
    SCRIPTS = PointBits(_tables["script_index"], _tables["script_pages"])
    SCRIPT_CODES: tuple[str, ...] = tuple(_tables["script_codes"].tolist())


@helper
def lead_width(lead):
    """Return bytes of the code point that starts with this byte, in well-formed UTF-8."""
    if lead < 0x80:
        return 1
    if lead < 0xE0:
        return 2
    if lead < 0xF0:
        return 3
    return 4


@helper
def code_point(data, at, width):
    """Return the code point of `width` bytes at `at`, in well-formed UTF-8 (RFC 3629)."""
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
def unicode_bits(point, table):
    """Return the bits that CLASSES or SIGNS has of a code point."""
    return np.int64(table.pages[(np.int64(table.blocks[point >> 8]) << 8) | (point & 0xFF)])


@helper
def lower_of(point, table):
    """Return the lower case of a code point, by LOWER_CASE."""
    return point + np.int64(table.pages[(np.int64(table.blocks[point >> 8]) << 8) | (point & 0xFF)])
