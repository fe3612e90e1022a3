"""The tables of unicode.npz against unicodedata and regex, for what the running Python knows.

scripts/unicode_tables.py makes them of newer versions of Unicode, which add code points and change
next to nothing else.
"""

import unicodedata

import numpy as np
import regex

from gristmill.kernels.unicode import tables
from tests.support import naive, strategies

KNOWN = strategies.known_characters()
POINTS = np.array([ord(character) for character in KNOWN])


def known(flags: list[bool]) -> np.ndarray:
    """A flag of each code point as the tables have it: (0x110000,) bool, False where unknown."""
    table = np.zeros(0x110000, bool)
    table[POINTS] = flags
    return table


def differing(found: np.ndarray, wanted: np.ndarray) -> list[str]:
    """The known code points of which a table says something else, in hexadecimal."""
    return [f"{point:X}" for point in POINTS[found[POINTS].astype(bool) != wanted[POINTS]]]


def test_classes() -> None:
    classes = tables.CLASSES.every()
    categories = [unicodedata.category(character) for character in KNOWN]
    for bit, first in ((tables.LETTER, "L"), (tables.NUMBER, "N"), (tables.SYMBOL, "PS")):
        wanted = known([category[0] in first for category in categories])
        assert differing(classes & bit, wanted) == []
    spaces = known([character.isspace() for character in KNOWN])
    assert differing(classes & tables.PYTHON_SPACE, spaces) == []
    breaks = known([len(f"a{character}b".splitlines()) > 1 for character in KNOWN])
    assert differing(classes & tables.LINE_BREAK, breaks) == []


def test_signs() -> None:
    signs = tables.SIGNS.every()
    decimal = known([unicodedata.category(character) == "Nd" for character in KNOWN])
    assert differing(signs & tables.DECIMAL, decimal) == []
    of_p = known([unicodedata.category(character)[0] == "P" for character in KNOWN])
    assert differing(signs & tables.CATEGORY_P, of_p) == []
    assert differing(signs & tables.ALPHANUMERIC, known([text.isalnum() for text in KNOWN])) == []
    assert differing(signs & tables.UPPER, known([text.isupper() for text in KNOWN])) == []


def test_lower_case() -> None:
    steps = tables.LOWER_CASE.pages.reshape(-1, 256)[tables.LOWER_CASE.blocks].reshape(-1)
    wanted = np.array([ord(character.lower()[0]) for character in KNOWN])
    assert POINTS[POINTS + steps[POINTS] != wanted].tolist() == []


def test_scripts() -> None:
    """Each letter of one script, by regex; no letter of any other."""
    found = tables.SCRIPTS.every()
    letters = tables.CLASSES.every() & tables.LETTER != 0
    assert not found[~letters].any()
    assert list(tables.SCRIPT_CODES) == sorted(tables.SCRIPT_CODES)
    text = "".join(map(chr, np.flatnonzero(letters)))
    wanted = np.zeros(0x110000, np.uint8)
    for number, code in enumerate(tables.SCRIPT_CODES, 1):
        wanted[list(map(ord, regex.findall(rf"\p{{Script={code}}}", text)))] = number
    assert [f"{point:X}" for point in np.flatnonzero(found != wanted)] == []


def test_settled() -> None:
    """Composition leaves a code point alone just where the table says so."""
    bits = np.unpackbits(tables.SETTLED.view(np.uint8), bitorder="little")
    composing = naive.composing_seconds()
    wanted = [
        unicodedata.combining(character) == 0
        and unicodedata.normalize("NFC", character) == character
        and character not in composing
        for character in KNOWN
    ]
    assert differing(bits, known(wanted)) == []
