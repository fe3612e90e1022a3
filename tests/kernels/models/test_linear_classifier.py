"""The linear classifier's features, training and scores against twins in plain Python."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.models import linear_classifier
from gristmill.kernels.unicode.normalised import normalise
from tests.support import naive, strategies


def features(text: str, *, bits: int) -> list[int]:
    """The twin: a bucket for each word of the normalised text, and before each but the first one
    for the pair.
    """
    out: list[int] = []
    before = None
    for word in naive.normalise(text).split(" ") if naive.normalise(text) else []:
        value = naive.FNV_BASIS
        for byte in word.encode():
            value = ((value ^ byte) * naive.FNV_PRIME) & naive.MASK_64
        out.append(naive.mix(value) >> (64 - bits))
        if before is not None:
            out.append(naive.mix((before * naive.STEP + value) & naive.MASK_64) >> (64 - bits))
        before = value
    return out


def share(count: int) -> float:
    """The twin: what one of so many features counts."""
    return 1.0 / math.sqrt(max(count, 1)) if count <= 200 else math.sqrt(200) / count


def score(text: str, weights: linear_classifier.Weights) -> float:
    """The twin: by Python's integers and the C library's exp."""
    found = features(text, bits=len(weights.table).bit_length() - 1)
    total = sum(int(weights.table[k]) for k in found)
    return 1.0 / (1.0 + math.exp(-(weights.bias + weights.scale * total * share(len(found)))))


def train(
    documents: list[list[int]], good: list[int], *, bits: int, epochs: int, rate: float, seed: int
) -> tuple[list[float], float]:
    """The twin: AdaGrad with Python's floats; (weights before rounding, bias)."""
    importance = [len(good) / (2 * good.count(label)) for label in (0, 1)]
    weights, squares = [0.0] * (1 << bits), [0.0] * (1 << bits)
    bias = bias_squares = 0.0
    for epoch in range(epochs):
        keys = naive.order_keys([epoch * len(good) + k for k in range(len(good))], seed)
        for i in sorted(range(len(good)), key=keys.__getitem__):
            part = share(len(documents[i]))
            z = bias + sum(weights[k] for k in documents[i]) * part
            error = (1.0 / (1.0 + math.exp(-z)) - good[i]) * importance[good[i]]
            for k in documents[i]:
                squares[k] += (error * part) ** 2
                weights[k] -= rate * error * part / (math.sqrt(squares[k]) + 1e-8)
            bias_squares += error**2
            bias -= rate * error / (math.sqrt(bias_squares) + 1e-8)
    return weights, bias


@strategies.fuzz(200)
@given(strategies.batches(), st.sampled_from((10, 18, 24)))
def test_fuzz_features(texts: list[str], bits: int) -> None:
    offsets, buckets = linear_classifier.features(*normalise(*strategies.buffers(texts)), bits=bits)
    assert [buckets[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [
        features(text, bits=bits) for text in texts
    ]


@strategies.fuzz(200)
@given(strategies.batches(), st.integers(0, 1 << 30))
def test_fuzz_score(texts: list[str], seed: int) -> None:
    pick = np.random.default_rng(seed)
    weights = linear_classifier.Weights(
        pick.integers(-32767, 32768, 1 << 10).astype(np.int16), 0.0003, -0.5
    )
    got = linear_classifier.score(*normalise(*strategies.buffers(texts)), weights)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, [score(text, weights) for text in texts], rtol=1e-13)


@strategies.fuzz(60)
@given(
    st.lists(strategies.texts(), min_size=2, max_size=8), st.integers(1, 3), st.integers(0, 1 << 62)
)
def test_fuzz_train(texts: list[str], epochs: int, seed: int) -> None:
    good = [k % 2 for k in range(len(texts))]
    offsets, buckets = linear_classifier.features(*normalise(*strategies.buffers(texts)), bits=10)
    got = linear_classifier.train(
        offsets, buckets, np.array(good, np.uint8), bits=10, epochs=epochs, rate=0.3, seed=seed
    )
    expected, bias = train(
        [features(text, bits=10) for text in texts],
        good,
        bits=10,
        epochs=epochs,
        rate=0.3,
        seed=seed,
    )
    assert got.table.dtype == np.int16
    assert math.isclose(got.bias, bias, rel_tol=1e-9, abs_tol=1e-12)
    # A weight is rounded to half a step, the largest of them to none.
    np.testing.assert_allclose(got.table * got.scale, expected, atol=0.51 * got.scale + 1e-9)


def test_million_digits_are_a_word() -> None:
    weights = linear_classifier.Weights(np.ones(1 << 10, np.int16), 1.0, 0.0)
    text = "7" * 1_000_000
    assert linear_classifier.score(*normalise(*strategies.buffers([text])), weights).tolist() == [
        linear_classifier.score(*normalise(*strategies.buffers(["7"])), weights)[0]
    ]


def test_a_longer_text_is_not_surer_of_itself() -> None:
    """From 100 words on the score is that of the mean feature: a text and the same text many times
    over score alike, and the mean is continuous.
    """
    words = [f"w{k % 97}" for k in range(200)]
    weights = linear_classifier.Weights(
        (np.arange(1 << 12) % 201 - 90).astype(np.int16), 0.01, -0.1
    )
    texts = [" ".join(words * times) for times in (1, 2, 10, 200)] + [" ".join([*words, "w3"])]
    scores = linear_classifier.score(*normalise(*strategies.buffers(texts)), weights)
    assert np.allclose(scores, [score(text, weights) for text in texts], rtol=1e-12)
    logits = np.log(scores / (1 - scores)) - weights.bias
    assert np.ptp(logits[:4]) < 0.02 * abs(logits[0])
    assert abs(logits[4] - logits[0]) < 0.12  # what a word and a pair more can do
    # Of less than that a text is the less sure the shorter it is.
    short = linear_classifier.score(
        *normalise(*strategies.buffers([" ".join(words[:50]), " ".join(words[:50] * 2)])), weights
    )
    logits = np.log(short / (1 - short)) - weights.bias
    assert (
        1.3 < logits[1] / logits[0] < 1.65
    )  # the root of two, but for the pair between the halves
