"""Make src/gristmill/kernels/unicode/unicode.npz, the Unicode tables that every kernel reads, and
kernels/pieces/kinds.npz, the kinds of code points that patterns of pieces tell apart.

Run once for each version of Unicode named here, on Python 3.13, with the packages named here: a run
writes the tables of the version that it finds and leaves the others as they are. The file is
committed, so that the result of a run does not depend on the Unicode version of the Python that
runs it.

    pip install numpy regex "unicodedata2==16.0.0" && python scripts/unicode_tables.py
    pip install numpy regex "unicodedata2==17.0.0" && python scripts/unicode_tables.py

16.0    classes, signs, lower case, scripts and kinds: the version whose letters and numbers
        tiktoken 0.14 and tokenizers 0.23 use. Scripts and case are `regex`'s, for code points that
        16.0 knows; lower case is Python's own simple mapping. The signs that published filters name
        are facts of those filters: datatrove's PUNCTUATION and TERMINAL_PUNCTUATION
        (utils/text.py of 0.2.0 and 0.10.1), spaCy's Sentencizer.default_punct_chars (3.8).
17.0    what composition leaves alone (kernels/unicode/composition.py): the newest, for the more is
        known the fewer texts are composed in vain.
"""

from pathlib import Path

import numpy as np
import regex
import unicodedata2

LETTER, NUMBER, SPACE, PYTHON_SPACE, SYMBOL, UNSPACED, LINE_BREAK = 1, 2, 4, 8, 16, 32, 64
# Scripts written without spaces between words.
UNSPACED_SCRIPTS = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")
WHITE_SPACE = {
    9,
    10,
    11,
    12,
    13,
    32,
    0x85,
    0xA0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
}
LINE_BREAKS = {10, 11, 12, 13, 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029}
PAGE = 256
# ISO 15924's codes of the scripts that have letters.
SCRIPTS = (
    "Adlm Aghb Ahom Arab Armi Armn Avst Bali Bamu Bass Batk Beng Bhks Bopo Brah Bugi Buhd Cakm "
    "Cans Cari Cham Cher Chrs Copt Cpmn Cprt Cyrl Deva Diak Dogr Dsrt Dupl Egyp Elba Elym Ethi "
    "Gara Geor Glag Gong Gonm Goth Gran Grek Gujr Gukh Guru Hang Hani Hano Hatr Hebr Hira Hluw "
    "Hmng Hmnp Hung Ital Java Kali Kana Kawi Khar Khmr Khoj Kits Knda Krai Kthi Lana Laoo Latn "
    "Lepc Limb Lina Linb Lisu Lyci Lydi Mahj Maka Mand Mani Marc Medf Mend Merc Mero Mlym Modi "
    "Mong Mroo Mtei Mult Mymr Nagm Nand Narb Nbat Newa Nkoo Nshu Ogam Olck Onao Orkh Orya Osge "
    "Osma Ougr Palm Pauc Perm Phag Phli Phlp Phnx Plrd Prti Rjng Rohg Runr Samr Sarb Saur Shaw "
    "Shrd Sidd Sind Sinh Sogd Sogo Sora Soyo Sund Sunu Sylo Syrc Tagb Takr Tale Talu Taml Tang "
    "Tavt Telu Tfng Tglg Thaa Thai Tibt Tirh Tnsa Todr Toto Tutg Ugar Vaii Vith Wara Wcho Xpeo "
    "Xsux Yezi Yiii Zanb "
).split()

