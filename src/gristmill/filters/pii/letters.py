"""What a character is, by the version of Unicode that the tables have, whatever Python's is."""

from functools import lru_cache

from gristmill.kernels.unicode.tables import CLASSES, LETTER, NUMBER

REMEMBERED = 1 << 12  # characters


@lru_cache(REMEMBERED)
def class_bits(character: str) -> int:
    """Return the bits that the table CLASSES has of a character."""
    point = ord(character)
    return int(CLASSES.pages[(int(CLASSES.blocks[point >> 8]) << 8) | (point & 0xFF)])


def is_word(character: str) -> bool:
    r"""Return whether a character is one of Python's \w."""
    return character == "_" or class_bits(character) & (LETTER | NUMBER) != 0
