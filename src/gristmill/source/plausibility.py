"""How well bytes read as text in a charset: the logarithm of their likelihood in a language that is
written in it, of the best one, in nats.

Bytes beyond ASCII are compared, each with the byte before it: how often the language has the
letter (source/letters.py), whether letters beyond ASCII stand within words of ASCII letters or
beside each other, and that no capital follows a small letter. All charsets explain the same bytes,
so that their values can be compared: of a charset of two bytes a character, a character's value
counts for both.
"""

import math
import re
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np

from gristmill.source.letters import CHINESE, JAPANESE, KOREAN, LETTERS, NOT_LATIN, TAIWANESE

SINGLE = (
    *(f"cp125{digit}" for digit in range(9)),
    "cp874",
    "koi8-r",
    "koi8-u",
    "cp866",
    "mac-cyrillic",
    *(f"iso8859-{part}" for part in (2, 4, 5, 6, 7, 8, 13, 15)),
)
# codec -> (the code that shows how common a character is, first bytes of the common ones)
_ROWS = {
    "gb18030": ("gb2312", 0xB0, 0xD7),
    "big5hkscs": ("big5", 0xA4, 0xC6),
    "cp932": ("euc_jp", 0xB0, 0xCF),
    "euc_jp": ("euc_jp", 0xB0, 0xCF),
    "cp949": ("euc_kr", 0xB0, 0xC8),
}
_FREQUENT = {
    "gb18030": CHINESE,
    "big5hkscs": TAIWANESE,
    "cp932": JAPANESE,
    "euc_jp": JAPANESE,
    "cp949": KOREAN,
}
_WEB = {"euc_jp": "euc_jis_2004"}  # with rows that pages have
MULTI = tuple(_ROWS)
MOST = 3000  # bytes beyond ASCII that are compared
LONGEST = 1 << 19  # bytes that are looked at

_COMMON_SIGNS = frozenset("«»„“”‘’–—…•·©®°§\xa0№€£¿¡™")
_WIDE_SIGNS = frozenset("、。，．・：；？！（）「」『』【】《》〈〉“”‘’…—～　·※％")
_PLAIN, _LOWER, _UPPER, _OTHER = range(4)  # what stands before a byte: no letter, or which letter
# Of a letter beyond ASCII, by what stands before it: in a language of Latin letters, in others.
_AFTER_LATIN = np.log([0.15, 0.7, 0.1, 0.05])
_AFTER_OTHER = np.log([0.2, 0.005, 0.005, 0.79])
_FOREIGN = math.log(3e-4)  # a letter that the language has not
_STRANGE = math.log(3e-5)  # a letter of another script
_SIGN = math.log(3e-4)
_COMMON = math.log(2e-2)
_WIDE_SIGN = math.log(2e-3)
_NOTHING = -14.0  # a byte that is no character, or a control
_WITHIN = -3.0  # a sign within a word
_CASE = -5.0  # a capital after a small letter
_CAPITAL = math.log(0.1)


class Bytes(NamedTuple):
    """What is compared of a sample: pairs of a byte and a byte beyond ASCII after it."""

    before: np.ndarray  # (n,) uint8
    byte: np.ndarray  # (n,) uint8
    counts: np.ndarray  # (n,) int64
    total: int  # bytes beyond ASCII


def take_sample(data: bytes) -> bytes:
    """Return the first part of a page that has MOST bytes beyond ASCII, without what comes before
    them.
    """
    at = np.flatnonzero(np.frombuffer(data, np.uint8)[:LONGEST] >= 0x80)
    if not len(at):
        at = np.flatnonzero(np.frombuffer(data, np.uint8) >= 0x80)
    return data[max(int(at[0]) - 1, 0) : int(at[:MOST][-1]) + 2] if len(at) else b""


def count_pairs(sample: bytes) -> Bytes:
    """Count the pairs of a sample."""
    data = np.frombuffer(b" " + sample, np.uint8)
    at = np.flatnonzero(data[1:] >= 0x80)
    codes = (data[at].astype(np.int64) << 8) | data[at + 1]
    unique, count = np.unique(codes, return_counts=True)
    return Bytes((unique >> 8).astype(np.uint8), (unique & 255).astype(np.uint8), count, len(at))


class _LetterTable(NamedTuple):
    """A charset of single bytes in h languages."""

    value: np.ndarray  # (h, 256) of a byte
    kind: np.ndarray  # (h, 256) _PLAIN, _LOWER, _UPPER, _OTHER of a byte, as the one before another
    small: np.ndarray  # (h, 256) whether it is a small letter beyond ASCII
    capital: np.ndarray  # (h, 256)
    sign: np.ndarray  # (h, 256) a sign that stands in no word
    after: np.ndarray  # (h, 4) of a letter, by what stands before it
    letter: np.ndarray  # (h, 256) a letter of the language's script beyond ASCII


@cache
def languages(codec: str) -> tuple[str, ...]:
    """Return the languages that a charset can write."""
    known = []
    for language in LETTERS:
        weights = _weights(language)
        able = sum(weight for letter, weight in weights.items() if _encodes(codec, letter))
        if able >= 0.95 * sum(weights.values()):
            known.append(language)
    return tuple(known)


def _encodes(codec: str, letter: str) -> bool:
    try:
        letter.encode(codec)
    except UnicodeError:
        return False
    return True


