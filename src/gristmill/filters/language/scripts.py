"""Scripts by their letters: ISO 15924's code for what most letters of a text belong to.

A letter is a code point of category L (Unicode 16.0) that belongs to one script; letters of several
(U+00B5, U+30FC, mathematical ones) count for none. Three writing systems mix scripts: Hiragana and
Katakana count as one, and where they, or Hangul, are a twentieth of what they make up with the
Chinese characters or more, these are theirs: `Jpan`, `Kore`; else those are `Hani`.
"""

from functools import cache

import numpy as np
import pyarrow as pa

from gristmill.tables.columns import utf8_buffers

KANA = ("Hira", "Kana")
MIXED = 20  # Kana or Hangul that are one letter of 20, or more, own the Chinese characters


def labels() -> list[str]:
    """Return the codes that a text may get, sorted."""
    from gristmill.kernels.unicode.tables import SCRIPT_CODES

    return sorted({*SCRIPT_CODES, "Jpan", "Kore"} - {*KANA, "Hang"})


@cache
def _table() -> np.ndarray:
    """Return the script of every code point: its place in SCRIPT_CODES, from 1; 0: not a letter, or
    of no one script. (0x110000,) uint8.
    """
    from gristmill.kernels.unicode.tables import SCRIPTS

    return SCRIPTS.every()


def dominant(texts: pa.Array, characters: int | None) -> tuple[pa.Array, np.ndarray]:
    """Of n texts the script of most letters among the first `characters` code points (None: all),
    and its share of these letters.

    Returns (labels (n,) string, null where there is no letter; shares (n,) float64, 0 there). Of
    equal counts the first code wins.
    """
    from gristmill.kernels.unicode import script_counts
    from gristmill.kernels.unicode.tables import SCRIPT_CODES

    codes = SCRIPT_CODES
    place = {code: number for number, code in enumerate(codes, 1)}
    most = np.iinfo(np.int32).max if characters is None else characters
    counts = script_counts.count_letters(
        *utf8_buffers(texts), _table(), len(codes) + 1, characters=most
    )
    letters = counts.sum(1)
    han, hangul = counts[:, place["Hani"]].copy(), counts[:, place["Hang"]]
    kana = counts[:, [place[code] for code in KANA]].sum(1)
    most = np.maximum(kana, hangul)
    owned = (most > 0) & (most * MIXED >= most + han)
    japanese = kana + np.where(owned & (kana >= hangul), han, 0)
    korean = hangul + np.where(owned & (kana < hangul), han, 0)
    counts[:, place["Hani"]] = np.where(owned, 0, han)
    counts[:, place["Hira"]], counts[:, place["Kana"]], counts[:, place["Hang"]] = (
        japanese,
        0,
        korean,
    )
    winner = counts.argmax(1)
    best = counts[np.arange(len(counts)), winner]
    names = [None, *({"Hira": "Jpan", "Hang": "Kore"}.get(code, code) for code in codes)]
    return pa.array(names, pa.string()).take(pa.array(winner, mask=best == 0)), best / np.maximum(
        letters, 1
    )
