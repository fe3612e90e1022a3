"""MinHash signatures against the twin, and their estimates against true Jaccard similarity."""

import gzip
import itertools
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.hashing import minhash
from gristmill.kernels.unicode.normalised import normalise
from tests.support import naive, strategies

LONG = tuple(letter * length for letter, length in zip("lmnop", (16, 17, 63, 64, 70), strict=True))
UINT64 = st.integers(0, naive.MASK_64)


def normalised_batches() -> st.SearchStrategy[list[str]]:
    """Batches as normalise leaves them: one space between words."""
    # words shorter and longer than what is hashed side by side: 8 bytes, 64 bytes
    words = ("a", "b", "the", "中", "é" * 9, "sevenby", "eight by", "nine byte", *LONG)
    few_words = st.lists(st.sampled_from(words), max_size=40).map(" ".join)
    return strategies.batches(st.one_of(strategies.texts().map(naive.normalise), few_words))


def buffers(batch: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Normalised texts with the 64-bit offsets that normalise gives."""
    offsets, data = strategies.buffers(batch)
    return offsets.astype(np.int64), data


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**64 - 1])
def test_permutations(seed: int) -> None:
    multipliers, addends = minhash.permutations(77, seed)
    assert (multipliers.tolist(), addends.tolist()) == naive.permutations(77, seed)
    assert (multipliers % 2 == 1).all(), "an even multiplier is no permutation"


def test_permutations_of_a_longer_family_differ_by_seed() -> None:
    assert minhash.permutations(8, 1)[0].tolist() != minhash.permutations(8, 2)[0].tolist()


@strategies.fuzz(150)
@given(normalised_batches(), st.integers(1, 9), st.integers(1, 40), UINT64, st.booleans())
def test_fuzz_sign(batch: list[str], width: int, count: int, seed: int, characters: bool) -> None:
    multipliers, addends = minhash.permutations(count, seed)
    signatures, counts = minhash.sign(
        *buffers(batch),
        width=width,
        multipliers=multipliers,
        addends=addends,
        characters=characters,
    )
    assert signatures.shape == (len(batch), count)
    ways = {
        "multipliers": multipliers.tolist(),
        "addends": addends.tolist(),
        "characters": characters,
    }
    twins = [naive.sign(text, width=width, **ways) for text in batch]
    assert list(zip(signatures.tolist(), counts.tolist(), strict=True)) == twins


@strategies.fuzz(150)
@given(normalised_batches(), st.integers(1, 9), st.booleans())
def test_fuzz_distinct_shingles(batch: list[str], width: int, characters: bool) -> None:
    offsets, shingles = minhash.distinct_shingles(
        *buffers(batch), width=width, characters=characters
    )
    assert offsets[-1] == len(shingles)
    got = [shingles[start:stop].tolist() for start, stop in itertools.pairwise(offsets)]
    assert got == [
        naive.distinct_shingles(text, width=width, characters=characters) for text in batch
    ]


@strategies.fuzz(100)
@given(st.data(), st.integers(0, 5), st.integers(1, 6), st.integers(1, 5))
def test_fuzz_band_keys(data: st.DataObject, count: int, bands: int, rows: int) -> None:
    numbers = st.lists(st.integers(0, naive.MASK_32), min_size=bands * rows, max_size=bands * rows)
    signatures = data.draw(st.lists(numbers, min_size=count, max_size=count))
    scopes = data.draw(st.lists(UINT64, min_size=count, max_size=count))
    array = np.array(signatures, np.uint32).reshape(count, bands * rows)
    keys = minhash.band_keys(array, np.array(scopes, np.uint64), bands=bands, rows=rows)
    twins = [
        naive.band_keys(*of_one, bands=bands, rows=rows)
        for of_one in zip(signatures, scopes, strict=True)
    ]
    assert keys.tolist() == twins


@pytest.mark.soak  # it compiles what it uses
@pytest.mark.skipif(platform.machine() != "x86_64", reason="it names a processor of x86-64")
def test_another_processor_hashes_the_same() -> None:
    """Code for a processor that has AVX2 and no AVX-512, against the same twins."""
    plain = {
        "GRISTMILL_KERNELS": "/dev/null/none",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "",
    }
    modules = ["test_minhash.py", "test_blake2b.py", "../unicode/test_normalised.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not soak"]
    command += [str(Path(__file__).parent / module) for module in modules]
    subprocess.run(command, env={**os.environ, **plain}, check=True)


def test_shingles_of_a_long_text() -> None:
    """The rolling hash does not drift: 20,000 words, each shingle hashed from nothing by the
    twin.
    """
    text = " ".join(f"w{number % 977}" for number in range(20_000))
    _, shingles = minhash.distinct_shingles(*buffers([text]), width=5)
    assert shingles.tolist() == naive.distinct_shingles(text, width=5)


def test_short_and_empty_texts() -> None:
    """Fewer words than a shingle: one shingle of all; none: no shingle, and a signature of ones."""
    multipliers, addends = minhash.permutations(16, 1)
    signatures, counts = minhash.sign(
        *buffers(["", "one", "one two"]), width=5, multipliers=multipliers, addends=addends
    )
    assert counts.tolist() == [0, 1, 1]
    assert (signatures[0] == naive.MASK_32).all()
    assert (signatures[1] != signatures[2]).any()


def estimates(
    left: list[str], right: list[str], width: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The share of signatures' places that agree, and the true Jaccard similarity, of pairs of
    normalised texts.
    """
    multipliers, addends = minhash.permutations(count, 1)
    offsets, data = buffers([*left, *right])
    signatures, _ = minhash.sign(
        offsets, data, width=width, multipliers=multipliers, addends=addends
    )
    ends, shingles = minhash.distinct_shingles(offsets, data, width=width)
    sets = [shingles[start:stop].tolist() for start, stop in itertools.pairwise(ends)]
    pairs = len(left)
    shares = (signatures[:pairs] == signatures[pairs:]).mean(axis=1)
    return shares, np.array([naive.jaccard(sets[row], sets[pairs + row]) for row in range(pairs)])


@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8, 0.95])
def test_estimates_of_random_sets(similarity: float) -> None:
    """An independent family's mean and spread: no more than chance away."""
    generator = np.random.default_rng(7)
    pairs, union, count = 500, 400, 128
    shared = round(union * similarity)
    left, right = [], []
    for _ in range(pairs):
        drawn = [f"{number:x}" for number in generator.integers(0, 1 << 62, union)]
        half = shared + (union - shared) // 2
        left.append(" ".join(drawn[:half]))
        right.append(" ".join([*drawn[half:], *drawn[:shared]]))
    shares, truth = estimates(left, right, 1, count)
    assert np.allclose(truth, shared / union)
    error = naive.standard_error(shared / union, count)
    assert abs((shares - truth).mean()) < 4 * error / np.sqrt(pairs)
    assert abs(shares.std() / error - 1) < 0.25


