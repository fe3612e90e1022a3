"""Make src/gristmill/kernels/unicode.npz: the Unicode tables that every kernel reads.

Run once for each new Unicode version, on Python >= 3.13, with the packages named here; the file is committed, so that the
result of a run does not depend on the Unicode version of the Python that runs it.

    pip install numpy "unicodedata2==16.0.0" regex
    python scripts/unicode_tables.py

Categories are Unicode 16.0's (unicodedata2), the version whose letters and numbers tiktoken 0.14 and tokenizers 0.23 use;
scripts are `regex`'s, for code points that 16.0 knows; lower case is Python's own simple mapping.
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


def classes_and_lower() -> tuple[np.ndarray, np.ndarray]:
    unspaced = regex.compile("[" + "".join(rf"\p{{Script={name}}}" for name in UNSPACED_SCRIPTS) + "]")
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
        # The one code point whose full mapping is longer (U+0130) takes its first: the simple mapping.
        lower[point] = ord(chr(point).lower()[0])
    return classes, lower


def two_level(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (page number of each block of 256 code points, the distinct pages one after another)."""
    pages, index = np.unique(values.reshape(-1, PAGE), axis=0, return_inverse=True)
    return index.reshape(-1).astype(np.uint8), np.ascontiguousarray(pages.reshape(-1))


if __name__ == "__main__":
    classes, lower = classes_and_lower()
    class_index, class_pages = two_level(classes)
    lower_index, lower_pages = two_level(lower - np.arange(0x110000, dtype=np.int32))
    target = Path(__file__).parent.parent / "src/gristmill/kernels/unicode.npz"
    np.savez_compressed(
        target, class_index=class_index, class_pages=class_pages, lower_index=lower_index, lower_pages=lower_pages
    )
    print(target, target.stat().st_size, class_pages.size, lower_pages.size)
