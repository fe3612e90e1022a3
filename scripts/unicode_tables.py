"""Make src/gristmill/kernels/unicode/unicode.npz: the Unicode tables that every kernel reads.

Run once for each new Unicode version, on Python >= 3.13, with the packages named here; the file is
committed, so that the result of a run does not depend on the Unicode version of the Python that
runs it.

    pip install numpy "unicodedata2==16.0.0" regex
    python scripts/unicode_tables.py

Categories are Unicode 16.0's (unicodedata2), the version whose letters and numbers tiktoken 0.14
and tokenizers 0.23 use; scripts and case are `regex`'s, for code points that 16.0 knows; lower case
is Python's own simple mapping. The signs that published filters name are facts of those filters:
datatrove's PUNCTUATION and TERMINAL_PUNCTUATION (utils/text.py of 0.2.0 and 0.10.1), spaCy's
Sentencizer.default_punct_chars (3.8).
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


if __name__ == "__main__":
    classes, lower = classes_and_lower()
    class_index, class_pages = two_level(classes)
    lower_index, lower_pages = two_level(lower - np.arange(0x110000, dtype=np.int32))
    sign_index, sign_pages = two_level(signs())
    target = Path(__file__).parent.parent / "src/gristmill/kernels/unicode/unicode.npz"
    np.savez_compressed(
        target,
        class_index=class_index,
        class_pages=class_pages,
        lower_index=lower_index,
        lower_pages=lower_pages,
        sign_index=sign_index,
        sign_pages=sign_pages,
    )
    print(target, target.stat().st_size, class_pages.size, lower_pages.size)
