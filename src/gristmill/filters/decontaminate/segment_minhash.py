"""Items that documents resemble: MinHash signatures (Broder 1997) of stretches of a document beside
those of benchmark items.

A whole page is never like a question of forty words, so stretches of it are compared: each block of
BLOCK shingles (5 words) has a signature, and that of several blocks in a row is the minimum of
theirs. Stretches of 1, 2, 3, 4, 6, 8, 12 ... blocks up to the longest item's length, at every
block, and the whole document, meet the items by bands (LSH) as in dedup; what meets is compared by
the share of equal numbers, which estimates the Jaccard similarity. Where a stretch starts and stops
off the item's words, a verbatim item has 0.7 or so.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gristmill.kernels.decontaminate.stretches import PartKeys

SHINGLE = 5  # words
BLOCK = 8  # shingles
BANDS, ROWS = 32, 4
SEED = 1
MOST = 8  # items of a key that are compared, the first


class Signed(NamedTuple):
    """The signatures of p parts, and their band keys."""

    signatures: np.ndarray  # (p, ROWS * BANDS) uint32: the first number of every band, ...
    keys: "PartKeys"


class Similar(NamedTuple):
    """Parts that n documents resemble; r rows by document, then part."""

    similarity: np.ndarray  # (n,) float64: the highest of all that were compared; 0: none was
    documents: np.ndarray  # (r,) int64
    parts: np.ndarray  # (r,) int64
    similarities: np.ndarray  # (r,) float64
    firsts: np.ndarray  # (r,) int64: the stretch's first word
    lasts: np.ndarray  # (r,) int64: its last


def sign_parts(offsets: np.ndarray, data: np.ndarray) -> Signed:
    """Sign p parts: normalised texts, offsets (p + 1,) int64."""
    from gristmill.kernels.decontaminate.stretches import known_keys
    from gristmill.kernels.hashing import minhash

    signatures, shingles = _sign(offsets, data)
    scopes = np.zeros(len(signatures), np.uint64)
    by_band = np.ascontiguousarray(signatures[:, np.argsort(_order())])
    keys = minhash.band_keys(by_band, scopes, bands=BANDS, rows=ROWS)[shingles > 0]
    owners = np.repeat(np.flatnonzero(shingles > 0), BANDS).astype(np.int32)
    longest = 2 * -(-int(shingles.max(initial=1)) // BLOCK)
    flat = keys.view(np.uint64).ravel()
    return Signed(signatures, known_keys(flat, owners, longest=longest, most=MOST))


def find_similar(offsets: np.ndarray, data: np.ndarray, signed: Signed) -> Similar:
    """Compare n normalised texts, offsets (n + 1,) int64, with signed parts."""
    from gristmill.kernels.decontaminate.stretches import find_alike

    blocks, owners, words = _blocks(offsets, data)
    bounds = np.searchsorted(owners, np.arange(len(offsets)))
    matches = find_alike(blocks, bounds, signed.signatures, signed.keys, bands=BANDS)
    agree = matches.agreements / (BANDS * ROWS)
    similarity = np.zeros(len(offsets) - 1)
    np.maximum.at(similarity, matches.documents, agree)
    first = matches.starts * BLOCK
    last = first + (matches.stops - matches.starts) * BLOCK + SHINGLE - 2
    last = np.minimum(last, words[matches.documents] - 1)
    return Similar(similarity, matches.documents, matches.parts, agree, first, last)


def _order() -> np.ndarray:
    """Return the numbers of a signature in the order in which they are kept."""
    return np.arange(BANDS * ROWS).reshape(BANDS, ROWS).T.ravel()


def _sign(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from gristmill.kernels.hashing import minhash

    multipliers, addends = minhash.permutations(BANDS * ROWS, SEED)
    order = _order()
    return minhash.sign(
        offsets, data, width=SHINGLE, multipliers=multipliers[order], addends=addends[order]
    )


def _blocks(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the signatures of all texts' blocks; of each block its text; the texts' words. A text
    without words has no block.
    """
    spaces = np.flatnonzero(data == 0x20)
    before = np.searchsorted(spaces, offsets)
    words = np.where(np.diff(offsets) > 0, np.diff(before) + 1, 0)
    blocks = np.where(words > 0, np.maximum(-(-(words - SHINGLE + 1) // BLOCK), 1), 0)
    owners = np.repeat(np.arange(len(words)), blocks)
    first = (np.arange(len(owners)) - np.repeat(np.cumsum(blocks) - blocks, blocks)) * BLOCK
    last = np.minimum(first + BLOCK + SHINGLE - 1, words[owners])  # the word behind
    # Word j of a text starts behind its space j - 1, and ends at its space j.
    padded = np.append(spaces, 0)
    starts = np.where(
        first == 0, offsets[owners], padded[np.minimum(before[owners] + first - 1, len(spaces))] + 1
    )
    stops = np.where(
        last == words[owners],
        offsets[owners + 1],
        padded[np.minimum(before[owners] + last - 1, len(spaces))],
    )
    sizes = stops - starts
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    text = data[np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], sizes)]
    return _sign(bounds, text)[0], owners, words
