"""Names of tags, of attributes and of classes as small numbers, for kernels that read pages.

A name's key is its first and last 8 bytes in lower case and its length, folded to 64 bits; tables
are open-addressed by it.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Uint64s
from gristmill.kernels.jit.loads import load_u64, load_up_to_8

LOWER = np.uint64(0x2020202020202020)
SLOT = np.uint64(53)  # the upper 11 bits of a key's product name one of 2048 slots
SLOTS = 2048

# Elements, by their number from 1. What is not here has the number 0.
ELEMENTS = (
    "a abbr address annotation applet area article aside audio b base blockquote body br "
    "button canvas caption center cite code col colgroup command dd del details dfn "
    "dialog dir div dl dt em embed fieldset figcaption figure font footer form frame "
    "frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe image img input ins "
    "kbd label legend li link main map mark math menu meta nav nobr noembed noframes "
    "noscript object ol optgroup option output p param picture plaintext pre progress q "
    "rp rt ruby s samp script search section select slot small source span strike strong "
    "style sub summary sup svg table tbody td template textarea tfoot th thead time title "
    "tr track tt u ul var video wbr xmp "
    # MathML's
    "mi mn mo mtext mrow mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd"
).split()
ELEMENT = {name: number for number, name in enumerate(ELEMENTS, 1)}
CUSTOM = 255  # an element whose name has a hyphen: of the page's own making

# Attributes whose values are read, by their number from 1.
ATTRIBUTES = (
    "class id role itemprop href hidden style aria-hidden name property content lang "
    "datetime rel type encoding http-equiv display alttext"
).split()
ATTRIBUTE = {name: number for number, name in enumerate(ATTRIBUTES, 1)}


class NameTable(NamedTuple):
    """The numbers of names, by their keys."""

    keys: Uint64s  # (2048,), 0: no name
    numbers: Bytes  # (2048,)


def key_of(name: str) -> int:
    """Return the key of a name, in Python."""
    data = name.lower().encode()
    first = int.from_bytes(data[:8].ljust(8), "little")
    last = int.from_bytes(data[-8:], "little") if len(data) > 8 else 0
    return (first ^ (last * int(GOLDEN)) ^ len(data)) % (1 << 64)


def name_table(numbers: dict[str, int]) -> NameTable:
    """Return the table of these names, at most 1,000."""
    table = NameTable(np.zeros(SLOTS, np.uint64), np.zeros(SLOTS, np.uint8))
    for name, number in numbers.items():
        key = key_of(name)
        slot = (key * int(GOLDEN) % (1 << 64)) >> int(SLOT)
        while table.keys[slot]:
            assert int(table.keys[slot]) != key, f"{name!r} has the key of another name"
            slot = (slot + 1) % SLOTS
        table.keys[slot], table.numbers[slot] = key, number
    return table


ELEMENT_TABLE = name_table(ELEMENT)
ATTRIBUTE_TABLE = name_table(ATTRIBUTE)


@helper
def name_key(data, at, length):
    """Return the key of the name data[at:at + length], as `key_of` gives it. length >= 1."""
    key = load_up_to_8(data, at, length) | LOWER  # missing bytes are spaces
    if length > 8:
        key ^= (load_u64(data, at + length - 8) | LOWER) * GOLDEN
    return key ^ np.uint64(length)


@helper
def name_number(key, table):
    """Return the number of a name, 0 where the table does not have it."""
    slot = np.int64((key * GOLDEN) >> SLOT)
    while table.keys[slot] != 0:
        if table.keys[slot] == key:
            return np.int64(table.numbers[slot])
        slot = (slot + 1) & (SLOTS - 1)
    return np.int64(0)