# Bits of the second table.
PUNCTUATION, TERMINAL, DECIMAL, UPPER, LOWER, ALPHANUMERIC, SENTENCE, CATEGORY_P = (
    1 << bit for bit in range(8)
)
PUNCTUATIONS = {
    *map(
        ord,
        "!/—”:％１〈&(、━\\【#%「」，】；+^]~“《„';’{|∶´[=-`*．（–？！：$～«〉,><》)?）。…@_.\"}►»",
    ),
    *range(9),
    11,
    12,
    *range(13, 32),
    *range(127, 160),
}
# First and last code points, in hexadecimal.
TERMINALS = (
    "21 2e 3f 589 61d-61f 6d4 700-702 7f9 837 839 83d-83e 964-965 104a-104b 1362 1367-1368 "
    "166e 1735-1736 17d4-17d6 17d9-17da 1803 "
    "1809 1944-1945 1aa8-1aab 1b5a-1b5b 1b5e-1b5f 1b7d-1b7e 1c3b-1c3c 1c7e-1c7f 203c-203d "
    "2047-2049 2e2e 2e3c 2e53-2e54 3002 a4ff "
    "a60e-a60f a6f3 a6f7 a876-a877 a8ce-a8cf a92f a9c8-a9c9 aa5d-aa5f aaf0-aaf1 abeb fe52 "
    "fe56-fe57 ff01 ff0e ff1f ff61 10a56-10a57 "
    "10f55-10f59 10f86-10f89 11047-11048 110be-110c1 11141-11143 111c5-111c6 111cd "
    "111de-111df 11238-11239 1123b-1123c 112a9 "
    "1144b-1144c 115c2-115c3 115c9-115d7 11641-11642 1173c-1173e 11944 11946 11a42-11a43 "
    "11a9b-11a9c 11c41-11c42 11ef7-11ef8 "
    "11f43-11f44 16a6e-16a6f 16af5 16b37-16b38 16b44 16e98 1bc9f 1da88"
)
NO_SENTENCE = (  # of these, what spaCy does not know
    "61d 61e 837 839 83d 83e 17d4 17d5 17d6 17d9 17da 1b7d 1b7e 2e53 2e54 10f55-10f59 "
    "10f86-10f89 11944 11946 11ef7 11ef8 11f43 11f44 "
    "16e98"
)


def points_of(ranges: str) -> set[int]:
    """The code points that `a b-c` names."""
    pairs = [(pair.split("-") * 2)[:2] for pair in ranges.split()]
    return {point for first, last in pairs for point in range(int(first, 16), int(last, 16) + 1)}


def signs() -> np.ndarray:
    terminal, sentence = points_of(TERMINALS), points_of(TERMINALS) - points_of(NO_SENTENCE)
    upper, lower = regex.compile(r"\p{Uppercase}"), regex.compile(r"\p{Lowercase}")
    table = np.zeros(0x110000, np.uint8)
    for point in range(0x110000):
        character = chr(point)
        category = unicodedata2.category(character)
        flags = PUNCTUATION if point in PUNCTUATIONS else 0
        flags |= TERMINAL if point in terminal else 0
        flags |= SENTENCE if point in sentence else 0
        if category not in ("Cn", "Cs"):
            flags |= UPPER if upper.match(character) else 0
            flags |= LOWER if lower.match(character) or category == "Lt" else 0
        flags |= DECIMAL if category == "Nd" else 0
        flags |= CATEGORY_P if category[0] == "P" else 0
        # str.isalnum: a letter, or of a numeric value, which all of N* and nothing else but letters
        # have.
        flags |= ALPHANUMERIC if category[0] in "LN" else 0
        table[point] = flags
    return table


def classes_and_lower() -> tuple[np.ndarray, np.ndarray]:
    unspaced = regex.compile(
        "[" + "".join(rf"\p{{Script={name}}}" for name in UNSPACED_SCRIPTS) + "]"
    )
    classes = np.zeros(0x110000, np.uint8)
    lower = np.arange(0x110000, dtype=np.int32)
    for point in range(0x110000):
        category = unicodedata2.category(chr(point))
        if category == "Cs":
            continue
        flags = {"L": LETTER, "N": NUMBER, "P": SYMBOL, "S": SYMBOL}.get(category[0], 0)
        flags |= SPACE if point in WHITE_SPACE else 0
        flags |= PYTHON_SPACE if chr(point).isspace() else 0
        flags |= LINE_BREAK if point in LINE_BREAKS else 0
        if category != "Cn" and unspaced.match(chr(point)):
            flags |= UNSPACED
        classes[point] = flags
        # The one code point whose full mapping is longer (U+0130) takes its first: the simple
        # mapping.
        lower[point] = ord(chr(point).lower()[0])
    return classes, lower


