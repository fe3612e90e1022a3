"""Make src/gristmill/kernels/folding/folding.npz: how texts are folded before they are compared.

Run once for a version of Unicode. The file is committed, so that the result of a run does not
depend on the Unicode version of the Python that runs it.

    pip install numpy "unicodedata2==16.0.0" && python scripts/folding_tables.py

docs/compared-text.md says in a table what is folded. Its ranges of code points that are not drawn
are Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt of 16.0), those of category Cf
and Cc aside, which unicodedata2 knows.
"""

from pathlib import Path

import numpy as np
import unicodedata2
from unicode_tables import LINE_BREAKS, points_of, two_level

# Bits of a form, as kernels/folding/fold_tables.py names them.
SPACE, GAP, SIGN, ALONE, HARD, SWAP, MARK, BREAK = (1 << bit for bit in range(8))

NOT_DRAWN = "34f 115f-1160 17b4-17b5 180b-180f 2065 3164 fe00-fe0f ffa0 fff0-fff8 1d173-1d17a "
NOT_DRAWN += "e0000-e0fff"
SINGLE_QUOTES = "b4 2bb-2bc 2018-201b 2039-203a"
DOUBLE_QUOTES = "ab bb 201c-201f 2e42 301d-301f"
DASHES = "2010-2015 2212 2e3a-2e3b fe31-fe32 fe58 fe63 ff0d"
ELLIPSIS = 0x2026
# Compatibility decompositions that change how a letter or sign is drawn, not which one it is.
DRAWN = "wide narrow small vertical initial medial final isolated noBreak".split()
# Of <compat>: digraphs and ligatures of Latin and Armenian, radicals of Han.
LIGATURES = "132-133 149 1c4-1cc 1f1-1f3 2e9f 2ef3 2f00-2fd5 fb00-fb06 fb13-fb17"
MOST = 4  # code points that one becomes; phrases of Arabic that are one (U+FDFA) stay
# Harakat, signs of the Quran and tatweel; maddah and the hamzas (U+0653 to U+0655) make letters.
ARABIC_MARKS = "610-61a 640 64b-652 656-65f 670 6d6-6dc 6df-6e8 6ea-6ed"
ASCII_SIGNS = "#$%&*+-/<=>@\\^|~"
NO_SIGNS = (0xFFFD,)

swaps = {
    **dict.fromkeys(points_of(SINGLE_QUOTES), ord("'")),
    **dict.fromkeys(points_of(DOUBLE_QUOTES), ord('"')),
    **dict.fromkeys(points_of(DASHES), ord("-")),
    ELLIPSIS: 0,
}
white = {point for point in range(0x110000) if chr(point).isspace()}
gone = points_of(NOT_DRAWN) | {
    point
    for point in range(0x110000)
    if unicodedata2.category(chr(point)) in ("Cf", "Cc") and point not in white
}
ligatures = points_of(LIGATURES)


def expanded(point: int) -> list[int]:
    """The code points that one becomes, decomposed."""
    if point in gone:
        return []
    if point in swaps:
        return [swaps[point]] if swaps[point] else [ord(".")] * 3
    kind, _, parts = unicodedata2.decomposition(chr(point)).rpartition("> ")
    if point in white or not parts or 0xAC00 <= point <= 0xD7A3:  # Hangul syllables stay whole
        return [point]
    if kind and kind[1:] not in DRAWN and point not in ligatures:
        return [point]
    points = [made for part in parts.split() for made in expanded(int(part, 16))]
    return [point] if kind and (len(points) > MOST or 0x20 in points) else points


def pairs() -> dict[tuple[int, int], int]:
    """What two code points compose to (UAX 15), Hangul aside, which has a rule."""
    made = {}
    for point in range(0x110000):
        parts = unicodedata2.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if unicodedata2.normalize("NFC", chr(first) + chr(second)) == chr(point):
                made[first, second] = point
    return made


def tables() -> dict[str, np.ndarray]:
    composed = pairs()
    seconds = {second for _, second in composed} | {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    from unicode_tables import UNSPACED, classes_and_lower

    classes, _ = classes_and_lower()
    forms = np.zeros(0x110000, np.uint8)
    ascii_of = np.zeros(0x110000, np.uint8)
    places = np.zeros(0x110000, np.int32)
    ranks = np.zeros(0x110000, np.uint8)
    expansions = [0]
    for point in range(0x110000):
        character = chr(point)
        category = unicodedata2.category(character)
        if category == "Cs":
            continue
        ranks[point] = unicodedata2.combining(character)
        becomes = expanded(point)
        if becomes != [point]:
            places[point] = len(expansions)
            expansions += [len(becomes), *becomes]
        folded = unicodedata2.normalize("NFC", "".join(map(chr, becomes)))
        is_sign = category in ("Sm", "Sc", "So") or character in ASCII_SIGNS
        flags = SPACE if point in white else 0
        flags |= GAP if category[0] in "PS" or point in white or point in swaps else 0
        flags |= SIGN if is_sign and point not in NO_SIGNS else 0
        flags |= ALONE if classes[point] & UNSPACED else 0
        flags |= BREAK if point in LINE_BREAKS else 0
        if point in swaps:
            flags |= SWAP | (SIGN if swaps[point] == ord("-") else 0)
            ascii_of[point] = swaps[point]
        elif (
            len(becomes) == 1
            and becomes[0] < 0x80 <= point
            and chr(becomes[0]) not in ASCII_SIGNS
            and flags & GAP
        ):
            flags |= SWAP  # wide and small punctuation, which Chinese has in each sentence
            ascii_of[point] = becomes[0]
        elif folded != character or point in seconds:
            flags |= HARD
        elif ranks[point]:
            flags |= MARK
        forms[point] = flags
    keys = sorted(composed)
    made: dict[str, np.ndarray] = {
        "expansions": np.array(expansions, np.int32),
        "pair_keys": np.array([first << 21 | second for first, second in keys], np.int64),
        "pair_values": np.array([composed[key] for key in keys], np.int32),
        "arabic_marks": np.array(sorted(points_of(ARABIC_MARKS)), np.int32),
    }
    for name, table in (("form", forms), ("ascii", ascii_of), ("place", places), ("rank", ranks)):
        made[f"{name}_index"], made[f"{name}_pages"] = two_level(table)
    return made


if __name__ == "__main__":
    assert unicodedata2.unidata_version == "16.0.0"
    target = Path(__file__).parent.parent / "src/gristmill/kernels/folding/folding.npz"
    made = tables()
    np.savez_compressed(target, **made)
    print(target, target.stat().st_size, {name: table.size for name, table in made.items()})
