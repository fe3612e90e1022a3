"""Texts in which patterns of pieces differ."""

from tests.support import strategies

# What a code point stands among: letters of both cases, numbers, signs, white space, line breaks,
# apostrophes, the ends of a text, and itself.
FRAMES = (
    "{0}",
    " {0}",
    "a{0}b {0}1{0}{0} \n",
    " {0}!{0}  {0}\u3000'{0}",
    "A{0}A {0}a\n{0}\r\n",
    "!{0}a\x00{0}/{0}'s{0}'ſ",
    "中{0}中1{0}2  {0}",
)
HARD = [
    *("  ", "\n", " \n ", "a  ", "a \n \n  ", "a\n \n  b", "\r\n\r\n", "!\n/\n!", "x\u3000\u3000y"),
    *("'S'ſ'LL'll've'Re", "I'M I'd'd", "''s", "'", " '", "'l", "'ſ", "'\u017f\u017f", "can't"),
    *("A中B", "ABc", "ǅa", "中A!", "\u0301A", "!\u0301A", "aB'sC", "ʰA", "Aʰ", "A\u0301'S"),
    *("1234567", "1 2", "١٢٣٤", "²½Ⅷ", "12 345", "a1b2", " 12", "1  2", "𝟙𝟚𝟛𝟜"),
    *("\x00\x00a", "\x00", "\x00\x00", "a\x00!", "!abcé", "!é", "カ・タ", "中\u3099文", "中1文a"),
    *("\u3040\u3040", "\ue000a", "\U000e0100", "\u0378", "\ufeffa", "/a/b\n/\n", "#\r\n x"),
    *("a" * 200, "!" * 200, " " * 200, "\n" * 200, "1" * 200, "中" * 200, "Aa" * 99, "\u0301" * 99),
]


def some_points(seed: int, soak: int) -> list[int]:
    """Code points, unassigned and private ones too: 2,400 of them, 82,000 under `make soak`, or all
    where there is time.
    """
    near, far = (24, 601) if soak == 1 else (1, 16)
    if strategies.FUZZ >= 100:
        near, far = 1, 1
    points = [*range(seed % near, 0x3400, near), *range(0x3400 + seed % far, 0x110000, far)]
    return [point for point in points if not 0xD800 <= point < 0xE000]
