"""Stretches of documents beside parts, against lists in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.decontaminate.stretches import find_alike, known_keys
from gristmill.kernels.hashing.minhash import band_keys
from tests.support import naive_stretches, strategies

BANDS, ROWS = 4, 2
SIGNATURES = st.lists(st.integers(0, 2), min_size=BANDS * ROWS, max_size=BANDS * ROWS)


def kept(signatures: list[list[int]]) -> np.ndarray:
    """Signatures as the kernel has them: the first number of every band, then the second."""
    rows = np.array(signatures, np.uint32).reshape(-1, BANDS, ROWS)
    return np.ascontiguousarray(rows.transpose(0, 2, 1).reshape(-1, BANDS * ROWS))


@strategies.fuzz(60)
@given(
    st.lists(st.lists(SIGNATURES, max_size=9), max_size=4),
    st.lists(SIGNATURES, min_size=1, max_size=5),
    st.integers(1, 8),
    st.integers(1, 3),
)
def test_fuzz(
    documents: list[list[list[int]]], parts: list[list[int]], longest: int, most: int
) -> None:
    """With few different numbers, so that keys meet often and stretches agree equally."""
    scopes = np.zeros(len(parts), np.uint64)
    keys = band_keys(np.array(parts, np.uint32), scopes, bands=BANDS, rows=ROWS)
    owners = np.repeat(np.arange(len(parts)), BANDS).astype(np.int32)
    known = known_keys(keys.view(np.uint64).ravel(), owners, longest=longest, most=most)
    by_key: dict[int, list[int]] = {}
    for key, owner in zip(known.keys.tolist(), known.owners.tolist(), strict=True):
        by_key.setdefault(key, []).append(owner)
    assert by_key == {
        key % (1 << 64): owners for key, owners in naive_stretches.known_keys(parts, BANDS).items()
    }
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    blocks = kept([block for document in documents for block in document])
    found = find_alike(blocks, offsets, kept(parts), known, bands=BANDS, room=1)
    expected = naive_stretches.find_alike(documents, parts, bands=BANDS, longest=longest, most=most)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
