"""Hashes of normalised texts: many together, few, and texts of which nothing is left."""

import hashlib

import pyarrow as pa
import pytest

from gristmill.dedup.signatures import text_hashes
from gristmill.kernels.unicode.normalised import normalise
from gristmill.tables.columns import utf8_buffers
from tests.support import naive

TEXTS = ("", "!!!", "???", "A word.", "a word", "x" * 127, "x" * 128, "x y " * 99, "!!!", "é" * 64)


@pytest.mark.parametrize(("key", "size"), [(b"", 16), (b"validation 1", 8)])
@pytest.mark.parametrize("together", [1, 3, 4, len(TEXTS)])
def test_text_hashes(key: bytes, size: int, together: int) -> None:
    hashes = b""
    for first in range(0, len(TEXTS), together):
        texts = pa.array(TEXTS[first : first + together])
        hashes += text_hashes(*normalise(*utf8_buffers(texts)), texts, key=key, size=size)
    twins = []
    for text in TEXTS:
        plain = naive.normalise(text)
        twin = hashlib.blake2b(
            (plain or text).encode(),
            digest_size=size,
            key=key,
            person=b"" if plain else b"not normalised",
        )
        twins.append(twin.digest())
    assert hashes == b"".join(twins)
    assert len(set(twins)) == len(TEXTS) - 2, "texts that are equal, and no others"
