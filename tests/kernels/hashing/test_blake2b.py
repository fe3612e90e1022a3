"""BLAKE2b of many texts side by side against hashlib's."""

import hashlib
import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.hashing import blake2b
from tests.support import strategies

# around the ends of blocks of 128 bytes
LENGTHS = st.one_of(st.sampled_from((1, 127, 128, 129, 255, 256, 257, 640)), st.integers(0, 999))


@strategies.fuzz(100)
@given(
    st.lists(LENGTHS, max_size=30),
    st.integers(0, 2**32 - 1),
    st.integers(1, 64),
    st.binary(max_size=64),
)
def test_fuzz_hash_texts(lengths: list[int], seed: int, size: int, key: bytes) -> None:
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    data = np.random.default_rng(seed).integers(0, 256, offsets[-1], np.uint8)
    hashes = blake2b.hash_texts(offsets, data, size=size, key=key)
    assert hashes.shape == (len(lengths), size)
    for digest, (start, stop) in zip(hashes, itertools.pairwise(offsets), strict=True):
        # What is empty has no digest.
        twin = hashlib.blake2b(data[start:stop].tobytes(), digest_size=size, key=key)
        assert start == stop or digest.tobytes() == twin.digest()


def test_one_long_text_among_short_ones() -> None:
    """Seven lanes take all the others while one hashes."""
    generator = np.random.default_rng(1)
    lengths = [50_000, *generator.integers(1, 400, 900).tolist()]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    data = generator.integers(0, 256, offsets[-1], np.uint8)
    hashes = blake2b.hash_texts(offsets, data, size=16)
    assert [digest.tobytes() for digest in hashes] == [
        hashlib.blake2b(data[start:stop].tobytes(), digest_size=16).digest()
        for start, stop in itertools.pairwise(offsets)
    ]