def two_level(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (page number of each block of 256 code points, the distinct pages one after
    another).
    """
    pages, index = np.unique(values.reshape(-1, PAGE), axis=0, return_inverse=True)
    return index.reshape(-1).astype(np.uint8), np.ascontiguousarray(pages.reshape(-1))


def scripts() -> np.ndarray:
    """Of each letter the place of its script in SCRIPTS, from 1; 0: no letter, or of no one
    script.
    """
    known = [regex.compile(rf"\p{{Script={code}}}") for code in SCRIPTS]
    shared = regex.compile(r"[\p{Script=Common}\p{Script=Inherited}]")
    table = np.zeros(0x110000, np.uint8)
    for point in range(0x110000):
        character = chr(point)
        if unicodedata2.category(character)[0] == "L" and not shared.match(character):
            # A letter of a script that SCRIPTS has not stops here.
            table[point] = 1 + next(k for k, script in enumerate(known) if script.match(character))
    return table


def seconds() -> set[int]:
    """The code points that are the second of a pair that composes (UAX 15, Hangul's among them)."""
    found = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    for point in range(0x110000):
        parts = unicodedata2.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if unicodedata2.normalize("NFC", pair) == chr(point):
                found.add(ord(pair[1]))
    return found


def settled() -> np.ndarray:
    """(17408,) uint64, bit j of word i is code point 64 * i + j: assigned, of combining class 0,
    equal to its NFC, and never the second of a composed pair.
    """
    composing = seconds()
    bits = np.zeros(0x110000, np.uint8)
    for point in range(0x110000):
        character = chr(point)
        bits[point] = (
            unicodedata2.category(character) not in ("Cn", "Cs")
            and unicodedata2.combining(character) == 0
            and unicodedata2.normalize("NFC", character) == character
            and point not in composing
        )
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


def kinds() -> np.ndarray:
    """The bits that kernels/pieces/kinds.py names, of every code point."""
    bits = {"L": 1, "N": 2, "M": 8, "P": 64, "S": 64}
    cases = {"Lu": 16, "Lt": 16, "Ll": 32}
    table = np.zeros(0x110000, np.uint8)
    for point in range(0x110000):
        category = unicodedata2.category(chr(point))
        if category == "Cs":
            continue
        table[point] = bits.get(category[0], 0) | cases.get(category, 0)
        table[point] |= 4 if point in WHITE_SPACE else 0
    # DeepSeek's [U+4E00-U+9FA5 U+3040-U+30FF], unassigned code points among them.
    table[0x4E00:0x9FA6] |= 128
    table[0x3040:0x3100] |= 128
    return table


def tables_of_16() -> dict[str, np.ndarray]:
    classes, lower = classes_and_lower()
    made: dict[str, np.ndarray] = {"script_codes": np.array(SCRIPTS)}
    for name, table in (
        ("class", classes),
        ("lower", lower - np.arange(0x110000, dtype=np.int32)),
        ("sign", signs()),
        ("script", scripts()),
    ):
        made[f"{name}_index"], made[f"{name}_pages"] = two_level(table)
    return made


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "src/gristmill/kernels/unicode/unicode.npz"
    with np.load(target) as before:
        tables = dict(before)
    if unicodedata2.unidata_version == "16.0.0":
        tables |= tables_of_16()
        blocks, pages = two_level(kinds())
        np.savez_compressed(target.parents[1] / "pieces/kinds.npz", blocks=blocks, pages=pages)
    else:
        assert unicodedata2.unidata_version == "17.0.0"
        tables["settled"] = settled()
    np.savez_compressed(target, **tables)
    print(target, target.stat().st_size, {name: table.size for name, table in tables.items()})
