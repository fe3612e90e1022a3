"""Character references of HTML: `&amp;`, `&#233;`, `&#xE9;` and their like (WHATWG HTML, 13.2.5.72
to 13.2.5.80), in bytes of UTF-8.
"""

import re
from collections.abc import Mapping
from html.entities import html5

NAMES = {name.encode(): text.encode() for name, text in html5.items()}
LONGEST_BARE = 6  # bytes of a name that needs no semicolon
NBSP = "\u00a0".encode()
NOTHING: Mapping[bytes, bytes] = {}
REPLACEMENT = "\ufffd"
# What the numbers 128 to 159 mean: bytes of windows-1252, not controls.
WINDOWS = dict(enumerate(bytes(range(0x80, 0xA0)).decode("cp1252", "replace"), 0x80))
REFERENCE = re.compile(rb"&(?:#(?:[xX]([0-9A-Fa-f]+)|([0-9]+));?|([0-9A-Za-z]+;?))")


def decode(text: bytes, instead: Mapping[bytes, bytes] = NOTHING) -> bytes:
    """Return text with what its references stand for, or with what is written `instead` of that; an
    & that begins none stays.
    """
    if b"&" not in text:
        return text
    return REFERENCE.sub(lambda match: instead.get(meaning := _meaning(match), meaning), text)


def decode_attribute(value: bytes) -> bytes:
    """Return an attribute's value with what its references stand for."""
    return REFERENCE.sub(_meaning_in_attribute, value) if b"&" in value else value


def _meaning(match: re.Match[bytes]) -> bytes:
    hexadecimal, decimal, name = match.groups()
    if name is not None:
        size = _size(name)
        return NAMES[name[:size]] + name[size:] if size else match[0]
    digits = (hexadecimal or decimal).lstrip(b"0")[:8]  # of more the number is too large anyhow
    return _character(int(digits or b"0", 16 if hexadecimal else 10)).encode()


def _meaning_in_attribute(match: re.Match[bytes]) -> bytes:
    """Return the meaning, but of a name without its semicolon before = or a letter: there it is
    part of an address.
    """
    name = match[3]
    if name is None or (name in NAMES and name.endswith(b";")):
        return _meaning(match)
    is_cut = _size(name) < len(name) or match.string.startswith(b"=", match.end())
    return match[0] if is_cut else _meaning(match)


def _size(name: bytes) -> int:
    """Return how many bytes of what follows an & are a name; 0: none."""
    if name in NAMES:
        return len(name)
    bare = name.removesuffix(b";")
    sizes = range(min(len(bare), LONGEST_BARE), 1, -1)
    return next((size for size in sizes if bare[:size] in NAMES), 0)


def _character(point: int) -> str:
    """Return the character of a number."""
    if point in WINDOWS:
        return chr(point) if WINDOWS[point] == REPLACEMENT else WINDOWS[point]
    if point == 0 or point > 0x10FFFF or 0xD800 <= point < 0xE000:
        return REPLACEMENT
    return chr(point)