@cache
def _weights(language: str) -> dict[str, float]:
    """Return the letters of a language, with their shares, in the forms of old charsets."""
    shares: dict[str, float] = {}
    for item in LETTERS[language].split():
        share = int(item[1:]) / 1000
        letter = {"ș": "ş", "ț": "ţ"}.get(item[0], item[0])
        shares[letter] = shares.get(letter, 0.0) + share
    return shares


@cache
def _table(codec: str) -> _LetterTable:
    rows = [_row(codec, language) for language in languages(codec)]
    return _LetterTable(*(np.array(column) for column in zip(*rows, strict=True)))


def _row(codec: str, language: str) -> tuple[np.ndarray, ...]:
    """Return what a table has of a language."""
    weights = _weights(language)
    script = NOT_LATIN.get(language, "latin").upper()
    value = np.full(256, _SIGN)
    kind = np.zeros(256, np.int64)
    small, capital, letter, sign = (np.zeros(256, np.bool_) for _ in range(4))
    for byte in range(128):
        kind[byte] = _LOWER if chr(byte).islower() else _UPPER if chr(byte).isupper() else _PLAIN
    for byte in range(128, 256):
        character = bytes([byte]).decode(codec, "replace")
        category = unicodedata.category(character)
        if category[0] == "C" or character == "\ufffd":
            value[byte] = _SIGN if category == "Cf" else _NOTHING
        elif category[0] in "LM":
            share = weights.get(character.lower()[0], 0.0)
            own = share > 0 or script in unicodedata.name(character, "")
            value[byte] = math.log(share) if share else (_FOREIGN if own else _STRANGE)
            small[byte], capital[byte] = character.islower(), character.isupper()
            letter[byte], kind[byte] = own, _OTHER
            sign[byte] = category == "Lo" and script == "LATIN"  # an ordinal
        else:
            common = character in _COMMON_SIGNS
            value[byte] = _COMMON if common else _SIGN
            sign[byte] = not common
    after = _AFTER_LATIN if script == "LATIN" else _AFTER_OTHER
    return value, kind, small, capital, sign, after, letter


def letters(pairs: Bytes, codec: str) -> np.ndarray:
    """Return the different bytes beyond ASCII that are no common signs in a charset: they tell of
    it.

    In a charset of two bytes a character all tell.
    """
    kinds = np.unique(pairs.byte)
    if codec in MULTI:
        return kinds
    signs = [bytes([byte]).decode(codec, "replace") in _COMMON_SIGNS for byte in kinds.tolist()]
    return kinds[~np.array(signs, np.bool_)]


def most(pairs: Bytes, codec: str) -> float:
    """Return the most that a charset can give to bytes: it costs little."""
    if codec in MULTI:
        return pairs.total * max(_known(codec)[_FREQUENT[codec][0]], _WIDE_SIGN) / 2
    counts = np.bincount(pairs.byte, pairs.counts, 256)
    return float((_table(codec).value @ counts).max()) if languages(codec) else -math.inf


def single(pairs: Bytes, codec: str) -> float:
    """Return the value of bytes in a charset of single bytes, in the best language."""
    if not languages(codec):
        return -math.inf
    table = _table(codec)
    before = table.kind[:, pairs.before]
    values = table.value[:, pairs.byte]
    values += table.letter[:, pairs.byte] * np.take_along_axis(table.after, before, 1)
    capital, low = table.capital[:, pairs.byte], table.small[:, pairs.before]
    high = (before == _UPPER) | table.capital[:, pairs.before]
    values += capital * np.where((before == _LOWER) | low, _CASE, np.where(high, 0.0, _CAPITAL))
    values += (table.sign[:, pairs.byte] & (before != _PLAIN)) * _WITHIN
    return float((values @ pairs.counts).max())


@cache
def _known(codec: str) -> dict[str, float]:
    """Return the values of the characters that are asked about often; filled as they are seen."""
    frequent = _FREQUENT[codec]
    # Frequencies fall with the rank; the most frequent third of a text is that of few characters.
    ranks = np.arange(1, len(frequent) + 1, dtype=float)
    shares = 0.45 * (1 / (ranks + 10)) / (1 / (ranks + 10)).sum()
    return dict(zip(frequent, np.log(shares).tolist(), strict=False))


_HANGUL, _KANA = re.compile("[가-힣]"), re.compile("[ぁ-ヿ]")


def _character(codec: str, character: str) -> float:
    """Return the value of a character that is not among the frequent ones."""
    if character == "\ufffd":
        return _NOTHING * 1.5
    if character in _WIDE_SIGNS:
        return _WIDE_SIGN
    japanese, korean = _FREQUENT[codec] == JAPANESE, codec == "cp949"
    if _KANA.match(character):
        return math.log(2e-3 if japanese else 1e-6)
    code, first, last = _ROWS[codec]
    try:
        lead = character.encode(code)[0]
    except UnicodeError:
        return math.log(1e-8)
    if korean and not _HANGUL.match(character):
        return math.log(1e-6)
    if first <= lead <= last:
        return math.log(1.5e-4)
    return math.log(2e-6)


def double(sample: bytes, codec: str) -> float:
    """Return the value of bytes in a charset of two bytes a character."""
    text = sample.decode(_WEB.get(codec, codec), "replace")
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    codes, counts = np.unique(codes[codes >= 0x80], return_counts=True)
    known, characters = _known(codec), [chr(code) for code in codes.tolist()]
    for character in characters:
        if character not in known:
            known[character] = _character(codec, character)
    return float(counts @ np.array([known[character] for character in characters]))