def test_estimates_of_real_pages(data: Path) -> None:
    """Two editions of a manual's pages: errors as large as chance makes them, and no more."""
    folder = data / "C_neardup/postgresql_doc_13_15"
    with gzip.open(folder / "docs.jsonl.gz", "rt", encoding="utf-8") as file:
        pages = {page["id"]: page["text"] for page in map(json.loads, file)}
    rows = [line.split("\t") for line in (folder / "pairs.tsv").read_text("utf-8").splitlines()[1:]]
    rows = rows[:: max(1, len(rows) // 500)]
    sides = []
    for column in (0, 1):
        plain = normalise(*strategies.buffers([pages[row[column]] for row in rows]))
        sides.append([text.decode() for text in strategies.cut(*plain)])
    count = 128
    shares, truth = estimates(*sides, 5, count)
    assert np.median(np.abs(truth - [float(row[3]) for row in rows])) < 0.02, (
        "not the pairs that the table lists"
    )
    inner = (truth > 0.05) & (truth < 0.95)
    assert inner.sum() > 100
    errors = (shares - truth)[inner] / [
        naive.standard_error(value, count) for value in truth[inner]
    ]
    assert abs(errors.mean()) < 4 / np.sqrt(len(errors))
    assert abs(errors.std() - 1) < 0.25
