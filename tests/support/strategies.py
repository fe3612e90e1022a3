"""Hypothesis strategies for texts, and how many examples each test draws (GRISTMILL_FUZZ multiplies
it; 0: eight).

Code points that the running Python's unicodedata does not know are left out: the kernels' tables
may be newer.
"""

import os
import unicodedata
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gristmill.tables.columns import utf8_buffers

FUZZ = int(os.environ.get("GRISTMILL_FUZZ", "1"))

# Where the kernels look at 8, 15, 16, 48, 64 or 96 bytes together, one less and one more.
EDGES = (7, 8, 9, 14, 15, 16, 17, 47, 48, 49, 62, 63, 64, 65, 66, 95, 96, 97, 126, 127, 128, 129)

SPACES = (
    *" \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000",
    *map(chr, range(0x2000, 0x200B)),
    "\r\n",
    "\n\r",
    "  ",
    " \n",
    "\n\n",
    "\u2028 ",
)
# Of the same first bytes as white space, bullets and ellipses, and none of them.
NEARLY = (
    "\x84\x86\x9f\xa1\u167f\u1681\u180e\u200b\u200c\u2027\u202a\u202e\u2030\u205e\u2060\u2ffb\u3001"
)
NEARLY += "\u2021\u2023\u2025\u0080"
SIGNS = (
    "•",
    "-",
    "*",
    "…",
    "#",
    "'",
    "’",
    '"',
    "<|endoftext|>",
    "!",
    "...",
    "--",
    "¡",
    "€",
    "\0",
    "\ufeff",
    "\u200d",
    "_",
    "+",
)
CONTRACTIONS = (
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    "'S",
    "'r",
    "'v",
    "'l",
    "'x",
    "''s",
    "don't",
    "we'll",
    " 's",
    "'l1",
)
LETTERS = (
    "a",
    "the",
    "of",
    "Zoë",
    "naïve",
    "ẞ",
    "İ",
    "ſ",
    "K",
    "Σ",
    "ς",
    "Ⱥ",
    "Ɐ",
    "ǅ",
    "ﬁ",
    "𐐀",
    "𞤀",
    "ب",
    "עברית",
    "中",
    "文字",
    "㐀",
    "𠀀",
    "々",
    "〇",
    "ひ",
    "カ",
    "ｶ",
    "ー",
    "한국",
    "ไทย",
    "ก็",
    "ខ្មែរ",
    "ລາວ",
    "မြန်မာ",
    "བོད",
    "हिन्दी",
    "தமிழ்",
    "e\u0301",
    "\u0301",
    "\u0e31",
    "\u20dd",
    "\ufe0f",
    "\U000e0100",
)
NUMBERS = ("0", "42", "3.14", "²", "½", "Ⅷ", "٣", "१२", "㊀", "𝟙", "𐄇", "1st")
FACES = ("😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "\U0001f9ff")


def fuzz(examples: int, least: int = 8) -> settings:
    """The settings of a fuzz test: half as many examples, times GRISTMILL_FUZZ; `least` at
    least.
    """
    return settings(
        max_examples=max(least, examples * FUZZ // 2),
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )


@cache
def known_characters() -> str:
    """Every code point that is assigned in the running Python and no surrogate."""
    every = map(chr, range(0x110000))
    return "".join(
        character for character in every if unicodedata.category(character) not in ("Cn", "Cs")
    )


def characters() -> st.SearchStrategy[str]:
    """One code point of all that the running Python knows."""
    return st.characters(exclude_categories=("Cn", "Cs"))


def any_texts() -> st.SearchStrategy[str]:
    """Texts of all of Unicode."""
    return st.text(characters(), max_size=150)


def fragments() -> st.SearchStrategy[str]:
    """A few characters of the kinds that kernels tell apart."""
    return st.one_of(
        *map(st.sampled_from, (SPACES, SIGNS, CONTRACTIONS, LETTERS, NUMBERS, FACES, NEARLY)),
        st.sampled_from(SPACES),
        characters(),
    )


@st.composite
def runs(draw: st.DrawFn) -> str:
    """A fragment again and again, for about as many bytes as a kernel looks at together."""
    fragment = draw(fragments())
    return fragment * max(1, draw(st.sampled_from(EDGES)) // len(fragment.encode()))


@st.composite
def nasty_texts(draw: st.DrawFn) -> str:
    """Texts in which everything that kernels treat apart stands side by side, often at an edge."""
    text = "".join(
        draw(st.lists(st.one_of(fragments(), fragments(), fragments(), runs()), max_size=30))
    )
    if draw(st.booleans()):
        edge = draw(st.sampled_from(EDGES))
        pad = draw(st.sampled_from(("x", " ", "\n", "x "))) * edge
        text = pad[: max(0, edge - len(text.encode()))] + text
    return text


@st.composite
def repetitive_texts(draw: st.DrawFn) -> str:
    """Texts of few words and white space, in which n-grams occur often."""
    # Words that differ after 8 bytes, or only between their first and last 8, or by length alone.
    words = [
        "a",
        "aa",
        "b",
        "-",
        "…",
        "abcdefgh",
        "abcdefghi",
        "abcdefgh1abcdefgh",
        "abcdefgh2abcdefgh",
        "x" * 63,
        "x" * 65,
    ]
    picked = draw(st.lists(st.sampled_from(words), min_size=1, max_size=4, unique=True))
    gaps = st.sampled_from((" ", "\n", "\u3000", " \r\n"))
    pairs = draw(st.lists(st.tuples(st.sampled_from(picked), gaps), max_size=80))
    return "".join(word + gap for word, gap in pairs) * draw(st.sampled_from((1, 1, 1, 2, 9)))


def texts() -> st.SearchStrategy[str]:
    """Nasty texts and texts of all of Unicode."""
    return st.one_of(nasty_texts(), nasty_texts(), any_texts())


def batches(
    of: st.SearchStrategy[str] | None = None, most: int = 6
) -> st.SearchStrategy[list[str]]:
    """Lists of texts, empty lists and empty texts among them."""
    return st.lists(st.one_of(texts() if of is None else of, st.just("")), max_size=most)


@st.composite
def slices(
    draw: st.DrawFn, of: st.SearchStrategy[str] | None = None, most: int = 6
) -> tuple[list[str], pa.Array]:
    """A batch, and a string column that is a slice of a longer one and holds that batch."""
    batch = draw(batches(of, most))
    before, after = draw(batches(fragments(), 3)), draw(batches(fragments(), 2))
    return batch, pa.array([*before, *batch, *after], pa.string()).slice(len(before), len(batch))


def buffers(batch: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """A batch as kernels take it."""
    return utf8_buffers(pa.array(batch, pa.string()))


def cut(offsets: np.ndarray, data: np.ndarray) -> Iterator[bytes]:
    """Each text's bytes from offsets and data."""
    raw = data.tobytes()
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield raw[start:stop]
