"""Items that documents resemble: MinHash signatures (Broder 1997) of stretches of a document beside
those of benchmark items.

A whole page is never like a question of forty words, so stretches of it are compared: each block of
BLOCK shingles (5 words) has a signature, and that of several blocks in a row is the minimum of
theirs. Stretches of 1, 2, 3, 4, 6, 8, 12 ... blocks up to the longest item's length, at every
block, and the whole document, meet the items by bands (LSH) as in dedup; what meets is compared by
the share of equal numbers, which estimates the Jaccard similarity. Where a stretch starts and stops
off the item's words, a verbatim item has 0.7 or so.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

SHINGLE = 5  # words
BLOCK = 8  # shingles
BANDS, ROWS = 32, 4
SEED = 1
BITS = 23  # of keys, which say by a table whether an item may have one: most have not
MOST = 8  # items of a key that are compared, the first


class Signed(NamedTuple):
    """The signatures of p parts, and their keys in order."""

    signatures: np.ndarray  # (p, BANDS * ROWS) uint32
    keys: np.ndarray  # (k,) int64, ascending
    owners: np.ndarray  # (k,) int32: of each key its part
    maybe: np.ndarray  # (2^BITS,) bool
    longest: int  # blocks: the longest stretch that is compared


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
    signatures, shingles = _sign(offsets, data)
    keys = _keys(signatures)[shingles > 0]
    owners = np.repeat(np.flatnonzero(shingles > 0), BANDS).astype(np.int32)
    flat = keys.ravel()
    order = np.argsort(flat, kind="stable")
    maybe = np.zeros(1 << BITS, bool)
    maybe[flat & ((1 << BITS) - 1)] = True
    return Signed(
        signatures, flat[order], owners[order], maybe, 2 * -(-int(shingles.max(initial=1)) // BLOCK)
    )


def find_similar(offsets: np.ndarray, data: np.ndarray, signed: Signed) -> Similar:
    """Compare n normalised texts, offsets (n + 1,) int64, with signed parts."""
    from gristmill.kernels.hashing.pairs import agreement

    count = len(offsets) - 1
    blocks, owners, words = _blocks(offsets, data)
    found = []
    for stretches, starts, stops in _stretches(blocks, owners, signed.longest):
        rows, parts = _meeting(_keys(stretches), signed)
        # As kernels take them: rows of one table against rows of another.
        agree = agreement(stretches, signed.signatures, rows, parts) / (BANDS * ROWS)
        first = (starts[rows] - np.searchsorted(owners, owners[starts[rows]])) * BLOCK
        last = first + (stops[rows] - starts[rows]) * BLOCK + SHINGLE - 2
        found.append(
            (
                owners[starts[rows]],
                parts,
                agree,
                first,
                np.minimum(last, words[owners[starts[rows]]] - 1),
            )
        )
    if not found:
        nothing = np.empty(0, np.int64)
        return Similar(np.zeros(count), nothing, nothing, np.empty(0), nothing, nothing)
    documents, parts, agree, first, last = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((first, -agree, parts, documents))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(documents[order]) != 0) | (np.diff(parts[order]) != 0)
    best = order[new]
    similarity = np.zeros(count)
    np.maximum.at(similarity, documents[best], agree[best])
    return Similar(similarity, documents[best], parts[best], agree[best], first[best], last[best])


def _sign(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from gristmill.kernels.hashing import minhash

    multipliers, addends = minhash.permutations(BANDS * ROWS, SEED)
    return minhash.sign(offsets, data, width=SHINGLE, multipliers=multipliers, addends=addends)


def _keys(signatures: np.ndarray) -> np.ndarray:
    from gristmill.kernels.hashing import minhash

    return minhash.band_keys(
        signatures, np.zeros(len(signatures), np.uint64), bands=BANDS, rows=ROWS
    )


def _blocks(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The signatures of all texts' blocks; of each block its text; the texts' words. A text without
    words has no block.
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


def _stretches(
    blocks: np.ndarray, owners: np.ndarray, longest: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The signatures of whole texts, then of all stretches of one text of 1, 2, 3, 4, 6, 8 ...

    blocks; their first blocks, and those behind.
    """
    whole = np.flatnonzero(np.diff(owners, prepend=-1))
    if len(whole):
        yield np.minimum.reduceat(blocks, whole), whole, np.append(whole[1:], len(owners))
    least, size = blocks, 1  # of each block and those behind it, `size` in all
    while len(least):
        for length in (size, size + size // 2):
            if length > longest:
                continue
            starts = np.flatnonzero(
                owners[: max(len(owners) - length + 1, 0)] == owners[length - 1 :]
            )
            if length == size:
                if len(starts):
                    yield least[starts], starts, starts + length
            elif size > 1 and len(starts):
                yield np.minimum(least[starts], least[starts + size // 2]), starts, starts + length
        if 2 * size > longest:
            return
        least, size = np.minimum(least[: max(len(least) - size, 0)], least[size:]), 2 * size


def _meeting(keys: np.ndarray, signed: Signed) -> tuple[np.ndarray, np.ndarray]:
    """Stretches and parts that share a key, each pair once: (rows, parts)."""
    rows, bands = np.nonzero(signed.maybe[keys & ((1 << BITS) - 1)])
    wanted = keys[rows, bands]
    left = np.searchsorted(signed.keys, wanted)
    counts = np.minimum(np.searchsorted(signed.keys, wanted, "right") - left, MOST)
    places = np.arange(counts.sum()) + np.repeat(left - (np.cumsum(counts) - counts), counts)
    pairs = np.unique(np.column_stack([np.repeat(rows, counts), signed.owners[places]]), axis=0)
    return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
