"""How code points are folded before texts are compared, by Unicode 16.0: tables that kernels read.

scripts/folding_tables.py makes folding.npz, which ships with gristmill. docs/compared-text.md has
the table for people.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.kernels.jit.groups import Int32s, Int64s
from gristmill.kernels.unicode.tables import PointBits, PointSteps

# Bits of FORMS.
SPACE = 1  # str.isspace
GAP = 2  # no part of a word: white space, general category P or S, quotes, dashes
SIGN = 4  # operators and signs; a dash is also SWAP
ALONE = 8  # a script without spaces: a word of its own
HARD = 16  # `fold_text` must see the text: not what it is folded to, or it may join what is before
SWAP = 32  # folded to the ASCII of ASCII_FORMS, wherever it stands
MARK = 64  # of a combining class: two in a row may be out of order
BREAK = 128  # where str.splitlines cuts

SHARED_BLOCK = 0x06  # of 256 code points: all Arabic marks are in it


class Folding(NamedTuple):
    """What `fold_text` reads."""

    forms: PointBits
    places: PointSteps  # of a code point in `expansions`; 0: it stays
    expansions: Int32s  # how many code points it becomes, and which
    ranks: PointBits  # canonical combining classes
    pair_keys: Int64s  # first << 21 | second of what composes, ascending
    pair_values: Int32s  # to what


with np.load(Path(__file__).with_name("folding.npz")) as _tables:
    FOLDING = Folding(
        PointBits(_tables["form_index"], _tables["form_pages"]),
        PointSteps(_tables["place_index"], _tables["place_pages"]),
        _tables["expansions"],
        PointBits(_tables["rank_index"], _tables["rank_pages"]),
        _tables["pair_keys"],
        _tables["pair_values"],
    )
    # 0 for U+2026, which is three full stops
    ASCII_FORMS = PointBits(_tables["ascii_index"], _tables["ascii_pages"])
    ARABIC_MARKS: np.ndarray = _tables["arabic_marks"]


@cache
def folding(*, arabic_marks: bool) -> Folding:
    """Return the tables; without Arabic marks these are removed, and tatweel with them."""
    if arabic_marks:
        return FOLDING
    low = ARABIC_MARKS & 0xFF
    soft_hyphen = FOLDING.places.pages[(int(FOLDING.places.blocks[0]) << 8) | 0xAD]
    forms = _with_page(FOLDING.forms.blocks, FOLDING.forms.pages, low, HARD)
    places = _with_page(FOLDING.places.blocks, FOLDING.places.pages, low, soft_hyphen)
    return FOLDING._replace(forms=PointBits(*forms), places=PointSteps(*places))


def _with_page(
    blocks: np.ndarray, pages: np.ndarray, low: np.ndarray, value: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a table with another value at code points of SHARED_BLOCK."""
    start = int(blocks[SHARED_BLOCK]) << 8
    page = pages[start : start + 256].copy()
    page[low] = value
    blocks = blocks.copy()
    blocks[SHARED_BLOCK] = len(pages) >> 8
    return blocks, np.concatenate([pages, page])
