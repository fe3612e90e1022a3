"""The slow twin of kernels/decontaminate/stretches.py: lists and dictionaries."""

from collections.abc import Iterator, Sequence

from tests.support import naive

Signature = list[int]


def known_keys(parts: Sequence[Signature], bands: int) -> dict[int, list[int]]:
    """By key the parts that have it."""
    found: dict[int, list[int]] = {}
    for part, signature in enumerate(parts):
        for key in naive.band_keys(signature, 0, bands=bands, rows=len(signature) // bands):
            found.setdefault(key, []).append(part)
    return found


def stretches(blocks: Sequence[Signature], longest: int) -> Iterator[tuple[int, int, Signature]]:
    """Where stretches of a document start and stop, and their signatures: of the whole, then by
    length.
    """
    powers = [1 << bits for bits in range(longest.bit_length() + 1)]
    lengths = sorted({*powers, *(3 * power for power in powers)})
    for length in [len(blocks), *(length for length in lengths if length <= longest)]:
        for start in range(len(blocks) - length + 1 if blocks else 0):
            columns = zip(*blocks[start : start + length], strict=True)
            yield start, start + length, [min(column) for column in columns]


def find_alike(
    documents: Sequence[Sequence[Signature]],
    parts: Sequence[Signature],
    *,
    bands: int,
    longest: int,
    most: int,
) -> list[tuple[int, int, int, int, int]]:
    """Document, part, agreement, start and stop of the best stretch, as Alike's columns."""
    keys = known_keys(parts, bands)
    rows = []
    for document, blocks in enumerate(documents):
        best: dict[int, tuple[int, int, int]] = {}
        for start, stop, signature in stretches(blocks, longest):
            height = len(signature) // bands
            for key in naive.band_keys(signature, 0, bands=bands, rows=height):
                for part in keys.get(key, [])[:most]:
                    same = sum(a == b for a, b in zip(signature, parts[part], strict=True))
                    if part not in best or (-same, start) < (-best[part][0], best[part][1]):
                        best[part] = (same, start, stop)
        rows += [(document, part, *best[part]) for part in sorted(best)]
    return rows
