"""Samples by hash: the same documents whatever stands around them."""

import hashlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import filters
from gristmill.errors import ArgumentError
from gristmill.filters.rules.sample import lower_host

TEXTS = [f"text {number}" for number in range(4000)]


def test_a_share_of_the_documents_is_kept() -> None:
    kept = {share: set(filters.keep(TEXTS, [filters.Sample(share=share)])) for share in (0.1, 0.5)}
    assert 320 < len(kept[0.1]) < 480
    assert 1850 < len(kept[0.5]) < 2150
    assert kept[0.1] < kept[0.5]
    other = set(filters.keep(TEXTS, [filters.Sample(share=0.5, seed=1)]))
    assert 850 < len(kept[0.5] & other) < 1150
    assert filters.keep(TEXTS, [filters.Sample(share=1.0)]) == TEXTS


@given(st.text(), st.integers(0, (1 << 62) - 1))
def test_a_place_is_the_first_bits_of_the_hash(text: str, seed: int) -> None:
    step = filters.Sample(share=0.5, seed=seed)
    digest = hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=8, key=seed.to_bytes(8, "big")
    )
    bits = f"{int(digest.hexdigest(), 16):064b}"[:53]
    assert step.place(text) == sum(int(bit) / 2**at for at, bit in enumerate(bits, 1))


def test_the_pages_of_a_host_stay_together() -> None:
    urls = [
        f"https://{'WWW' if page else 'www'}.h{host}.example/{page}"
        for host in range(40)
        for page in range(2)
    ]
    table = pa.table({"text": [url[8:] for url in urls], "url": urls})
    left = filters.keep(table, [filters.Sample(share=0.5, by="host")])["url"].to_pylist()
    assert 0 < len(left) < len(urls)
    assert all(sum(lower_host(one) == lower_host(url) for one in left) == 2 for url in left)
    bare = pa.table({"text": ["a"] * 3, "url": [None, "http://[x", "mailto:a"]})
    reasons = filters.Sample(share=1.0, by="host")(bare)["reason"].to_pylist()
    assert reasons == ["sample.missing"] * 3
    assert len(filters.keep(bare, [filters.Sample(share=1.0, by="host", missing="keep")])) == 3


@pytest.mark.parametrize("share", [0.0, 1.1, float("nan"), "x"])
def test_no_share_is_refused(share: object) -> None:
    with pytest.raises(ArgumentError, match=r"share|number"):
        filters.Sample(share=share)
